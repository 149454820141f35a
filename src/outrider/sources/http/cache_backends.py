"""Answers in a folder, shared by the processes of this machine (diskcache, on SQLite).

Answers in Redis, for several machines.
"""

from __future__ import annotations

import asyncio
import atexit
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from outrider.runtime.background_loop import run_in_background
from outrider.sources.http.cache import CLOSED_WITHIN_S, KEPT_S, PATIENCE_S, Stored, a_little_later
from outrider.state.errors import MissingExtra, SettingsError

if TYPE_CHECKING:
    from redis.asyncio import Redis

MOST_BYTES = 512 * 2**20
"""Of the folder; what was stored first goes first."""
Result = TypeVar("Result")


@dataclass(slots=True)
class DiskAnswers(Stored):
    """In a folder, shared by the processes of this machine."""

    folder: Path
    _reading: _Worker = field(init=False, repr=False)
    _writing: _Worker = field(init=False, repr=False)
    """Apart: whoever reads waits for no one who writes."""
    _queued: dict[str, bytes] = field(default_factory=dict, init=False, repr=False)
    _next: asyncio.Task[None] | None = field(default=None, init=False, repr=False)
    """Writes what is queued, a little later."""

    def __post_init__(self) -> None:
        self._reading, self._writing = _Worker(self.folder, "outrider-cache"), _Worker(self.folder, "outrider-cache-writing")

    async def _read(self, key: str) -> object:
        return await self._reading.done(lambda disk: disk.get(key))

    async def _write(self, key: str, value: bytes) -> None:
        self._queued[key] = value
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._written())
        await asyncio.shield(self._next)

    async def _written(self) -> None:
        await a_little_later()
        values, self._queued, self._next = self._queued, {}, None
        await self._writing.done(lambda disk: _set_all(disk, values))

    def _failures(self) -> tuple[type[Exception], ...]:
        import sqlite3

        import diskcache

        return sqlite3.Error, diskcache.Timeout, _NotOurs  # a damaged file, a busy one, one that somebody else wrote

    def _where(self) -> str:
        return f"in {self.folder}"

    def _hangs(self) -> bool:
        return self._reading.busy_s() >= self.patience_s

    def close(self) -> None:
        """It can be used again."""
        self._reading.close()
        self._writing.close()


class _Worker:
    """One thread with a connection of its own, as SQLite wants it."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._thread = ThreadPoolExecutor(1, name)
        self._disk: Any = None
        self._began: float | None = None

    async def done(self, work: Callable[[Any], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: self._timed(work))

    def busy_s(self) -> float:
        """How long the work at hand has taken so far; what waits for its turn does not count."""
        began = self._began
        return 0.0 if began is None else time.monotonic() - began

    def _timed(self, work: Callable[[Any], Result]) -> Result:
        self._began = time.monotonic()
        try:
            return work(self._opened())
        finally:
            self._began = None

    def close(self) -> None:
        self._thread.submit(self._closed).result()

    def _opened(self) -> Any:
        if self._disk is None:
            self._disk = _opened(self._folder)
        return self._disk

    def _closed(self) -> None:
        if self._disk is not None:
            self._disk.close()
            self._disk = None


class _NotOurs(Exception):
    """In the folder lies what we did not write."""


def _opened(folder: Path) -> Any:
    """Pickles are never read: whoever can write to the folder could run code with them."""
    import diskcache
    from diskcache.core import MODE_PICKLE

    class Plain(diskcache.Disk):  # type: ignore[misc]
        def fetch(self, mode: int, filename: str | None, value: object, read: bool) -> object:
            if mode == MODE_PICKLE:
                raise _NotOurs
            return super().fetch(mode, filename, value, read)

    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return diskcache.Cache(str(folder), disk=Plain, size_limit=MOST_BYTES, timeout=PATIENCE_S)


def _set_all(disk: Any, values: Mapping[str, bytes]) -> None:
    """In one transaction."""
    with disk.transact():
        for key, value in values.items():
            disk.set(key, value, expire=KEPT_S)


@dataclass(slots=True)
class RedisAnswers(Stored):
    """In Redis. Raises `SettingsError` for an address that is none, `MissingExtra` where its client is not installed."""

    url: str = field(repr=False)
    """May hold a password."""
    _redis: Redis = field(init=False, repr=False)

    def __post_init__(self) -> None:
        try:
            from redis.asyncio import Redis
        except ModuleNotFoundError as error:
            raise MissingExtra("a cache in Redis (cache.url)", "redis") from error
        try:
            self._redis = Redis.from_url(
                self.url,
                protocol=2,  # what every server speaks
                socket_timeout=self.patience_s,
                socket_connect_timeout=self.patience_s,
            )
        except ValueError:
            raise SettingsError("cache.url is no address of a Redis server; write for example redis://localhost:6379/0") from None
        atexit.register(self.close)

    def close(self) -> None:
        """It can be used again. Connections that are kept open would be complained about when the process ends."""
        with suppress(TimeoutError):
            run_in_background(asyncio.wait_for(self._redis.aclose(), CLOSED_WITHIN_S))

    async def _read(self, key: str) -> object:
        return await self._redis.get(f"outrider:{key}")

    async def _write(self, key: str, value: bytes) -> None:
        await self._redis.set(f"outrider:{key}", value, ex=KEPT_S)

    def _failures(self) -> tuple[type[Exception], ...]:
        from redis.exceptions import RedisError

        return (RedisError,)

    def _where(self) -> str:
        return "in Redis (cache.url)"

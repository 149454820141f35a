"""Cache backends: a folder (diskcache) for one machine, and Redis for several"""

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

from outrider.runtime.threads_and_loops import run_in_background
from outrider.sources.http.cache import CLOSED_WITHIN_S, EXPIRE_S, PATIENCE_S, BaseCache, batch_delay
from outrider.state.errors import MissingExtra, SettingsError

if TYPE_CHECKING:
    from redis.asyncio import Redis

MOST_BYTES = 512 * 2**20
"""Size limit of the folder; the oldest answers are deleted first."""
Result = TypeVar("Result")


@dataclass(slots=True)
class DiskCache(BaseCache):
    """A cache in a folder, shared by the processes of this machine."""

    folder: Path
    _reader: _Worker = field(init=False, repr=False)
    _writer: _Worker = field(init=False, repr=False)
    """Two threads: a read never waits for a write."""
    _queue: dict[str, bytes] = field(default_factory=dict, init=False, repr=False)
    _next_write: asyncio.Task[None] | None = field(default=None, init=False, repr=False)
    """Writes the queue after a short delay."""

    def __post_init__(self) -> None:
        self._reader, self._writer = _Worker(self.folder, "outrider-cache"), _Worker(self.folder, "outrider-cache-writing")

    async def read(self, key: str) -> object:
        return await self._reader.run(lambda disk: disk.get(key))

    async def write(self, key: str, value: bytes) -> None:
        self._queue[key] = value
        if self._next_write is None:
            self._next_write = asyncio.get_running_loop().create_task(self._write_queue())
        await asyncio.shield(self._next_write)

    async def _write_queue(self) -> None:
        await batch_delay()
        values, self._queue, self._next_write = self._queue, {}, None
        await self._writer.run(lambda disk: _set_all(disk, values))

    def failures(self) -> tuple[type[Exception], ...]:
        import sqlite3

        import diskcache

        return sqlite3.Error, diskcache.Timeout, _ForeignFile  # damaged file, locked file, file of another program

    def location(self) -> str:
        return f"in {self.folder}"

    def hangs(self) -> bool:
        return self._reader.busy_s() >= self.patience_s

    def close(self) -> None:
        """Close both connections; the cache can be used again."""
        self._reader.close()
        self._writer.close()


class _Worker:
    """One thread with its own connection, as SQLite requires."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._thread = ThreadPoolExecutor(1, name)
        self._disk: Any = None
        self._started: float | None = None

    async def run(self, work: Callable[[Any], Result]) -> Result:
        def run_timed() -> Result:
            self._started = time.monotonic()
            try:
                if self._disk is None:
                    self._disk = _open_disk(self._folder)
                return work(self._disk)
            finally:
                self._started = None

        return await asyncio.get_running_loop().run_in_executor(self._thread, run_timed)

    def busy_s(self) -> float:
        """Duration of the current operation so far; those in the queue do not count."""
        started = self._started
        return 0.0 if started is None else time.monotonic() - started

    def close(self) -> None:
        def close_disk() -> None:
            if self._disk is not None:
                self._disk.close()
                self._disk = None

        self._thread.submit(close_disk).result()


class _ForeignFile(Exception):
    """The folder holds a value that Outrider did not write."""


def _open_disk(folder: Path) -> Any:
    """Open the folder without support for pickles, which could run code of anyone who can write to the folder."""
    import diskcache
    from diskcache.core import MODE_PICKLE

    class Plain(diskcache.Disk):  # type: ignore[misc]
        def fetch(self, mode: int, filename: str | None, value: object, read: bool) -> object:
            if mode == MODE_PICKLE:
                raise _ForeignFile
            return super().fetch(mode, filename, value, read)

    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return diskcache.Cache(str(folder), disk=Plain, size_limit=MOST_BYTES, timeout=PATIENCE_S)


def _set_all(disk: Any, values: Mapping[str, bytes]) -> None:
    """Write all values in one transaction."""
    with disk.transact():
        for key, value in values.items():
            disk.set(key, value, expire=EXPIRE_S)


@dataclass(slots=True)
class RedisCache(BaseCache):
    """A cache in Redis. Raises `SettingsError` for an invalid address, `MissingExtra` if the client is not installed."""

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
                protocol=2,  # supported by every server
                socket_timeout=self.patience_s,
                socket_connect_timeout=self.patience_s,
            )
        except ValueError:
            raise SettingsError("cache.url is not the address of a Redis server; write for example redis://localhost:6379/0") from None
        atexit.register(self.close)

    def close(self) -> None:
        """Close the connection; the cache can be used again. Open connections would cause warnings when the process ends."""
        with suppress(TimeoutError):
            run_in_background(asyncio.wait_for(self._redis.aclose(), CLOSED_WITHIN_S))

    async def read(self, key: str) -> object:
        return await self._redis.get(f"outrider:{key}")

    async def write(self, key: str, value: bytes) -> None:
        await self._redis.set(f"outrider:{key}", value, ex=EXPIRE_S)

    def failures(self) -> tuple[type[Exception], ...]:
        from redis.exceptions import RedisError

        return (RedisError,)

    def location(self) -> str:
        return "in Redis (cache.url)"

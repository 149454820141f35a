"""Answers that were had before: on disk, or in Redis for several machines. What is kept says when it came.

An answer stays long after it has ceased to be fresh: a stale one is better than none where the service cannot be asked.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import logging
import time
import zlib
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from outrider.state.background import run_in_background
from outrider.state.errors import MissingExtra, SettingsError

if TYPE_CHECKING:
    from redis.asyncio import Redis

KEPT_S = 30 * 86_400
"""Seconds after which an answer is gone for good."""
MOST_BYTES = 512 * 2**20
"""Of the folder; what was stored first goes first."""
PATIENCE_S = 1.0
"""An answer of the cache that takes longer is as good as none."""
LEFT_ALONE_S = 30.0
"""How long nothing is asked of a cache that has failed."""
CLOSED_WITHIN_S = 1.0
Result = TypeVar("Result")
_putting: set[asyncio.Task[None]] = set()
"""A loop alone holds no task for good."""

log = logging.getLogger(__name__)


class Kept(NamedTuple):
    body: bytes
    headers: dict[str, str]
    age_s: float


class Answers(Protocol):
    """Raises nothing: a cache that fails costs time only."""

    async def get(self, key: str) -> Kept | None: ...

    async def put(self, key: str, body: bytes, headers: dict[str, str]) -> None: ...


class NoAnswers:
    async def get(self, key: str) -> Kept | None:
        return None

    async def put(self, key: str, body: bytes, headers: dict[str, str]) -> None:
        return None


async def kept_in(answers: Answers, key: str, until: float) -> Kept | None:
    """None also for what does not come until then, by `time.monotonic`."""
    try:
        async with asyncio.timeout(max(until - time.monotonic(), 0.0)):
            return await answers.get(key)
    except TimeoutError:
        return None


def put_beside(answers: Answers, key: str, body: bytes, headers: dict[str, str]) -> None:
    """Nobody waits for it but the end of the process. On the background loop only."""
    _put_at_the_end()
    task = asyncio.get_running_loop().create_task(answers.put(key, body, headers))
    _putting.add(task)
    task.add_done_callback(_putting.discard)


def put_all() -> None:
    """Waits for what is being put, no longer than `CLOSED_WITHIN_S`. Not on the background loop."""
    run_in_background(_put_all())


async def _put_all() -> None:
    if _putting:
        await asyncio.wait(_putting, timeout=CLOSED_WITHIN_S)


@cache
def _put_at_the_end() -> None:
    """Registered at the first answer: then a cache in Redis is there already, and is closed after this."""
    atexit.register(put_all)


@dataclass(slots=True)
class _Stored(ABC):
    """What both kinds of cache have in common. Used on the background loop only."""

    clock: Callable[[], float] = field(default=time.time, kw_only=True)
    patience_s: float = field(default=PATIENCE_S, kw_only=True)
    _left_alone_until: float = field(default=0.0, init=False)

    async def get(self, key: str) -> Kept | None:
        return _unpacked(await self._forgiven(lambda: self._read(key)), self.clock())

    async def put(self, key: str, body: bytes, headers: dict[str, str]) -> None:
        value = _packed(body, headers, self.clock())
        await self._forgiven(lambda: self._write(key, value))

    @abstractmethod
    async def _read(self, key: str) -> object: ...

    @abstractmethod
    async def _write(self, key: str, value: bytes) -> None: ...

    @abstractmethod
    def _where(self) -> str: ...

    @abstractmethod
    def _failures(self) -> tuple[type[Exception], ...]:
        """What may go wrong beside `OSError`."""

    async def _forgiven(self, work: Callable[[], Awaitable[Result]]) -> Result | None:
        failures: tuple[type[Exception], ...] = (OSError, *self._failures())  # TimeoutError is an OSError
        if time.monotonic() < self._left_alone_until:
            return None
        try:
            async with asyncio.timeout(self.patience_s):
                return await work()
        except failures as error:
            self._left_alone_until = time.monotonic() + LEFT_ALONE_S
            log.warning("the cache %s cannot be used, services are asked each time: %s", self._where(), str(error) or type(error).__name__)
            return None


@dataclass(slots=True)
class DiskAnswers(_Stored):
    """In a folder, shared by the processes of this machine."""

    folder: Path
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "outrider-cache"), init=False, repr=False)
    """SQLite's connections belong to their threads: one of them."""
    _disk: Any = field(default=None, init=False, repr=False)

    async def _read(self, key: str) -> object:
        return await self._done(lambda: self._opened().get(key))

    async def _write(self, key: str, value: bytes) -> None:
        await self._done(lambda: self._opened().set(key, value, expire=KEPT_S))

    def _failures(self) -> tuple[type[Exception], ...]:
        import sqlite3

        import diskcache

        return sqlite3.Error, diskcache.Timeout, _NotOurs  # a damaged file, a busy one, one that somebody else wrote

    def _where(self) -> str:
        return f"in {self.folder}"

    async def _done(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _opened(self) -> Any:
        if self._disk is None:
            self._disk = _opened(self.folder)
        return self._disk

    def close(self) -> None:
        """It can be used again."""
        self._thread.submit(self._closed).result()

    def _closed(self) -> None:
        if self._disk is not None:
            self._disk.close()
            self._disk = None


@dataclass(slots=True)
class RedisAnswers(_Stored):
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


def _packed(body: bytes, headers: dict[str, str], now: float) -> bytes:
    return json.dumps({"at": now, "sum": zlib.crc32(body), "headers": headers}).encode() + b"\n" + body


def _unpacked(value: object, now: float) -> Kept | None:
    """None for what is not there, is damaged, or was written by somebody else."""
    if not isinstance(value, bytes):
        return None
    head, _, body = value.partition(b"\n")
    try:
        said = json.loads(head)
        whole = said["sum"] == zlib.crc32(body)
        kept = Kept(body, {str(name): str(text) for name, text in said["headers"].items()}, max(0.0, now - float(said["at"])))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        return None
    return kept if whole else None

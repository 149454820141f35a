"""Cache of service responses and of Outrider's own texts

Backends: a folder (diskcache) for one machine, and Redis for several. Each answer carries the time of its arrival. It is kept long after it
has become stale: if the service is unavailable, a stale answer is better than none.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import logging
import time
import uuid
import zlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from outrider.runtime.redis_client import open_redis
from outrider.runtime.threads_and_loops import before_exit, in_background, run_in_background
from outrider.state.ports import CachedText

if TYPE_CHECKING:
    from redis.asyncio import Redis

EXPIRE_S = 30 * 86_400
"""Seconds after which an answer is deleted."""
PATIENCE_S = 1.0
"""Time limit for a read; a slower answer is not used."""
RETRY_AFTER_S = 30.0
"""How long a cache that has failed is not used."""
CLOSED_WITHIN_S = 1.0
BATCH_S = 0.3
"""How long an answer waits to be written in one batch with later ones, because most arrive when a search is busiest."""
MOST_WAITING = 1_000
"""Answers that wait to be written; if more arrive, because the disk hangs, they are dropped."""
CLAIM_S = 5.0
"""How long a process may keep others from calling for the same answer; it may have died."""
RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end"
"""Deletes the claim on a call if it is still the one of the argument."""
FIRST_LOOK_S, LAST_LOOK_S = 0.02, 0.2
"""Pauses between two looks for that answer, each twice as long as the one before."""
Result = TypeVar("Result")
_writes: set[asyncio.Task[None]] = set()
"""Strong references: an event loop does not keep its tasks alive."""
_delays: set[asyncio.Future[None]] = set()
"""Futures of `batch_delay`; cancelled by `flush_cache`."""

log = logging.getLogger(__name__)


class CachedAnswer(NamedTuple):
    """A cached response and its age."""

    body: bytes
    headers: dict[str, str]
    age_s: float


class AnswerCache(Protocol):
    """A cache of responses. It raises nothing: a failure costs only time."""

    async def get(self, key: str) -> CachedAnswer | None: ...

    def put(self, key: str, body: bytes, headers: dict[str, str]) -> Coroutine[Any, Any, None]: ...


class NoCache:
    """An `AnswerCache` that holds nothing."""

    async def get(self, key: str) -> CachedAnswer | None:
        return None

    async def put(self, key: str, body: bytes, headers: dict[str, str]) -> None:
        return None


async def read_cached(answers: AnswerCache, key: str, until: float) -> CachedAnswer | None:
    """The cached answer; None if it is missing or does not arrive before `until` (`time.monotonic`)."""
    try:
        async with asyncio.timeout(max(until - time.monotonic(), 0.0)):
            return await answers.get(key)
    except TimeoutError:
        return None


@asynccontextmanager
async def claim_call(answers: AnswerCache, key: str, until: float) -> AsyncIterator[CachedAnswer | None]:
    """Let one process at a time call a service for an answer. The others wait for it, and get it if it comes in time.

    Only where several processes share the cache; elsewhere, after a failure, and when the claim of a dead process has ended, None.
    """
    if not isinstance(answers, RedisCache):
        yield None
        return
    claim = uuid.uuid4().bytes
    answer = await answers.wait_for_call(key, claim, until)
    try:
        yield answer
    finally:
        if answer is None:
            _run_later(answers.end_call(key, claim))


def store_later(answers: AnswerCache, key: str, body: bytes, headers: dict[str, str]) -> None:
    """Store in the background; only the end of the process waits for it. On the background loop only."""
    if len(_writes) < MOST_WAITING:
        _run_later(answers.put(key, body, headers))


def _run_later(write: Coroutine[Any, Any, None]) -> None:
    _flush_at_exit()
    task = asyncio.get_running_loop().create_task(write)
    _writes.add(task)
    task.add_done_callback(_writes.discard)


def flush_cache() -> None:
    """Wait for all writes under way, at most `CLOSED_WITHIN_S`. Not on the background loop."""

    async def wait_for_writes() -> None:
        for delay in _delays:
            delay.cancel()
        if _writes:
            await asyncio.wait(_writes, timeout=CLOSED_WITHIN_S)

    run_in_background(wait_for_writes())


async def batch_delay() -> None:
    """Wait for `BATCH_S`, or until `flush_cache` is called."""
    delay = asyncio.get_running_loop().create_future()
    _delays.add(delay)
    await asyncio.wait({delay}, timeout=BATCH_S)
    _delays.discard(delay)


@cache
def _flush_at_exit() -> None:
    """Register the flush at the first answer, so that it runs before anything opened earlier is closed."""
    before_exit(flush_cache)


@dataclass(frozen=True, slots=True)
class AnswerTextCache:
    """A `TextCache` that uses the cache of service answers."""

    answers: AnswerCache
    secret: str = field(default="", repr=False)
    """Texts that contain it are not cached."""

    async def get(self, key: str, within_s: float) -> CachedText | None:
        cached = await in_background(read_cached(self.answers, key, time.monotonic() + within_s))
        return None if cached is None else CachedText(cached.body.decode(errors="replace"), cached.age_s)

    async def put(self, key: str, text: str) -> None:
        async def store() -> None:
            store_later(self.answers, key, text.encode(errors="replace"), {})

        if not (self.secret and self.secret in text):
            await in_background(store())


@dataclass(slots=True)
class BaseCache(ABC):
    """The common part of both backends: format, patience, and a pause after a failure. Used on the background loop only."""

    clock: Callable[[], float] = field(default=time.time, kw_only=True)
    patience_s: float = field(default=PATIENCE_S, kw_only=True)
    _paused_until: float = field(default=0.0, init=False)
    _pending: dict[str, bytes] = field(default_factory=dict, init=False, repr=False)
    """Answers that are being written, which `get` returns already."""

    async def get(self, key: str) -> CachedAnswer | None:
        value: object = self._pending.get(key) or await self._guard(lambda: self.read(key), self.patience_s)
        return unpack_answer(value, self.clock())

    def put(self, key: str, body: bytes, headers: dict[str, str]) -> Coroutine[Any, Any, None]:
        """The answer's age counts from this call, and `get` finds it from now on; the returned coroutine writes it."""
        value = self._pending[key] = pack_answer(body, headers, self.clock())

        async def write() -> None:
            try:
                await self._guard(lambda: self.write(key, value), None)
            finally:
                if self._pending.get(key) is value:
                    del self._pending[key]

        return write()

    @abstractmethod
    async def read(self, key: str) -> object: ...

    @abstractmethod
    async def write(self, key: str, value: bytes) -> None: ...

    @abstractmethod
    def location(self) -> str: ...

    @abstractmethod
    def failures(self) -> tuple[type[Exception], ...]:
        """Errors that may occur besides `OSError`."""

    def hangs(self) -> bool:
        """Whether an operation that took too long did so in the cache itself."""
        return True

    async def _guard(self, work: Callable[[], Awaitable[Result]], within_s: float | None) -> Result | None:
        """The result; None after a failure, and for `RETRY_AFTER_S` from then on."""
        failures: tuple[type[Exception], ...] = (OSError, *self.failures())  # TimeoutError is an OSError
        if time.monotonic() < self._paused_until:
            return None
        try:
            async with asyncio.timeout(within_s):
                return await work()
        except failures as error:
            if isinstance(error, TimeoutError) and not self.hangs():
                return None  # this process is too busy; the cache works
            already_logged, self._paused_until = time.monotonic() < self._paused_until, time.monotonic() + RETRY_AFTER_S
            if not already_logged:  # by a concurrent operation
                reason = str(error) or type(error).__name__
                log.warning("the cache %s is unavailable, every request goes to the services: %s", self.location(), reason)
            return None


def pack_answer(body: bytes, headers: dict[str, str], now: float) -> bytes:
    """The stored form: a line of JSON with time, checksum and headers, then the body."""
    return json.dumps({"at": now, "sum": zlib.crc32(body), "headers": headers}).encode() + b"\n" + body


def unpack_answer(value: object, now: float) -> CachedAnswer | None:
    """None if it is missing, damaged, or was written by another program."""
    if not isinstance(value, bytes):
        return None
    head, _, body = value.partition(b"\n")
    try:
        meta = json.loads(head)
        is_whole = meta["sum"] == zlib.crc32(body)
        cached = CachedAnswer(body, {str(name): str(text) for name, text in meta["headers"].items()}, max(0.0, now - float(meta["at"])))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        return None
    return cached if is_whole else None


MOST_BYTES = 512 * 2**20
"""Size limit of the folder; the oldest answers are deleted first."""


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
        self._redis = open_redis(self.url, "cache.url", self.patience_s)
        atexit.register(self.close)

    def close(self) -> None:
        """Close the connection; the cache can be used again. Open connections would cause warnings when the process ends."""
        with suppress(TimeoutError):
            run_in_background(asyncio.wait_for(self._redis.aclose(), CLOSED_WITHIN_S))

    async def read(self, key: str) -> object:
        return await self._redis.get(f"outrider:{key}")

    async def write(self, key: str, value: bytes) -> None:
        await self._redis.set(f"outrider:{key}", value, ex=EXPIRE_S)

    async def wait_for_call(self, key: str, claim: bytes, until: float) -> CachedAnswer | None:
        """Claim the call, or wait for the answer of the process that has claimed it, at most `CLAIM_S`; None to call oneself.

        Half of the time until `until` is left for that call.
        """
        begun, pause_s = time.monotonic(), FIRST_LOOK_S
        most_s = min(CLAIM_S, (until - begun) / 2)
        while not await self._guard(lambda: self._claim(key, claim), self.patience_s):
            if time.monotonic() + pause_s >= begun + most_s or time.monotonic() < self._paused_until:
                return None
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LAST_LOOK_S)
            answer = await self.get(key)
            if answer is not None and answer.age_s <= time.monotonic() - begun + CLAIM_S:
                return answer
        return None

    async def end_call(self, key: str, claim: bytes) -> None:
        """The answer is stored, or there is none: the next process may call. `put` was called before, so its write comes first."""
        while key in self._pending:  # noqa: ASYNC110 - rarely waits, and then for a millisecond
            await asyncio.sleep(FIRST_LOOK_S)
        await self._guard(lambda: self._release(key, claim), self.patience_s)

    async def _claim(self, key: str, claim: bytes) -> bool:
        return bool(await self._redis.set(f"outrider:call:{key}", claim, nx=True, px=int(CLAIM_S * 1_000)))

    async def _release(self, key: str, claim: bytes) -> None:
        """End our own claim, never that of another: we may have called without one, or for longer than ours lasts."""
        await self._redis.register_script(RELEASE)(keys=[f"outrider:call:{key}"], args=[claim])

    def failures(self) -> tuple[type[Exception], ...]:
        from redis.exceptions import RedisError

        return (RedisError,)

    def location(self) -> str:
        return "in Redis (cache.url)"

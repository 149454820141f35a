"""Texts of our own among the answers of services: the same folder or Redis, the same failures that cost time only.

Answers that were had before, kept on disk (`cache_disk`) or in Redis (`cache_redis`). What is kept says when it came.

An answer stays long after it has ceased to be fresh: a stale one is better than none where the service cannot be asked.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
import zlib
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple, Protocol, TypeVar

from outrider.runtime.background_loop import in_background, run_in_background
from outrider.runtime.threads import before_exit
from outrider.state.ports import CachedText


@dataclass(frozen=True, slots=True)
class Texts:
    """A `TextCache`."""

    answers: Answers
    secret: str = field(default="", repr=False)
    """What holds it is not kept."""

    async def get(self, key: str, within_s: float) -> CachedText | None:
        kept = await in_background(kept_in(self.answers, key, time.monotonic() + within_s))
        return None if kept is None else CachedText(kept.body.decode(errors="replace"), kept.age_s)

    async def put(self, key: str, text: str) -> None:
        if not (self.secret and self.secret in text):
            await in_background(self._put(key, text.encode(errors="replace")))

    async def _put(self, key: str, body: bytes) -> None:
        put_beside(self.answers, key, body, {})


KEPT_S = 30 * 86_400
"""Seconds after which an answer is gone for good."""
PATIENCE_S = 1.0
"""An answer of the cache that takes longer is as good as none."""
LEFT_ALONE_S = 30.0
"""How long nothing is asked of a cache that has failed."""
CLOSED_WITHIN_S = 1.0
LATER_S = 0.3
"""How long an answer waits to be put on disk, with all that come meanwhile: they come when a search has most to do."""
Result = TypeVar("Result")
MOST_WAITING = 1_000
"""Answers that wait to be put; of more, where the disk hangs, none is kept."""
_putting: set[asyncio.Task[None]] = set()
"""A loop alone holds no task for good."""
_later: set[asyncio.Future[None]] = set()
"""What is put a little later; ready where somebody waits until all is put."""

log = logging.getLogger(__name__)


class Kept(NamedTuple):
    body: bytes
    headers: dict[str, str]
    age_s: float


class Answers(Protocol):
    """Raises nothing: a cache that fails costs time only."""

    async def get(self, key: str) -> Kept | None: ...

    def put(self, key: str, body: bytes, headers: dict[str, str]) -> Coroutine[Any, Any, None]: ...


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
    if len(_putting) >= MOST_WAITING:
        return
    _put_at_the_end()
    task = asyncio.get_running_loop().create_task(answers.put(key, body, headers))
    _putting.add(task)
    task.add_done_callback(_putting.discard)


def put_all() -> None:
    """Waits for what is being put, no longer than `CLOSED_WITHIN_S`. Not on the background loop."""
    run_in_background(_put_all())


async def a_little_later() -> None:
    """Waits a moment, or until somebody waits for all that is being put."""
    later = asyncio.get_running_loop().create_future()
    _later.add(later)
    await asyncio.wait({later}, timeout=LATER_S)
    _later.discard(later)


async def _put_all() -> None:
    for later in _later:
        later.cancel()
    if _putting:
        await asyncio.wait(_putting, timeout=CLOSED_WITHIN_S)


@cache
def _put_at_the_end() -> None:
    """Registered at the first answer: what is opened before is closed after this."""
    before_exit(put_all)


@dataclass(slots=True)
class Stored(ABC):
    """What both kinds of cache have in common. Used on the background loop only."""

    clock: Callable[[], float] = field(default=time.time, kw_only=True)
    patience_s: float = field(default=PATIENCE_S, kw_only=True)
    _left_alone_until: float = field(default=0.0, init=False)
    _under_way: dict[str, bytes] = field(default_factory=dict, init=False, repr=False)
    """What is being put: who asks the next moment finds it."""

    async def get(self, key: str) -> Kept | None:
        value: object = self._under_way.get(key) or await self._forgiven(lambda: self._read(key), self.patience_s)
        return _unpacked(value, self.clock())

    def put(self, key: str, body: bytes, headers: dict[str, str]) -> Coroutine[Any, Any, None]:
        """The answer's age counts from this call, and `get` finds it from now on; what is returned writes it."""
        value = self._under_way[key] = _packed(body, headers, self.clock())
        return self._put(key, value)

    async def _put(self, key: str, value: bytes) -> None:
        try:
            await self._forgiven(lambda: self._write(key, value), None)
        finally:
            if self._under_way.get(key) is value:
                del self._under_way[key]

    @abstractmethod
    async def _read(self, key: str) -> object: ...

    @abstractmethod
    async def _write(self, key: str, value: bytes) -> None: ...

    @abstractmethod
    def _where(self) -> str: ...

    @abstractmethod
    def _failures(self) -> tuple[type[Exception], ...]:
        """What may go wrong beside `OSError`."""

    def _hangs(self) -> bool:
        """Whether what took too long did so in the cache itself."""
        return True

    async def _forgiven(self, work: Callable[[], Awaitable[Result]], within_s: float | None) -> Result | None:
        failures: tuple[type[Exception], ...] = (OSError, *self._failures())  # TimeoutError is an OSError
        if time.monotonic() < self._left_alone_until:
            return None
        try:
            async with asyncio.timeout(within_s):
                return await work()
        except failures as error:
            if isinstance(error, TimeoutError) and not self._hangs():
                return None  # this process has too much to do, which is no fault of the cache
            told, self._left_alone_until = time.monotonic() < self._left_alone_until, time.monotonic() + LEFT_ALONE_S
            if told:  # by another that was under way
                return None
            log.warning("the cache %s cannot be used, services are asked each time: %s", self._where(), str(error) or type(error).__name__)
            return None


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

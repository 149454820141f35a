"""Limits on concurrent and waiting searches; others are refused with `Retry-After`."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from outrider.interfaces.http.problems import Refusal

FIRST_GUESS_S = 5.0
"""Assumed time of a search, until one has ended."""
MAX_RETRY_S = 60
WEIGHT = 0.2
"""Of the newest search in the running mean."""


@dataclass(slots=True)
class Admission:
    """One for a server; all its interfaces share it."""

    at_once: int
    queue: int
    queue_s: float
    in_system: int = 0
    """Requests that run or wait."""
    running: int = 0
    stopping: bool = False
    _mean_s: float = FIRST_GUESS_S
    _slots: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._slots = asyncio.Semaphore(self.at_once)

    @contextmanager
    def admit(self) -> Iterator[None]:
        """Around a request, however many searches it starts. Raises `Refusal` if the queue is full."""
        if self.stopping:
            raise Refusal(503, "stopping", "this server is about to stop", {"Retry-After": "5", "Connection": "close"})
        if self.in_system >= self.at_once + self.queue:
            raise self._busy(f"{self.in_system:,} requests run or wait here already")
        self.in_system += 1
        try:
            yield
        finally:
            self.in_system -= 1

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Around one search. Waits for a free slot, `queue_s` at most."""
        try:
            async with asyncio.timeout(self.queue_s):
                await self._slots.acquire()
        except TimeoutError:
            raise self._busy(f"there was no turn for this search within {self.queue_s:g} s") from None
        self.running += 1
        began = time.monotonic()
        try:
            yield
        finally:
            self.running -= 1
            self._mean_s += WEIGHT * (time.monotonic() - began - self._mean_s)
            self._slots.release()

    @property
    def waiting(self) -> int:
        return max(0, self.in_system - self.running)

    def retry_after_s(self) -> int:
        """Estimate of the time until a slot is free: the waiting requests at the pace of the last searches."""
        return max(1, min(MAX_RETRY_S, math.ceil(self._mean_s * (self.waiting + 1) / self.at_once)))

    def _busy(self, why: str) -> Refusal:
        return Refusal(429, "busy", why, {"Retry-After": str(self.retry_after_s())})

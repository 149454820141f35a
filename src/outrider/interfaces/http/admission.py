"""How many searches run at a time, and how many may wait: beyond that a request is told when to come again."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from outrider.interfaces.http.problems import Refusal

FIRST_GUESS_S = 5.0
"""What a search takes, until one has been seen."""
LONGEST_S = 60
WEIGHT = 0.2
"""Of the newest search in the running mean."""


@dataclass(slots=True)
class Gate:
    """One for a server; every door of it goes through."""

    at_once: int
    queue: int
    queue_s: float
    admitted: int = 0
    """Requests that run or wait."""
    running: int = 0
    stopping: bool = False
    _mean_s: float = FIRST_GUESS_S
    _places: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._places = asyncio.Semaphore(self.at_once)

    @contextmanager
    def admission(self) -> Iterator[None]:
        """Around a request, whatever it starts. Raises `Refusal` where there is no room for it."""
        if self.stopping:
            raise Refusal(503, "stopping", "this server is about to stop", {"Retry-After": "5", "Connection": "close"})
        if self.admitted >= self.at_once + self.queue:
            raise self._busy(f"{self.admitted:,} requests run or wait here already")
        self.admitted += 1
        try:
            yield
        finally:
            self.admitted -= 1

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Around one search. Waits for its turn, `queue_s` at most."""
        try:
            async with asyncio.timeout(self.queue_s):
                await self._places.acquire()
        except TimeoutError:
            raise self._busy(f"there was no turn for this search within {self.queue_s:g} s") from None
        self.running += 1
        began = time.monotonic()
        try:
            yield
        finally:
            self.running -= 1
            self._mean_s += WEIGHT * (time.monotonic() - began - self._mean_s)
            self._places.release()

    @property
    def waiting(self) -> int:
        return max(0, self.admitted - self.running)

    def retry_after_s(self) -> int:
        """When a place may be free: what waits, at the pace of the last searches."""
        return max(1, min(LONGEST_S, math.ceil(self._mean_s * (self.waiting + 1) / self.at_once)))

    def _busy(self, why: str) -> Refusal:
        return Refusal(429, "busy", why, {"Retry-After": str(self.retry_after_s())})

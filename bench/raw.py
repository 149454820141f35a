"""The LanceDB calls that a search makes, taken down while it runs and made again without our code around them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Call:
    """One query that was sent, with its time in seconds."""

    query: Any
    started: float
    ended: float


async def calls_of(search: Callable[[], Awaitable[object]]) -> list[Call]:
    """What one search asks LanceDB for, in the order of asking. Nothing else may ask meanwhile."""
    calls: list[Call] = []
    with _listening(calls):
        await search()
    return sorted(calls, key=lambda call: call.started)


async def repeat(calls: Sequence[Call]) -> None:
    """The same queries, at once where they were asked at once."""
    for together in in_turn(calls):
        await asyncio.gather(*(call.query.to_arrow() for call in together))


def in_turn(calls: Sequence[Call]) -> Iterator[list[Call]]:
    """Groups, each of calls that began before any of the group had its answer; calls in the order of asking."""
    together: list[Call] = []
    for call in calls:
        if together and call.started >= min(other.ended for other in together):
            yield together
            together = []
        together.append(call)
    if together:
        yield together


@contextmanager
def _listening(calls: list[Call]) -> Iterator[None]:
    from lancedb.query import AsyncQueryBase

    to_arrow = AsyncQueryBase.to_arrow

    async def heard(self: Any, *given: Any, **named: Any) -> Any:
        started = time.perf_counter()
        answer = await to_arrow(self, *given, **named)
        calls.append(Call(self, started, time.perf_counter()))
        return answer

    AsyncQueryBase.to_arrow = heard  # type: ignore[method-assign]
    try:
        yield
    finally:
        AsyncQueryBase.to_arrow = to_arrow  # type: ignore[method-assign]

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
    """One call that was made: a query, a version that was asked for, a count. With its time in seconds."""

    of: Any
    """The query, or the table."""
    method: str
    given: tuple[Any, ...]
    started: float
    ended: float

    async def again(self) -> Any:
        return await getattr(self.of, self.method)(*self.given)


async def calls_of(search: Callable[[], Awaitable[object]]) -> list[Call]:
    """What one search asks LanceDB for, in the order of asking. Nothing else may ask meanwhile."""
    calls: list[Call] = []
    with _listening(calls):
        await search()
    return sorted(calls, key=lambda call: call.started)


async def repeat(calls: Sequence[Call]) -> None:
    """The same queries, at once where they were asked at once."""
    for together in in_turn(calls):
        await asyncio.gather(*(call.again() for call in together))


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
    from lancedb.table import AsyncTable

    heard = ((AsyncQueryBase, "to_arrow"), (AsyncTable, "version"), (AsyncTable, "count_rows"))
    own = [(owner, name, getattr(owner, name)) for owner, name in heard]
    for owner, name, method in own:
        setattr(owner, name, _heard(method, name, calls))
    try:
        yield
    finally:
        for owner, name, method in own:
            setattr(owner, name, method)


def _heard(method: Callable[..., Awaitable[Any]], name: str, calls: list[Call]) -> Callable[..., Awaitable[Any]]:
    async def made(of: Any, *given: Any) -> Any:
        started = time.perf_counter()
        answer = await method(of, *given)
        calls.append(Call(of, name, given, started, time.perf_counter()))
        return answer

    return made

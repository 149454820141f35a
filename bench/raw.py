"""The LanceDB calls of a search, recorded and repeated without our code around them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

Step = tuple[str, tuple[Any, ...], Mapping[str, Any]]
"""A method and its arguments."""
COUNTED = ("version", "count_rows")
"""Calls of a table that are awaited. A query is built first, and awaited with `to_arrow`."""


@dataclass(frozen=True, slots=True)
class Call:
    """One recorded call: a query from `table.query()` on, a lookup of the version, a count. Times in seconds."""

    table: Any
    steps: tuple[Step, ...]
    started: float
    ended: float

    async def again(self) -> Any:
        """Repeats the call as a user of LanceDB would write it, including building the query."""
        of = self.table
        for method, arguments, named in self.steps:
            of = getattr(of, method)(*arguments, **named)
        return await of


async def calls_of(search: Callable[[], Awaitable[object]]) -> list[Call]:
    """The LanceDB calls of one search, in order. No other search may run at the same time."""
    calls: list[Call] = []
    with _listening(calls):
        await search()
    return sorted(calls, key=lambda call: call.started)


async def repeat(calls: Sequence[Call]) -> None:
    """Repeats the same queries, concurrent ones concurrently."""
    for together in in_turn(calls):
        await asyncio.gather(*(call.again() for call in together))


def in_turn(calls: Sequence[Call]) -> Iterator[list[Call]]:
    """Groups of calls that began before any of the group was answered; calls in order."""
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
    from lancedb.table import AsyncTable

    own = {name: getattr(AsyncTable, name) for name in ("query", *COUNTED)}
    setattr(AsyncTable, "query", lambda table: _Built(own["query"](table), table, (("query", (), {}),), calls))  # noqa: B010
    for name in COUNTED:
        setattr(AsyncTable, name, _recording(name, own[name], calls))
    try:
        yield
    finally:
        for name, method in own.items():
            setattr(AsyncTable, name, method)


class _Built:
    """A query that records how it is built, and adds itself to `calls` when it runs."""

    def __init__(self, query: Any, table: Any, steps: tuple[Step, ...], calls: list[Call]) -> None:
        self._query, self._table, self._steps, self._calls = query, table, steps, calls

    def __getattr__(self, name: str) -> Callable[..., _Built]:
        def step(*arguments: Any, **named: Any) -> _Built:
            built = getattr(self._query, name)(*arguments, **named)
            return _Built(built, self._table, (*self._steps, (name, arguments, named)), self._calls)

        return step

    async def to_arrow(self) -> Any:
        started = time.perf_counter()
        answer = await self._query.to_arrow()
        self._calls.append(Call(self._table, (*self._steps, ("to_arrow", (), {})), started, time.perf_counter()))
        return answer


def _recording(name: str, method: Callable[..., Awaitable[Any]], calls: list[Call]) -> Callable[..., Awaitable[Any]]:
    async def call(table: Any, *arguments: Any) -> Any:
        started = time.perf_counter()
        answer = await method(table, *arguments)
        calls.append(Call(table, ((name, arguments, {}),), started, time.perf_counter()))
        return answer

    return call

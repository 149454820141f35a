"""The tape that records a run: calls of ports, readings of clocks, updates of nodes

While the run goes on, the tape keeps references and order; values are encoded when the run has ended, so that it waits for nothing.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from outrider.recorder.ports import Question
from outrider.runtime.tape import NODE, use_tape
from outrider.state.chat import Budget, Call
from outrider.state.response import Usage
from outrider.state.systematic import Harvest

Outcome = Literal["value", "error", "cancelled", "open"]
THREAD = "thread"
"""The port of blocking work of nodes, whose result is computed again."""


class End:
    """The end of an iterator."""


END = End()


@dataclass(frozen=True, slots=True)
class Spending:
    """One call that a chat model made within a budget."""

    node: str
    most_usd: float | None
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None


class WatchedBudget(Budget):
    """The budget of a run, and what one answer spends of it."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.spendings: list[Spending] = []

    @property
    def spent(self) -> Usage:  # type: ignore[override]
        return self._budget.spent

    @contextmanager
    def call(self, node: str, most_usd: float | None) -> Iterator[Call]:
        with self._budget.call(node, most_usd) as call:
            try:
                yield call
            finally:
                self.spendings.append(Spending(node, most_usd, call.input_tokens, call.output_tokens, call.cost_usd))


@dataclass(slots=True)
class RecordedCall:
    """A call of a port, or blocking work; `began` and `ended` are places in the order of all events."""

    node: str
    question: Question
    began: int
    ended: int = -1
    at: float = 0.0
    """When it ended: seconds since the tape began."""
    outcome: Outcome = "open"
    value: Any = None
    budget: WatchedBudget | None = None
    awaited: bool = True
    harvest: Mapping[str, Any] | None = None
    """Where the caller passed the progress of a service's reading: what it was when the call ended."""


@dataclass(frozen=True, slots=True)
class NodeUpdate:
    node: str
    update: Mapping[str, Any]


@dataclass(slots=True)
class RecordingTape:
    """Records one run; see the module. Its methods may be called from any thread: appending and counting are atomic."""

    began: float = field(default_factory=time.monotonic)
    calls: list[RecordedCall] = field(default_factory=list)
    readings: list[tuple[str, float]] = field(default_factory=list)
    updates: list[NodeUpdate] = field(default_factory=list)
    first_state: Any = None
    """What the first node was given."""
    limits: Any = None
    """The run's own limits (`RunContext`)."""
    unwritten: str = ""
    """Why no recording is written; empty if one is."""
    _order: Iterator[int] = field(default_factory=itertools.count)

    def read(self, name: str, live: Callable[[], float]) -> float:
        value = live()
        self.readings.append((name, value))
        return value

    def begin_run(self, state: Any) -> Any:
        self.first_state = state
        return state

    def add_update(self, node: str, state: Any, update: Mapping[str, Any]) -> None:
        if self.first_state is None:
            self.first_state = state
        self.updates.append(NodeUpdate(node, dict(update)))

    def leave_unwritten(self, why: str) -> None:
        self.unwritten = why

    async def run_work(self, name: str, work: Callable[[], Any], live: Callable[[], Awaitable[Any]]) -> Any:
        call = self._begin(Question(THREAD, name, {}))
        try:
            result = await live()
        except asyncio.CancelledError:
            self._end(call, "cancelled")
            raise
        except BaseException:
            self._end(call, "error")
            raise
        self._end(call, "value")
        return result

    async def call(self, question: Question, live: Callable[..., Any], wrap: Callable[[Any], Any]) -> Any:
        call = self._begin(question)
        changes: dict[str, Any] = {}
        if "budget" in question.arguments:
            changes["budget"] = call.budget = WatchedBudget(question.arguments["budget"])
        try:
            with use_tape(None):  # what an adapter does inside is its own
                value = wrap(await live(**changes))
        except asyncio.CancelledError:
            self._end(call, "cancelled")
            raise
        except BaseException as error:
            self._end(call, "error", error)
            raise
        self._end(call, "value", value)
        return value

    def call_now(self, question: Question, live: Callable[..., Any], wrap: Callable[[Any], Any]) -> Any:
        call = self._begin(question)
        call.awaited = False
        try:
            with use_tape(None):
                value = wrap(live())
        except BaseException as error:
            self._end(call, "error", error)
            raise
        self._end(call, "value", value)
        return value

    async def iterate(self, question: Question, live: Callable[..., AsyncIterator[Any]], wrap: Callable[[Any], Any]) -> AsyncIterator[Any]:
        with use_tape(None):
            iterator = live()
        try:
            for number in itertools.count():
                step = Question(question.port, f"{question.method} {number}", question.arguments)
                value = await self.call(step, lambda: anext(iterator, END), wrap)
                if value is END:
                    return
                yield value
        finally:
            close = getattr(iterator, "aclose", None)
            if close is not None:
                with use_tape(None):
                    await close()

    def _begin(self, question: Question) -> RecordedCall:
        arguments = {name: tuple(value) if isinstance(value, list) else value for name, value in question.arguments.items()}
        call = RecordedCall(NODE.get(), question._replace(arguments=arguments), next(self._order))
        self.calls.append(call)
        return call

    def _end(self, call: RecordedCall, outcome: Outcome, value: Any = None) -> None:
        harvest = next((one for one in call.question.arguments.values() if isinstance(one, Harvest)), None)
        if harvest is not None:  # its owner goes on changing it
            call.harvest = {one.name: _copy(getattr(harvest, one.name)) for one in fields(harvest)}
        call.at, call.ended, call.value, call.outcome = time.monotonic() - self.began, next(self._order), value, outcome


def _copy(value: Any) -> Any:
    return type(value)(value) if isinstance(value, list | set | dict) else value

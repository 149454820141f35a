"""The tape that plays a recording back, in the recorded order and in virtual time

A replayed run has one thread and one event loop (`ReplayLoop`). Each call of a port waits until all else in the run waits, too, and the
recording says that its answer came next. Where the recording says that a call was given up, time goes on until the limit that ended it.
So concurrent work meets its answers in the order in which it met them before, whatever the machine. A call that the recording does not
hold raises `NotRecorded`: nothing is ever asked outside.
"""

from __future__ import annotations

import asyncio
import itertools
import selectors
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from outrider.recorder.codec import END_VALUE, Decoder, Encoder, Unreadable
from outrider.recorder.make_recording import encode_question
from outrider.recorder.ports import Port, Question
from outrider.recorder.recording import CallEntry, Recording
from outrider.recorder.tape import END, THREAD, NodeUpdate
from outrider.runtime.tape import NODE
from outrider.state.chat import Budget

STUCK_S = 5.0
"""How long a replay that waits for nothing recorded waits for a thread that an import may have started."""


class NotRecorded(Exception):
    """The run asks for something that the recording does not hold: its code, prompts or settings are not those of the recorded run."""

    def __init__(self, message: str, node: str, question: Question | None = None) -> None:
        super().__init__(message)
        self.node, self.question = node, question


class NeverEnded(BaseException):
    """Blocking work whose end the recorded run did not see."""


class ReplayLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time, without threads and without a network."""

    def __init__(self, tape: ReplayTape) -> None:
        self.tape, self.now = tape, tape.recording.index.began
        super().__init__(_IdleSelector(self))

    def time(self) -> float:
        return self.now

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - raised where the caller waits
            future.set_exception(error)
        return future

    async def getaddrinfo(self, *args: Any, **options: Any) -> Any:
        raise NotRecorded(f"a replayed run looks up the host {args[:1]}", NODE.get())

    async def create_connection(self, *args: Any, **options: Any) -> Any:
        raise NotRecorded("a replayed run opens a connection", NODE.get())


class _IdleSelector(selectors.DefaultSelector):
    """Tells the tape when the loop has nothing left to do; the loop asks with a time limit above 0, or without one."""

    def __init__(self, loop: ReplayLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self._loop.tape.is_closing:
            return super().select(timeout)
        events = super().select(0)
        if events or (timeout is not None and timeout <= 0):
            return events
        loop = self._loop
        if loop.tape.deliver(has_timer=timeout is not None):
            return []
        if timeout is not None:
            loop.now += timeout + 1e-9
            return []
        events = super().select(STUCK_S)
        if not events:
            raise NotRecorded(loop.tape.explain_stuck(), "")
        return events


@dataclass(slots=True)
class ReplayTape:
    """Plays one recording back."""

    recording: Recording
    updates: list[NodeUpdate] = field(default_factory=list)
    problems: list[NotRecorded] = field(default_factory=list)
    """The first one is why the run ended."""
    decoder: Decoder = field(init=False)
    first_state: Any = None
    is_closing: bool = False
    encoder: Encoder = field(default_factory=Encoder)
    _calls: dict[str, deque[CallEntry]] = field(default_factory=dict)
    _readings: dict[str, deque[float]] = field(default_factory=dict)
    _events: list[tuple[int, CallEntry, bool]] = field(default_factory=list)
    """Place, call, and whether it is its end, in their order."""
    _done: set[int] = field(default_factory=set)
    _waiting: dict[int, asyncio.Future[None]] = field(default_factory=dict)
    """By the place of the call's beginning."""
    _cursor: int = 0

    def __post_init__(self) -> None:
        self.decoder = Decoder(self.recording.blob, lambda value, decoder: Port.restore(str(value["$port"]), value["port"], decoder))
        for call in self.recording.index.calls:
            self._calls.setdefault(call.key, deque()).append(call)
            if not call.awaited:
                continue
            self._events.append((call.began, call, False))
            if call.ended >= 0:
                self._events.append((call.ended, call, True))
        self._events.sort(key=lambda event: event[0])
        self._readings = {name: deque(values) for name, values in self.recording.index.readings.items()}

    # Readings

    def read(self, name: str, live: Callable[[], float]) -> float:
        """The recorded reading; where a loop turns more often than it did, the virtual time."""
        values = self._readings.get(name)
        if values:
            return values.popleft()
        if name.endswith(": time of day"):
            raise self._fail(f"{NODE.get()} reads the time of day once more than the recorded run", None)
        return asyncio.get_running_loop().time()

    def begin_run(self, state: Any) -> Any:
        """The first state, with what it has of the searches before on the same thread."""
        if earlier := self.recording.index.earlier:
            state = state.model_copy(update=self.decoder.decode(self.recording.value(earlier)))
        self.first_state = state
        return state

    def add_update(self, node: str, state: Any, update: Mapping[str, Any]) -> None:
        self.first_state = state if self.first_state is None else self.first_state
        self.updates.append(NodeUpdate(node, dict(update)))

    def leave_unwritten(self, why: str) -> None:
        """A replay writes nothing."""

    # Calls

    async def run_work(self, name: str, work: Callable[[], Any], live: Callable[[], Awaitable[Any]]) -> Any:
        call = self._take(Question(THREAD, name, {}), f"{THREAD} {name}")
        if call.outcome in ("cancelled", "open"):
            await self._wait(call)
        try:
            result = work()
        except NeverEnded:
            return await asyncio.get_running_loop().create_future()
        except BaseException:
            await self._wait(call)
            raise
        await self._wait(call)
        return result

    async def call(self, question: Question, live: Callable[..., Any], wrap: Callable[[Any], Any]) -> Any:
        call = self._find(question)
        budget = question.arguments.get("budget")
        try:
            await self._wait(call)
        finally:
            if budget is not None:
                _spend(budget, call)
        for name, value in self.decoder.decode(self.recording.value(call.harvest)).items() if call.harvest else ():
            setattr(question.arguments["into"], name, value)
        return self._answer(call, question)

    def call_now(self, question: Question, live: Callable[..., Any], wrap: Callable[[Any], Any]) -> Any:
        call = self._find(question)
        if call.outcome in ("cancelled", "open"):
            raise NeverEnded
        return self._answer(call, question)

    async def iterate(self, question: Question, live: Callable[..., AsyncIterator[Any]], wrap: Callable[[Any], Any]) -> AsyncIterator[Any]:
        for number in itertools.count():
            value = await self.call(Question(question.port, f"{question.method} {number}", question.arguments), live, wrap)
            if value is END:
                return
            yield value

    def _answer(self, call: CallEntry, question: Question) -> Any:
        value = self.recording.value(call.answer)
        try:
            error = self.decoder.decode_error(value) if call.outcome == "error" else None
            answer = END if error or value == END_VALUE else self.decoder.decode(value, question.arguments.get("shape"))
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as damage:
            raise Unreadable(f"the answer of {question.port}.{question.method} cannot be read ({type(damage).__name__})") from damage
        if error is not None:
            raise error
        return answer

    def _find(self, question: Question) -> CallEntry:
        key, _ = encode_question(question, self.encoder, lambda value: value)
        return self._take(question, key)

    def _take(self, question: Question, key: str) -> CallEntry:
        calls = self._calls.get(key)
        if not calls and self.recording.index.left_out:
            asked = question.port, question.method
            calls = next((some for some in self._calls.values() if some and (some[0].port, some[0].method) == asked), None)
        if not calls:
            raise self._fail(
                f"{NODE.get()} asks {question.port}.{question.method} for something that the recording does not hold", question
            )
        call = calls.popleft()
        self._done.add(call.began)
        return call

    def _fail(self, message: str, question: Question | None) -> NotRecorded:
        return self._note(NotRecorded(message, NODE.get(), question))

    def _note(self, problem: NotRecorded) -> NotRecorded:
        self.problems.append(problem)
        return problem

    def add_failure(self, error: Exception) -> str:
        """Why the run broke off: what it was answered is nothing that its nodes can work with."""
        updates = self.recording.index.updates
        node = updates[min(len(self.updates), len(updates) - 1)].node if updates else ""
        left_out = " without the texts that the recording leaves out" if self.recording.index.left_out else ""
        reason = " ".join(str(error).split())[:200]
        return str(self._note(NotRecorded(f"{node} fails{left_out} ({type(error).__name__}: {reason})", node)))

    def list_unused(self) -> list[CallEntry]:
        """Recorded calls that the replayed run did not make."""
        return sorted((call for calls in self._calls.values() for call in calls), key=lambda call: call.began)

    # Order

    async def _wait(self, call: CallEntry) -> None:
        """Wait for the turn of the call's end."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting[call.began] = turn
        try:
            await turn
        finally:
            self._waiting.pop(call.began, None)
            self._done.add(call.ended)

    def deliver(self, *, has_timer: bool) -> bool:
        """Let the next recorded answer come, now that nothing else goes on; False where the recorded run waited for a time limit."""
        while self._cursor < len(self._events) and self._events[self._cursor][0] in self._done:
            self._cursor += 1
        if self._cursor < len(self._events):
            _, call, is_end = self._events[self._cursor]
            if is_end and self._release(call):
                return True
        if has_timer:
            return False
        return any(is_end and self._release(call) for _, call, is_end in self._events[self._cursor :])

    def _release(self, call: CallEntry) -> bool:
        turn = self._waiting.get(call.began)
        if turn is None or turn.done() or call.outcome in ("cancelled", "open"):
            return False
        loop: Any = turn.get_loop()
        loop.now = max(loop.now, min(self.recording.index.began + call.at, _next_timer(loop)))
        turn.set_result(None)
        return True

    def explain_stuck(self) -> str:
        following = [call for place, call, _ in self._events[self._cursor :] if place not in self._done]
        name = f"{following[0].node}: {following[0].port}.{following[0].method}" if following else "the end of the run"
        message = f"the run waits for something that the recording does not hold; the recorded run came to {name}"
        return str(self._note(NotRecorded(message, following[0].node if following else "")))


def _next_timer(loop: Any) -> float:
    """When the next time limit ends: an answer that the recorded run met before it must not come after it."""
    return min((timer.when() - 1e-6 for timer in loop._scheduled if not timer.cancelled()), default=float("inf"))  # noqa: SLF001


def _spend(budget: Budget, call: CallEntry) -> None:
    for node, most_usd, input_tokens, output_tokens, cost_usd in call.spendings:
        with budget.call(node, most_usd) as one:
            one.input_tokens, one.output_tokens, one.cost_usd = input_tokens, output_tokens, cost_usd

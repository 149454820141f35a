"""Searches as things of their own: each has a number, says what happens in it, can be followed from any point, and can be stopped."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from outrider.interfaces.http.events import LAST, Event, event, events_of
from outrider.interfaces.http.problems import Refusal, of_error, problem_of
from outrider.state.analysis import Analysis
from outrider.state.errors import SearchError
from outrider.state.response import SearchResponse

if TYPE_CHECKING:
    from outrider.interfaces.http.admission import Gate
    from outrider.interfaces.http.metrics import Metrics
    from outrider.interfaces.http.run_search import Searching
    from outrider.state.analysis import AnalyzeRequest
    from outrider.state.pipeline import RunContext
    from outrider.state.request import SearchRequest
    from outrider.usecases.threads import Part

Status = Literal["waiting", "running", "done", "failed", "cancelled"]
INTERNAL = Refusal(500, "internal", "an error of this server; its log tells more under this search's number")

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Run:
    """One search. Whoever awaits `ended` or follows it may stop doing so: that stops nothing."""

    run_id: str
    owner: str
    told: bool
    """Whether events are kept for who follows it."""
    status: Status = "waiting"
    events: list[Event] = field(default_factory=list)
    answer: str = ""
    """A `SearchResponse` as JSON; empty unless it ended well."""
    refusal: Refusal | None = None
    ended_at: float | None = None
    """By the clock of the registry."""
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    def say(self, one: Event) -> None:
        if self.told or one.name in LAST:
            self.events.append(one)
            news, self._news = self._news, asyncio.Event()
            news.set()

    async def follow(self, after: int = 0) -> AsyncGenerator[tuple[int, Event], None]:
        """Each event with its number, from 1, beginning behind `after`; ends behind the last one."""
        at = after
        while True:
            news = self._news
            for one in self.events[at:]:
                at += 1
                yield at, one
            if self.ended_at is not None and at >= len(self.events):
                return
            if at >= len(self.events):
                await news.wait()

    async def ended(self) -> None:
        if self.task is not None:
            await asyncio.wait({self.task})

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()


@dataclass(slots=True)
class Runs:
    """All searches of the REST door: those under way, and for a while those that have ended."""

    searching: Searching
    gate: Gate
    metrics: Metrics
    keep: int
    keep_s: float
    clock: Callable[[], float] = time.monotonic
    _runs: dict[str, Run] = field(default_factory=dict)

    def search(self, request: SearchRequest, context: RunContext, owner: str, *, thread: str = "", kept: bool = False) -> Run:
        """Begin a search, or raise `Refusal` where there is no room. One that is `kept` can be asked for by its number."""
        run_id = uuid4()
        parts = self.searching.stream(request, context, thread, {"run_id": run_id})
        return self._start(Run(str(run_id), owner, told=kept), parts, SearchResponse, kept=kept)

    def analyse(self, request: AnalyzeRequest, context: RunContext, owner: str) -> Run:
        """Begin an analysis."""
        run_id = uuid4()
        return self._start(Run(str(run_id), owner, told=False), self.searching.analyse(request, context, {"run_id": run_id}), Analysis)

    def _start(self, run: Run, parts: AsyncIterator[Part], answers: type[SearchResponse | Analysis], *, kept: bool = False) -> Run:
        admission = ExitStack()
        admission.enter_context(self.gate.admission())
        run.task = asyncio.create_task(self._run(run, parts, answers), name=f"search {run.run_id}")
        run.task.add_done_callback(lambda _: self._ended(run, admission))
        if kept:
            self._runs[run.run_id] = run
        return run

    def get(self, run_id: str, owner: str) -> Run:
        """Raises `Refusal` (404), also for a search of somebody else."""
        self._forget()
        run = self._runs.get(run_id)
        if run is None or run.owner != owner:
            raise Refusal(404, "no-such-search", "there is no such search, or its answer is kept no longer")
        return run

    async def drained(self, within_s: float) -> int:
        """Waits for the searches under way; what is not done then is cancelled. Gives how many those were."""
        tasks = {run.task for run in self._runs.values() if run.task is not None and not run.task.done()}
        if not tasks:
            return 0
        _, late = await asyncio.wait(tasks, timeout=within_s)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)
        return len(late)

    async def _run(self, run: Run, parts: AsyncIterator[Part], answers: type[SearchResponse | Analysis]) -> None:
        began, outcome = time.perf_counter(), "failed"
        state: dict[str, Any] = {}
        try:
            if self.gate.running >= self.gate.at_once:
                run.say(event("queued", {"position": self.gate.waiting}))
            async with self.gate.place():
                run.status, began = "running", time.perf_counter()
                await _streamed(run, parts, state)
            outcome = "failed" if any(failure.node in ("translator", "scout") for failure in state.get("failures", ())) else "done"
            answer = answers.model_validate({name: value for name, value in state.items() if name in answers.model_fields})
            run.answer = answer.model_dump_json()
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        except Refusal as refusal:
            outcome, run.refusal = "refused", refusal
        except SearchError as error:
            run.refusal = of_error(error)
        except Exception:  # a bug: told whole in the log, and to who asked only that it was one
            log.exception("search %s failed", run.run_id)
            run.refusal = INTERNAL
        finally:
            self.metrics.searched("rest", outcome, time.perf_counter() - began, state)

    def _ended(self, run: Run, admission: ExitStack) -> None:
        admission.close()
        run.ended_at = self.clock()
        if run.answer:
            run.status = "done"
            run.say(Event("response", run.answer))
        elif run.refusal is not None:
            run.status = "failed"
            problem = problem_of(run.refusal, run.run_id)
            run.say(event("problem", problem.model_dump(exclude_defaults=True)))
        else:
            run.status = "cancelled"
            run.say(event("cancelled", {}))
        self._forget()

    def _forget(self) -> None:
        """Answers that are too old, and the oldest where there are too many."""
        over = sorted((run.ended_at, run.run_id) for run in self._runs.values() if run.ended_at is not None)
        now, most = self.clock(), max(0, len(over) - self.keep)
        for at, (ended_at, run_id) in enumerate(over):
            if at < most or now - ended_at > self.keep_s:
                with suppress(KeyError):
                    del self._runs[run_id]


async def _streamed(run: Run, parts: AsyncIterator[Part], state: dict[str, Any]) -> None:
    async for kind, part in parts:
        if kind == "values":
            state.update(part)
        elif run.told:
            for one in events_of((kind, part)):
                run.say(one)

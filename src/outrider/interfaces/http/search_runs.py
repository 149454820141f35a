"""Searches of the server: the registry of numbered runs, their events, and their runner.

A registered search records its events and can be stopped. The format of the events is
https://html.spec.whatwg.org/multipage/server-sent-events.html.

::

    queued     {position}                        it waits for a free slot
    started    {node}
    finished   {node, took_ms, candidates?, hits?, failures?}
    hits       {node, total, hits[]}             the first works in the order of this node, without their texts; a work that an earlier
                                                 event described has only doc_id, rank, score, scored_by, reason
    sources    {sources[]}                       the reports of the sources so far; the last one has all
    failures   {failures[]}
    usage      {calls, input_tokens, ...}        calls and tokens of models so far
    waiting    PlanReview | ResultsReview        the search waits for a person; the stream ends, and goes on after the answer
    response   SearchResponse                    the last event of a successful search
    problem    Problem                           the last event of a failed search
    cancelled  {}                                the last event of a stopped search
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID, uuid4

from pydantic import Field

from outrider.interfaces.http.problems import Refusal, make_problem, refuse_field, refuse_full_disk, refuse_unsearched, translate_error
from outrider.runtime.spans import RUN
from outrider.services.checkpoints import store_exists
from outrider.state.analysis import Analysis
from outrider.state.comparison import Comparison
from outrider.state.errors import SearchError, is_disk_full
from outrider.state.hits import Candidate, Hit, ScoredBy
from outrider.state.model import Model
from outrider.state.notices import Notice, list_notices
from outrider.state.pipeline import RunContext
from outrider.state.records import Kind
from outrider.state.response import SearchResponse
from outrider.usecases.threads import MODES, Part, Threads, open_threads

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from starlette.requests import Request

    from outrider.graph.analyze import AnalysisGraph
    from outrider.graph.citations import CitationsGraph
    from outrider.graph.pipeline import SearchGraph
    from outrider.interfaces.http.monitoring import Metrics
    from outrider.interfaces.http.request_limits import Admission
    from outrider.services import Services
    from outrider.state.analysis import AnalyzeRequest
    from outrider.state.checkpoints import Review
    from outrider.state.citations import CitationsRequest
    from outrider.state.comparison import CompareRequest
    from outrider.state.request import SearchRequest

PARTIAL_HITS = 20
"""Maximum works of one partial list; a request for fewer hits gets fewer."""
MAX_KEPT_CHARS = 64 * 2**20
"""Of all answers together that are kept; the newest is kept whatever its size."""
LAST = frozenset({"response", "problem", "cancelled", "waiting"})
Answers = type[SearchResponse | Analysis | Comparison]
StreamPart = tuple[str, Any]
"""A part of LangGraph's stream: its mode, and the part."""


@dataclass(frozen=True, slots=True)
class Event:
    name: str
    data: str
    """JSON on one line."""

    def wire(self, number: int) -> bytes:
        return f"id: {number}\nevent: {self.name}\ndata: {self.data}\n\n".encode()


class PartialHit(Model):
    """A work during a search, as a list shows it. Its score is that of the node that it comes from."""

    rank: int
    doc_id: str
    kind: Kind
    title: str
    url: str | None = None
    authors: tuple[str, ...] = ()
    year: int | None = None
    venue: str | None = None
    stars: int | None = None
    language: str | None = None
    score: float
    scored_by: ScoredBy
    reason: str = ""
    found_by: tuple[str, ...] = Field((), description="`source/strategy`, each once.")
    notices: tuple[Notice, ...] = Field((), description="Retractions, withdrawals, concerns and corrections, the gravest first.")


SHARED_FIELDS = ("doc_id", "kind", "title", "url", "authors", "year", "venue", "stars", "language")
CHANGING_FIELDS = {"doc_id", "rank", "score", "scored_by", "reason"}


def make_event(name: str, data: Mapping[str, Any]) -> Event:
    return Event(name, json.dumps(data, ensure_ascii=False, separators=(",", ":")))


@dataclass(slots=True)
class EventWriter:
    """The events of one search. Each work is described once, so that a stream grows with its works and not with its nodes."""

    most: int = PARTIAL_HITS
    """Works of one list."""
    _described: set[str] = field(default_factory=set)
    _reports: list[dict[str, Any]] = field(default_factory=list)
    """Of the sources that have answered so far."""

    def make_events(self, stream_part: StreamPart) -> Iterator[Event]:
        """The events of one part of `graph.astream(stream_mode=["custom", "updates", ...])`."""
        mode, part = stream_part
        if mode == "custom" and part.get("event") in ("started", "finished"):
            yield make_event(part["event"], {name: value for name, value in part.items() if name != "event"})
        elif mode == "custom" and part.get("event") == "searched":
            self._reports.append(part["report"])
            yield make_event("sources", {"sources": self._reports})
        elif mode == "updates":
            for node, update in part.items():
                yield from self._make_update_events(node, update or {})

    def _make_update_events(self, node: str, update: Mapping[str, Any]) -> Iterator[Event]:
        is_first = node == "translator"  # it resets all fields
        if rows := [row for row in update.get("sources") or () if not isinstance(row, str)]:
            yield make_event("sources", {"sources": [row.model_dump(mode="json") for row in rows]})
        if update.get("failures"):
            yield make_event("failures", {"failures": [failure.model_dump(mode="json") for failure in update["failures"]]})
        if "usage" in update and not is_first:
            yield make_event("usage", update["usage"].model_dump(mode="json"))
        works = update.get("hits") or update.get("candidates")
        if works is not None and not is_first:
            first = [self._describe(work, rank) for rank, work in enumerate(works[: self.most], start=1)]
            total = update.get("total_found", len(works)) if update.get("hits") else len(works)
            yield make_event("hits", {"node": node, "total": total, "hits": first})

    def _describe(self, work: Candidate | Hit, rank: int) -> dict[str, Any]:
        partial_hit = make_partial_hit(work, rank)
        is_known = partial_hit.doc_id in self._described
        self._described.add(partial_hit.doc_id)
        return partial_hit.model_dump(mode="json", include=CHANGING_FIELDS if is_known else None)


def make_partial_hit(work: Candidate | Hit, rank: int) -> PartialHit:
    record = work.record if isinstance(work, Candidate) else work
    shared = {name: getattr(record, name) for name in SHARED_FIELDS if hasattr(record, name)}
    found_by = tuple(dict.fromkeys(f"{by.source}/{by.strategy}" for by in work.found_by))
    notices = list_notices(work.record, work.related) if isinstance(work, Candidate) else work.notices
    about = {"score": work.score, "scored_by": work.scored_by, "reason": work.reason, "found_by": found_by, "notices": notices}
    return PartialHit(**shared, **about, rank=rank)


Status = Literal["waiting", "running", "done", "failed", "cancelled"]
INTERNAL = Refusal(500, "internal", "an error of this server; its log has details under this search's number")
HEADER = "x-thread-id"
THREAD_NAME = re.compile(r"[A-Za-z0-9._:-]{1,128}\Z")
Modes = Any
"""Modes of LangGraph's stream; fewer modes take less time. A thread streams all."""

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Run:
    """One search. It continues if no client waits for it or follows it any more."""

    run_id: str
    owner: str
    writer: EventWriter | None = None
    """Of all events, for followers; without one only the last event is kept."""
    thread: str = ""
    """Its stored name."""
    review: Review | None = None
    """What waits for a person."""
    seen: int = 0
    """Events before the last answer of a person."""
    status: Status = "waiting"
    """`waiting` for a free slot, or with a `review` for a person: clients know no other words."""
    events: list[Event] = field(default_factory=list)
    answer: str = ""
    """A `SearchResponse` or `Analysis` as JSON; empty unless the run succeeded."""
    refusal: Refusal | None = None
    ended_at: float | None = None
    """By the clock of the registry."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    def record(self, event: Event) -> None:
        if self.writer or event.name in LAST:
            self.events.append(event)
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()

    async def follow(self, after: int = 0) -> AsyncGenerator[tuple[int, Event], None]:
        """Each event with its number, from 1, starting after `after`; ends after the last event."""
        number = after
        while True:
            changed = self._changed
            for event in self.events[number:]:
                number += 1
                yield number, event
            if number >= len(self.events):
                if self.ended_at is not None:
                    return
                await changed.wait()

    async def wait(self) -> None:
        """Wait for the end; a waiter that is cancelled stops nothing."""
        if self.task is not None:
            await asyncio.wait({self.task})

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()


@dataclass(slots=True)
class RunRegistry:
    """All searches of the REST interface: running ones, and for a while ended ones."""

    runner: GraphRunner
    admission: Admission
    metrics: Metrics
    keep: int
    keep_s: float
    clock: Callable[[], float] = time.monotonic
    _runs: dict[str, Run] = field(default_factory=dict)

    def search(self, request: SearchRequest, context: RunContext, owner: str, *, thread: str = "", has_events: bool = False) -> Run:
        """Begin a search, or raise `Refusal` if the queue is full. It can be looked up by its number; with `has_events` also followed."""
        run_id = find_run_id()
        if not thread and self.runner.services.settings.checkpoints.list_points(request):
            thread = f"{owner}/search-{run_id}" if owner else f"search-{run_id}"  # what waits for a person is saved
        parts = self.runner.search(request, context, thread, {"run_id": run_id})
        run = Run(str(run_id), owner, EventWriter(min(PARTIAL_HITS, request.top_k)) if has_events else None, thread)
        return self._start(run, parts, SearchResponse, is_kept=True)

    def resume(self, thread: str, owner: str, *, has_events: bool = False) -> Run:
        """Continue the last search of a thread; otherwise as `search`."""
        run = Run(str(find_run_id()), owner, EventWriter() if has_events else None, thread)
        return self._start(run, self.runner.resume(thread), SearchResponse, is_kept=True)

    async def answer(self, run: Run, answer: object, *, has_events: bool = False) -> None:
        """Let a search that waits for a person go on. Raises `BadRequest` for a wrong answer, and it still waits."""
        checked = await (await self.runner.threads()).check_answer(run.thread, answer) if run.review else None
        if run.review is None or checked is None:  # also where two answers came at once
            raise Refusal(409, "not-waiting", "this search waits for no answer")
        self._start(run, self.runner.resume(run.thread, checked), SearchResponse, is_kept=True)
        run.review, run.ended_at, run.status, run.seen = None, None, "waiting", len(run.events)
        if has_events and run.writer is None:
            run.writer = EventWriter()

    async def find(self, run_id: str, owner: str) -> Run:
        """As `get`; a search that waits for a person is also found after a restart."""
        try:
            return self.get(run_id, owner)
        except Refusal:
            has_threads = await asyncio.to_thread(store_exists, self.runner.services.settings.threads)
            threads = await self.runner.threads() if has_threads else None
            review = await threads.find_waiting(run_id) if threads else None
            if review is None or self.runner.split_owner(review.thread)[0] != owner:
                raise
        run = self._runs.setdefault(run_id, Run(run_id, owner, EventWriter(), review.thread, ended_at=self.clock()))
        if not run.events:
            run.review, run.status = review.model_copy(update={"thread": self.runner.split_owner(review.thread)[1]}), "waiting"
            run.record(Event("waiting", run.review.model_dump_json()))
        return run

    async def stop(self, run: Run) -> None:
        """Stop a search; one that waits for a person waits no more, and its thread can be resumed."""
        if run.review is None:
            run.cancel()
            return
        await (await self.runner.threads()).abandon(run.thread)
        run.review, run.status = None, "cancelled"
        run.record(make_event("cancelled", {}))

    def analyze(self, request: AnalyzeRequest, context: RunContext, owner: str) -> Run:
        """Begin an analysis."""
        run_id = find_run_id()
        return self._start(Run(str(run_id), owner), self.runner.analyze(request, context, {"run_id": run_id}), Analysis)

    def compare(self, request: CompareRequest, context: RunContext, owner: str) -> Run:
        """Begin a comparison, which counts as one search."""
        return self._start(Run(str(find_run_id()), owner), self.runner.compare(request, context), Comparison)

    def _start(self, run: Run, parts: AsyncIterator[Part], answers: Answers, *, is_kept: bool = False) -> Run:
        place = ExitStack()
        place.enter_context(self.admission.admit())
        run.task = asyncio.create_task(self._run(run, parts, answers), name=f"search {run.run_id}")
        run.task.add_done_callback(lambda _: self._finish(run, place))
        if is_kept:
            self._runs[run.run_id] = run
        return run

    def get(self, run_id: str, owner: str) -> Run:
        """A run by its number. Raises `Refusal` (404), also for a run of another owner."""
        self._forget()
        run = self._runs.get(run_id)
        if run is None or run.owner != owner:
            raise Refusal(404, "no-such-search", "no such search, or its answer is no longer stored")
        return run

    async def drain(self, within_s: float) -> int:
        """Wait for running searches, then cancel the rest; returns how many were cancelled."""
        tasks = {run.task for run in self._runs.values() if run.task is not None and not run.task.done()}
        if not tasks:
            return 0
        _, late = await asyncio.wait(tasks, timeout=within_s)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)
        return len(late)

    async def _run(self, run: Run, parts: AsyncIterator[Part], answers: Answers) -> None:
        began, outcome = time.perf_counter(), "failed"
        state: dict[str, Any] = {}
        try:
            if self.admission.running >= self.admission.at_once:
                run.record(make_event("queued", {"position": self.admission.waiting}))
            async with self.admission.slot():
                run.status, began = "running", time.perf_counter()
                async for kind, part in parts:
                    if kind == "values":
                        state.update(part)
                    elif kind == "waiting":
                        run.review = part
                    elif run.writer:
                        for event in run.writer.make_events((kind, part)):
                            run.record(event)
            if run.review is not None:
                outcome = "waiting"
                return
            run.refusal, outcome = refuse_unsearched(state), "failed"
            if run.refusal is None:
                answer = answers.model_validate({name: value for name, value in state.items() if name in answers.model_fields})
                run.answer, outcome = answer.model_dump_json(), "done"
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        except Refusal as refusal:
            outcome, run.refusal = "refused", refusal
        except SearchError as error:
            run.refusal = translate_error(error)
        except Exception as error:  # a bug: the log has all details, the client learns only that there was one
            log.exception("search %s failed", run.run_id)
            run.refusal = refuse_full_disk() if is_disk_full(error) else INTERNAL
        finally:
            self.metrics.count_search("rest", outcome, time.perf_counter() - began, state)

    def _finish(self, run: Run, place: ExitStack) -> None:
        place.close()
        run.ended_at = self.clock()
        if run.answer:
            run.status = "done"
            run.record(Event("response", run.answer))
        elif run.refusal is not None:
            run.status = "failed"
            problem = make_problem(run.refusal, run.run_id)
            run.record(make_event("problem", problem.model_dump(mode="json", exclude_defaults=True)))
        elif run.review is not None:
            run.status = "waiting"
            run.record(Event("waiting", run.review.model_dump_json()))
        else:
            run.status = "cancelled"
            run.record(make_event("cancelled", {}))
        self._forget()

    def _forget(self) -> None:
        """Delete answers that are too old, and the oldest if there are too many."""
        ended = sorted(((run.ended_at, run.run_id) for run in self._runs.values() if run.ended_at is not None), reverse=True)
        now, chars = self.clock(), 0
        for position, (ended_at, run_id) in enumerate(ended):
            chars += len(self._runs[run_id].answer)
            if position >= self.keep or now - ended_at > self.keep_s or (position and chars > MAX_KEPT_CHARS):
                del self._runs[run_id]


def find_run_id() -> UUID:
    """The number of the request, for the search that it starts: all lines of the log have one number. A new one outside of a request."""
    try:
        return UUID(RUN.get())
    except ValueError:
        return uuid4()


def read_thread(request: Request, thread_id: object = None) -> str:
    """The thread of a request, from its body (`thread_id`) or `X-Thread-Id`; empty for none.

    With a key it belongs to the owner: the same name used by another owner is another thread. Raises `Refusal` for an invalid name.
    """
    name = thread_id if thread_id is not None else request.headers.get(HEADER)
    if name is None:
        return ""
    if not isinstance(name, str) or not THREAD_NAME.match(name):
        raise refuse_field("thread_id", "takes up to 128 letters, digits, dots, colons, - and _")
    owner = request.scope["state"].get("owner", "")
    return f"{owner}/{name}" if owner else name


@dataclass(slots=True)
class GraphRunner:
    """One for a server. The store of threads is opened at its first use: most servers have none."""

    services: Services
    graph: SearchGraph
    analysis: AnalysisGraph
    citations: CitationsGraph
    _threads: Threads | None = None
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def search(
        self,
        request: SearchRequest,
        context: RunContext | None = None,
        thread: str = "",
        config: RunnableConfig | None = None,
        modes: Modes = MODES,
    ) -> AsyncIterator[Part]:
        """The parts of LangGraph's stream in `modes`. Raises `SearchError`."""
        context = context or RunContext()
        if thread:
            threads = await self.threads()
            async for part in self._name_threads(threads.search(thread, request, context, str((config or {}).get("run_id") or ""))):
                yield part
            return
        stream: AsyncIterator[Any] = self.graph.astream(request, config, context=context, stream_mode=modes)
        async for kind, part in stream:
            yield kind, part

    async def analyze(
        self, request: AnalyzeRequest, context: RunContext | None = None, config: RunnableConfig | None = None, modes: Modes = MODES
    ) -> AsyncIterator[Part]:
        """The same for the analysis of one work."""
        stream: AsyncIterator[Any] = self.analysis.astream(request, config, context=context or RunContext(), stream_mode=modes)
        async for kind, part in stream:
            yield kind, part

    async def compare(self, request: CompareRequest, context: RunContext | None = None) -> AsyncIterator[Part]:
        """The same for the comparison of some works. Raises `SearchError`."""
        from outrider.usecases.compare import stream_comparison  # most servers compare nothing

        async for part in stream_comparison(self.services, request, context):
            yield part

    async def build_citations(
        self, request: CitationsRequest, context: RunContext | None = None, config: RunnableConfig | None = None, modes: Modes = MODES
    ) -> AsyncIterator[Part]:
        """The same for the graph of citations around some works."""
        stream: AsyncIterator[Any] = self.citations.astream(request, config, context=context or RunContext(), stream_mode=modes)
        async for kind, part in stream:
            yield kind, part

    async def resume(self, thread: str, answer: object = None) -> AsyncIterator[Part]:
        """The parts of a thread's last search from its interruption on, or from a person's answer on."""
        async for part in self._name_threads((await self.threads()).resume(thread, answer)):
            yield part

    async def _name_threads(self, parts: AsyncGenerator[Part]) -> AsyncIterator[Part]:
        """The parts; what waits names its thread as its owner does."""
        async with aclosing(parts):
            async for kind, part in parts:
                yield kind, part.model_copy(update={"thread": self.split_owner(part.thread)[1]}) if kind == "waiting" else part

    def split_owner(self, stored_name: str) -> tuple[str, str]:
        """The owner of a thread, empty for none, and the name that the owner gave it."""
        owner, slash, name = stored_name.partition("/")
        return (owner, name) if slash and owner in self.services.settings.serve.api_keys else ("", stored_name)

    async def threads(self) -> Threads:
        """The store of threads, opened at its first use. Raises `ThreadError`."""
        async with self._lock:
            if self._threads is None:
                self._threads = await self._stack.enter_async_context(open_threads(self.services))
        return self._threads

    async def close(self) -> None:
        await self._stack.aclose()

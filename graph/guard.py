"""Wrapper of every node: name, time limit, failures, timings; edges; one id and span a run."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import ExitStack, aclosing, closing, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp
from langgraph.graph import START
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime, get_runtime
from langgraph.types import Command
from pydantic import ConfigDict

from outrider.models.chat.journal import JOURNAL_KEY, run_with_journal
from outrider.nodes.run_settings import run_setting, time_left
from outrider.runtime.run_calls import RunTally, count_into
from outrider.runtime.run_reads import Reads, share_reads
from outrider.runtime.spans import RUN, OpenSpan, begin_span, is_nobodys_search, note_place, run_named, span
from outrider.runtime.tape import TAPE, Tape, read_monotonic, use_tape
from outrider.runtime.threads_and_loops import run_in_background
from outrider.settings.model import RunSettings
from outrider.state.earlier_rounds import MAX_ROUNDS, parse_rounds
from outrider.state.errors import BadRequest, KeyRejected, SearchError
from outrider.state.hits import Candidate
from outrider.state.model import Model
from outrider.state.pipeline import PipelineState, RunContext, Update, check_context
from outrider.state.ports import Clock
from outrider.state.request import SearchRequest
from outrider.state.response import Failure

if TYPE_CHECKING:
    from langgraph.graph import StateGraph

    from outrider.recorder.recording import Kind
    from outrider.services import Services

log = logging.getLogger(__name__)

Node = Callable[[PipelineState, Runtime[RunContext]], Awaitable[Update]]
Fallback = Callable[[PipelineState], Update]
Finish = Callable[[Any, Update], dict[str, Any]]
GRACE_S = 1.0
"""What a node may take beyond the run's limit. The scout keeps the limit itself; its results are still ranked and returned."""
RUN_FIELDS = tuple(name for name in PipelineState.model_fields if name not in SearchRequest.model_fields)
RUN_KEY = "__outrider_run"
"""Of the run in a node's configuration. LangGraph saves no key that begins with two underscores."""
RESUMING_KEY = "__pregel_resuming"
"""LangGraph's own, of a graph in another one that goes on after an interruption."""
RECORDER = "outrider_recorder"
CALLER: ContextVar[RunnableConfig | None] = ContextVar("CALLER", default=None)
"""The configuration that a run was called with, while it reads its input. A sequence of LangChain in a parent's node passes it to the graph
without making it the current one, which `get_config` returns."""
Graph = TypeVar("Graph", bound=CompiledStateGraph[Any, Any, Any, Any])


class Recorder(Protocol):
    """Records the runs of a graph."""

    def begin(self) -> Tape: ...

    def write(self, tape: Tape, context: Any) -> None:
        """Write the recording of a run that has ended. Blocking; raises nothing: a run is worth more than its recording."""
        ...


@dataclass(frozen=True, slots=True)
class Run:
    """The id that a run's logs and spans share, the span above those of its nodes, what its nodes read once, and whom they called."""

    name: str
    span: OpenSpan | None
    reads: Reads = field(default_factory=dict)
    tally: RunTally = field(default_factory=RunTally)
    tape: Tape | None = None

    @classmethod
    def begin(cls, graph: str, value: Any, config: RunnableConfig | None, recorder: Recorder | None = None) -> Run:
        """A run without an id of its own has that of its caller or its thread. One that goes on where it stopped is not recorded."""
        metadata, configured = (config or {}).get("metadata") or {}, (config or {}).get("configurable") or {}
        thread = configured.get("thread_id")
        name = RUN.get() or str(metadata.get("run") or metadata.get("run_id") or thread or uuid.uuid4().hex[:12])
        tape = TAPE.get() or (recorder.begin() if recorder and not is_resumed(value, config) and not is_nobodys_search() else None)
        return cls(name, begin_span(graph, name), tape=tape)

    def add_to(self, config: RunnableConfig | None) -> RunnableConfig:
        configured: RunnableConfig = {**(config or {})}
        configured["configurable"] = {**(configured.get("configurable") or {}), RUN_KEY: self}
        return configured

    def end(self, error: BaseException | None = None) -> None:
        if self.span is not None:
            self.span.end(error)


def is_resumed(value: Any, config: RunnableConfig | None) -> bool:
    """Whether a run with this input goes on where an earlier one stopped."""
    return value is None or isinstance(value, Command) or bool(((config or {}).get("configurable") or {}).get(RESUMING_KEY))


class TracedGraph(CompiledStateGraph[Any, RunContext, Any, Any]):
    """A compiled graph whose nodes log and trace under one run, whoever runs it.

    All ways to run a graph lead through its two streams. Their parts run in the contexts of whoever reads them, so the run's span is passed
    on in the configuration instead of being made the current one.
    """

    @classmethod
    def wrap(cls, compiled: Graph) -> Graph:
        """The same graph as an instance of this class: `StateGraph.compile` takes no class."""
        compiled.__class__ = cls  # type: ignore[assignment]
        return compiled

    @property
    def recorder(self) -> Recorder | None:
        """Records the runs; kept with the builder, since LangGraph copies compiled graphs field by field."""
        return getattr(self.builder, RECORDER, None)

    def _add(self, run: Run, config: RunnableConfig | None) -> RunnableConfig | None:
        """An empty configuration stays empty where a thread is missing: LangGraph then explains what a checkpointer needs."""
        return config if self.checkpointer and not (config or {}).get("configurable") else run.add_to(config)

    def _check(self, value: Any, config: RunnableConfig | None) -> None:
        """Raise what the first step would raise for the input: LangGraph saves it before, and would read it again in all later runs."""
        check = self.nodes[START].mapper
        if check is not None and self.checkpointer is not False and not is_resumed(value, config):
            with _set_caller(config):
                check(value)

    def stream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Iterator[Any]:  # noqa: A002
        recorder = self.recorder
        run, error = Run.begin(self.get_name(), input, config, recorder), None
        try:
            options["context"] = check_context(options.get("context"))
            self._check(input, config)
            parts: Any = super().stream(input, self._add(run, config), **options)
            with ExitStack() as reading, closing(parts):
                reading.enter_context(_set_caller(config))
                for part in parts:
                    reading.close()
                    yield part
            if recorder and run.tape and run.tape is not TAPE.get():
                recorder.write(run.tape, options["context"])
        except Exception as raised:
            error = None if isinstance(raised, GraphBubbleUp) else raised  # an interrupt of a parent is no error
            raise
        finally:
            run.end(error)

    async def astream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> AsyncIterator[Any]:  # noqa: A002
        recorder = self.recorder
        run, error = Run.begin(self.get_name(), input, config, recorder), None
        try:
            options["context"] = check_context(options.get("context"))
            self._check(input, config)
            parts: Any = super().astream(input, self._add(run, config), **options)
            with ExitStack() as reading:
                async with aclosing(parts):
                    reading.enter_context(_set_caller(config))
                    async for part in parts:
                        reading.close()
                        yield part
            if recorder and run.tape and run.tape is not TAPE.get():
                await asyncio.to_thread(recorder.write, run.tape, options["context"])
        except Exception as raised:
            error = None if isinstance(raised, GraphBubbleUp) else raised  # an interrupt of a parent is no error
            raise
        finally:
            run.end(error)


def add_recorder(graph: StateGraph[Any, Any, Any, Any], services: Services, kind: Kind, **facts: Any) -> None:
    """Have the runs of a graph over these services recorded, if they are to be. Call it before the graph is compiled.

    `facts` are what its nodes depend on besides the services.
    """
    if services.ports is not None and not services.ports.is_replay:
        from outrider.services.recorded import RunRecorder  # most processes record nothing

        setattr(graph, RECORDER, RunRecorder(services, kind, facts))


@contextmanager
def _set_caller(config: RunnableConfig | None) -> Iterator[None]:
    """Until the first part of a stream: a later one may be read in another context, where the variable could not be reset."""
    token = CALLER.set(config)
    try:
        yield
    finally:
        CALLER.reset(token)


@contextmanager
def node_span(name: str, config: RunnableConfig | None) -> Iterator[None]:
    """The span of a node, below that of the run in its configuration."""
    run = get_run(config)
    within = run.span.within() if run and run.span else nullcontext()
    reads, tally = (run.reads, run.tally) if run else ({}, RunTally())
    on_tape, named = use_tape(run.tape if run else None, name), run_named(run.name if run else "")
    with share_reads(reads), count_into(tally), named, within, span(f"node {name}", node=name), on_tape:
        yield


def get_run(config: RunnableConfig | None) -> Run | None:
    """The run in a node's configuration."""
    run: Run | None = (config or {}).get("configurable", {}).get(RUN_KEY)
    return run


class Guarded(Runnable[PipelineState, Update]):
    """A node with a synchronous and an asynchronous side. LangChain's RunnableLambda would add half a millisecond of callbacks a step."""

    def __init__(self, name: str, run: Callable[[PipelineState, Runtime[RunContext]], Coroutine[Any, Any, Update]]) -> None:
        self.name = name
        self._run = run

    def invoke(self, input: PipelineState, config: RunnableConfig | None = None, **kwargs: Any) -> Update:  # noqa: A002
        return run_in_background(self._start(input, config))

    async def ainvoke(self, input: PipelineState, config: RunnableConfig | None = None, **kwargs: Any) -> Update:  # noqa: A002
        return await self._start(input, config)

    def _start(self, input: PipelineState, config: RunnableConfig | None) -> Coroutine[Any, Any, Update]:  # noqa: A002
        """The node's coroutine, which writes model calls into the run's journal, if it has one."""
        run = _trace(str(self.name), config, self._run(input, get_runtime(RunContext)))
        journal = (config or {}).get("configurable", {}).get(JOURNAL_KEY)
        return run if journal is None else run_with_journal(journal, run)


async def _trace(name: str, config: RunnableConfig | None, work: Coroutine[Any, Any, Update]) -> Update:
    """Run a node in its span and log it."""
    started = time.perf_counter()
    with node_span(name, config):
        try:
            update = await work
        except GraphBubbleUp as raised:  # a wait for a person is no error of the span
            pause = raised
        except Exception as error:
            note_place(error, name)
            raise
        else:
            took_ms = round((time.perf_counter() - started) * 1000, 3)
            log.info("node finished", extra={"log_fields": {"node": name, "took_ms": took_ms, **_counts(dict(update))}})
            return update
    raise pause


@dataclass(frozen=True, slots=True)
class Guard:
    """Wraps nodes. Only `SearchError` and `TimeoutError` are caught: a bug ends the run with its traceback."""

    clock: Clock
    run: RunSettings
    warm: Callable[[SearchRequest], Awaitable[None]] | None = None
    """Loads the models of a request; called before its first node, so that loading takes none of the run's time."""

    def __call__(
        self,
        name: str,
        node: Node,
        *,
        fallback: Fallback | None = None,
        first: bool = False,
        timed: bool = True,
        finish: Finish | None = None,
    ) -> Guarded:
        """The node as LangGraph runs it; `first` resets the run's fields, `timed` applies the run's time limit.

        A node fails by raising an expected error, or by writing a failure of its own beside its update; `fallback` adds what is then
        missing. `finish` returns what the run's last node writes besides.
        """

        async def run_guarded(state: PipelineState, runtime: Runtime[RunContext]) -> Update:
            clean: dict[str, Any] = {}
            if first and (tape := TAPE.get()):
                state = tape.begin_run(state)
            if first and self.warm is not None:
                with use_tape(None):
                    await self.warm(state)
            if first:
                # Defaults for the fields that an earlier run on the same thread wrote.
                defaults = PipelineState(query=state.query)
                sources = tuple(name for name in state.sources or () if isinstance(name, str)) or None
                # A parent's key `answer` is left alone, unless an earlier run of ours on this thread wrote it.
                is_foreign = getattr(state, "parent", None) is not None and state.answer is None
                reset = (name for name in RUN_FIELDS if name != "judged" and not (name == "answer" and is_foreign))
                clean = {**{name: getattr(defaults, name) for name in reset}, "started_at": self.clock(), "sources": sources}
                # Strategies of the caller, and of the earlier run on the same thread with the rounds before it.
                earlier = (*(parse_rounds((state.strategy,)) if state.strategy else ()), *state.previous_strategies)
                state = state.model_copy(update={**clean, "previous_strategies": tuple(dict.fromkeys(earlier))[-MAX_ROUNDS:]})
            runtime.stream_writer({"node": name, "event": "started"})
            started = read_monotonic("node")
            update = {**clean, **await self._run(name, node, state, runtime, fallback, timed=timed)}
            took_ms = round((read_monotonic("node") - started) * 1000, 3)
            runtime.stream_writer({"node": name, "event": "finished", "took_ms": took_ms, **_counts(update)})
            update["timings_ms"] = {**state.timings_ms, name: took_ms}
            update["execution_time_ms"] = round((self.clock() - state.started_at) * 1000, 3)
            # LangGraph drops unknown keys silently; here they are a bug.
            if unknown := sorted(update.keys() - Update.__annotations__.keys()):
                raise KeyError(f"node {name!r} wrote unknown keys: {', '.join(unknown)}")
            if tape := TAPE.get():
                tape.add_update(name, state, update)
            return cast("Update", {**update, **(finish(state, cast("Update", update)) if finish else {})})

        return Guarded(name, run_guarded)

    def review(self, name: str, node: Node) -> Guarded:
        """A node that waits for a person, as LangGraph runs it. The wait takes none of the run's time.

        Nothing is caught: where the run could not wait, it must not go on as if nobody had wanted to look.
        """

        async def run_review(state: PipelineState, runtime: Runtime[RunContext]) -> Update:
            if get_config().get("configurable", {}).get("__pregel_checkpointer") is None:
                raise BadRequest(f"{name} waits for a person, and this run is not saved: give it a thread, or ask with checkpoints=()")
            if tape := TAPE.get():
                tape.leave_unwritten(f"it waits for a person ({name})")
            runtime.stream_writer({"node": name, "event": "started"})
            update = await node(state, runtime)
            waited_s = max(0.0, self.clock() - (state.started_at + state.execution_time_ms / 1_000))
            runtime.stream_writer({"node": name, "event": "finished", "took_ms": 0.0, **_counts(dict(update))})
            return {**update, "started_at": state.started_at + waited_s}

        return Guarded(name, run_review)

    async def _run(
        self, name: str, node: Node, state: PipelineState, runtime: Runtime[RunContext], fallback: Fallback | None, *, timed: bool
    ) -> dict[str, Any]:
        try:
            async with asyncio.timeout(time_left(runtime, self.run, self.clock, state) + GRACE_S if timed else None):
                update: dict[str, Any] = dict(await node(state, runtime))
        except (SearchError, TimeoutError) as error:
            limit_s = run_setting(runtime, "run_timeout_s", self.run.run_timeout_s)
            message = str(error) or f"{name} was not done when the {limit_s:g} s of the run were over"
            failure = Failure(node=name, error=type(error).__name__, message=message)
            update = {"failures": (*state.failures, failure)}
        if fallback and any(failure.node == name for failure in update.get("failures", ())):
            return {**fallback(state), **update}
        return update


def _counts(update: dict[str, Any]) -> dict[str, int]:
    return {name: len(update[name]) for name in ("candidates", "hits", "failures") if name in update}


class RouteState(Model):
    """The fields that conditional edges read. LangGraph copies and checks each field for each edge, so they are few."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    mode: str = "discovery"
    candidates: tuple[Candidate, ...] = ()
    failures: tuple[Failure, ...] = ()
    answer_enabled: bool | None = None
    full_text_enabled: bool | None = None
    checkpoints: tuple[str, ...] | None = None


class Route(Runnable[PipelineState, str]):
    """A conditional edge with both sides: LangGraph would run a plain function in a thread, which takes longer than most nodes."""

    def __init__(self, name: str, choose: Callable[[PipelineState | RouteState], str]) -> None:
        self.name = name
        self._choose = choose
        self.__annotations__ = {"state": RouteState}  # LangGraph reads the type of a path's first parameter

    def __call__(self, state: PipelineState | RouteState) -> str:
        return self._choose(state)

    def invoke(self, input: PipelineState, config: RunnableConfig | None = None, **kwargs: Any) -> str:  # noqa: A002
        return self._choose(input)

    async def ainvoke(self, input: PipelineState, config: RunnableConfig | None = None, **kwargs: Any) -> str:  # noqa: A002
        return self._choose(input)


def route_on_failure(name: str) -> Route:
    """Returns "failed" if the node of that name failed in this run, else "ok"."""
    return Route(f"{name}_failed", lambda state: "failed" if any(failure.node == name for failure in state.failures) else "ok")


def _is_key_rejected(state: PipelineState | RouteState) -> bool:
    return any(failure.error == KeyRejected.__name__ for failure in state.failures)


def _choose_mode(state: PipelineState | RouteState) -> str:
    if any(failure.node == "translator" for failure in state.failures):
        return "failed"
    if state.mode == "systematic":
        return "systematic"
    return "review" if "plan" in (state.checkpoints or ()) else "ok"


def _choose_ranking(state: PipelineState | RouteState) -> str:
    if _is_key_rejected(state):
        return "rejected"
    return "ok" if any(candidate.scored_by == "model" for candidate in state.candidates) else "failed"


after_translator = Route("read", _choose_mode)
"""Returns "failed" if the translator failed, "systematic" for an exact run, "review" if a person looks at the plan, else "ok"."""
after_distiller = Route("answers", lambda state: "answer" if state.answer_enabled else "ok")
"""Returns "answer" if the request asks for a short answer, else "ok"."""
after_review_results = Route("reads", lambda state: "full_text" if state.full_text_enabled else "ok")
"""Returns "full_text" if the request asks for open full texts, else "ok"."""
after_organizer = Route("reviewed", lambda state: "review" if "results" in (state.checkpoints or ()) else after_review_results(state))
"""Returns "review" if a person looks at the results, else as `after_review_results`."""
after_dedup = Route("accepted", lambda state: "rejected" if _is_key_rejected(state) else "ok")
"""Returns "rejected" if the provider rejected the model's key: every later call would fail, too."""
after_fine_scorer = Route("scored", _choose_ranking)
"""Returns "ok" if a model scored works, "failed" if it scored none or there is none, and "rejected" as above."""

"""What every node gets: a name, a time limit, expected errors turned into failures, timings, progress, a synchronous side."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, cast

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.runtime import Runtime, get_runtime

from outrider.models.chat.journal import JOURNAL_KEY, run_with_journal
from outrider.nodes.run_settings import run_setting, time_left
from outrider.runtime.background_loop import run_in_background
from outrider.runtime.tracing import run_named, span
from outrider.settings.model import RunSettings
from outrider.state.errors import KeyRejected, SearchError
from outrider.state.iteration import MAX_ROUNDS, parse_rounds
from outrider.state.pipeline import PipelineState, RunContext, Update
from outrider.state.ports import Clock
from outrider.state.request import SearchRequest
from outrider.state.response import Failure

log = logging.getLogger(__name__)

Node = Callable[[PipelineState, Runtime[RunContext]], Awaitable[Update]]
Fallback = Callable[[PipelineState], Update]
GRACE_S = 1.0
"""What a node may take beyond the run's limit. The scout keeps the limit itself; what it brought is still ranked and shown."""
RUN_FIELDS = tuple(name for name in PipelineState.model_fields if name not in SearchRequest.model_fields)


class Guarded(Runnable[PipelineState, Update]):
    """A node with both sides. LangChain's own RunnableLambda would add half a millisecond of callbacks to each step."""

    def __init__(self, name: str, run: Callable[[PipelineState, Runtime[RunContext]], Coroutine[Any, Any, Update]]) -> None:
        self.name = name
        self._run = run

    def invoke(self, input: PipelineState, config: RunnableConfig | None = None, **kwargs: Any) -> Update:  # noqa: A002
        return run_in_background(self._journalled(input, config))

    async def ainvoke(self, input: PipelineState, config: RunnableConfig | None = None, **kwargs: Any) -> Update:  # noqa: A002
        return await self._journalled(input, config)

    def _journalled(self, input: PipelineState, config: RunnableConfig | None) -> Coroutine[Any, Any, Update]:  # noqa: A002
        """What it asks of a model is written down in the run's journal, where it has one."""
        run = _traced(str(self.name), config, self._run(input, get_runtime(RunContext)))
        journal = (config or {}).get("configurable", {}).get(JOURNAL_KEY)
        return run if journal is None else run_with_journal(journal, run)


async def _traced(name: str, config: RunnableConfig | None, work: Coroutine[Any, Any, Update]) -> Update:
    """A span and a line of the log; without a name of its own a run has that of its thread."""
    started = time.perf_counter()
    told = (config or {}).get("metadata", {})
    with run_named(str(told.get("run") or told.get("run_id") or told.get("thread_id") or "")), span(f"node {name}", node=name):
        update = await work
        said = {"node": name, "took_ms": round((time.perf_counter() - started) * 1000, 3), **_counts(dict(update))}
        log.info("node finished", extra={"said": said})
        return update


@dataclass(frozen=True, slots=True)
class Guard:
    """Wraps nodes. Only `SearchError` and `TimeoutError` are caught: a bug ends the run with its traceback."""

    clock: Clock
    run: RunSettings

    def __call__(self, name: str, node: Node, *, fallback: Fallback | None = None, first: bool = False, timed: bool = True) -> Guarded:
        """The node as LangGraph runs it; `first` begins a run with clean fields, `timed` keeps the run's time limit.

        A node fails by raising an expected error, or by writing a failure of its own beside what it has; `fallback` gives what
        is missing then.
        """

        async def guarded(state: PipelineState, runtime: Runtime[RunContext]) -> Update:
            begun = _clean(state, self.clock()) if first else {}
            state = state.model_copy(update={**begun, **(_remembered(state) if first else {})})
            runtime.stream_writer({"node": name, "event": "started"})
            started = time.perf_counter()
            update = {**begun, **await self._run(name, node, state, runtime, fallback, timed=timed)}
            took_ms = round((time.perf_counter() - started) * 1000, 3)
            runtime.stream_writer({"node": name, "event": "finished", "took_ms": took_ms, **_counts(update)})
            update["timings_ms"] = {**state.timings_ms, name: took_ms}
            update["execution_time_ms"] = round((self.clock() - state.started_at) * 1000, 3)
            return _known(name, update)

        return Guarded(name, guarded)

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


def _clean(state: PipelineState, now: float) -> dict[str, Any]:
    """Fields of an earlier run on the same thread, set back to their defaults."""
    fresh = PipelineState(query=state.query)
    sources = tuple(name for name in state.sources or () if isinstance(name, str)) or None
    return {**{name: getattr(fresh, name) for name in RUN_FIELDS}, "started_at": now, "sources": sources}


def _remembered(state: PipelineState) -> dict[str, Any]:
    """The strategies that the caller names, and that of the earlier run on the same thread, which tells of those before it."""
    told = (*(parse_rounds((state.strategy,)) if state.strategy else ()), *state.previous_strategies)
    return {"previous_strategies": tuple(dict.fromkeys(told))[-MAX_ROUNDS:]}


def _counts(update: dict[str, Any]) -> dict[str, int]:
    return {name: len(update[name]) for name in ("candidates", "hits", "failures") if name in update}


def _known(name: str, update: dict[str, Any]) -> Update:
    """LangGraph drops unknown keys without a word; here they are a bug."""
    unknown = sorted(update.keys() - Update.__annotations__.keys())
    if unknown:
        raise KeyError(f"node {name!r} wrote unknown keys: {', '.join(unknown)}")
    return cast("Update", update)


class Route(Runnable[PipelineState, str]):
    """A choice with both sides: LangGraph would hand a plain function to a thread, which takes longer than most nodes."""

    def __init__(self, name: str, choose: Callable[[PipelineState], str]) -> None:
        self.name = name
        self._choose = choose

    def invoke(self, input: PipelineState, config: RunnableConfig | None = None, **kwargs: Any) -> str:  # noqa: A002
        return self._choose(input)

    async def ainvoke(self, input: PipelineState, config: RunnableConfig | None = None, **kwargs: Any) -> str:  # noqa: A002
        return self._choose(input)


def route_on_failure(name: str) -> Route:
    """Gives "failed" where the node of that name failed in this run, else "ok"."""
    return Route(f"{name}_failed", lambda state: "failed" if any(one.node == name for one in state.failures) else "ok")


def _read(state: PipelineState) -> str:
    if any(one.node == "translator" for one in state.failures):
        return "failed"
    return "systematic" if state.mode == "systematic" else "ok"


def _accepted(state: PipelineState) -> str:
    return "rejected" if any(failure.error == KeyRejected.__name__ for failure in state.failures) else "ok"


def _scored(state: PipelineState) -> str:
    if _accepted(state) == "rejected":
        return "rejected"
    return "ok" if any(one.scored_by == "model" for one in state.candidates) else "failed"


after_translator = Route("read", _read)
"""Behind the translator: "failed" where it did, "systematic" for an exact run, else "ok"."""
after_dedup = Route("accepted", _accepted)
"""Gives "rejected" where the model's key was: every later call would be, too."""
after_fine_scorer = Route("scored", _scored)
"""Gives "ok" where a model scored works, "failed" where it scored none or there is none, and "rejected" as above."""

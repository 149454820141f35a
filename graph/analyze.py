"""The analysis of one repository or paper on one page.

::

    START -> subject -> surroundings -> ratings -> evidence -> END
                |
               END      if it was not found, or the cache has a recent analysis
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime, get_runtime

from outrider.graph.guard import TracedGraph, add_recorder, get_run, node_span
from outrider.graph.parent import is_node_input, read_fields, without_keys_of_parent
from outrider.nodes.run_settings import run_setting
from outrider.runtime.tape import TAPE, read_monotonic, use_tape
from outrider.runtime.threads_and_loops import run_in_background
from outrider.services import ONLY_DISTILLER, Services
from outrider.services.checkpoints import register_state_types
from outrider.services.make_nodes import (
    make_analysis_cache,
    make_evidence,
    make_ratings,
    make_subject,
    make_surroundings,
    parse_analysis_target,
)
from outrider.state.analysis import Analysis, AnalysisState, AnalysisUpdate, AnalyzeRequest, check_analysis_request
from outrider.state.chat import Budget
from outrider.state.errors import SearchError
from outrider.state.pipeline import RunContext
from outrider.state.ports import Clock
from outrider.state.response import Failure, Usage

log = logging.getLogger(__name__)

register_state_types()

AnalysisGraph = CompiledStateGraph[AnalysisState, RunContext, Any, Any]
Node = Callable[[AnalysisState, Runtime[RunContext], float], Awaitable[AnalysisUpdate]]

DESCRIPTIONS = {
    "subject": "The work by its identifier, all that its source tells of it, its dependencies, and its full text where that is open.",
    "surroundings": "Alternatives to a repository; of a paper what it cites, what cites it, and code.",
    "ratings": "Six dimensions of a repository, each with what it follows from.",
    "evidence": "The sentences of its own text that answer, verbatim.",
}
GRACE_S = 1.0
LEAST_S = 0.1


class AnalysisNode(Runnable[AnalysisState, AnalysisUpdate]):
    """A node with a name, a time limit, progress, and expected errors as failures; synchronous and asynchronous."""

    def __init__(self, name: str, node: Node, clock: Clock, timeout_s: float, warm: Callable[[], Awaitable[None]] | None = None) -> None:
        self.name = name
        self._node, self._clock, self._timeout_s, self._warm = node, clock, timeout_s, warm

    def invoke(self, input: AnalysisState, config: RunnableConfig | None = None, **kwargs: Any) -> AnalysisUpdate:  # noqa: A002
        return run_in_background(self._run(input, get_runtime(RunContext), config))

    async def ainvoke(self, input: AnalysisState, config: RunnableConfig | None = None, **kwargs: Any) -> AnalysisUpdate:  # noqa: A002
        return await self._run(input, get_runtime(RunContext), config)

    async def _run(self, state: AnalysisState, runtime: Runtime[RunContext], config: RunnableConfig | None) -> AnalysisUpdate:
        run = get_run(config)
        with use_tape(run.tape if run else None, str(self.name)):
            return await self._run_on_tape(state, runtime, config)

    async def _run_on_tape(self, state: AnalysisState, runtime: Runtime[RunContext], config: RunnableConfig | None) -> AnalysisUpdate:
        if self._warm is not None:  # loading models takes none of the analysis's time
            with use_tape(None):
                await self._warm()
        runtime.stream_writer({"node": self.name, "event": "started"})
        started = read_monotonic("node")
        began = state.started_at or self._clock()
        limit_s = run_setting(runtime, "run_timeout_s", self._timeout_s)
        left_s = max(LEAST_S, limit_s - (self._clock() - began))
        try:
            async with asyncio.timeout(left_s + GRACE_S):
                with node_span(str(self.name), config):
                    update = {**(await self._node(state, runtime, left_s))}
        except (SearchError, TimeoutError) as error:
            message = str(error) or f"{self.name} was not done when the {limit_s:g} s of the analysis were over"
            update = {"failures": (*state.failures, Failure(node=self.name, error=type(error).__name__, message=message))}
        took_ms = round((read_monotonic("node") - started) * 1000, 3)
        runtime.stream_writer({"node": self.name, "event": "finished", "took_ms": took_ms})
        log.info("node finished", extra={"log_fields": {"node": self.name, "took_ms": took_ms}})
        spent_ms = round((self._clock() - began) * 1000, 3)
        timings = {**state.timings_ms, str(self.name): took_ms}
        update = {**update, "started_at": began, "timings_ms": timings, "execution_time_ms": spent_ms}
        if tape := TAPE.get():
            tape.add_update(str(self.name), state, update)
        return update  # type: ignore[return-value]


class Route(Runnable[AnalysisState, str]):
    """Ends the analysis after the subject without a record."""

    name = "found"

    def invoke(self, input: AnalysisState, config: RunnableConfig | None = None, **kwargs: Any) -> str:  # noqa: A002
        return "go on" if input.record is not None else "done"

    async def ainvoke(self, input: AnalysisState, config: RunnableConfig | None = None, **kwargs: Any) -> str:  # noqa: A002
        return self.invoke(input)


def build_analysis(services: Services, checkpointer: Literal[False] | None = None) -> AnalysisGraph:
    """The compiled graph over these services. It loads models when a run starts, before its time counts.

    As a node it saves its steps with the parent's checkpointer, unless `checkpointer` is False.
    """
    settings = services.settings.analyze
    subject, surroundings = make_subject(services), make_surroundings(services)
    ratings, evidence = make_ratings(services), make_evidence(services)

    async def rate(state: AnalysisState, runtime: Runtime[RunContext], left_s: float) -> AnalysisUpdate:
        max_cost = run_setting(runtime, "max_cost_usd", services.settings.llm.max_cost_usd)
        return await ratings(state, Budget(run_setting(runtime, "max_calls", settings.max_calls), max_cost, Usage()))

    async def collect_evidence(state: AnalysisState, runtime: Runtime[RunContext], left_s: float) -> AnalysisUpdate:
        update = await evidence(state, run_setting(runtime, "max_context_tokens", settings.max_context_tokens))
        if cache := make_analysis_cache(services):
            await cache.put(state.asked, state.model_copy(update=dict(update)))
        return update

    async def warm() -> None:
        await services.warm(ONLY_DISTILLER, searches=False)

    nodes: dict[str, Node] = {
        "subject": lambda state, runtime, left_s: subject(state, left_s),
        "surroundings": lambda state, runtime, left_s: surroundings(state, left_s),
        "ratings": rate,
        "evidence": collect_evidence,
    }
    graph = StateGraph(AnalysisState, context_schema=RunContext, input_schema=AnalyzeRequest, output_schema=Analysis)
    for name, node in nodes.items():
        step = AnalysisNode(name, node, services.clock, settings.timeout_s, warm if name == "subject" else None)
        graph.add_node(name, step, input_schema=AnalysisState, metadata={"description": DESCRIPTIONS[name]})
    graph.add_edge(START, "subject")
    graph.add_conditional_edges("subject", Route(), {"go on": "surroundings", "done": END})
    graph.add_edge("surroundings", "ratings")
    graph.add_edge("ratings", "evidence")
    graph.add_edge("evidence", END)
    add_recorder(graph, services, "analyze")
    compiled = TracedGraph.wrap(graph.compile(checkpointer, name="analyze"))

    def check_input(value: Any) -> dict[str, Any]:
        fields = read_fields(value)
        if is_node_input(value):  # the other keys are the parent's own
            fields = {name: value for name, value in fields.items() if name in AnalyzeRequest.model_fields and value is not None}
        checked = check_analysis_request(without_keys_of_parent(fields, AnalyzeRequest.model_fields))
        parse_analysis_target(checked.target)
        return dict(AnalysisState(target=checked.target, question=checked.question, asked=checked.question, fresh=checked.fresh))

    # Before the first node; this also clears what an earlier run on the thread wrote.
    compiled.nodes[START].mapper = check_input
    return compiled


def make_analysis(state: Mapping[str, Any]) -> Analysis:
    return Analysis.model_validate({name: value for name, value in state.items() if name in Analysis.model_fields})


analyze_graph = build_analysis(Services.from_file())
"""The graph with the settings of this process, for `langgraph.json` and for scripts."""

"""The graph of citations around some works, as a graph of its own.

::

    START -> citations -> END

One node: what it does is one job of many steps (`outrider.citations.build_graph`), which the background jobs run as well. Here the caller
waits for it; its progress is streamed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime, get_runtime

from outrider.citations.build_graph import DirectSteps
from outrider.graph.guard import TracedGraph, add_recorder, node_span
from outrider.graph.parent import is_node_input, read_fields, without_keys_of_parent
from outrider.nodes.citations import NODE, Citations
from outrider.runtime.tape import TAPE
from outrider.runtime.threads_and_loops import run_in_background
from outrider.services import Services
from outrider.services.checkpoints import register_state_types
from outrider.services.citations import RecordedSteps, check_citations_request, make_citations
from outrider.state.citations import CitationsRequest, CitationsResult, CitationsState, CitationsUpdate
from outrider.state.pipeline import RunContext

register_state_types()

CitationsGraph = CompiledStateGraph[CitationsState, RunContext, Any, Any]
DESCRIPTION = "What the targets cite and what cites them, from every service that reports it and from full texts, written to the library."


class StreamedSteps(DirectSteps):
    """Steps that nobody resumes; their progress goes to the stream of the run."""

    def __init__(self, write: Callable[[Any], None]) -> None:
        self._write = write

    async def report(self, progress: str) -> None:
        self._write({"node": NODE, "event": "progress", "progress": progress})


def build_citations(services: Services, checkpointer: Literal[False] | None = None) -> CitationsGraph:
    """The compiled graph over these services. As a node it saves its steps with the parent's checkpointer, unless that is False."""
    node: Citations = make_citations(services)

    async def run(state: CitationsState, config: RunnableConfig, runtime: Runtime[RunContext]) -> CitationsUpdate:
        runtime.stream_writer({"node": NODE, "event": "started"})
        with node_span(NODE, config):
            update = await node(state, RecordedSteps.over(services, StreamedSteps(runtime.stream_writer)))
            if tape := TAPE.get():
                tape.add_update(NODE, state, update)
        runtime.stream_writer({"node": NODE, "event": "finished"})
        return update

    def run_and_wait(state: CitationsState, config: RunnableConfig) -> CitationsUpdate:
        return run_in_background(run(state, config, get_runtime(RunContext)))

    async def run_here(state: CitationsState, config: RunnableConfig) -> CitationsUpdate:
        return await run(state, config, get_runtime(RunContext))

    graph = StateGraph(CitationsState, context_schema=RunContext, input_schema=CitationsRequest, output_schema=CitationsResult)
    graph.add_node(NODE, RunnableLambda(run_and_wait, run_here, NODE), input_schema=CitationsState, metadata={"description": DESCRIPTION})
    graph.add_edge(START, NODE)
    graph.add_edge(NODE, END)
    add_recorder(graph, services, "citations")
    compiled = TracedGraph.wrap(graph.compile(checkpointer, name=NODE))

    def check_input(value: Any) -> dict[str, Any]:
        fields = read_fields(value)
        if is_node_input(value):  # the other keys are the parent's own
            fields = {name: value for name, value in fields.items() if name in CitationsRequest.model_fields and value is not None}
        checked = check_citations_request(without_keys_of_parent(fields, CitationsRequest.model_fields))
        return dict(CitationsState(targets=checked.targets, directions=checked.directions, budget=checked.budget))

    # Before the node; this also clears what an earlier run on the thread wrote.
    compiled.nodes[START].mapper = check_input
    return compiled


citations_graph = build_citations(Services.from_file())
"""The graph with the settings of this process, for `langgraph.json` and for scripts."""

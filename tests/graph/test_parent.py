"""The compiled graph as a node of other graphs: states, turns, loops, fan-out, checkpoints, one tree of traces."""

from __future__ import annotations

import asyncio
import logging
import operator
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, Send
from pydantic import BaseModel
from typing_extensions import TypedDict

from outrider.graph.analyze import build_analysis
from outrider.graph.parent import format_answer
from outrider.graph.pipeline import SearchGraph, build
from outrider.runtime.spans import install
from outrider.services import Services
from outrider.services.checkpoints import list_parent_states, state_types
from outrider.settings.model import LlmSettings, Settings
from outrider.state.errors import BadRequest
from outrider.state.hits import Hit
from outrider.state.request import SearchRequest
from outrider.state.response import ContextUnit, DistilledContext, SearchResponse, SourceReport
from support.chat_client import llm_settings
from support.chat_server import ChatServer, Reply, Request
from support.fakes import NOON, Shelf, no_reranker, paper, services

RECORDS = (
    paper("a", "Aspirin and the liver", abstract="Aspirin harms the liver at high doses. The weather was fine.", year=2020),
    paper("b", "Statins and cholesterol", abstract="Statins lower cholesterol in most adults. It rained.", year=2021),
)
ASPIRIN, STATINS = "does aspirin harm the liver?", "do statins lower cholesterol?"
THREAD: Any = {"configurable": {"thread_id": "t"}}


def graph(**fields: object) -> SearchGraph:
    return build(services(*RECORDS, **fields))


def compile_parent(schema: type, node: Any = None, checkpointer: Any = None, **options: Any) -> Any:
    """A parent whose one node is the search."""
    builder = StateGraph(schema, **options)
    builder.add_node("research", node or graph())
    builder.add_edge(START, "research")
    builder.add_edge("research", END)
    return builder.compile(checkpointer=checkpointer)


def run_sync(parent: Any, state: Any, config: Any = None) -> dict[str, Any]:
    return parent.invoke(state, config)


def run_async(parent: Any, state: Any, config: Any = None) -> dict[str, Any]:
    return asyncio.run(parent.ainvoke(state, config))


both = pytest.mark.parametrize("run", [run_sync, run_async])
Run = Callable[..., dict[str, Any]]


class Notes(TypedDict, total=False):
    query: str
    hits: list[Hit]
    answer: str
    topic: str


class Model(BaseModel):
    query: str = ""
    hits: list[Hit] = []
    top_k: int | None = None
    answer: str | None = None
    topic: str = "livers"


@dataclass
class Data:
    query: str = ""
    hits: list[Hit] = field(default_factory=list)
    topic: str = "livers"


@both
def test_the_last_human_message_is_the_query_and_gets_a_reply(run: Run) -> None:
    out = run(compile_parent(MessagesState), {"messages": [SystemMessage("Be brief."), HumanMessage(ASPIRIN)]})
    reply = out["messages"][-1]
    assert [message.type for message in out["messages"]] == ["system", "human", "ai"]
    assert reply.name == "outrider"
    assert "Aspirin harms the liver at high doses." in reply.text
    assert "[1] Aspirin and the liver (2020). a" in reply.text


@both
def test_the_second_turn_answers_the_second_message(run: Run) -> None:
    """Also where the state has `query`: the first turn does not fill it."""

    class Chat(MessagesState):
        query: str
        hits: list[Hit]

    for schema in (MessagesState, Chat):
        parent = compile_parent(schema, checkpointer=InMemorySaver())
        for question, first in ((ASPIRIN, "Aspirin and the liver"), (STATINS, "Statins and cholesterol")):
            out = run(parent, {"messages": [HumanMessage(question)]}, THREAD)
            assert f"[1] {first}" in out["messages"][-1].text
            assert not out.get("query")
        assert [message.type for message in out["messages"]] == ["human", "ai"] * 2


@both
@pytest.mark.parametrize("schema", [Notes, Model, Data])
def test_a_parents_own_keys_are_its_own(schema: type, run: Run) -> None:
    parent = compile_parent(schema, checkpointer=InMemorySaver())
    for question, first in ((ASPIRIN, "a"), (STATINS, "b")):
        out = run(parent, {"query": question, "topic": "livers"}, THREAD)
        assert isinstance(out["hits"][0], Hit)
        assert (out["hits"][0].doc_id, out["topic"]) == (first, "livers")


@both
def test_a_loop_comes_back_to_the_node_with_what_it_wrote(run: Run) -> None:
    """The names in `sources` stay: after the first run, reports in their place would ask all sources."""

    class Loop(TypedDict, total=False):
        query: str
        mode: str
        sources: list[str]
        hits: list[Hit]
        failures: list[Any]
        strategy: Any
        rounds: Annotated[list[str], operator.add]

    def refine(state: Loop) -> Loop:
        return {"query": STATINS, "rounds": [state["hits"][0].doc_id]}

    builder = StateGraph(Loop)
    builder.add_node("research", graph())
    builder.add_node(refine)
    builder.add_edge(START, "research")
    builder.add_edge("research", "refine")
    builder.add_conditional_edges("refine", lambda state: "research" if len(state["rounds"]) < 3 else END, ["research", END])
    out = run(builder.compile(), {"query": ASPIRIN, "sources": ["library"]})
    assert out["rounds"] == ["a", "b", "b"]
    assert out["sources"] == ["library"]


@both
def test_reports_of_an_earlier_run_are_no_request(run: Run) -> None:
    class State(TypedDict, total=False):
        query: str
        sources: list[SourceReport]

    parent = compile_parent(State, checkpointer=InMemorySaver())
    for question in (ASPIRIN, STATINS):
        out = run(parent, {"query": question}, THREAD)
        assert [(row.source, row.status) for row in out["sources"]] == [("library", "ok")]


@both
def test_fan_out_adds_the_hits_up(run: Run) -> None:
    """`operator.add` adds lists. What a `Send` carries is the node's input, with keys of its own."""

    class Plan(TypedDict, total=False):
        questions: list[str]
        hits: Annotated[list[Hit], operator.add]

    builder = StateGraph(Plan)
    builder.add_node("plan", lambda _: {})
    builder.add_node("research", graph())
    builder.add_edge(START, "plan")
    fan_out = lambda state: [Send("research", {"query": one, "number": n}) for n, one in enumerate(state["questions"])]  # noqa: E731
    builder.add_conditional_edges("plan", fan_out, ["research"])
    out = run(builder.compile(), {"questions": [ASPIRIN, STATINS]})
    assert [hit.doc_id for hit in out["hits"]] == ["a", "b"]


@both
def test_a_plain_list_of_messages_gets_the_reply_alone(run: Run) -> None:
    class State(TypedDict):
        messages: Annotated[list[AnyMessage], operator.add]

    out = run(compile_parent(State), {"messages": [HumanMessage(ASPIRIN)]})
    assert [message.type for message in out["messages"]] == ["human", "ai"]


def test_a_function_that_calls_the_graph_is_a_direct_caller() -> None:
    """Its misspelt field is refused with the nearest one, and it gets the reports in `sources`."""
    inner = graph()

    class State(TypedDict, total=False):
        query: str
        sources: list[str]
        rows: list[SourceReport]

    def call(state: State) -> State:
        with pytest.raises(BadRequest, match="unknown field 'topk'; did you mean 'top_k'"):
            inner.invoke({"query": state["query"], "topk": 3})
        response = inner.invoke({"query": state["query"], "sources": state["sources"]})
        assert isinstance(response["hits"], tuple)
        return {"rows": response["sources"]}

    out = compile_parent(State, call).invoke({"query": ASPIRIN, "sources": ["library"]})
    assert [row.status for row in out["rows"]] == ["ok"]


@pytest.mark.parametrize("request_", [{"query": "x", "topk": 3}, {"messages": [("user", "x")], "topk": 3}])
def test_a_direct_callers_misspelt_field_is_refused_with_the_nearest(request_: dict[str, Any]) -> None:
    with pytest.raises(BadRequest, match="unknown field 'topk'; did you mean 'top_k'"):
        graph().invoke(request_)


@pytest.mark.parametrize(
    ("schema", "state", "message"),
    [
        (Notes, {"topic": "livers"}, "neither `query` nor `messages`"),
        (Model, {"query": ASPIRIN, "top_k": 5_000}, r"top_k: .* \(a key of the parent's state"),
        (MessagesState, {"messages": [AIMessage("How can I help?")]}, "nor a message of a human"),
        (MessagesState, {"messages": [HumanMessage("...")]}, "no letter or digit"),
    ],
)
def test_what_a_parent_lacks_is_said_in_its_terms(schema: type, state: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        compile_parent(schema).invoke(state)


@pytest.mark.parametrize("given", [[("user", 3)], "", 7, None, [("nobody", "x")]])
def test_messages_that_are_none_are_refused(given: object) -> None:
    with pytest.raises(BadRequest):
        graph().invoke({"messages": given})


@both
def test_a_conversation_on_a_thread_of_its_own_keeps_its_messages(run: Run) -> None:
    """As chat interfaces use a graph: they pass the new message and show the state's."""
    chat = build(services(*RECORDS), InMemorySaver())
    for question in (ASPIRIN, STATINS):
        out = run(chat, {"messages": [("user", question)]}, THREAD)
    assert [message.type for message in out["messages"]] == ["human", "ai"] * 2
    assert "Statins lower cholesterol" in out["messages"][-1].text
    assert SearchResponse.model_validate({k: v for k, v in out.items() if k != "messages"}).query == STATINS


def test_blocks_of_content_are_read_as_text() -> None:
    out = graph().invoke(
        {"messages": [HumanMessage([{"type": "text", "text": ASPIRIN}, {"type": "image_url", "image_url": {"url": "x"}}])]}
    )
    assert out["query"] == ASPIRIN


def test_a_run_that_fails_replies_with_the_reason() -> None:
    from outrider.state.errors import LibraryCorrupt

    out = compile_parent(MessagesState, graph(error=LibraryCorrupt("torn"))).invoke({"messages": [HumanMessage(ASPIRIN)]})
    assert "torn" in out["messages"][-1].text


def test_a_parents_context_is_its_own() -> None:
    @dataclass
    class Context:
        user: str = "me"
        run_timeout_s: str = "soon"

    assert compile_parent(Notes, context_schema=Context).invoke({"query": ASPIRIN}, context=Context())["hits"]
    slow = compile_parent(Notes, graph(delay_s=20), context_schema=TypedDict("Limits", {"run_timeout_s": float}))
    assert not slow.invoke({"query": ASPIRIN}, context={"run_timeout_s": 0.2})["hits"]


def test_a_supervisor_hands_over_and_gets_the_answer() -> None:
    def supervise(state: MessagesState) -> Command[str]:
        return Command(goto=END if state["messages"][-1].name == "outrider" else "research")

    builder = StateGraph(MessagesState)
    builder.add_node("supervisor", supervise, destinations=("research", END))
    builder.add_node("research", graph())
    builder.add_edge(START, "supervisor")
    builder.add_edge("research", "supervisor")
    out = builder.compile().invoke({"messages": [HumanMessage(ASPIRIN)]})
    assert "Aspirin harms the liver" in out["messages"][-1].text


@both
@pytest.mark.parametrize(
    "node",
    [lambda: compile_parent(MessagesState), lambda: graph().with_config(tags=["x"]), lambda: graph().with_retry()],
    ids=["graph in a graph", "configured", "retried"],
)
def test_the_node_may_be_wrapped(run: Run, node: Callable[[], Any]) -> None:
    out = run(compile_parent(MessagesState, node()), {"messages": [HumanMessage(ASPIRIN)]})
    assert [message.type for message in out["messages"]] == ["human", "ai"]


@both
def test_branches_run_side_by_side(run: Run) -> None:
    builder = StateGraph(MessagesState)
    for name in ("one", "two"):
        builder.add_node(name, graph())
        builder.add_edge(START, name)
    assert len(run(builder.compile(), {"messages": [HumanMessage(ASPIRIN)]})["messages"]) == 3


def test_a_command_sends_a_task_of_its_own() -> None:
    """As supervisors do that describe the task to an agent."""
    builder = StateGraph(MessagesState)
    builder.add_node("plan", lambda _: Command(goto=Send("research", {"messages": [{"role": "user", "content": STATINS}]})))
    builder.add_node("research", graph())
    builder.add_edge(START, "plan")
    assert "Statins lower" in builder.compile().invoke({"messages": [HumanMessage(ASPIRIN)]})["messages"][-1].text


def test_a_task_of_the_functional_interface_is_a_direct_caller() -> None:
    from langgraph.func import entrypoint, task

    inner = graph()

    @task
    def research(request: dict[str, Any]) -> str:
        return inner.invoke(request)["hits"][0].doc_id

    @entrypoint(checkpointer=InMemorySaver())
    def flow(request: dict[str, Any]) -> str:
        return research(request).result()

    assert flow.invoke({"query": ASPIRIN}, THREAD) == "a"
    with pytest.raises(BadRequest, match="did you mean 'top_k'"):
        flow.invoke({"query": ASPIRIN, "topk": 1}, THREAD)


def test_a_stream_of_messages_has_the_reply_once() -> None:
    parts = list(compile_parent(MessagesState).stream({"messages": [HumanMessage(ASPIRIN)]}, stream_mode="messages"))
    assert [message.name for message, _ in parts if message.type == "ai"] == ["outrider"]


def test_a_parent_stops_before_the_node_and_goes_back_in_time() -> None:
    builder = StateGraph(Notes)
    builder.add_node("research", graph())
    builder.add_edge(START, "research")
    parent = builder.compile(checkpointer=InMemorySaver(), interrupt_before=["research"])
    parent.invoke({"query": ASPIRIN, "topic": "livers"}, THREAD)
    assert parent.invoke(None, THREAD)["hits"][0].doc_id == "a"
    (before,) = [state for state in parent.get_state_history(THREAD) if state.next == ("research",)]
    assert parent.invoke(None, before.config)["hits"][0].doc_id == "a"


def test_the_analysis_ignores_a_parents_keys_too() -> None:
    class State(TypedDict, total=False):
        target: str
        topic: str
        failures: Any

    inner = build_analysis(services())
    out = compile_parent(State, inner).invoke({"target": "a/b", "topic": "livers"})
    assert out["failures"][0].error == "NothingSearchable"
    called = compile_parent(State, lambda state: {"failures": inner.invoke({**state, "target": "a/b"})["failures"]})
    assert called.invoke({"topic": "livers"})["failures"][0].error == "NothingSearchable"
    with pytest.raises(BadRequest, match="target: Field required; unknown field 'traget'; did you mean 'target'"):
        inner.invoke({"traget": "a/b"})


def test_no_checkpointer_warns_of_our_types(caplog: pytest.LogCaptureFixture) -> None:
    class State(TypedDict, total=False):
        query: str
        hits: list
        intent: Any
        strategy: Any
        facets: Any
        context: Any
        sources: list
        bypassed: list
        usage: Any

    parent = compile_parent(State, checkpointer=InMemorySaver())
    with caplog.at_level(logging.WARNING):
        parent.invoke({"query": ASPIRIN}, THREAD)
        values = parent.get_state(THREAD).values
    assert isinstance(values["hits"][0], Hit)
    assert isinstance(values["sources"][0], SourceReport)
    assert "unregistered" not in caplog.text


STRICT = """
import operator
from typing import Annotated
from typing_extensions import TypedDict
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from outrider.graph.pipeline import build
from outrider.state.hits import FoundBy, Hit
from support.fakes import paper, services

class State(TypedDict, total=False):
    query: str
    hits: Annotated[list, operator.add]

builder = StateGraph(State)
builder.add_node("research", build(services(paper("a", "Aspirin and the liver", year=2020))))
builder.add_edge(START, "research")
builder.add_edge("research", END)
parent = builder.compile(checkpointer=InMemorySaver())
config = {"configurable": {"thread_id": "t"}}
for _ in range(2):
    parent.invoke({"query": "aspirin"}, config)
hits = parent.get_state(config).values["hits"]
print(len(hits), all(type(hit) is Hit and type(hit.found_by[0]) is FoundBy for hit in hits))
"""


def test_strict_checkpoints_give_typed_hits_back() -> None:
    """In a process of its own: LangGraph reads the variable when it is imported."""
    environment = {**os.environ, "LANGGRAPH_STRICT_MSGPACK": "true", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", STRICT], env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout.strip(), done.stderr) == ("2 True", "")


def test_every_type_of_the_states_is_registered() -> None:
    from langgraph.checkpoint.serde import _msgpack

    assert all((kind.__module__, kind.__name__) in _msgpack.SAFE_MSGPACK_TYPES for kind in state_types(list_parent_states()))
    assert {"Candidate", "Hit", "ParentState", "Rating", "SearchResponse"} <= {kind.__name__ for kind in state_types(list_parent_states())}
    assert ("outrider.state.pipeline", "RunContext") not in _msgpack.SAFE_MSGPACK_TYPES
    assert ("outrider.services", "Services") not in _msgpack.SAFE_MSGPACK_TYPES


def answer_model(request: Request) -> Reply:
    """A plan, or scores."""
    if "papers" in request.data:
        return Reply({"results": [{"paper_id": one["id"], "relevance_score": 0.8} for one in request.data["papers"]]})
    return Reply({"topic": "liver", "concepts": ["liver"], "queries": [{"text": "aspirin harm liver"}]})


class Breaking(Shelf):
    """A library with a bug that comes up behind the scorer."""

    is_broken = True

    async def whole(self, records: Any) -> Any:
        if self.is_broken:
            raise RuntimeError("a bug")
        return await super().whole(records)


@both
@pytest.mark.parametrize("has_model", [True, False])
def test_an_interrupted_parent_resumes_and_pays_no_model_twice(run: Run, has_model: bool) -> None:
    """With a model it resumes in the middle: the parent's serializer makes lists of the tuples in works, which the next nodes read.
    Without one it searches again, because that takes less time than saving each step.
    """
    saver, shelf = InMemorySaver(), Breaking(list(RECORDS))
    with ChatServer(answer_model) as chat:
        settings = Settings(llm=llm_settings(chat) if has_model else LlmSettings(model="none"))
        opened = Services(settings, clock=lambda: NOON, shelf=shelf, sources=(shelf,), reranker=no_reranker)
        parent = compile_parent(Notes, build(opened), saver)
        with pytest.raises(RuntimeError, match="a bug"):
            run(parent, {"query": ASPIRIN, "topic": "livers"}, THREAD)
        paid = len(chat.requests)
        shelf.is_broken = False
        out = run(parent, None, THREAD)
        assert len(chat.requests) == paid == 2 * has_model
    assert [(hit.doc_id, hit.scored_by) for hit in out["hits"]] == [("a", "model" if has_model else "rules")]
    assert isinstance(out["hits"][0].found_by, tuple)
    assert any("|" in namespace or namespace.startswith("research") for _, namespace, *_ in saver.blobs) == has_model


@both
def test_a_parent_resumes_after_its_request_was_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """LangGraph then reads the input back from the search's own checkpoint: equal to what the parent passed, but another object."""

    class Exact(TypedDict, total=False):
        query: str
        mode: str
        topic: str
        failures: Annotated[list[Any], operator.add]  # takes lists only

    refusals = iter([BadRequest("no library yet")])

    def refuse_once(*_: object) -> None:
        for refusal in refusals:
            raise refusal

    monkeypatch.setattr("outrider.graph.pipeline.refuse_unreadable", refuse_once)
    with ChatServer(answer_model) as chat:
        shelf = Shelf(list(RECORDS))
        opened = Services(Settings(llm=llm_settings(chat)), clock=lambda: NOON, shelf=shelf, sources=(shelf,), reranker=no_reranker)
        parent = compile_parent(Exact, build(opened), InMemorySaver())
        with pytest.raises(BadRequest, match="no library yet"):
            run(parent, {"query": "aspirin", "mode": "systematic", "topic": "livers"}, THREAD)
        assert isinstance(run(parent, None, THREAD)["failures"], list)


def test_langsmiths_runs_form_one_tree_down_to_the_model() -> None:
    from langchain_core.tracers import LangChainTracer
    from langsmith import Client

    runs: dict[Any, tuple[str, Any, Any]] = {}

    class Recording(Client):
        def create_run(self, name: str, inputs: Any, run_type: str, **fields: Any) -> None:
            runs[fields["id"]] = (name, fields.get("parent_run_id"), fields.get("trace_id"))

        def update_run(self, *_: Any, **__: Any) -> None:
            pass

    tracer = LangChainTracer(client=Recording(api_url="http://127.0.0.1:9", api_key="k", auto_batch_tracing=False, info={}))
    shelf = Shelf(list(RECORDS))
    with ChatServer(answer_model) as chat:
        settings = Settings(llm=llm_settings(chat))
        opened = Services(settings, clock=lambda: NOON, shelf=shelf, sources=(shelf,), reranker=no_reranker)
        compile_parent(Notes, build(opened)).invoke({"query": ASPIRIN}, {"callbacks": [tracer]})
    assert [parent for _, parent, _ in runs.values()].count(None) == 1
    assert len({trace for _, _, trace in runs.values()}) == 1
    calls = [runs[parent][0] for name, parent, _ in runs.values() if name == "ChatOpenAI"]
    assert calls == ["translator", "fine_scorer"]


class Tree(BaseCallbackHandler):
    """Parents and tags of all runs that a callback sees."""

    def __init__(self) -> None:
        self.parents: dict[Any, Any] = {}
        self.names: dict[Any, str] = {}
        self.tags: dict[str, list[str]] = {}

    def on_chain_start(self, serialized: Any, inputs: Any, *, run_id: Any, parent_run_id: Any = None, **kwargs: Any) -> None:
        self.parents[run_id] = parent_run_id
        self.names[run_id] = kwargs.get("name") or ""
        self.tags[self.names[run_id]] = kwargs.get("tags") or []


@both
def test_callbacks_see_one_tree_with_the_callers_tags(run: Run) -> None:
    tree = Tree()
    run(compile_parent(Notes), {"query": ASPIRIN}, {"callbacks": [tree], "tags": ["mine"], "run_name": "assistant"})
    roots = [run_id for run_id, parent in tree.parents.items() if parent is None]
    assert [tree.names[one] for one in roots] == ["assistant"]
    assert all(parent is None or parent in tree.parents for parent in tree.parents.values())
    assert {"assistant", "research", "search", "translator", "distiller"} <= set(tree.names.values())
    assert all("mine" in tags for tags in tree.tags.values())


async def test_events_of_version_2_form_one_tree() -> None:
    events = [event async for event in compile_parent(Notes).astream_events({"query": ASPIRIN}, version="v2")]
    known = {event["run_id"] for event in events}
    assert {tuple(event["parent_ids"][:1]) for event in events} == {(), (events[0]["run_id"],)}
    assert {parent for event in events for parent in event["parent_ids"]} <= known
    started = [event["run_id"] for event in events if event["event"].endswith("_start")]
    assert sorted(started) == sorted(event["run_id"] for event in events if event["event"].endswith("_end"))
    assert events[-1]["data"]["output"]["hits"][0].doc_id == "a"


@pytest.fixture
def exporter() -> Iterator[Any]:
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from outrider.services.tracing import OpenTelemetry, make_provider
    from outrider.settings.redact import Redactor

    spans = InMemorySpanExporter()
    install(OpenTelemetry(make_provider(spans, at_once=True), Redactor(())))
    yield spans
    install(None)


@both
def test_opentelemetry_has_one_tree_a_run(exporter: Any, run: Run) -> None:
    """Also where a caller leaves a stream, and where a run breaks off."""
    for parent in (compile_parent(Notes), graph()):
        exporter.clear()
        run(parent, {"query": ASPIRIN})
        spans = exporter.get_finished_spans()
        (root,) = [one for one in spans if one.parent is None]
        assert root.name == "search"
        assert {one.parent.span_id for one in spans if one.name.startswith("node ")} == {root.context.span_id}
        assert {one.context.trace_id for one in spans} == {root.context.trace_id}
        assert len({one.attributes["outrider.run"] for one in spans}) == 1


def test_an_analysis_has_one_tree_too(exporter: Any) -> None:
    build_analysis(services()).invoke({"target": "a/b"})
    spans = {one.name: one for one in exporter.get_finished_spans()}
    assert spans["node subject"].parent.span_id == spans["analyze"].context.span_id
    assert spans["node subject"].attributes["outrider.run"] == spans["analyze"].attributes["outrider.run"]


def test_a_stream_that_is_left_and_a_run_that_breaks_end_their_span(exporter: Any) -> None:
    stream = graph().stream({"query": ASPIRIN})
    next(stream)
    stream.close()
    with pytest.raises(RuntimeError):
        graph(shelf_error=RuntimeError("a bug")).invoke({"query": ASPIRIN})
    left, broken = (one for one in exporter.get_finished_spans() if one.parent is None)
    assert "error.type" not in left.attributes
    assert broken.attributes["error.type"] == "RuntimeError"


def test_the_current_span_of_the_caller_is_above_the_runs(exporter: Any) -> None:
    from outrider.runtime.spans import span

    with span("caller"):
        graph().invoke({"query": ASPIRIN})
    spans = {one.name: one for one in exporter.get_finished_spans()}
    assert spans["search"].parent.span_id == spans["caller"].context.span_id


def test_a_run_without_an_id_logs_one_id(caplog: pytest.LogCaptureFixture) -> None:
    from outrider.runtime.spans import RUN

    seen: set[str] = set()

    class Watch(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.add(RUN.get())

    logger, watch = logging.getLogger("outrider"), Watch()
    logger.addHandler(watch)
    with caplog.at_level(logging.INFO, "outrider"):
        graph().invoke({"query": ASPIRIN})
    logger.removeHandler(watch)
    assert len(seen) == 1


def test_the_text_says_which_sentences_may_not_answer() -> None:
    def hit(rank: int, **fields: Any) -> Hit:
        return Hit(rank=rank, doc_id=f"d{rank}", kind="paper", title="T", score=0.5, **fields)

    unit = ContextUnit(doc_id="d1", key="[1]", start=0, end=2, text="A.", score=0.9)
    hits = (hit(1, answers="perhaps"), hit(2, answers="no", summary="About B.", content="About B. More."), hit(3, content="C."))
    answer = SearchResponse(query="q", mode="discovery", hits=hits, context=DistilledContext(text="[1] A.", units=(unit,)))
    works = ["Works:", "[1] T. d1 (Its sentences may not answer.)", "[2] T. d2 (No sentence answers.) About: About B.", "[3] T. d3"]
    uncertain = "No sentence in the 2 works that were read clearly answers the question; they are the nearest."
    assert format_answer(answer).splitlines() == [uncertain, "", "[1] A.", "", *works]
    answer = SearchResponse(query="q", mode="discovery", hits=hits[1:2])
    nothing = "No sentence in this work answers the question; it is the nearest."
    assert format_answer(answer).splitlines() == [nothing, "", "Works:", works[2]]


@given(st.integers(1, 300), st.text(max_size=300), st.lists(st.text(max_size=60), max_size=4))
def test_an_answers_text_keeps_within_its_tokens(max_tokens: int, title: str, others: list[str]) -> None:
    from outrider.distiller.token_counter import estimate_tokens

    hits = [Hit(rank=rank, doc_id=f"d{rank}", kind="paper", title=text, score=0.5) for rank, text in enumerate([title, *others], start=1)]
    answer = SearchResponse(query="q", mode="discovery", hits=tuple(hits))
    assert estimate_tokens(format_answer(answer, max_tokens)) <= max_tokens


@given(st.dictionaries(st.text(min_size=1, max_size=12), st.integers(), max_size=6))
def test_a_parents_other_keys_never_matter(keys: dict[str, int]) -> None:
    """Any key that is no field of the request."""
    from outrider.graph.parent import _read_parent

    own = {key: value for key, value in keys.items() if key not in {*SearchRequest.model_fields, "execution_mode", "messages"}}
    request, others = _read_parent({**own, "query": "x"})
    assert (request, others["parent"].has_messages) == (SearchRequest(query="x"), False)


def test_a_conversation_may_be_trimmed() -> None:
    """Without the earlier messages nothing tells that a query is an old one."""

    class Chat(MessagesState):
        query: str
        hits: list[Hit]

    parent = compile_parent(Chat, checkpointer=InMemorySaver())
    state = parent.invoke({"messages": [HumanMessage(ASPIRIN)]}, THREAD)
    parent.update_state(THREAD, {"messages": [RemoveMessage(one.id) for one in state["messages"]]})
    assert parent.invoke({"messages": [HumanMessage(STATINS)]}, THREAD)["hits"][0].doc_id == "b"


def test_typed_results_and_typed_streams_hold_the_response() -> None:
    """`version="v2"` makes an object of the output schema from the output, and of the state from each value."""
    output: Any = graph().invoke({"query": ASPIRIN, "sources": ["library"]}, version="v2")
    assert [row.status for row in output.value.sources] == ["ok"]
    values = [part["data"] for part in graph().stream({"query": ASPIRIN}, stream_mode=["values"], version="v2")]
    assert values[-1].hits[0].doc_id == "a"


def test_a_query_of_the_parents_own_gets_no_reply() -> None:
    """A node that rewrites the question writes the answer itself; messages that the search cannot read are none of its business."""

    class State(TypedDict, total=False):
        query: str
        hits: list[Hit]
        messages: list[Any]

    parent = compile_parent(State)
    for messages in ([HumanMessage("and for children?")], [object()]):
        out = parent.invoke({"query": ASPIRIN, "messages": messages})
        assert (out["messages"], out["hits"][0].doc_id) == (messages, "a")


def test_a_function_may_pass_the_parents_state_on() -> None:
    """Its keys are ignored, other unknown ones are refused."""
    from langchain_core.runnables import RunnableLambda, RunnablePassthrough

    inner = graph()

    def call(state: Notes) -> Notes:
        return {"hits": inner.invoke({**state, "query": STATINS})["hits"]}

    chain = RunnableLambda(lambda state: {"query": STATINS}) | inner
    misspelt = RunnableLambda(lambda state: {"query": STATINS, "topk": 3}) | inner
    state_and_query = RunnablePassthrough.assign(query=lambda state: STATINS) | inner  # a sequence sets no configuration of its second step
    for node in (call, chain, state_and_query):
        for run in (run_sync, run_async):
            assert run(compile_parent(Notes, node), {"query": ASPIRIN, "topic": "livers"})["hits"][0].doc_id == "b"
    with pytest.raises(BadRequest, match="did you mean 'top_k'"):
        compile_parent(Notes, misspelt).invoke({"query": ASPIRIN, "topic": "livers"})
    with pytest.raises(BadRequest, match="unknown field 'parent'"):
        inner.invoke({"query": "x", "parent": None})

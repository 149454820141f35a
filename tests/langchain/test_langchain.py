"""The retriever and the tools: LangChain's own standard tests, budgets, errors, agents and supervisors."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolCall, ToolMessage
from langchain_core.tools import ToolException
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from pydantic import ValidationError

import outrider
from outrider.distiller.token_counter import estimate_tokens
from outrider.graph.pipeline import build
from outrider.langchain import (
    AnalyzeTool,
    CandidatesTool,
    LibraryTool,
    OutriderRetriever,
    OutriderToolkit,
    QueueCandidatesTool,
    SearchTool,
    SystematicTool,
)
from outrider.services import Services
from outrider.settings.load import load
from outrider.state.errors import BadRequest, LibraryCorrupt, SearchError
from support import chase_library
from support.fakes import paper, services

standard = pytest.importorskip("langchain_tests.integration_tests")
unit = pytest.importorskip("langchain_tests.unit_tests")
ABSTRACTS = (
    "Aspirin raised liver enzymes in four of a hundred adults. The cohort was followed for two years.",
    "High doses of aspirin harm the liver of children with fever. The weather was fine in both trials.",
    "We reviewed nineteen reports. Salicylates injure hepatocytes, so aspirin is stopped where the liver fails.",
    "A registry of transplants lists aspirin as the cause of one liver failure. Nobody had asked before.",
    "Sir, we read with interest that aspirin protects the liver from fibrosis. Our mice agree.",
    "In a survey most physicians believed that aspirin spares the liver. It rained on the day of the survey.",
)
RECORDS = tuple(
    paper(f"p{n}", f"Aspirin and the liver, part {word}", abstract=text, year=2000 + n, authors=("A. Author",))
    for n, (word, text) in enumerate(zip(("one", "two", "three", "four", "five", "six"), ABSTRACTS, strict=True), start=1)
)
QUESTION = "does aspirin harm the liver?"


def opened(**fields: object) -> Services:
    return services(*RECORDS, **fields)


class TestRetriever(standard.RetrieversIntegrationTests):
    @property
    def retriever_constructor(self) -> type[OutriderRetriever]:
        return OutriderRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"services": opened()}

    @property
    def retriever_query_example(self) -> str:
        return QUESTION


def standard_of(kind: type, example: dict[str, Any], **parameters: Any) -> type:
    """What LangChain's standard tests of tools ask for."""
    own = {"tool_constructor": kind, "tool_constructor_params": parameters, "tool_invoke_params_example": example}
    return type(f"{kind.__name__}Tests", (), own)


Search = standard_of(SearchTool, {"query": QUESTION, "top_k": 3, "filters": {"year": {"$gte": 2001}}}, services=opened())
Library = standard_of(LibraryTool, {"query": QUESTION}, services=opened(), max_tokens=300)
Analyze = standard_of(AnalyzeTool, {"target": "a/b", "question": "is it maintained?"}, services=opened())
Systematic = standard_of(SystematicTool, {"query": "aspirin[tiab] AND liver[tiab]", "limit": 100}, services=opened())


Candidates = standard_of(CandidatesTool, {"target": "label:otters", "limit": 3}, services=opened())
Queue = standard_of(QueueCandidatesTool, {"target": "label:otters", "include": ["doi:10.1000/1"]}, services=opened())


class TestSearchUnit(Search, unit.ToolsUnitTests):
    pass


class TestSearch(Search, standard.ToolsIntegrationTests):
    pass


class TestLibraryUnit(Library, unit.ToolsUnitTests):
    pass


class TestLibrary(Library, standard.ToolsIntegrationTests):
    pass


class TestAnalyzeUnit(Analyze, unit.ToolsUnitTests):
    pass


class TestSystematicUnit(Systematic, unit.ToolsUnitTests):
    pass


class TestCandidatesUnit(Candidates, unit.ToolsUnitTests):
    pass


class TestQueueUnit(Queue, unit.ToolsUnitTests):
    pass


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Services:
    """Offline services of a library on disk."""
    folder = tmp_path_factory.mktemp("library")
    lines = [{"id": one.doc_id, "title": one.title, "abstract": one.abstract, "year": one.year} for one in RECORDS]
    (folder / "papers.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    flags = {"library.uri": str(folder / "papers"), "sources.offline": True, "systematic.folder": str(folder / "runs")}
    outrider.add_to_library(str(folder / "papers.jsonl"), library=str(folder / "papers"))
    return Services(load(flags).settings)


def test_a_document_has_what_cites_ranks_and_locates_it() -> None:
    first, *_ = OutriderRetriever(k=2, services=opened()).invoke(QUESTION)
    spans = [first.page_content[start:end] for start, end in first.metadata["spans"]]
    assert " ".join(spans) == first.metadata["distilled_text"] != ""
    assert 0 < first.metadata["score"] <= 1
    assert (first.id, first.metadata["source"], first.metadata["rank"]) == (first.metadata["doc_id"], first.metadata["doc_id"], 1)
    assert first.metadata["authors"] == ["A. Author"]
    assert json.loads(json.dumps(first.metadata)) == first.metadata
    (distilled,) = OutriderRetriever(k=1, services=opened(), page_content="distilled").invoke(QUESTION)
    assert distilled.page_content == first.metadata["distilled_text"]


def test_one_call_overrides_fields_and_misspelt_ones_are_refused(library: Services) -> None:
    retriever = OutriderRetriever(services=library, filters={"year": {"$gt": 2003}})
    assert {one.metadata["year"] for one in retriever.invoke(QUESTION)} == {2004, 2005, 2006}
    assert {one.metadata["year"] for one in retriever.invoke(QUESTION, filters={"year": 2001})} == {2001}
    with pytest.raises(BadRequest, match="unknown field 'filter'; did you mean 'filters'"):
        retriever.invoke(QUESTION, filter={"year": 2001})
    assert len(retriever.invoke(QUESTION, k="2")) == 2
    with pytest.raises(BadRequest, match="top_k: Input should be a valid integer"):
        retriever.invoke(QUESTION, k="two")
    with pytest.raises(ValidationError, match="filter"):
        OutriderRetriever(filter={})
    with pytest.raises(SearchError, match="torn"):
        OutriderRetriever(services=opened(error=LibraryCorrupt("torn"))).invoke(QUESTION)
    assert OutriderRetriever(services=opened()).invoke("zebras") == []


def test_a_retriever_in_a_chain_is_one_tree_of_callbacks() -> None:
    class Tree(BaseCallbackHandler):
        def __init__(self) -> None:
            self.parents: dict[Any, Any] = {}

        def on_retriever_start(self, serialized: Any, query: str, *, run_id: Any, parent_run_id: Any = None, **_: Any) -> None:
            self.parents[run_id] = parent_run_id

        def on_chain_start(self, serialized: Any, inputs: Any, *, run_id: Any, parent_run_id: Any = None, **_: Any) -> None:
            self.parents[run_id] = parent_run_id

    tree = Tree()
    OutriderRetriever(k=1, services=opened()).invoke(QUESTION, {"callbacks": [tree]})
    assert list(tree.parents.values()).count(None) == 1
    assert len(tree.parents) > 10


def test_the_result_of_a_search_is_its_sentences_and_works() -> None:
    message = SearchTool(services=opened()).invoke(ToolCall(name="search", args={"query": QUESTION}, id="1", type="tool_call"))
    assert "Aspirin raised liver enzymes" in message.content
    assert "[5] Aspirin and the liver, part " in message.content
    assert [type(one) for one in message.artifact] == [Document] * 5
    assert len(message.content) < 3_000
    assert "Works:" in message.content


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(100, 1_200), st.integers(1, 20), st.sampled_from([QUESTION, "aspirin " * 400, "肝臓 aspirin"]))
def test_no_result_has_more_tokens_than_allowed(max_tokens: int, top_k: int, query: str) -> None:
    text = SearchTool(services=SHARED, max_tokens=max_tokens).invoke({"query": query, "top_k": top_k})
    assert 0 < estimate_tokens(text) <= max_tokens


SHARED = services(*(record.model_copy(update={"text": f"{record.abstract} " * 200}) for record in RECORDS))


@pytest.mark.parametrize(
    "fields", [{"query": "..."}, {"query": QUESTION, "sources": ["pubmedd"]}, {"query": QUESTION, "filters": {"yaer": 1}}]
)
def test_what_a_model_can_correct_is_a_result_with_status_error(fields: dict[str, Any]) -> None:
    message = SearchTool(services=opened()).invoke(ToolCall(name="search", args=fields, id="1", type="tool_call"))
    assert message.status == "error"
    assert len(message.content.splitlines()) == 1
    with pytest.raises(ToolException):
        SearchTool(services=opened(), handle_tool_error=False).invoke(fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"query": QUESTION, "topk": 3}, "unknown field 'topk'; did you mean 'top_k'?"),
        ({"query": QUESTION, "top_k": 99}, "top_k: Input should be less than or equal to 20"),
        ({"quary": QUESTION}, "query: Field required; unknown field 'quary'; did you mean 'query'?"),
    ],
)
def test_wrong_fields_are_named_with_the_nearest(fields: dict[str, Any], message: str) -> None:
    result = SearchTool(services=opened()).invoke(ToolCall(name="search", args=fields, id="1", type="tool_call"))
    assert (result.status, result.content) == ("error", message)


def test_wrong_settings_are_a_result_with_status_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_RUN__TYPO", "1")
    result = SearchTool().invoke(ToolCall(name="search", args={"query": QUESTION}, id="1", type="tool_call"))
    assert result.status == "error"
    assert "OUTRIDER_RUN__TYPO" in result.content


def test_a_search_that_breaks_off_is_an_error_and_one_without_results_is_none() -> None:
    broken = SearchTool(services=opened(error=LibraryCorrupt("torn")))
    assert "torn" in broken.invoke({"query": QUESTION})
    assert broken.invoke(ToolCall(name="search", args={"query": QUESTION}, id="1", type="tool_call")).status == "error"
    nothing = SearchTool(services=opened()).invoke(ToolCall(name="search", args={"query": "zebras"}, id="1", type="tool_call"))
    assert (nothing.status, nothing.content) == ("success", "Nothing was found.")


def test_the_toolkit_searches_a_library_on_disk(library: Services) -> None:
    """All four tools, without a network."""
    tools = {tool.name: tool for tool in OutriderToolkit(services=library, max_tokens=500).get_tools()}
    assert list(tools) == ["search", "systematic", "analyze", "library"]
    assert "Aspirin raised liver enzymes" in tools["search"].invoke({"query": QUESTION})
    assert "Aspirin raised liver enzymes" in tools["library"].invoke({"query": QUESTION})
    found = tools["systematic"].invoke({"query": "aspirin[tiab] AND liver[tiab]"})
    assert found.startswith("6 records match (complete).\nLedger and manifest: ")
    assert Path(found.splitlines()[1].partition(": ")[2]).is_dir()
    assert "stopped at the limit of 2" in tools["systematic"].invoke({"query": "aspirin", "limit": 2})
    wrong = tools["systematic"].invoke(ToolCall(name="systematic", args={"query": "aspirin AND ("}, id="1", type="tool_call"))
    assert wrong.status == "error"
    assert tools["analyze"].invoke(ToolCall(name="analyze", args={"target": "a/b"}, id="1", type="tool_call")).status == "error"


def test_candidates_are_listed_and_queued_by_tools_that_are_asked_for(tmp_path: Path) -> None:
    toolkit = OutriderToolkit(services=chase_library.make_services(tmp_path), max_tokens=600, citations=True)
    tools = {tool.name: tool for tool in toolkit.get_tools()}
    assert list(tools)[4:] == ["reference_candidates", "queue_reference_candidates"]
    listed = tools["reference_candidates"].invoke({"target": chase_library.TARGET})
    assert listed.startswith("5 candidates around 2 works, round 1.\n")
    assert f"{chase_library.RETRACTED}: RETRACTED Study 5" in listed
    queue = tools["queue_reference_candidates"]
    assert queue.invoke({"target": chase_library.TARGET, "exclude": ["w7"], "dry_run": True}) == "Round 1 would fetch 4 works, 1 excluded."
    assert queue.invoke({"target": chase_library.TARGET, "include": ["w3"]}).startswith("Round 1 fetches 1 works.\nBackground jobs: ")
    wrong = queue.invoke(ToolCall(name=queue.name, args={"target": chase_library.TARGET}, id="1", type="tool_call"))
    assert wrong.status == "error"


def test_a_missing_library_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    tool = LibraryTool(library=tmp_path / "none", services=Services(load({"library.uri": str(tmp_path / "none")}).settings))
    message = tool.invoke(ToolCall(name="library", args={"query": QUESTION}, id="1", type="tool_call"))
    assert message.status == "error"
    assert "outrider ingest" in message.content


async def test_a_tool_takes_its_first_field_as_plain_text() -> None:
    search, _, analyze, _ = OutriderToolkit(services=opened()).get_tools()
    assert search.invoke(QUESTION) == await search.ainvoke(QUESTION) == search.invoke({"query": QUESTION})
    assert analyze.invoke("a/b") == analyze.invoke({"target": "a/b"})


def test_names_of_the_tools_take_a_prefix() -> None:
    names = [tool.name for tool in OutriderToolkit(services=opened(), prefix="papers_").get_tools()]
    assert names == ["papers_search", "papers_systematic", "papers_analyze", "papers_library"]


class Scripted(GenericFakeChatModel):
    """A model that says what a test gives it, with any tools."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Scripted:
        return self


def calls(name: str, **args: Any) -> AIMessage:
    return AIMessage("", tool_calls=[ToolCall(name=name, args=args, id="1", type="tool_call")])


@pytest.fixture(params=["create_agent", "create_react_agent"])
def make_agent(request: pytest.FixtureRequest) -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "create_react_agent has been moved")
        if request.param == "create_agent":
            yield pytest.importorskip("langchain.agents").create_agent
        else:
            from langgraph.prebuilt import create_react_agent

            yield create_react_agent


def test_an_agent_gets_a_short_result_and_saves_no_state_of_the_search(make_agent: Any, caplog: pytest.LogCaptureFixture) -> None:
    saver = InMemorySaver()
    model = Scripted(messages=iter([calls("search", query=QUESTION, top_k=2), AIMessage("It may.")]))
    agent = make_agent(model, [SearchTool(services=opened(), max_tokens=300)], checkpointer=saver)
    config: Any = {"configurable": {"thread_id": "t"}}
    with caplog.at_level(logging.WARNING):
        messages = agent.invoke({"messages": [HumanMessage(QUESTION)]}, config)["messages"]
        saved = agent.get_state(config).values["messages"]
    assert [(one.type, one.text) for one in saved] == [(one.type, one.text) for one in messages]
    assert [Document(**dict(one)).id for one in saved[2].artifact] == [one.id for one in messages[2].artifact]
    (result,) = [one for one in messages if isinstance(one, ToolMessage)]
    assert 0 < estimate_tokens(result.text) <= 300
    assert "unregistered" not in caplog.text
    assert {key[1] for key in saver.blobs} == {""}, "only the agent's own namespace"


def test_an_agent_is_a_neighbour_of_the_graph(make_agent: Any) -> None:
    builder = StateGraph(MessagesState)
    builder.add_node("research", build(opened()))
    builder.add_node("write", make_agent(Scripted(messages=iter([AIMessage("It may.")])), []))
    builder.add_edge(START, "research")
    builder.add_edge("research", "write")
    builder.add_edge("write", END)
    messages = builder.compile().invoke({"messages": [HumanMessage(QUESTION)]})["messages"]
    assert [one.type for one in messages] == ["human", "ai", "ai"]
    assert messages[-1].text == "It may."


def test_langgraphs_supervisor_hands_over_to_the_graph() -> None:
    supervisor = pytest.importorskip("langgraph_supervisor").create_supervisor
    script = iter([calls("transfer_to_search"), AIMessage("It may.")])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        team = supervisor([build(opened())], model=Scripted(messages=script), output_mode="last_message").compile()
        messages = team.invoke({"messages": [HumanMessage(QUESTION)]})["messages"]
    (answer,) = [one for one in messages if one.name == "outrider"]
    assert "Aspirin raised liver enzymes" in answer.text
    assert messages[-1].text == "It may."

"""The retriever and the tools for LlamaIndex: nodes, query engines, agents, errors."""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

import pytest

from outrider.distiller.token_counter import estimate_tokens
from outrider.services import Services
from outrider.state.errors import BadRequest, LibraryCorrupt, SearchError
from support.extras import needs
from support.fakes import paper, services

ABSTRACTS = (
    "Aspirin raised liver enzymes in four of a hundred adults. The cohort was followed for two years.",
    "High doses of aspirin harm the liver of children with fever. The weather was fine in both trials.",
    "We reviewed nineteen reports. Salicylates injure hepatocytes, so aspirin is stopped where the liver fails.",
)
TITLES = ("Enzymes of adults", "Fever in children", "A review of reports")
QUESTION = "does aspirin harm the liver?"
with_llama_index = needs("llama_index")


def opened(**fields: Any) -> Services:
    records = (
        paper(f"p{n}", title, abstract=text, authors=("A. Author",) * 400)
        for n, (title, text) in enumerate(zip(TITLES, ABSTRACTS, strict=True))
    )
    return services(*records, **fields)


def test_without_its_packages_the_install_command_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llama_index.core.base.base_retriever", None)
    monkeypatch.delitem(sys.modules, "outrider.llama_index", raising=False)
    with pytest.raises(ImportError, match=r"outrider\.llama_index needs packages .* pip install .*\[llama-index\]"):
        importlib.import_module("outrider.llama_index")


@with_llama_index
async def test_a_query_engine_answers_from_nodes_with_score_metadata_and_spans() -> None:
    from llama_index.core.callbacks import CallbackManager, LlamaDebugHandler
    from llama_index.core.callbacks.schema import CBEventType
    from llama_index.core.llms import MockLLM
    from llama_index.core.query_engine import RetrieverQueryEngine

    from outrider.llama_index import OutriderRetriever

    events = LlamaDebugHandler(print_trace_on_end=False)
    retriever = OutriderRetriever(services=opened(), k=2, callback_manager=CallbackManager([events]))
    engine = RetrieverQueryEngine.from_args(retriever, llm=MockLLM())
    for answer in (await engine.aquery(QUESTION), engine.query(QUESTION)):  # the latter inside a running loop
        assert len(answer.source_nodes) == 2
        first, second = answer.source_nodes
        assert first.score == first.metadata["score"] >= second.score > 0
        assert " ".join(first.text[start:end] for start, end in first.metadata["spans"]) == first.metadata["distilled_text"] != ""
        assert first.node_id == first.metadata["doc_id"]
        assert json.loads(json.dumps(first.metadata)) == first.metadata
        prompt = str(answer)  # the mock model repeats it
        assert first.text in prompt
        assert first.metadata["title"] in prompt
        assert "A. Author" not in prompt, "metadata must not outweigh the texts"
    assert len(events.get_event_pairs(CBEventType.RETRIEVE)) == 2


@with_llama_index
def test_a_node_is_split_and_saved_as_any_other() -> None:
    """Splitters refuse nodes whose visible metadata is longer than a chunk."""
    from llama_index.core.node_parser import SentenceSplitter

    from outrider.llama_index import OutriderRetriever

    nodes = [one.node for one in OutriderRetriever(services=opened()).retrieve(QUESTION)]
    assert len(nodes) == 3
    chunks = SentenceSplitter(chunk_size=64, chunk_overlap=0).get_nodes_from_documents(nodes)
    assert {chunk.metadata["doc_id"] for chunk in chunks} == {node.node_id for node in nodes}
    assert [type(node).from_json(node.to_json()).metadata for node in nodes] == [node.metadata for node in nodes]


@with_llama_index
def test_errors_of_a_retriever_are_those_of_a_search() -> None:
    from outrider.llama_index import OutriderRetriever

    with pytest.raises(BadRequest, match="unknown source 'pubmedd'"):
        OutriderRetriever(services=opened(), sources=["pubmedd"]).retrieve(QUESTION)
    with pytest.raises(SearchError, match="torn"):
        OutriderRetriever(services=opened(error=LibraryCorrupt("torn"))).retrieve(QUESTION)
    with pytest.raises(ValueError, match="topk"):
        OutriderRetriever(topk=3)
    assert OutriderRetriever(services=opened()).retrieve("zebras") == []


@with_llama_index
async def test_tools_return_short_text_nodes_and_errors() -> None:
    from outrider.llama_index import make_tools

    tools = {tool.metadata.name: tool for tool in make_tools(services=opened(), max_tokens=150)}
    assert list(tools) == ["search", "systematic", "analyze", "library"]
    parameters = tools["search"].metadata.to_openai_tool()["function"]["parameters"]
    assert parameters["required"] == ["query"]
    assert "top_k" in parameters["properties"]
    for output in (tools["search"](QUESTION), await tools["search"].acall(query=QUESTION, top_k=2)):
        assert 0 < estimate_tokens(output.content) <= 150
        assert "liver" in output.content
        assert not output.is_error
        assert output.raw_output[0].metadata["rank"] == 1
    output = tools["search"].call(query=QUESTION, topk=2)
    assert (output.is_error, output.content) == (True, "unknown field 'topk'; did you mean 'top_k'?")
    assert (await tools["library"].acall()).content == "query: Field required"


@with_llama_index
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of LlamaIndex's own models
async def test_an_agent_reads_the_result_of_a_tool() -> None:
    from llama_index.core.agent.workflow import FunctionAgent
    from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock
    from llama_index.core.llms.mock import MockFunctionCallingLLM

    from outrider.llama_index import make_tools

    read: list[str] = []

    def respond(messages: Any, **_: Any) -> ChatMessage:
        if messages[-1].role != "tool":
            arguments = {"query": QUESTION, "top_k": 1}
            return ChatMessage(role="assistant", blocks=[ToolCallBlock(tool_name="search", tool_kwargs=arguments, tool_call_id="1")])
        read.append(messages[-1].content)
        return ChatMessage(role="assistant", blocks=[TextBlock(text="It may.")])

    agent = FunctionAgent(
        tools=make_tools(services=opened(), max_tokens=200),
        llm=MockFunctionCallingLLM(response_generator=respond, is_chat_model=True),
        streaming=False,
    )
    assert str(await agent.run(QUESTION)) == "It may."
    (text,) = read
    assert "[1] " in text
    assert estimate_tokens(text) <= 200

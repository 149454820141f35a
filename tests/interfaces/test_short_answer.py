"""The short answer from outside: a process, a terminal, clients of the server and of MCP, and a parent graph."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

from outrider import search
from outrider.graph.pipeline import build
from outrider.services import Services
from outrider.settings.load import load
from outrider.state.response import SearchResponse, ShortAnswer
from support.chat_client import KEY
from support.chat_server import ChatServer, Reply, Request

pytestmark = pytest.mark.slow

QUESTION = "does aspirin harm the liver?"
RIGHT, WRONG = "Aspirin harms the liver at high doses.", "Aspirin harms the liver at 75 mg."


def write(request: Request) -> Reply:
    """A plan and scores are refused, so that rules make them; the answer has a right and two wrong sentences."""
    if "works" not in request.data:
        return Reply("no", status=400)
    drafts = [(RIGHT, "u1"), (WRONG, "u1"), ("Aspirin does not harm the liver.", "u1")]
    return Reply({"sentences": [{"text": text, "citations": [unit]} for text, unit in drafts]})


@pytest.fixture(scope="module")
def model() -> Iterator[ChatServer]:
    with ChatServer(write) as server:
        yield server


def values(library: Path, model: ChatServer | None = None) -> dict[str, Any]:
    own = {"library.uri": str(library), "sources.offline": True, "distiller.bypass": False}
    llm = {"llm.base_url": model.base_url, "llm.model": "scripted", "llm.api_key": KEY, "llm.timeout_s": 60.0} if model else {}
    return {**own, **llm, "run.run_timeout_s": 600.0}


@pytest.fixture
def services(shelved: Path, model: ChatServer, tmp_path: Path) -> Iterator[Services]:
    own = Services(load(values(shelved, model), environ={}, cwd=tmp_path, user_dir=tmp_path).settings)
    yield own
    own.close()


def run_command(library: Path, model: ChatServer | None, *arguments: str) -> subprocess.CompletedProcess[str]:
    variables = {f"OUTRIDER_{name.upper().replace('.', '__')}": str(value) for name, value in values(library, model).items()}
    command = [sys.executable, "-m", "outrider", "search", QUESTION, *arguments]
    return subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=300, check=False)


def test_the_command_prints_the_answer_first(shelved: Path, model: ChatServer) -> None:
    done = run_command(shelved, model, "--answer")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Answer by scripted at 127.0.0.1")
    assert lines[1].strip().startswith(f"{RIGHT} [1]")
    assert lines[2].strip().startswith("2 sentences were removed: 1 with a number that no cited sentence has, 1 that negates")
    assert "was not checked" in lines[3]
    assert next(line for line in lines[4:] if line.strip()).strip().startswith("1. Aspirin and the liver")
    assert WRONG not in done.stdout


def test_the_command_without_a_model_says_what_to_set(shelved: Path) -> None:
    done = run_command(shelved, None, "--answer")
    assert done.returncode == 0
    assert "No answer: no model is configured" in done.stderr
    assert "OPENAI_API_KEY" in done.stderr
    assert done.stdout.strip().startswith("1. Aspirin and the liver")


def test_the_command_gives_the_answer_as_json(shelved: Path, model: ChatServer) -> None:
    answer = SearchResponse.model_validate_json(run_command(shelved, model, "--answer", "--json").stdout).answer
    assert answer
    assert [one.text for one in answer.sentences] == [RIGHT]
    plain = json.loads(run_command(shelved, model, "--json").stdout)
    assert plain["answer"] is None
    assert "answer" not in plain["timings_ms"]


def test_the_command_refuses_it_for_a_systematic_run(shelved: Path) -> None:
    done = run_command(shelved, None, "--answer", "--mode", "systematic")
    assert done.returncode == 2
    assert "answer_enabled cannot be used in mode 'systematic'" in done.stderr


def test_python_takes_a_short_name(services: Services) -> None:
    on, off = search(QUESTION, services=services, answer=True), search(QUESTION, services=services)
    assert on.answer
    assert [one.text for one in on.answer.sentences] == [RIGHT]
    assert off.answer is None


def test_rest_and_langserve_give_the_same_answer(services: Services) -> None:
    for needed in ("langserve", "uvicorn", "prometheus_client"):
        pytest.importorskip(needed)
    from langserve import RemoteRunnable

    from support.http_app import running

    request = {"query": QUESTION, "answer_enabled": True}
    with running(services) as address:
        rest = httpx.post(f"{address}/api/search", json=request, timeout=600).json()["answer"]
        remote = RemoteRunnable(f"{address}/search")
        invoked = remote.invoke(request)["answer"]
        parts = list(remote.stream(request))
        off = httpx.post(f"{address}/api/search", json={"query": QUESTION}, timeout=600).json()
        about = httpx.get(f"{address}/api/about", timeout=600).json()
        described = httpx.get(f"{address}/openapi.json", timeout=600).json()
    assert [one["text"] for one in rest["sentences"]] == [RIGHT]
    assert rest["removed"] == {"number": 1, "negation": 1}
    assert ShortAnswer.model_validate(invoked) == ShortAnswer.model_validate(rest)
    assert [next(iter(part)) for part in parts][-2:] == ["distiller", "answer"]
    assert ShortAnswer.model_validate(parts[-1]["answer"]["answer"]) == ShortAnswer.model_validate(rest)
    assert off["answer"] is None
    assert (about["answers"], about["answer_enabled"]) == (True, False)
    assert "answer" in [step["name"] for step in about["steps"]]
    assert "ShortAnswer" in described["components"]["schemas"]


async def test_the_tool_of_mcp_gives_it(services: Services) -> None:
    pytest.importorskip("mcp")
    from mcp import Client

    from outrider.interfaces.mcp import make_server

    async with Client(make_server(services)) as client:
        result = await client.call_tool("search", {"query": QUESTION, "short_answer": True})
        plain = await client.call_tool("search", {"query": QUESTION})
    (sentence,) = result.structured_content["short_answer"]
    assert sentence.startswith(f"{RIGHT} [1]")
    assert any(note.startswith("2 sentences were removed") for note in result.structured_content["notes"])
    assert plain.structured_content["short_answer"] == []


def test_tools_for_agents_begin_with_it(services: Services) -> None:
    from outrider.langchain import OutriderToolkit

    tools = {tool.name: tool for tool in OutriderToolkit(services=services, answer_enabled=True).get_tools()}
    plain = {tool.name: tool for tool in OutriderToolkit(services=services).get_tools()}
    for name in ("search", "library"):
        assert str(tools[name].invoke({"query": QUESTION})).splitlines()[1].startswith(f"{RIGHT} [1]")
        assert "Answer by" not in str(plain[name].invoke({"query": QUESTION}))


class Parent(TypedDict, total=False):
    query: str
    answer: str
    answer_enabled: bool
    hits: list[Any]


def run_parent(services: Services, **state: Any) -> dict[str, Any]:
    builder = StateGraph(Parent)
    builder.add_node("research", build(services))
    builder.add_edge(START, "research")
    builder.add_edge("research", END)
    result: dict[str, Any] = builder.compile().invoke({"query": QUESTION, **state})  # type: ignore[arg-type]
    return result


def test_a_parents_own_answer_is_neither_read_nor_written_unless_asked(services: Services) -> None:
    own = run_parent(services, answer="mine")
    assert (own["answer"], bool(own["hits"])) == ("mine", True)
    assert "answer" not in run_parent(services)
    asked = run_parent(services, answer_enabled=True)["answer"]
    assert [one.text for one in asked.sentences] == [RIGHT]


def test_a_later_run_on_a_thread_has_no_answer_of_the_earlier_one(services: Services) -> None:
    from langgraph.checkpoint.memory import InMemorySaver

    graph = build(services, InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "t"}}
    first = graph.invoke({"query": QUESTION, "answer_enabled": True}, thread)
    second = graph.invoke({"query": "aspirin"}, thread)
    assert first["answer"].sentences
    assert SearchResponse.model_validate(second).answer is None


def test_messages_get_the_answer_first(services: Services) -> None:
    reply = build(services).invoke({"messages": [("user", QUESTION)], "answer_enabled": True})["messages"][-1].content
    assert reply.splitlines()[1].startswith(f"{RIGHT} [1]")

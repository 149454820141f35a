"""LangGraph Studio's server, started for real on loopback."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("langgraph_api") is None, reason="langgraph-cli[inmem] is not installed"),
]
QUIET = {
    "LANGGRAPH_CLI_NO_ANALYTICS": "1",
    "LANGGRAPH_NO_VERSION_CHECK": "true",
    "LANGSMITH_TRACING": "false",
    "LANGGRAPH_DISABLE_FILE_PERSISTENCE": "true",
}


@pytest.fixture(scope="module")
def studio(shelved: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with start_studio(tmp_path_factory.mktemp("studio"), OUTRIDER_LIBRARY=str(shelved)) as url:
        yield url


@contextmanager
def start_studio(folder: Path, **variables: str) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shutil.copy(ROOT / "langgraph.json", folder)
    command = [
        sys.executable,
        "-m",
        "langgraph_cli",
        "dev",
        "--no-browser",
        "--no-reload",
        "--server-log-level",
        "ERROR",
        "--port",
        str(port),
    ]
    log = (folder / "log").open("w")
    process = subprocess.Popen(command, cwd=folder, env={**os.environ, **QUIET, **variables}, stdout=log, stderr=subprocess.STDOUT)
    try:
        _wait(f"http://127.0.0.1:{port}/ok", process, folder / "log")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=120)
        log.close()


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + 600
    while time.monotonic() < until:
        if process.poll() is not None:
            pytest.fail(f"langgraph dev ended: {log.read_text()[-2000:]}")
        try:
            if httpx.get(url, timeout=60).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    pytest.fail(f"langgraph dev did not answer: {log.read_text()[-2000:]}")


async def test_studio_runs_draws_and_describes_the_graph(studio: str) -> None:
    from langgraph_sdk import get_client

    async with get_client(url=studio) as client:
        assistants = {one["graph_id"]: one for one in await client.assistants.search()}
        assert assistants["search"]["description"].startswith("One request")
        assert assistants["analyze"]["description"].startswith("One repository")
        assert assistants["citations"]["description"].startswith("What the targets cite")
        assistant = assistants["search"]
        schemas = await client.assistants.get_schemas(assistant["assistant_id"])
        assert "filters" in schemas["input_schema"]["properties"]
        assert "run_timeout_s" in schemas["context_schema"]["properties"]
        drawing = await client.assistants.get_graph(assistant["assistant_id"])
        assert {"translator", "scout", "distiller", "answer"} <= {node["id"] for node in drawing["nodes"]}
        assert "answer_enabled" in schemas["input_schema"]["properties"]
        answer = await client.runs.wait(None, "search", input={"query": "aspirin liver"}, context={"run_timeout_s": 120})
        assert answer["hits"][0]["doc_id"] == "a"
        thread = await client.threads.create()
        for query, first in (("aspirin liver", "a"), ("statins cholesterol", "b")):
            answer = await client.runs.wait(thread["thread_id"], "search", input={"query": query}, context={"run_timeout_s": 120})
            assert (answer["hits"][0]["doc_id"], answer["failures"]) == (first, [])


async def test_studio_chats_on_a_thread(studio: str) -> None:
    """As chat interfaces do: each turn sends the new message, and the thread's state holds all."""
    from langgraph_sdk import get_client

    async with get_client(url=studio) as client:
        thread = await client.threads.create()
        for question in ("aspirin liver", "statins cholesterol"):
            message = {"role": "user", "content": question}
            await client.runs.wait(thread["thread_id"], "search", input={"messages": [message]}, context={"run_timeout_s": 120})
        state = await client.threads.get_state(thread["thread_id"])
        assert [one["type"] for one in state["values"]["messages"]] == ["human", "ai", "human", "ai"]
        assert state["values"]["query"] == "statins cholesterol"
        assert "[1] " in state["values"]["messages"][-1]["content"]


async def test_studio_runs_and_draws_the_analysis(studio: str) -> None:
    """Offline it says whom it could not ask, which is an answer."""
    from langgraph_sdk import get_client

    async with get_client(url=studio) as client:
        (assistant,) = await client.assistants.search(graph_id="analyze")
        schemas = await client.assistants.get_schemas(assistant["assistant_id"])
        assert "target" in schemas["input_schema"]["properties"]
        assert "max_calls" in schemas["context_schema"]["properties"]
        drawing = await client.assistants.get_graph(assistant["assistant_id"])
        assert {"subject", "surroundings", "ratings", "evidence"} <= {node["id"] for node in drawing["nodes"]}
        answer = await client.runs.wait(None, "analyze", input={"target": "a/b"}, context={"run_timeout_s": 120})
        assert answer["failures"][0]["error"] == "NothingSearchable"


async def test_studio_builds_citations(studio: str) -> None:
    """Offline no service is asked, which the report says."""
    from langgraph_sdk import get_client

    async with get_client(url=studio) as client:
        (assistant,) = await client.assistants.search(graph_id="citations")
        schemas = await client.assistants.get_schemas(assistant["assistant_id"])
        assert {"targets", "budget"} <= schemas["input_schema"]["properties"].keys()
        answer = await client.runs.wait(None, "citations", input={"targets": ["a", "10.5555/none"]})
        assert (answer["missing"], answer["report"]["seeds"], answer.get("failures", [])) == ([], 2, [])


BAD_INPUTS = (
    ("analyze", {"target": "a/b", "questoin": "x"}, "unknown field 'questoin'; did you mean 'question'?"),
    ("search", {}, "query: Field required"),
    ("search", {"query": ""}, "no letter or digit to search for"),
    ("search", {"query": "x", "tok_k": 3}, "unknown field 'tok_k'; did you mean 'top_k'?"),
    ("search", {"query": "x", "top_k": 0}, "top_k: Input should be greater than or equal to 1"),
    ("search", {"query": "x", "sources": ["githup"]}, "unknown source 'githup'"),
    ("search", {"query": "(aspirin", "mode": "systematic"}, "line 1, column"),
    ("search", {"query": "aspirin", "mode": "systematic", "filters": {"year": 2020}}, "filters cannot be used in mode 'systematic'"),
    ("analyze", {"target": "no such thing"}, "'no such thing' names no repository and no paper"),
    ("analyze", {}, "target: Field required"),
)


@pytest.mark.parametrize(("graph", "request_fields", "message"), BAD_INPUTS)
async def test_bad_input_shows_its_message(studio: str, graph: str, request_fields: dict[str, Any], message: str) -> None:
    """The server hides messages of errors that it does not know."""
    from langgraph_sdk import get_client

    async with get_client(url=studio) as client:
        answer = await client.runs.wait(None, graph, input=request_fields, raise_error=False)
        context = await client.runs.wait(None, graph, input=request_fields, context={"run_timeout_s": "abc"}, raise_error=False)
    assert context["__error__"] == {
        "error": "BadRequest",
        "message": "context: run_timeout_s: Input should be a valid number, unable to parse string as a number",
    }
    assert message in answer["__error__"]["message"]
    assert answer["__error__"]["error"] in {"BadRequest", "BooleanSyntaxError"}


async def test_the_rest_doors_stand_beside_the_graphs(studio: str) -> None:
    async with httpx.AsyncClient(base_url=studio, timeout=60) as client:
        assert (await client.get("/healthz")).status_code == 200
        answer = await client.post("/api/search", json={"query": "aspirin liver"})
        assert (answer.status_code, answer.json()["hits"][0]["doc_id"]) == (200, "a")


async def test_a_browser_on_the_path_breaks_no_run(shelved: Path, tmp_path: Path) -> None:
    """Looking for Chromium blocks: once every run ended with `BlockingError`. This one cannot be started, which costs its own results."""
    from langgraph_sdk import get_client

    chromium = tmp_path / "bin" / "chromium-headless-shell"
    chromium.parent.mkdir()
    chromium.write_text("#!/bin/sh\nexit 1\n")
    chromium.chmod(0o755)
    services = ("GITHUB", "OPENALEX", "SEMANTIC_SCHOLAR", "ARXIV", "PUBMED", "CROSSREF")
    variables = {f"OUTRIDER_SOURCES__{name}__ENABLED": "false" for name in services}
    variables |= {"OUTRIDER_LIBRARY": str(shelved), "OUTRIDER_SOURCES__OFFLINE": "false", "OUTRIDER_SOURCES__WEB__TIMEOUT_S": "2"}
    with start_studio(tmp_path, PATH=f"{chromium.parent}:{os.environ['PATH']}", **variables) as url:
        async with get_client(url=url) as client:
            for _ in range(3):
                answer = await client.runs.wait(None, "search", input={"query": "aspirin liver"}, context={"run_timeout_s": 120})
                assert answer["hits"][0]["doc_id"] == "a"
                assert {row["source"] for row in answer["sources"]} >= {"library", "web"}


async def test_studio_waits_for_a_person_and_goes_on(studio: str) -> None:
    """A wrong answer is refused by waiting again, with the problem in the value."""
    from langgraph_sdk import get_client

    async with get_client(url=studio) as client:
        thread = (await client.threads.create())["thread_id"]
        options: dict[str, Any] = {"context": {"run_timeout_s": 120}}
        fields = {"query": "aspirin liver", "checkpoints": ["plan", "results"]}
        plan = await client.runs.wait(thread, "search", input=fields, **options)
        (waiting,) = (await client.threads.get_state(thread))["interrupts"]
        refused = await client.runs.wait(thread, "search", command={"resume": {"sources": ["pubmed"]}}, **options)
        edited = {"queries": [{"text": "statins cholesterol"}]}
        results = await client.runs.wait(thread, "search", command={"resume": edited}, **options)
        judged = {"keep": ["b"]}
        done = await client.runs.wait(thread, "search", command={"resume": judged}, **options)
        after = await client.threads.get_state(thread)
    assert (waiting["value"]["review"], waiting["value"]["queries"][0]["text"]) == ("plan", "aspirin liver")
    assert "queries" in waiting["response_schema"]["properties"]
    assert plan["__interrupt__"][0]["value"] == waiting["value"]
    assert "'pubmed' is none of library" in refused["__interrupt__"][0]["value"]["problem"]
    assert [work["doc_id"] for work in results["__interrupt__"][0]["value"]["works"]][:1] == ["b"]
    assert ([hit["doc_id"] for hit in done["hits"]][:1], done["strategy"]["edited"], after["interrupts"]) == (["b"], True, [])


async def test_runs_stream_are_joined_and_go_on_from_their_checkpoint(studio: str) -> None:
    """What clients of LangGraph's own server rely on: progress, state of nodes, history, background runs, a run that goes on."""
    from langgraph_sdk import get_client

    options: dict[str, Any] = {"context": {"run_timeout_s": 120}}
    async with get_client(url=studio) as client:
        thread = (await client.threads.create())["thread_id"]
        modes: Any = ["custom", "updates", "values"]
        parts = [
            part async for part in client.runs.stream(thread, "search", input={"query": "aspirin liver"}, stream_mode=modes, **options)
        ]
        nodes = [node for part in parts if part.event == "updates" for node in part.data]
        progress = {part.data["event"] for part in parts if part.event == "custom"}
        values = [part.data for part in parts if part.event == "values"]
        assert nodes[:2] == ["translator", "scout"]
        assert {"distiller", "organizer"} <= set(nodes)
        assert {"started", "finished", "searched"} <= progress
        assert values[-1]["hits"][0]["doc_id"] == "a"
        assert len(await client.threads.get_history(thread, limit=50)) > len(nodes)

        run = await client.runs.create(thread, "search", input={"query": "statins cholesterol"}, stream_mode=modes, **options)
        joined = [part.event async for part in client.runs.join_stream(thread, run["run_id"], stream_mode=modes)]
        state = await client.threads.get_state(thread)
        assert "error" not in joined
        assert (state["values"]["query"], state["values"]["hits"][0]["doc_id"], state["next"]) == ("statins cholesterol", "b", [])

        stopped = await client.runs.wait(thread, "search", input={"query": "aspirin liver"}, interrupt_after=["scout"], **options)
        state = await client.threads.get_state(thread)
        done = await client.runs.wait(thread, "search", input=None, **options)
        assert state["next"], "it stands after the scout"
        assert not stopped.get("hits")
        assert done["hits"][0]["doc_id"] == "a"
        assert done["timings_ms"]["scout"] == state["values"]["timings_ms"]["scout"], "what was done is not done again"

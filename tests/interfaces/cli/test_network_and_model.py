"""The command as a process: nothing leaves this machine offline, and a model that is asked for is never lost without a word."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.chat_client import KEY
from support.chat_server import ChatServer, Reply

pytestmark = pytest.mark.slow

WATCHED = """
import sys
def watch(event, arguments):
    if event == "socket.connect" and arguments[0].family.name != "AF_UNIX":
        sys.stderr.write(f"NETWORK {arguments[1][0]}\\n")
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        sys.stderr.write(f"NETWORK {arguments[0]}\\n")
sys.addaudithook(watch)
from outrider.__main__ import main
sys.exit(main())
"""
REMOTE = {
    "OPENAI_API_KEY": KEY,
    "OUTRIDER_EMBEDDING__BASE_URL": "http://vectors.example.org/v1",
    "OUTRIDER_EMBEDDING__MODEL_NAME": "served",
    "OUTRIDER_RERANKER__BASE_URL": "http://rerank.example.org",
    "OUTRIDER_RERANKER__MODEL_NAME": "served",
    "OUTRIDER_DISTILLER__ENGINE": "classifier",
    "OUTRIDER_CACHE__URL": "redis://cache.example.org:6379/0",
    "OUTRIDER_TRACING__ENDPOINT": "http://traces.example.org/v1/traces",
    "LANGSMITH_TRACING": "true",
    "LANGSMITH_API_KEY": KEY,
}
"""Everything on the network that a search may use besides its sources."""


def run_search(library: Path, *arguments: str, code: str = WATCHED, **variables: str) -> tuple[dict[str, Any], list[str], str, int]:
    """The answer, the addresses that the process contacted, the rest of standard error, and the exit code."""
    command = [sys.executable, "-c", code, "search", "aspirin liver statins", "--json", "-l", str(library), *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "OUTRIDER_SOURCES__OFFLINE"}
    done = subprocess.run(command, env={**environment, **variables}, capture_output=True, text=True, timeout=300, check=False)
    lines = done.stderr.splitlines()
    contacts = sorted({line.removeprefix("NETWORK ") for line in lines if line.startswith("NETWORK ")})
    rest = "\n".join(line for line in lines if not line.startswith("NETWORK "))
    return json.loads(done.stdout), contacts, rest, done.returncode


def test_offline_nothing_but_this_machine_is_contacted(shelved: Path) -> None:
    answer, contacts, errors, code = run_search(shelved, "--offline", "--rerank", **REMOTE)
    assert contacts == []
    assert code == 0
    assert [hit["doc_id"] for hit in answer["hits"]][:2] == ["a", "b"]
    assert "gpt-6-luna at api.openai.com is not on this machine" in errors
    why = {step["step"]: step["why"] for step in answer["bypassed"]}
    assert "not on this machine, and nothing but this machine is contacted (--offline, sources.offline)" in why["translator.model"]
    assert "reranker.base_url is http://rerank.example.org" in why["reranker"]
    assert KEY not in errors


def test_offline_a_model_on_this_machine_is_used(shelved: Path) -> None:
    with ChatServer(lambda _: Reply("{}"), models=Reply(["local"])) as server:
        variables = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": KEY, "OUTRIDER_EMBEDDING__MODEL_NAME": "none"}
        _, contacts, _, code = run_search(shelved, "--offline", **variables)
        assert {request.body["model"] for request in server.requests} == {"local"}
    assert contacts == ["127.0.0.1"]
    assert code == 0


@pytest.mark.parametrize(
    ("models", "missing", "exit_code"),
    [
        (Reply(["a", "b", "c"]), "serves 3 models (a, b, c), and no model is named; set llm.model (OUTRIDER_LLM__MODEL)", 0),
        (None, "has no list of models, and no model is named; set llm.model", 0),
        (Reply("wrong key", status=401), "rejects the key (401: wrong key)", 4),
    ],
)
def test_what_is_missing_stands_in_the_answer_and_on_standard_error(
    shelved: Path, models: Reply | None, missing: str, exit_code: int
) -> None:
    with ChatServer(lambda _: Reply(), models=models) as server:
        variables = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": KEY, "OUTRIDER_EMBEDDING__MODEL_NAME": "none"}
        answer, _, errors, code = run_search(shelved, "--offline", **variables)
        assert server.requests == []
    assert missing in errors
    assert any(missing in failure["message"] for failure in answer["failures"])
    assert code == exit_code
    assert bool(answer["hits"]) is (exit_code == 0)


@pytest.mark.parametrize(
    ("variables", "missing"),
    [
        ({"OUTRIDER_LLM__MODEL": "gpt-6-luna"}, "no chat model is used: no model is configured: set OPENAI_API_KEY"),
        ({"OUTRIDER_LLM__BASE_URL": "https://api.openai.com/v1"}, "no chat model is used: gpt-6-luna at api.openai.com needs a key"),
        ({"OUTRIDER_LLM__MODEL": "none", "OPENAI_API_KEY": KEY}, ""),
        ({}, ""),
    ],
)
def test_a_model_that_is_asked_for_in_part_is_missed_on_standard_error(shelved: Path, variables: dict[str, str], missing: str) -> None:
    """Nothing is missed by a user who asks for no model."""
    answer, _, errors, _ = run_search(shelved, "--source", "library", **{"OUTRIDER_EMBEDDING__MODEL_NAME": "none", **variables})
    assert missing in errors
    assert bool(errors) is bool(missing)
    assert answer["usage"]["calls"] == 0

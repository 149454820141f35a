"""The command as a process: nothing leaves this machine offline, and a model that is asked for is never lost without a word."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

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
import io, json, os
from contextlib import redirect_stdout
from outrider.interfaces.cli import run
before = dict(os.environ)
for arguments, variables in json.loads(sys.stdin.read()):
    os.environ.update(variables)
    with redirect_stdout(io.StringIO()) as printed:
        code = run(arguments)
    print(json.dumps([json.loads(printed.getvalue()), code]))
    sys.stderr.write("END\\n")
    os.environ.clear()
    os.environ.update(before)
"""
"""Runs commands one after the other in one process, because loading what a search needs takes seconds."""
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


class Ended(NamedTuple):
    answer: dict[str, Any]
    contacts: list[str]
    """The addresses that the process contacted."""
    errors: str
    """The rest of standard error."""
    code: int


def run_searches(library: Path, *searches: tuple[Sequence[str], dict[str, str]]) -> list[Ended]:
    """Each search is its arguments and its environment variables; all run in one process."""
    commands = [
        (["search", "aspirin liver statins", "--json", "-l", str(library), *arguments], variables) for arguments, variables in searches
    ]
    environment = {name: value for name, value in os.environ.items() if name != "OUTRIDER_SOURCES__OFFLINE"}
    process = [sys.executable, "-c", WATCHED]
    done = subprocess.run(process, input=json.dumps(commands), env=environment, capture_output=True, text=True, timeout=300, check=True)
    ended = []
    for printed, errors in zip(done.stdout.splitlines(), done.stderr.split("END\n"), strict=False):
        answer, code = json.loads(printed)
        lines = errors.splitlines()
        contacts = sorted({line.removeprefix("NETWORK ") for line in lines if line.startswith("NETWORK ")})
        ended.append(Ended(answer, contacts, "\n".join(line for line in lines if not line.startswith("NETWORK ")), code))
    assert len(ended) == len(searches)
    return ended


def test_offline_nothing_but_this_machine_is_contacted(shelved: Path) -> None:
    ((answer, contacts, errors, code),) = run_searches(shelved, (("--offline", "--rerank"), REMOTE))
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
        (ended,) = run_searches(shelved, (("--offline",), served_by(server)))
        assert {request.body["model"] for request in server.requests} == {"local"}
    assert ended.contacts == ["127.0.0.1"]
    assert ended.code == 0


def served_by(server: ChatServer) -> dict[str, str]:
    return {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": KEY, "OUTRIDER_EMBEDDING__MODEL_NAME": "none"}


def test_what_is_missing_stands_in_the_answer_and_on_standard_error(shelved: Path) -> None:
    cases = (
        (Reply(["a", "b", "c"]), "serves 3 models (a, b, c), and no model is named; set llm.model (OUTRIDER_LLM__MODEL)", 0),
        (None, "has no list of models, and no model is named; set llm.model", 0),
        (Reply("wrong key", status=401), "rejects the key (401: wrong key)", 4),
    )
    with ExitStack() as stack:
        servers = [stack.enter_context(ChatServer(lambda _: Reply(), models=models)) for models, _, _ in cases]
        searches = run_searches(shelved, *((("--offline",), served_by(server)) for server in servers))
        assert [server.requests for server in servers] == [[], [], []]
    for (_, missing, exit_code), ended in zip(cases, searches, strict=True):
        assert missing in ended.errors
        assert any(missing in failure["message"] for failure in ended.answer["failures"])
        assert ended.code == exit_code
        assert bool(ended.answer["hits"]) is (exit_code == 0)


def test_a_model_that_is_asked_for_in_part_is_missed_on_standard_error(shelved: Path) -> None:
    """Nothing is missed by a user who asks for no model."""
    cases = (
        ({"OUTRIDER_LLM__MODEL": "gpt-6-luna"}, "no chat model is used: llm.model is gpt-6-luna, and no key or address is set"),
        ({"OUTRIDER_LLM__BASE_URL": "https://api.openai.com/v1"}, "no chat model is used: gpt-6-luna at api.openai.com needs a key"),
        ({"OUTRIDER_LLM__MODEL": "none", "OPENAI_API_KEY": KEY}, ""),
        ({}, ""),
    )
    only_library = ("--source", "library")
    searches = run_searches(shelved, *((only_library, {"OUTRIDER_EMBEDDING__MODEL_NAME": "none"} | variables) for variables, _ in cases))
    for (_, missing), ended in zip(cases, searches, strict=True):
        assert missing in ended.errors
        assert ended.errors.count("no chat model is used") == bool(missing)
        assert bool(ended.errors) is bool(missing)
        assert ended.answer["usage"]["calls"] == 0

"""Runs on threads: killed at every node and resumed, they give the same answer and pay no model call twice."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from outrider.graph.pipeline import build
from outrider.services import Services
from outrider.services.checkpoints import serializer, state_types
from outrider.settings.model import Settings, ThreadSettings
from outrider.state.errors import BadRequest, ThreadError
from outrider.state.hits import Candidate, FoundBy
from outrider.state.hits import Path as Path_
from outrider.state.pipeline import ParentState, PipelineState, RunContext
from outrider.state.response import SearchResponse
from outrider.usecases.threads import Threads, collect_response, open_threads
from support.chat_client import KEY, chat_over
from support.chat_server import ChatServer, Reply, Request
from support.fake_services import make_handler
from support.fakes import Shelf, no_reranker, paper
from support.http_server import serving
from support.postgres import postgres

__all__ = ["postgres"]
pytestmark = pytest.mark.slow


NODES = ("translator", "scout", "dedup", "enrich", "coarse_filter", "fine_scorer", "reranker", "organizer", "distiller")
TIMES = {"timings_ms": True, "execution_time_ms": True, "sources": {"__all__": {"took_ms"}}}
PLAN = {"topic": "aspirin", "concepts": ["aspirin"], "queries": [{"text": "aspirin liver"}, {"text": "liver injury drugs"}]}


def by_kind(request: Request) -> Reply:
    """Replies by the kind of request, with tokens by its length, so that each has its own price."""
    usage = len(request.user), 20
    if "papers" in request.data:
        results = [{"paper_id": one["id"], "relevance_score": round(0.3 + len(one["title"]) / 200, 3)} for one in request.data["papers"]]
        return Reply({"results": results}, usage=usage)
    if "repository" in request.data:
        return Reply({"relevance": 0.6, "documentation": 5, "ease_of_use": 5}, usage=usage)
    if "blocks" in request.data:
        return Reply({"groups": [["r1", "r2"]]}, usage=usage)
    if "works" in request.data:
        return Reply({"sentences": [{"text": request.data["works"][0]["units"][0]["text"], "citations": ["u1"]}]}, usage=usage)
    return Reply(PLAN, usage=usage)


@dataclass
class Killer:
    """Forks of one process, which are killed."""

    process: subprocess.Popen[str]
    services_url: str
    chat: ChatServer
    folder: Path
    count: int = 0
    answer: Callable[[Request], Reply] = field(default=by_kind)

    def fork(self, uri: str, **case: Any) -> int:
        """Its exit code, negative where a signal ended it."""
        case |= {"world": self.services_url, "chat": self.chat.base_url, "uri": uri, "folder": str(self.folder / f"{self.count}")}
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(case) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def read_answer(self, uri: str, **case: Any) -> dict[str, Any]:
        """Its answer, without times."""
        path = self.folder / f"answer-{self.count}.json"
        assert self.fork(uri, answer=str(path), **case) == 0
        answer = SearchResponse.model_validate_json(path.read_bytes()).model_dump(mode="json", exclude=TIMES)
        for row in answer["sources"]:  # the age of an answer is a time, too: a service that answered before the kill is not queried again
            if row["status"] == "cached":
                row |= {"status": "ok", "message": ""}
        for usage in (answer["usage"], *answer["usage"]["by_node"].values()):
            usage["cost_usd"] = round(usage["cost_usd"], 9)  # a sum of floats, in the order in which calls ended
        return answer

    def fresh(self) -> str:
        self.count += 1
        self.chat.requests.clear()
        return str(self.folder / f"threads-{self.count}.sqlite")

    def paid_requests(self) -> list[str]:
        """The requests to the model, whole."""
        return [json.dumps(request.body, sort_keys=True) for request in self.chat.requests]


@pytest.fixture(scope="module")
def killer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killer]:
    tests = Path(__file__).parents[1]
    command = [sys.executable, "-um", "support.kill_search"]
    environ = {**os.environ, "PYTHONPATH": f"{tests}{os.pathsep}{tests.parent / 'src'}"}
    with serving(make_handler()) as services, ChatServer(by_kind) as chat:
        folder = tmp_path_factory.mktemp("threads")
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ, cwd=folder)
        try:
            yield Killer(process, services.base_url, chat, folder)
        finally:
            process.communicate(timeout=30)


@pytest.fixture(scope="module")
def undisturbed(killer: Killer) -> tuple[dict[str, Any], list[str]]:
    """The answer, and the requests that were paid for it."""
    answer = killer.read_answer(killer.fresh())
    paid = sorted(killer.paid_requests())
    assert len(paid) == len(set(paid)) >= 5
    assert {hit["scored_by"] for hit in answer["hits"]} == {"model"}
    assert {row["source"] for row in answer["sources"]} >= {"library", "openalex", "arxiv"}
    return answer, paid


EVERY = bool(os.environ.get("EVERY_NODE"))
"""Whether runs are killed at every node, which takes longer, or only at the first, the most expensive and the last.

The variable has no prefix of ours: with one it would have to be a setting.
"""
CASES = [(node, ("finished", "started")[at % 2]) for at, node in enumerate(NODES)]
"""One event a node: what was finished is of the node before what was started."""
if not EVERY:
    CASES = [case for case in CASES if case[0] in ("translator", "fine_scorer", "distiller")]


@pytest.mark.parametrize(("node", "event"), CASES)
def test_a_run_killed_at_a_node_resumes_to_the_same_answer_and_pays_nothing_twice(
    killer: Killer, undisturbed: tuple[dict[str, Any], list[str]], node: str, event: str
) -> None:
    uri = killer.fresh()
    assert killer.fork(uri, kill_at=[node, event]) == -9
    answer = killer.read_answer(uri, resume=True)
    assert (answer, sorted(killer.paid_requests())) == undisturbed


@pytest.mark.parametrize("event", ["started", "finished"])
def test_a_run_killed_while_it_writes_a_short_answer_pays_nothing_twice(killer: Killer, event: str) -> None:
    request = {"answer_enabled": True}
    expected = killer.read_answer(killer.fresh(), request=request)
    paid = sorted(killer.paid_requests())
    assert expected["answer"]["sentences"]
    uri = killer.fresh()
    assert killer.fork(uri, kill_at=["answer", event], request=request) == -9
    assert (killer.read_answer(uri, resume=True), sorted(killer.paid_requests())) == (expected, paid)


@pytest.mark.parametrize("answers", [1, 4] if EVERY else [4])
def test_each_model_answer_is_saved_on_arrival(killer: Killer, undisturbed: tuple[dict[str, Any], list[str]], answers: int) -> None:
    """Killed after so many answers: only requests whose answers had not arrived are sent again."""
    uri = killer.fresh()
    assert killer.fork(uri, kill_after_answers=answers) == -9
    with sqlite3.connect(uri) as connection:
        (written,) = connection.execute("SELECT COUNT(*) FROM outrider_answers").fetchone()
    killer.chat.wait_for_end()  # a request of the killed process may still be on its way
    before = killer.paid_requests()
    answer = killer.read_answer(uri, resume=True)
    expected, paid = undisturbed
    assert answer == expected
    assert set(killer.paid_requests()) == set(paid)
    assert len(killer.paid_requests()) - len(paid) == len(before) - written
    assert written >= answers


def make_services(uri: str, chat: ChatServer | None = None, retention_days: float = 30.0) -> Services:
    shelf = Shelf(
        [paper("a", "Aspirin and the liver", abstract="Aspirin harms the liver."), paper("b", "A crate in Rust", language="Rust")]
    )
    settings = Settings(threads=ThreadSettings(uri=uri, retention_days=retention_days))
    return Services(settings, shelf=shelf, sources=(shelf,), reranker=no_reranker, chat=chat_over(chat) if chat else None)


async def run_search(threads: Threads, query: str = "aspirin", **request: Any) -> SearchResponse:
    return await collect_response(threads.search("one", {"query": query, **request}))


@pytest.fixture(params=["sqlite", "postgres"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "threads.sqlite") if request.param == "sqlite" else request.getfixturevalue("postgres")


async def test_a_thread_stores_lists_shows_and_deletes_its_searches(uri: str, caplog: pytest.LogCaptureFixture) -> None:
    """The same in SQLite and in Postgres, over several connections, and without a warning."""
    with caplog.at_level(logging.WARNING):
        async with open_threads(make_services(uri)) as threads:
            first = await run_search(threads)
        async with open_threads(make_services(uri)) as threads:
            second = await run_search(threads)
            assert first.strategy
            assert second.strategy
            assert second.strategy.queries != first.strategy.queries
            assert [one.queries[0].text for one in second.strategy.earlier] == [first.strategy.queries[0].text]
            assert (await threads.last("one"), await collect_response(threads.resume("one"))) == (second, second)
            assert [(run.thread, run.status) for run in await threads.latest_runs()] == [("one", "ended")]
            assert len(await threads.runs("one")) == 2
            assert await threads.delete("one") == 2
            assert await threads.latest_runs() == ()
            assert await threads.last("one") is None
            with pytest.raises(BadRequest, match="no thread 'one'"):
                await threads.runs("one")
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_feedback_on_a_thread_reaches_the_model_with_earlier_searches(tmp_path: Path) -> None:
    def answer(request: Request) -> Reply:
        words = request.data.get("user_feedback")
        return Reply({**PLAN, "queries": [{"text": "rust crate"}]}) if words == "only Rust" else by_kind(request)

    with ChatServer(answer) as chat:
        async with open_threads(make_services(str(tmp_path / "t"), chat)) as threads:
            await run_search(threads)
            refined = await run_search(threads, user_feedback="only Rust")
        plans = [request.data for request in chat.requests if "request" in request.data and "papers" not in request.data]
    assert refined.strategy
    assert [query.text for query in refined.strategy.queries] == ["rust crate"]
    assert [hit.doc_id for hit in refined.hits][:1] == ["b"]
    assert json.dumps(plans[-1]).count("aspirin liver") >= 1


async def test_expired_threads_are_deleted(uri: str) -> None:
    async with open_threads(make_services(uri)) as threads:
        await run_search(threads)
    async with open_threads(make_services(uri, retention_days=1e-9)) as threads:
        assert threads.expired == ("one",)
        assert await threads.latest_runs() == ()


async def test_a_thread_in_use_by_another_process_is_refused(tmp_path: Path) -> None:
    async with open_threads(make_services(str(tmp_path / "t"))) as threads:
        parts = threads.search("one", {"query": "aspirin"})
        await anext(parts)
        with pytest.raises(BadRequest, match="under way"):
            await run_search(threads)
        other = Threads(threads.services, threads.store, holder="elsewhere:1")
        with pytest.raises(BadRequest, match="under way"):
            await run_search(other)
        await parts.aclose()
        assert [run.status for run in await threads.runs("one")] == ["failed"]
        assert (await collect_response(threads.resume("one"))).hits[0].doc_id == "a"


@pytest.mark.parametrize("name", ["", " x", "x" * 201, "a\nb", "\x1b[31m"])
async def test_an_invalid_name_is_refused(tmp_path: Path, name: str) -> None:
    async with open_threads(make_services(str(tmp_path / "t"))) as threads:
        with pytest.raises(BadRequest, match="1 to 200 printable"):
            await collect_response(threads.search(name, {"query": "x"}))


@pytest.mark.parametrize(
    ("uri", "message"),
    [("/dev/null/x", "threads.uri"), ("mysql://me:s3cret@host/x", "postgresql"), ("postgresql://me:s3cret@127.0.0.1:1/x", "refused")],
)
async def test_an_invalid_uri_is_an_error_without_the_password(uri: str, message: str) -> None:
    with pytest.raises(ThreadError, match=message) as raised:
        async with open_threads(make_services(uri)):
            pass
    assert "s3cret" not in str(raised.value)


async def test_no_secret_is_stored(tmp_path: Path) -> None:
    with ChatServer(by_kind) as chat:
        async with open_threads(make_services(str(tmp_path / "t"), chat)) as threads:
            parts = threads.search("one", {"query": "aspirin"})
            async for kind, part in parts:
                if kind == "custom" and part["event"] == "finished" and part["node"] == "fine_scorer":
                    break
            assert (await threads.store.ledger.database.execute("SELECT COUNT(*) FROM outrider_answers"))[0][0]
            await parts.aclose()
    assert KEY.encode() not in b"".join(path.read_bytes() for path in tmp_path.iterdir())  # noqa: ASYNC240
    assert (tmp_path / "t").stat().st_mode & 0o077 == 0


def test_the_serializer_knows_exactly_the_types_of_the_state() -> None:
    from langgraph._internal._serde import collect_allowlist_from_schemas

    state_kinds = {one for one in collect_allowlist_from_schemas(schemas=[PipelineState, ParentState]) if one[0].startswith("outrider.")}
    allowed_kinds = {(kind.__module__, kind.__name__) for kind in state_types()}
    assert allowed_kinds - state_kinds == {("outrider.state.request", "SearchRequest")}
    assert not state_kinds - allowed_kinds


def test_a_candidate_survives_serialization() -> None:
    """Including tuples in a dataclass and lists in a record."""
    path = Path_(anchor="a", relation="cites")
    by = FoundBy(source="library", strategy="graph_neighbor", query="q", rank=1, paths=(path, path))
    record = paper("a", "Aspirin", metadata={"list": [1, [2]]})
    one = Candidate(record, found_by=(by,), tags=("x",), radar=({"dimension": "activity", "missing": ["stars"]},))
    assert serializer().loads_typed(serializer().dumps_typed([one])) == [one]


def test_a_type_outside_the_state_is_not_read_back(caplog: pytest.LogCaptureFixture) -> None:
    written = serializer().dumps_typed(RunContext(max_calls=1))
    assert isinstance(serializer().loads_typed(written), dict)


def test_without_a_checkpointer_nothing_is_stored() -> None:
    assert not build(make_services("unused")).checkpointer

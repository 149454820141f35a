"""`search` over a real library, and `translate`, `score` and `organize` without the graph, with a scripted model and without one."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from langchain_core.tools import StructuredTool

import outrider
from outrider.services import Services
from outrider.settings.model import Settings
from outrider.state.errors import BadRequest, KeyRejected, LibraryError, LibraryMissing
from support.chat_client import chat_over
from support.chat_server import ChatServer, Reply, Request
from support.fakes import NOON, paper
from support.scorer_over_server import by_title


def test_search_answers_from_a_real_library(shelved: Path) -> None:
    answer = outrider.search("does aspirin harm the liver", library=str(shelved))
    assert answer.hits[0].doc_id == "a"
    assert answer.hits[0].distilled_text == "Aspirin harms the liver at high doses."
    assert answer.snapshot
    assert answer.provenance_hash == outrider.search("does aspirin harm the liver", library=str(shelved)).provenance_hash


def test_search_inside_a_running_loop_and_asearch_agree(shelved: Path) -> None:
    async def both() -> tuple[str, str]:
        awaited = await outrider.asearch("aspirin", library=str(shelved))
        return outrider.search("aspirin", library=str(shelved)).provenance_hash, awaited.provenance_hash

    one, other = asyncio.run(both())
    assert one == other


def test_chinese_is_found(shelved: Path) -> None:
    assert outrider.search("医学图像", library=str(shelved)).hits[0].doc_id == "c"


@pytest.mark.parametrize(
    ("filters", "ids"),
    [
        ({"year": {"$gt": 2010}}, {"a", "c"}),
        ({"language": "Rust"}, {"pypi:x"}),
        ({"venue": {"$in": ["Hepatology", "Nature"]}}, {"a"}),
        ({"language": "Rust' OR 1=1 --"}, set()),
    ],
)
def test_filters_hold(shelved: Path, filters: dict[str, Any], ids: set[str]) -> None:
    query = "aspirin statins 深度学习 client"
    assert {hit.doc_id for hit in outrider.search(query, library=str(shelved), filters=filters).hits} == ids
    assert {hit.doc_id for hit in outrider.execute("SPARSE", query, filters=filters, library=str(shelved))} == ids


def test_a_missing_library_is_reported_in_the_answer(tmp_path: Path) -> None:
    answer = outrider.search("aspirin", library=str(tmp_path / "none"))
    assert [failure.node for failure in answer.failures] == ["scout"]
    assert "outrider ingest" in answer.failures[0].message
    assert answer.sources[0].status == "off"


@pytest.mark.parametrize("options", [{"sources": ["library"]}, {"offline": True}, {"sources": ["library"], "mode": "systematic"}])
def test_a_missing_library_is_raised_where_it_alone_is_asked_for(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(LibraryMissing, match="outrider ingest"):
        outrider.search("aspirin", library=str(tmp_path / "none"), **options)


def test_a_missing_library_is_raised_on_a_thread_as_well(tmp_path: Path) -> None:
    with pytest.raises(LibraryMissing):
        outrider.search("aspirin", library=str(tmp_path / "none"), sources=["library"], thread="first")


def test_a_damaged_library_is_raised_and_not_called_missing(shelved: Path, tmp_path: Path) -> None:
    damaged = Path(shutil.copytree(shelved, tmp_path / "damaged"))
    for path in damaged.rglob("*.manifest"):
        path.write_bytes(b"?")
    with pytest.raises(LibraryError) as raised:
        outrider.search("aspirin", library=str(damaged), sources=["library"])
    assert not isinstance(raised.value, LibraryMissing)


def test_a_library_without_matches_is_not_missing(shelved: Path) -> None:
    answer = outrider.search("zymurgy", library=str(shelved), sources=["library"], offline=True)
    assert (answer.hits, answer.failures) == ((), ())
    assert "empty" in {row.status for row in answer.sources}


def test_offline_searches_the_library_alone(shelved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings allow the network here; a source that is named beside the library is off, and says so."""
    monkeypatch.setenv("OUTRIDER_SOURCES__OFFLINE", "false")
    answer = outrider.search("aspirin", library=str(shelved), offline=True)
    assert {row.source for row in answer.sources if row.status != "off"} == {"library"}
    assert answer.hits[0].doc_id == "a"


def test_offline_does_not_change_services_of_the_caller(shelved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_SOURCES__OFFLINE", "false")
    services = Services.for_library(shelved)
    with pytest.raises(BadRequest, match=r"sources\.offline"):
        outrider.search("aspirin", services=services, offline=True)
    services.close()


@pytest.mark.parametrize("function", [outrider.search, outrider.asearch, outrider.translate, outrider.score, outrider.organize])
def test_annotations_are_resolved_as_a_framework_does(function: Any) -> None:
    """The module imports their types only then."""
    assert "return" in get_type_hints(function)


def test_search_becomes_a_tool_of_langchain() -> None:
    assert "query" in StructuredTool.from_function(outrider.search).args


def test_execute_is_the_engine_without_the_graph(shelved: Path) -> None:
    hits = outrider.execute(strategy="SPARSE", query="aspirin liver", top_k=2, library=str(shelved))
    assert (hits[0].doc_id, hits[0].rank, hits[0].score, hits[0].scored_by) == ("a", 1, 1.0, "unscored")
    assert hits[0].original_text.startswith("Aspirin harms")
    with pytest.raises(LibraryMissing):
        outrider.execute("SPARSE", "aspirin", library=str(shelved / "none"))


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("aspirin AND liver", ["a"]),
        ("aspirin NOT liver", []),
        ('"Aspirin"[Title] liver', ["a"]),
        ("aspirin [tiab]", ["a"]),
        ("hepatotoxicity[MeSH Terms]", None),
        ("aspirin.ti,ab.", ["a"]),
        ("exp Liver/", None),
        ({"title": "aspirin"}, ["a"]),
    ],
)
def test_sparse_runs_a_boolean_query_exactly(shelved: Path, query: Any, ids: list[str] | None) -> None:
    hits = outrider.execute("SPARSE", query, library=str(shelved))
    assert ids is None or [hit.doc_id for hit in hits] == ids
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
    assert all(hit.reason.startswith("matches exactly") for hit in hits)
    assert outrider.execute("SPARSE", query, library=str(shelved), filters={"year": {"$lt": 1000}}) == []


def test_an_error_in_a_boolean_query_is_reported(shelved: Path) -> None:
    with pytest.raises(BadRequest, match=r"\[tiabs\] is no field tag; did you mean 'tiab'"):
        outrider.execute("SPARSE", "aspirin[tiabs] AND liver[ti]", library=str(shelved))
    with pytest.raises(BadRequest, match="filter"):
        outrider.execute("SPARSE", "aspirin AND liver", filters={"yaer": 1}, library=str(shelved))


@pytest.mark.parametrize(
    "query", ["aspirin and liver", "(aspirin) liver", '"aspirin" liver', "aspir* liver?", "a[0] + list[int] liver", "ANDERSON liver"]
)
def test_sparse_ranks_plain_text(shelved: Path, query: str) -> None:
    assert outrider.execute("SPARSE", query, library=str(shelved))[0].doc_id == "a"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"top_k": 0}, "top_k"),
        ({"top_k": 10**9}, "top_k"),
        ({"top_k": True}, "top_k"),
        ({"strategy": "BM42"}, "strategy takes"),
        ({"query": ""}, "query"),
    ],
)
def test_execute_names_the_wrong_argument(shelved: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        outrider.execute(**{"strategy": "SPARSE", "query": "x", "library": str(shelved), **options})


# Single steps: `translate`, `score` and `organize`

RECORDS = [paper(f"w{at}", f"liver {at} {score}", abstract="Liver.") for at, score in enumerate((0.2, 0.9, 0.5))]


def services(server: ChatServer | None = None) -> Services:
    return Services(Settings(), clock=lambda: NOON, chat=chat_over(server) if server else None)


async def test_translate_plans_without_searching() -> None:
    plan = {"topic": "liver", "concepts": ["liver", "aspirin"], "queries": [{"text": "aspirin liver"}, {"text": "aspirin hepatotoxicity"}]}
    with ChatServer(lambda _: Reply(plan)) as server:
        plan_only = await outrider.translate("does aspirin harm the liver, since 2020", services=services(server), search_mode="focused")
    assert [query.text for query in plan_only.strategy.queries] == ["aspirin liver", "aspirin hepatotoxicity"]
    assert (plan_only.strategy.made_by, plan_only.strategy.constraints.years.min, plan_only.failures) == ("model", 2020, ())
    assert (plan_only.usage.calls, plan_only.usage.by_node["translator"].input_tokens) == (1, 100)
    by_rules = await outrider.translate("does aspirin harm the liver", services=services())
    assert (by_rules.strategy.made_by, by_rules.usage.calls) == ("rules", 0)
    with pytest.raises(BadRequest):
        await outrider.translate("?", services=services())


async def test_score_and_organize_the_callers_records() -> None:
    with ChatServer(by_title) as server:
        scored = await outrider.score("liver", RECORDS, services=services(server))
    assert [(one.record.doc_id, one.score, one.scored_by) for one in scored.candidates] == [
        ("w1", 0.9, "model"),
        ("w2", 0.5, "model"),
        ("w0", 0.2, "model"),
    ]
    assert scored.scoring is not None
    assert (scored.scoring.read, scored.scoring.of) == (3, 3)
    assert (scored.usage.calls, scored.usage.by_node["fine_scorer"].output_tokens, scored.bypassed) == (1, 20, ())
    answer = await outrider.organize(scored.candidates, top_k=1, services=services())
    assert [hit.doc_id for hit in answer.hits] == ["w1"]
    assert answer.total_found == 2
    everything = await outrider.organize(scored.candidates, threshold=0.0, services=services())
    assert [hit.rank for hit in everything.hits] == [1, 2, 3]


async def test_without_a_model_rules_score() -> None:
    scored = await outrider.score("liver 5", RECORDS, services=services())
    assert scored.candidates[0].record.doc_id == "w2"
    assert {one.scored_by for one in scored.candidates} == {"rules"}
    assert (scored.scoring, scored.failures, scored.usage.calls) == (None, (), 0)
    assert [(one.step, one.why) for one in scored.bypassed] == [("fine_scorer", services().chat_says)]
    assert (await outrider.score("liver", [], services=services())).candidates == ()


async def test_rules_score_when_the_model_fails_and_the_failure_is_reported() -> None:
    with ChatServer(lambda _: Reply("down", status=500)) as server:
        scored = await outrider.score("liver 2", RECORDS, services=services(server))
    assert scored.candidates[0].scored_by == "rules"
    assert [failure.node for failure in scored.failures] == ["fine_scorer"]
    assert (scored.scoring, scored.usage.calls) == (None, len(server.requests))


async def test_a_rejected_key_is_raised() -> None:
    def rejected(_: Request) -> Reply:
        return Reply("no such key", status=401)

    with ChatServer(rejected) as server, pytest.raises(KeyRejected):
        await outrider.score("liver", RECORDS, services=services(server))
    with ChatServer(rejected) as server, pytest.raises(KeyRejected):
        await outrider.translate("liver", services=services(server))

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import outrider
from outrider.state.errors import BadRequest, LibraryMissing


def test_search_answers_from_a_real_library(shelved: Path) -> None:
    answer = outrider.search("does aspirin harm the liver", library=str(shelved))
    assert answer.hits[0].doc_id == "a"
    assert answer.hits[0].distilled_text == "Aspirin harms the liver at high doses. The weather was fine."
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


def test_a_missing_library_is_said_in_the_answer(tmp_path: Path) -> None:
    answer = outrider.search("aspirin", library=str(tmp_path / "none"))
    assert [failure.node for failure in answer.failures] == ["scout"]
    assert "outrider ingest" in answer.failures[0].message
    assert answer.sources[0].status == "off"


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


def test_what_is_wrong_in_a_boolean_query_is_said(shelved: Path) -> None:
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
    ("given", "says"),
    [
        ({"top_k": 0}, "top_k"),
        ({"top_k": 10**9}, "top_k"),
        ({"top_k": True}, "top_k"),
        ({"strategy": "BM42"}, "strategy takes"),
        ({"query": ""}, "query"),
    ],
)
def test_execute_names_what_is_wrong(shelved: Path, given: dict[str, Any], says: str) -> None:
    with pytest.raises(BadRequest, match=says):
        outrider.execute(**{"strategy": "SPARSE", "query": "x", "library": str(shelved), **given})

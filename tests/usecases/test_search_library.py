"""`execute` over a real library with vectors of the tests' own word model."""

from __future__ import annotations

import asyncio
import copy
import logging
import pickle
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import outrider
from outrider.graph.pipeline import build
from outrider.library.library import Library
from outrider.services import Services
from outrider.settings.model import EmbeddingSettings, LibrarySettings, Settings
from outrider.state.errors import BadRequest, EmbeddingSpaceMismatch, ModelUnavailable, NoVectors
from outrider.state.hits import Hit
from outrider.state.pipeline import RunContext
from outrider.state.ports import Reranker
from outrider.state.records import Edge, Record
from outrider.state.response import SearchResponse
from outrider.usecases.library import find_related
from support.fakes import OFFLINE, doi, paper
from support.patience import BUSY_S
from support.word_embedder import WordEmbedder

RECORDS: tuple[Record, ...] = (
    paper("a", "Aspirin and the liver", abstract="Aspirin harms the liver.", year=2020, identifiers=doi("10.1000/x"), mesh=("Aspirin",)),
    paper("a2", "Aspirin and the liver.", abstract="Aspirin harms the liver", year=2020, identifiers=doi("10.1000/x")),
    paper("b", "Statins", abstract="Statins lower cholesterol.", year=2001, edges=(Edge(relation="cites", target="doi:10.1000/x"),)),
    paper("c", "Ibuprofen", abstract="Pain and fever.", year=2010, mesh=("Aspirin", "Fever")),
    paper("d", "Kidneys", abstract="Water and salt.", year=1999),
)


class Longest:
    """Puts long texts first."""

    name = "longest"

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        return [float(len(text)) for text in texts]


async def longest(*, asked: bool = False) -> tuple[Reranker | None, str]:
    return Longest(), "named"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("embedded")

    async def fill() -> None:
        library = await Library.open(path, create=True)
        await library.embed(RECORDS, WordEmbedder())
        await library.upsert(RECORDS)
        await library.label(["a2", "c"], ["to read"])
        await library.optimize(force=True)

    asyncio.run(fill())
    return path


def make_services(folder: Path, **parts: Any) -> Services:
    return Services(
        Settings(library=LibrarySettings(uri=str(folder)), sources=OFFLINE), **{"embedder": WordEmbedder(), "reranker": longest, **parts}
    )


@pytest.fixture
def services(folder: Path) -> Iterator[Services]:
    yield (one := make_services(folder))
    one.close()


def ids(hits: Sequence[Hit]) -> list[str]:
    return [hit.doc_id for hit in hits]


def test_dense_ranks_by_cosine_and_returns_its_own_scores(services: Services) -> None:
    hits = outrider.execute("DENSE", "aspirin harms", services=services)
    assert set(ids(hits)) == {"a", "a2", "b", "c", "d"}
    assert ids(hits)[0] in ("a", "a2")
    assert [hit.scores["lance_dense"] for hit in hits] == sorted((hit.scores["lance_dense"] for hit in hits), reverse=True)
    assert hits[0].score == 1.0
    assert all(0 <= hit.score <= 1 for hit in hits)


@pytest.mark.parametrize("strategy", ["DENSE", "SPARSE", "GRAPH", "HYBRID"])
def test_every_strategy_is_limited_to_a_label(services: Services, strategy: str) -> None:
    hits = outrider.execute(strategy, "aspirin harms the liver", filters={"labels": "to read"}, services=services)
    assert hits
    assert set(ids(hits)) <= {"a2", "c"}


def test_an_exact_query_is_limited_to_a_label(services: Services) -> None:
    assert ids(outrider.execute("SPARSE", "aspirin[mh]", filters={"labels": "to read"}, services=services)) == ["c"]


async def test_related_records_share_works_subjects_or_meaning(services: Services) -> None:
    """By the graph and the vectors of the library; the record itself is left out, and its identifier names it as well."""
    found = await find_related(services, "10.1000/x")
    assert found.record.doc_id == "a"
    related = {one.record.doc_id: one.why for one in found.related}
    assert related["b"].startswith("cites it")
    assert "alike in meaning" in related["a2"]
    assert "a" not in related
    assert [one.record.doc_id for one in (await find_related(services, "a", limit=1)).related] == [next(iter(related))]
    with pytest.raises(BadRequest, match="no record 'nobody'"):
        await find_related(services, "nobody")


def test_graph_returns_the_paths(services: Services) -> None:
    """`b` cites the best hit; `c` is indexed with the same term; no path leads to `d`."""
    hits = outrider.execute("GRAPH", "aspirin harms the liver", services=services)
    assert {"b", "c"} <= set(ids(hits))
    assert "d" not in ids(hits)
    by = {hit.doc_id: hit.found_by[0] for hit in hits}
    assert ("a", "cited by") in {(path.anchor, path.relation) for path in by["b"].paths}
    assert "cites" in by["b"].why
    assert "cites" in next(hit.reason for hit in hits if hit.doc_id == "b")


@pytest.mark.parametrize("query", ["liver[ti] AND aspirin[mh]", "aspirin[tiab] AND 1990:2030[dp] NOT fever[mh]", "zinc[mh]"])
def test_a_short_exact_list_tells_which_values_records_lack(folder: Path, query: str) -> None:
    """With the remarks of `systematic`: an empty list may mean that no record has the value. A full list is not examined."""
    hits = outrider.execute("SPARSE", query, services=make_services(folder))
    run = outrider.systematic(query, library=folder)
    list(run)
    expected = [remark for remark in run.remarks if remark.startswith("missing values: ")]
    assert [remark for remark in hits.remarks if remark.startswith("missing values: ")] == expected
    assert any("MeSH" in remark for remark in expected)
    if hits:
        assert not any("MeSH" in remark for remark in outrider.execute("SPARSE", query, top_k=1, services=make_services(folder)).remarks)


def test_remarks_on_an_exact_query_are_logged(services: Services, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        outrider.execute("SPARSE", "aspirin[ti] NOT post-mortem[ti]", services=services)
    assert "hyphen: line 1, column 17: a hyphen is read as a blank" in caplog.text


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    top_k=st.integers(1, 7), query=st.sampled_from(["aspirin[tiab] OR statins[ti]", "1990:2030[dp]", "zymurgy[ti]", "liver[ti] NOT x[ti]"])
)
def test_an_exact_query_that_is_cut_says_so_in_its_value(folder: Path, top_k: int, query: str) -> None:
    """`total` counts all matches as `systematic` gives them, and `complete` tells whether the list has them."""
    every = [hit.doc_id for hit in outrider.systematic(query, library=folder)]
    hits = outrider.execute("SPARSE", query, top_k=top_k, services=make_services(folder))
    assert hits.total == len(every)
    assert set(ids(hits)) <= set(every)
    assert len(hits) == min(top_k, len(every))
    assert hits.complete is (len(hits) == len(every))
    cut = [remark for remark in hits.remarks if remark.startswith("cut: ")]
    assert cut == (
        []
        if hits.complete
        else [f"cut: these are the first {top_k} of {len(every)} matching records; systematic(query) returns all of them"]
    )


def test_more_matches_than_are_counted_leave_the_total_open(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outrider.library.exact.pinned_library.COUNTED", -1)
    hits = outrider.execute("SPARSE", "1990:2030[dp]", top_k=1, services=services)
    assert (len(hits), hits.total, hits.complete) == (1, None, False)
    assert "the first 1 of more than are counted here" in hits.remarks[0]


@pytest.mark.parametrize(
    ("strategy", "top_k", "total", "complete"),
    [("SPARSE", 10, 3, True), ("SPARSE", 1, 3, False), ("DENSE", 10, 5, True), ("HYBRID", 2, 4, False)],
)
def test_a_ranked_list_tells_how_many_works_it_was_cut_from(
    services: Services, strategy: str, top_k: int, total: int, complete: bool
) -> None:
    hits = outrider.execute(strategy, "aspirin harms", top_k=top_k, services=services)
    assert (len(hits), hits.total, hits.complete) == (min(top_k, total), total, complete)
    assert hits.took_ms > 0


def test_the_result_is_a_list_that_is_copied_with_what_it_tells(services: Services) -> None:
    hits = outrider.execute("SPARSE", "aspirin", services=services)
    assert isinstance(hits, list)
    assert type(hits[:1]) is list
    for same in (pickle.loads(pickle.dumps(hits)), copy.copy(hits), copy.deepcopy(hits)):
        assert (same, same.total, same.provenance_hash) == (hits, hits.total, hits.provenance_hash)


def test_the_hash_tells_equal_calls_from_others(services: Services) -> None:
    def digest(strategy: str = "SPARSE", query: Any = "aspirin", **options: Any) -> str:
        return outrider.execute(strategy, query, services=services, **options).provenance_hash

    others = [digest("DENSE"), digest(query="statins"), digest(top_k=1), digest(filters={"year": 2020}), digest(rerank=True)]
    exact = [digest(query="aspirin[ti]"), digest(query="aspirin[ti]", filters={"year": 2020}), digest(query={"title": "aspirin"})]
    others += [digest(distill=True), *exact]
    assert digest() == digest()
    assert digest(query="aspirin[ti]") == digest(query="aspirin[ti]")
    assert len({digest(), *others}) == len(others) + 1


@pytest.mark.parametrize("query", ["does aspirin harm the liver", "aspirin[ti] AND harms[tiab]"])
def test_hits_are_distilled_where_asked_for(tmp_path: Path, query: str) -> None:
    """An exact query by its words: its tags and operators answer nothing."""
    filler = " ".join(f"The weather on day {day} was fine and the sea was calm." for day in range(200))
    record = paper("long", "Aspirin", abstract=f"{filler} Aspirin harms the liver at high doses. {filler}")

    async def fill() -> None:
        await (await Library.open(tmp_path, create=True)).upsert([record, *RECORDS[2:]])

    asyncio.run(fill())
    services = make_services(tmp_path)
    assert outrider.execute("SPARSE", query, services=services)[0].distilled_text == ""
    hit, *_ = outrider.execute("SPARSE", query, distill=True, services=services)
    assert "Aspirin harms the liver at high doses." in hit.distilled_text
    assert len(hit.distilled_text) < len(hit.original_text) / 10
    assert hit.distilled_text == " ".join(hit.original_text[start:end] for start, end in hit.spans)


def test_hybrid_fuses_all_and_gives_one_work_once(services: Services) -> None:
    hits = outrider.execute("hybrid", "aspirin harms the liver", services=services)
    assert ids(hits)[0] == "a"
    assert "a2" not in ids(hits)
    assert [folded.doc_id for folded in hits[0].duplicates] == ["a2"]
    assert {match.strategy for hit in hits for match in hit.found_by} == {"lance_dense", "lance_fts", "graph_neighbor"}
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_rerank_reorders_the_first_and_keeps_the_tail(folder: Path) -> None:
    settings = Settings(library=LibrarySettings(uri=str(folder)), sources=OFFLINE)
    settings = settings.model_copy(update={"reranker": settings.reranker.model_copy(update={"depth": 2, "weight": 1.0})})
    services = Services(settings, embedder=WordEmbedder(), reranker=longest)  # type: ignore[arg-type]
    plain = outrider.execute("DENSE", "fever", services=services)
    again = outrider.execute("DENSE", "fever", rerank=True, services=services)
    assert set(ids(again[:2])) == set(ids(plain[:2]))
    assert ids(again[2:]) == ids(plain[2:])
    lengths = [len(hit.title) + len(hit.original_text) for hit in again[:2]]
    assert lengths == sorted(lengths, reverse=True)
    assert [hit.score for hit in again] == sorted((hit.score for hit in again), reverse=True)
    assert "longest" in again[0].reason


def test_rerank_without_a_reranker_reports_the_reason(folder: Path) -> None:
    async def nothing(*, asked: bool = False) -> tuple[Reranker | None, str]:
        return None, "none is installed"

    with pytest.raises(ModelUnavailable, match="none is installed"):
        outrider.execute("SPARSE", "aspirin", rerank=True, services=make_services(folder, reranker=nothing))


def test_another_model_is_refused_also_in_a_fusion(folder: Path) -> None:
    services = make_services(folder, embedder=WordEmbedder(name="other"))
    for strategy in ("DENSE", "HYBRID"):
        with pytest.raises(EmbeddingSpaceMismatch, match="reindex"):
            outrider.execute(strategy, "aspirin", services=services)


@pytest.mark.parametrize("strategy", ["DENSE", "HYBRID"])
def test_records_that_a_search_cannot_see_are_reported(tmp_path: Path, strategy: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The log names the gap: here three records were never embedded."""

    async def fill() -> None:
        library = await Library.open(tmp_path, create=True)
        await library.embed(RECORDS[:2], WordEmbedder())
        await library.upsert(RECORDS)
        library.close()

    asyncio.run(fill())
    with caplog.at_level(logging.WARNING):
        assert outrider.execute(strategy, "aspirin", services=make_services(tmp_path))
    assert "lance_dense: 3 records have no vector" in caplog.text


def test_without_vectors_dense_is_refused_and_hybrid_continues_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def fill() -> None:
        await (await Library.open(tmp_path, create=True)).upsert(RECORDS)

    asyncio.run(fill())
    with pytest.raises(NoVectors, match="reindex"):
        outrider.execute("DENSE", "aspirin", services=make_services(tmp_path))
    with caplog.at_level(logging.WARNING):
        hits = outrider.execute("HYBRID", "aspirin", services=make_services(tmp_path))
    assert ids(hits)[0] == "a"
    assert "lance_dense" in caplog.text
    assert (hits.complete, hits.remarks[0].startswith("searched without lance_dense: ")) == (False, True)


def test_an_unknown_strategy_names_the_known_ones(services: Services) -> None:
    with pytest.raises(BadRequest, match="HYBRID"):
        outrider.execute("BM42", "aspirin", services=services)


@pytest.mark.parametrize("strategy", ["SPARSE", "DENSE", "GRAPH", "HYBRID"])
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(low=st.integers(1995, 2025), query=st.sampled_from(["aspirin harms the liver", "fever", "salt"]))
def test_no_filter_leaks(folder: Path, strategy: str, low: int, query: str) -> None:
    """Nothing outside comes back; the vectors, which every record has, give everything inside."""
    hits = outrider.execute(strategy, query, filters={"year": {"$gte": low}}, services=make_services(folder))
    inside = {one.doc_id for one in RECORDS if (one.year or 0) >= low}
    assert set(ids(hits)) <= inside
    anchors = {path.anchor for hit in hits for match in hit.found_by for path in match.paths}
    assert {anchor for anchor in anchors if ":" not in anchor} <= inside
    if strategy == "DENSE":
        assert set(ids(hits)) == inside


def test_the_graph_runs_the_same_lists(services: Services) -> None:
    answer = SearchResponse.model_validate(build(services).invoke({"query": "aspirin harms the liver", "search_mode": "focused"}))
    assert {(row.strategy, row.status) for row in answer.sources} == {
        ("lance_dense", "ok"),
        ("lance_fts", "ok"),
        ("graph_neighbor", "ok"),
    }
    places = {(hit.doc_id, match.strategy, match.rank) for hit in answer.hits for match in hit.found_by}
    for strategy, kind in (("DENSE", "lance_dense"), ("GRAPH", "graph_neighbor")):
        for hit in outrider.execute(strategy, "aspirin harms the liver", services=services):
            assert hit.doc_id == "a2" or (hit.doc_id, kind, hit.rank) in places


def test_lists_keep_their_order_without_fusion(services: Services) -> None:
    """Interleaved by rank, one work once; no rule and no reranker moves it."""
    request = {"query": "aspirin harms the liver", "search_mode": "focused", "fusion_enabled": False, "strategies": ["dense", "sparse"]}
    answer = SearchResponse.model_validate(build(services).invoke(request))
    best = [min(match.rank for match in hit.found_by) for hit in answer.hits]
    assert best == sorted(best)
    assert len({hit.doc_id for hit in answer.hits}) == len(answer.hits)
    assert "fusion is switched off" in next(step.why for step in answer.bypassed if step.step == "reranker")


def test_dense_off_is_a_status_of_the_answer(folder: Path) -> None:
    answer = outrider.search("aspirin", services=make_services(folder, embedder=WordEmbedder(name="other")))
    row = next(row for row in answer.sources if row.strategy == "lance_dense")
    assert (row.status, "reindex" in row.message) == ("off", True)
    assert answer.hits


def test_a_filter_that_one_distant_neighbour_meets_finds_it(tmp_path: Path) -> None:
    """It comes after the first page of neighbours, which the filter drops."""
    star = paper("star", "Aspirin harms the liver", year=2024)
    cites = (Edge(relation="cites", target="doc:star"),)
    around = [paper(f"n{at:03}", "Water", abstract="Salt.", year=2000 + (at == 149) * 24, edges=cites * (at != 149)) for at in range(150)]
    far = around[-1].model_copy(update={"edges": (*cites, Edge(relation="cites", target="doc:n000"))})

    async def fill() -> None:
        await (await Library.open(tmp_path, create=True)).upsert([star, *around[:-1], far])

    asyncio.run(fill())
    hits = outrider.execute("GRAPH", "aspirin liver", top_k=5, filters={"year": {"$gte": 2020}}, services=make_services(tmp_path))
    assert ids(hits) == ["n149"]


def test_equal_runs_have_one_hash_after_other_runs_of_the_process(services: Services) -> None:
    def by(strategy: str) -> SearchResponse:
        return outrider.search("aspirin liver", strategies=[strategy], services=services)

    before = by("sparse")
    dense = by("dense")
    assert WordEmbedder().space.id in dense.sources[0].model
    assert by("sparse").provenance_hash == before.provenance_hash
    assert by("dense").provenance_hash == dense.provenance_hash


def test_vectors_without_records_take_no_place_in_the_results(tmp_path: Path) -> None:
    """A crash between the two writes leaves such vectors."""
    orphans = [paper(f"o{at}", "Aspirin harms the liver", abstract=f"Number {at}.") for at in range(40)]

    async def fill() -> None:
        library = await Library.open(tmp_path, create=True)
        await library.embed([*orphans, *RECORDS], WordEmbedder())
        await library.upsert(RECORDS)

    asyncio.run(fill())
    assert len(outrider.execute("DENSE", "aspirin harms the liver", top_k=5, services=make_services(tmp_path))) == 5


def test_a_server_that_never_answers_is_stopped_by_the_runs_timeout(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        embedding = EmbeddingSettings(model_name="words", base_url=f"http://127.0.0.1:{silent.getsockname()[1]}/v1")
        services = Services(Settings(library=LibrarySettings(uri=str(folder)), embedding=embedding, sources=OFFLINE))
        started = time.perf_counter()
        answer = asyncio.run(outrider.asearch("aspirin", services=services, context=RunContext(run_timeout_s=4.0)))
        assert time.perf_counter() - started < 4.0 + BUSY_S
    assert {row.strategy: row.status for row in answer.sources}["lance_dense"] == "timeout"
    assert answer.hits


def test_records_without_a_vector_are_counted_in_the_answer(tmp_path: Path) -> None:
    async def fill() -> None:
        library = await Library.open(tmp_path, create=True)
        await library.embed(RECORDS[:2], WordEmbedder())
        await library.upsert(RECORDS)

    asyncio.run(fill())
    answer = outrider.search("aspirin", services=make_services(tmp_path))
    row = next(row for row in answer.sources if row.strategy == "lance_dense")
    assert row.message == f"3 records have no vector; embed them with: outrider library reindex --library {tmp_path}"

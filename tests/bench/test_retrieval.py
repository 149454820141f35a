"""What the figures of a stage are compared with, and how the comparison is told; a whole run on a few records."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import data, retrieval
from bench.retrieval import FUSED, NDCG, RECALL, RERANKED, Measured
from outrider.library.graph_neighbours import LibraryGraph
from outrider.library.search_engine import Engine
from support.word_embedder import WordEmbedder


def measured(name: str = "one", **stages: list[float]) -> Measured:
    """nDCG@10 by stage, one value a query; R@100 is twice that."""
    said = {"fused": FUSED, "reranked": RERANKED}
    scores = {said.get(stage, stage): {f"{at}": (value, 2 * value) for at, value in enumerate(values)} for stage, values in stages.items()}
    return Measured(name, scores, {stage: [0.5] * len(values) for stage, values in scores.items()})


def test_a_stage_is_compared_with_the_best_single_one_on_its_own_queries() -> None:
    """Dense is best over all four queries, sparse over the two that were reranked."""
    found = measured(sparse=[0.4, 0.4, 0.0, 0.0], dense=[0.0, 0.2, 0.4, 0.4], fused=[0.5, 0.5, 0.5, 0.5], reranked=[0.5, 0.6])
    assert found.best_single(NDCG, FUSED) == "dense"
    assert found.best_single(NDCG, RERANKED) == "sparse"
    assert found.differences(FUSED, NDCG) == pytest.approx([0.5, 0.3, 0.1, 0.1])
    assert found.differences(RERANKED, NDCG) == pytest.approx([0.1, 0.2])


def test_the_best_single_stage_has_no_p_and_a_certain_gain_a_small_one() -> None:
    """A gain on each of 20 queries comes by chance in 2 of 2^20 draws; one on half of them, lost on the others, in most."""
    rows = {row[2]: row for row in retrieval.rows(measured(sparse=[0.5] * 20, dense=[0.4] * 20, fused=[0.6] * 20))}
    assert rows["sparse"][7] is None
    assert rows[FUSED][6:9] == (pytest.approx(0.1), pytest.approx(1e-4, rel=0.1), pytest.approx(0.2))
    assert rows[FUSED][5] == 2.0
    (_, even) = retrieval.rows(measured(sparse=[0.5] * 20, dense=[0.6, 0.4] * 9 + [0.5, 0.4]))
    assert isinstance(even[7], float)
    assert even[7] > 0.5


def test_collections_count_alike_and_a_stage_that_one_lacks_is_not_averaged() -> None:
    """However many queries each of them has."""
    found = [measured(sparse=[0.2], fused=[0.4], graph=[0.1]), measured(sparse=[0.2] * 3, fused=[0.2] * 3)]
    rows = {row[2]: row for row in retrieval.mean_rows(found)}
    assert list(rows) == ["sparse", FUSED]
    assert rows[FUSED][:2] == ("mean", 4)
    assert rows[FUSED][3:7] == (pytest.approx(0.3), pytest.approx(0.6), None, pytest.approx(0.1))


def test_what_is_asked_is_said_to_hold_or_not() -> None:
    """On each collection, and on average: one that gains much does not make up for one that loses."""
    found = [measured("good", sparse=[0.2], fused=[0.4]), measured("bad", sparse=[0.2], fused=[0.18])]
    each, average = retrieval.checks(found, FUSED, NDCG, 0.025)
    assert each == f"{FUSED}, nDCG@10 beside the best single stage: at least -0.01 on each does not hold (good +0.200, bad -0.020)"
    assert average == f"{FUSED}, nDCG@10 beside the best single stage: at least +0.025 on average holds (+0.090)"
    assert retrieval.checks(found, FUSED, RECALL, 0.2)[1].endswith("on average does not hold (+0.180)")


async def test_fused_works_and_the_peer_find_what_is_there(tiny: data.Collection, tmp_path: Path) -> None:
    """Both documents about flutter, by every way; the one that only the graph leads to comes with them."""
    words = WordEmbedder()
    library = await retrieval.library_of(tiny, tmp_path / "library", words)
    try:
        engine = Engine(library, lambda _: words, LibraryGraph(library))
        found = await retrieval.works(engine, "wing flutter", retrieval.build_fusion(retrieval.RankingSettings()))
    finally:
        library.close()
    assert found[0].record.doc_id == "2"
    assert {by.strategy for one in found for by in one.found_by} == {"lance_fts", "lance_dense", "graph_neighbor"}
    assert found[0].score == 1.0
    peer = await retrieval.lancedb_hybrid(tiny, tmp_path / "peer", words)
    assert (await peer("wing flutter"))[0] == "2"


def test_without_the_collections_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Not an empty table without a word."""
    monkeypatch.setenv("OUTRIDER_DATA", str(tmp_path))
    monkeypatch.setattr(retrieval, "model", WordEmbedder)
    report = retrieval.run()
    assert report.rows == ()
    assert "scifact/corpus.jsonl.gz is not there" in report.notes[0]

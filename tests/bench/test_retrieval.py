"""The comparison of a stage's figures and its report; a whole run on a few records."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import data, retrieval
from bench.retrieval import FUSED, NDCG, RECALL, RERANKED, Measured
from outrider.library.graph_neighbours import LibraryGraph
from outrider.library.search_engine import Engine
from support.word_embedder import WordEmbedder


def make_measured(name: str = "one", **stages: list[float]) -> Measured:
    """nDCG@10 by stage, one value a query; R@100 is twice that."""
    labels = {"fused": FUSED, "reranked": RERANKED}
    scores = {
        labels.get(stage, stage): {f"{at}": (value, 2 * value) for at, value in enumerate(values)} for stage, values in stages.items()
    }
    return Measured(name, scores, {stage: [0.5] * len(values) for stage, values in scores.items()})


def test_a_stage_is_compared_with_the_best_single_one_on_its_own_queries() -> None:
    """Dense is best over all four queries, sparse over the two that were reranked."""
    result = make_measured(sparse=[0.4, 0.4, 0.0, 0.0], dense=[0.0, 0.2, 0.4, 0.4], fused=[0.5, 0.5, 0.5, 0.5], reranked=[0.5, 0.6])
    assert result.best_single(NDCG, FUSED) == "dense"
    assert result.best_single(NDCG, RERANKED) == "sparse"
    assert result.differences(FUSED, NDCG) == pytest.approx([0.5, 0.3, 0.1, 0.1])
    assert result.differences(RERANKED, NDCG) == pytest.approx([0.1, 0.2])


def test_the_best_single_stage_has_no_p_and_a_certain_gain_a_small_one() -> None:
    """A gain on each of 20 queries comes by chance in 2 of 2^20 draws; one on half of them, lost on the others, in most."""
    rows = {row[2]: row for row in retrieval.rows(make_measured(sparse=[0.5] * 20, dense=[0.4] * 20, fused=[0.6] * 20))}
    assert rows["sparse"][7] is None
    assert rows[FUSED][6:9] == (pytest.approx(0.1), pytest.approx(1e-4, rel=0.1), pytest.approx(0.2))
    assert rows[FUSED][5] == 2.0
    (_, even) = retrieval.rows(make_measured(sparse=[0.5] * 20, dense=[0.6, 0.4] * 9 + [0.5, 0.4]))
    assert isinstance(even[7], float)
    assert even[7] > 0.5


def test_collections_have_equal_weight_and_a_missing_stage_is_not_averaged() -> None:
    """The weight does not depend on the number of queries."""
    results = [make_measured(sparse=[0.2], fused=[0.4], graph=[0.1]), make_measured(sparse=[0.2] * 3, fused=[0.2] * 3)]
    rows = {row[2]: row for row in retrieval.mean_rows(results)}
    assert list(rows) == ["sparse", FUSED]
    assert rows[FUSED][:2] == ("mean", 4)
    assert rows[FUSED][3:7] == (pytest.approx(0.3), pytest.approx(0.6), None, pytest.approx(0.1))


def test_each_requirement_is_reported_as_met_or_not() -> None:
    """On each collection and on average: a large gain on one does not offset a loss on another."""
    results = [make_measured("good", sparse=[0.2], fused=[0.4]), make_measured("bad", sparse=[0.2], fused=[0.18])]
    each, average = retrieval.checks(results, FUSED, NDCG, 0.025)
    assert each == f"{FUSED}, nDCG@10 beside the best single stage: at least -0.01 on each does not hold (good +0.200, bad -0.020)"
    assert average == f"{FUSED}, nDCG@10 beside the best single stage: at least +0.025 on average holds (+0.090)"
    assert retrieval.checks(results, FUSED, RECALL, 0.2)[1].endswith("on average does not hold (+0.180)")


async def test_fusion_and_the_peer_find_the_documents(tiny: data.Collection, tmp_path: Path) -> None:
    """Both documents about flutter are found by every strategy, and one by the graph only."""
    words = WordEmbedder()
    library = await retrieval.library_of(tiny, tmp_path / "library", words)
    try:
        engine = Engine(library, lambda _: words, LibraryGraph(library))
        works = await retrieval.works(engine, "wing flutter", retrieval.build_fusion(retrieval.RankingSettings()))
    finally:
        library.close()
    assert works[0].record.doc_id == "2"
    assert {by.strategy for one in works for by in one.found_by} == {"lance_fts", "lance_dense", "graph_neighbor"}
    assert works[0].score == 1.0
    peer = await retrieval.lancedb_hybrid(tiny, tmp_path / "peer", words)
    assert (await peer("wing flutter"))[0] == "2"


def test_missing_collections_are_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The report is not an empty table without a note."""
    monkeypatch.setenv("OUTRIDER_DATA", str(tmp_path))
    monkeypatch.setattr(retrieval, "model", WordEmbedder)
    report = retrieval.run()
    assert report.rows == ()
    assert "scifact/corpus.jsonl.gz is not there" in report.notes[0]

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_measures import calc_aggregate, nDCG

from outrider.training.measures import ndcg
from outrider.training.training_set import Group, blend_equally, mean_ndcg, ordered_ndcg, score_by_words
from support.tiny_reranker import separable


@given(st.lists(st.integers(0, 3), max_size=30), st.lists(st.integers(0, 3), max_size=5))
@settings(deadline=None)
def test_ndcg_equals_ir_measures(ranked: list[int], missed: list[int]) -> None:
    every = [*ranked, *missed]
    qrels = {"q": {str(at): value for at, value in enumerate(every)} or {"0": 0}}
    run = {"q": {str(at): float(-at) for at in range(len(ranked))} or {"none": 1.0}}
    assert ndcg(ranked, every) == pytest.approx(calc_aggregate([nDCG @ 10], qrels, run)[nDCG @ 10])


def test_one_right_record() -> None:
    values = [round(ndcg([at == place for at in range(20)], [1]), 3) for place in (0, 1, 2, 9, 10, 99)]
    assert values == [1.0, 0.631, 0.5, 0.289, 0.0, 0.0]


LISTS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1_000)), min_size=1, max_size=30, unique_by=lambda pair: pair[1])


@given(LISTS)
@settings(deadline=None)
def test_ndcg_of_an_order_equals_trec_eval(pairs: list[tuple[int, int]]) -> None:
    relevance, scores = [pair[0] for pair in pairs], [float(pair[1]) for pair in pairs]
    qrels = {"q": {str(at): value for at, value in enumerate(relevance)}}
    theirs = calc_aggregate([nDCG @ 10], qrels, {"q": {str(at): score for at, score in enumerate(scores)}})[nDCG @ 10]
    assert ordered_ndcg(relevance, scores) == pytest.approx(theirs)


def test_equal_scores_get_the_worst_order() -> None:
    assert ordered_ndcg([1, 0, 0], [0.0, 0.0, 0.0]) == pytest.approx(0.5)


def test_word_matching_finds_the_words() -> None:
    groups = [Group("zinc lung", "title", "s", ("a", "b"), ("Heart and bone.", "Zinc in the lung."), (0, 1)), *separable(3)]
    scores = score_by_words(groups)
    assert [len(group_scores) for group_scores in scores] == [2, 4, 4, 4]
    assert scores[0][1] > scores[0][0]
    assert mean_ndcg(groups[:1], scores[:1]) == 1.0


def test_blending_scales_each_list() -> None:
    assert blend_equally([[0.0, 10.0, 5.0], [4.0, 4.0]], [[3.0, 1.0, 2.0], [0.0, 1.0]]) == [[0.5, 0.5, 0.5], [0.0, 0.5]]

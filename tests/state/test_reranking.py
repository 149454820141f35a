from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.state.reranking import READ_CHARS, blend_scores, make_reranker_text, order_by_score
from support.fakes import paper

SCORES = st.floats(-1e6, 1e6)
PAIRS = st.lists(st.tuples(SCORES, SCORES), max_size=30)
WEIGHTS = st.floats(0, 1)


def test_blending_is_the_weighted_sum_of_both_scaled_to_the_list() -> None:
    assert blend_scores([2.0, 1.0, 0.0], [-5.0, 5.0, 0.0], 0.5) == pytest.approx([0.5, 0.75, 0.25])
    assert blend_scores([3.0, 3.0], [0.0, 1.0], 0.5) == pytest.approx([0.0, 0.5]), "scores that are all equal say nothing"
    assert blend_scores([], [], 0.5) == []


@given(PAIRS, WEIGHTS)
def test_a_blend_never_puts_a_text_below_one_that_is_worse_in_both(pairs: list[tuple[float, float]], weight: float) -> None:
    before, after = [old for old, _ in pairs], [new for _, new in pairs]
    mixed = blend_scores(before, after, weight)
    assert all(0 <= score <= 1 + 1e-9 for score in mixed)
    for one, (old, new) in zip(mixed, pairs, strict=True):
        assert all(one >= other - 1e-9 for other, pair in zip(mixed, pairs, strict=True) if pair[0] <= old and pair[1] <= new)


@given(st.lists(st.integers(-9, 9), max_size=30))
def test_weight_0_keeps_the_order_and_weight_1_takes_the_rerankers(raw: list[int]) -> None:
    falling = [float(-place) for place in range(len(raw))]
    scores = [float(score) for score in raw]
    assert order_by_score(blend_scores(falling, scores, 0.0)) == list(range(len(raw)))
    assert order_by_score(blend_scores(falling, scores, 1.0)) == order_by_score(scores)


def test_of_equal_scores_the_earlier_place_comes_first() -> None:
    assert order_by_score([1.0, 2.0, 1.0, 2.0]) == [1, 3, 0, 2]


def test_a_reranker_reads_title_abstract_and_the_beginning_of_the_body() -> None:
    record = paper("a", "Title", abstract="Abstract.", text="body " * READ_CHARS)
    assert make_reranker_text(record).startswith("Title\n\nAbstract.\n\nbody body")
    assert len(make_reranker_text(record)) == READ_CHARS
    assert make_reranker_text(paper("b", description="What it does.")) == "What it does."
    assert make_reranker_text(paper("c")) == ""
    assert make_reranker_text(record, 10) == "Title\n\nAbs"

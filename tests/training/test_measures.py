from __future__ import annotations

import random
from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_measures import RR, R, calc_aggregate, nDCG

from outrider.training.measures import Interval, Scores, bootstrap_interval, mean_scores, score_ranking

IDS = [f"d{at}" for at in range(130)]
GRADES = st.dictionaries(st.sampled_from(IDS), st.integers(0, 3), min_size=1, max_size=40)
RANKINGS = st.lists(st.sampled_from(IDS), min_size=1, max_size=130, unique=True)


@given(st.lists(st.tuples(GRADES, RANKINGS), min_size=1, max_size=4))
@settings(deadline=None)
def test_all_measures_equal_those_of_ir_measures(queries: list[tuple[dict[str, int], list[str]]]) -> None:
    own = mean_scores([score_ranking(ranking, grades) for grades, ranking in queries])
    qrels = {str(at): grades for at, (grades, _) in enumerate(queries)}
    run = {str(at): {doc_id: -float(rank) for rank, doc_id in enumerate(ranking)} for at, (_, ranking) in enumerate(queries)}
    theirs = calc_aggregate([nDCG @ 10, R @ 10, R @ 100, RR @ 100], qrels, run)
    assert own == pytest.approx((theirs[nDCG @ 10], theirs[R @ 10], theirs[R @ 100], theirs[RR @ 100]))


def test_a_query_without_hits_or_without_relevant_records_scores_nothing() -> None:
    assert score_ranking([], {"a": 1}) == score_ranking(["a"], {"a": 0}) == score_ranking(["a"], {}) == Scores(0, 0, 0, 0)
    assert mean_scores([]) == Scores(0, 0, 0, 0)


def test_an_interval_holds_the_true_mean_in_19_of_20_samples() -> None:
    draw = np.random.default_rng(3)
    intervals = [bootstrap_interval(list(draw.normal(0.3, 0.2, 60)), rounds=1_000) for _ in range(200)]
    held = sum(one.low <= 0.3 <= one.high for one in intervals)
    assert 180 <= held <= 199
    assert all(one.low < one.mean < one.high for one in intervals)


def test_intervals_of_the_same_seed_are_equal_and_move_with_the_values() -> None:
    values = [random.Random(at).random() for at in range(50)]
    one, moved = bootstrap_interval(values, seed=4), bootstrap_interval([value + 1 for value in values], seed=4)
    assert one == bootstrap_interval(values, seed=4) != bootstrap_interval(values, seed=5)
    assert astuple(moved) == pytest.approx([part + 1 for part in astuple(one)])


def test_only_an_interval_on_one_side_excludes_zero() -> None:
    assert bootstrap_interval([]) == Interval(0, 0, 0)
    assert not bootstrap_interval([]).excludes_zero
    assert not bootstrap_interval([0.1, -0.1] * 20).excludes_zero
    assert bootstrap_interval([0.1, 0.2] * 20).excludes_zero
    assert bootstrap_interval([-0.1, -0.2] * 20).excludes_zero

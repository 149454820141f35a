"""Weighted conformal intervals: quantiles, coverage, width, and drift."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from outrider.planner.intervals import (
    LEAST_MISSES,
    MISSES,
    MOST_MISSES,
    adapt_misses,
    baseline_interval,
    find_interval,
    weighted_quantiles,
)
from outrider.planner.run_row import Interval


@given(
    st.lists(st.tuples(st.floats(-1e6, 1e6), st.integers(1, 5)), min_size=1, max_size=30),
    st.floats(0, 1),
)
def test_a_weighted_quantile_is_that_of_the_values_repeated(pairs: list[tuple[float, int]], level: float) -> None:
    values, weights = (np.array(column, dtype=float) for column in zip(*pairs, strict=True))
    repeated = sorted(value for value, weight in pairs for _ in range(weight))
    place = min(len(repeated) - 1, max(0, math.ceil(level * len(repeated) - 1e-9) - 1))
    assert weighted_quantiles(values, weights, (level,)) == [repeated[place]]


def predict_in_turn(outcomes: Iterator[float]) -> list[tuple[Interval, float]]:
    """Each outcome with its interval from the ones before."""
    seen: list[tuple[Interval, float]] = []
    for value in outcomes:
        logs = np.array([math.log(before) for _, before in seen])
        weights = 0.5 ** (np.arange(len(seen) - 1, -1, -1) / 60)
        seen.append((find_interval(logs, weights, 0.0, 1.0, adapt_misses(seen), math.exp), value))
    return seen


def test_skewed_outcomes_are_covered_by_intervals_narrower_than_equal_tails() -> None:
    draw = random.Random(1)
    pairs = predict_in_turn(draw.lognormvariate(0.0, 1.0) for _ in range(400))[20:]
    covered = sum(interval.covers(value) for interval, value in pairs) / len(pairs)
    assert 0.75 <= covered <= 0.88
    equal = baseline_interval(value for _, value in pairs)
    assert np.median([interval.high - interval.low for interval, _ in pairs]) < 0.9 * (equal.high - equal.low)


def test_after_a_change_the_intervals_cover_again() -> None:
    draw = random.Random(2)
    pairs = predict_in_turn(draw.lognormvariate(0.0 if number < 150 else 2.0, 0.3) for number in range(300))
    assert not pairs[150][0].covers(pairs[150][1])
    last = pairs[200:]
    assert sum(interval.covers(value) for interval, value in last) >= 0.75 * len(last)


def test_the_level_follows_misses_and_stays_within_its_bounds() -> None:
    hit, miss = (Interval(0, 1, 2), 1.0), (Interval(0, 1, 2), 3.0)
    assert adapt_misses([]) == MISSES
    assert adapt_misses([miss]) < MISSES < adapt_misses([hit])
    assert adapt_misses([miss] * 1_000) == LEAST_MISSES
    assert adapt_misses([hit] * 1_000) == MOST_MISSES


def test_without_a_case_the_prior_stands_alone_and_with_many_equal_ones_it_is_gone() -> None:
    alone = find_interval(np.empty(0), np.empty(0), 0.0, 1.0, MISSES, float)
    assert alone.low < -0.9
    assert alone.high > 0.9
    assert find_interval(np.zeros(60), np.ones(60), 0.0, 1.0, MISSES, float) == (0.0, 0.0, 0.0)

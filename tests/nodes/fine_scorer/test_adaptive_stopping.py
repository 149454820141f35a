"""Adaptive scoring: its estimate for the unread part, and that it always ends."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.nodes.fine_scorer.adaptive_stopping import (
    BATCH,
    EXPONENTS,
    WAVE,
    Prior,
    choose_next_wave,
    estimate_change,
    estimate_risk,
    expected_rates,
    observe,
    to_grade,
)

SCORE = st.one_of(st.sampled_from([0.0, 0.3, 0.7, 1.0]), st.floats(0, 1))
JUDGED = st.lists(st.one_of(SCORE, st.none()), max_size=120)
MORE = st.integers(0, 120)
TOP_K = st.integers(1, 30)
RISKS = st.floats(0, 1)


def rules(count: int) -> list[float]:
    return [1 / place for place in range(1, count + 1)]


@given(JUDGED, MORE, TOP_K)
def test_risk_is_a_chance(judged: list[float | None], unread: int, top_k: int) -> None:
    """Within [0, 1], the same each time, and 0 where all was read."""
    of = rules(len(judged) + unread)
    risk = estimate_risk(of, judged, top_k)
    assert 0 <= risk <= 1
    assert risk == estimate_risk(of, judged, top_k)
    assert estimate_risk(of[: len(judged)], judged, top_k) == 0


@given(JUDGED, st.integers(1, 60), TOP_K, st.sampled_from([None, 0.0, 0.2, 0.3, 0.49]))
def test_a_work_that_does_not_count_never_raises_the_risk(judged: list[float | None], unread: int, top_k: int, score: float | None) -> None:
    """Nor does one that could not be scored; and with nothing left there is none."""
    of = rules(len(judged) + unread)
    assert estimate_risk(of, [*judged, score], top_k) <= estimate_risk(of, judged, top_k) + 1e-9


@given(JUDGED, MORE, st.integers(1, 60), TOP_K)
def test_more_unread_works_never_lower_the_risk(judged: list[float | None], unread: int, more: int, top_k: int) -> None:
    count = len(judged) + unread
    assert estimate_risk(rules(count + more), judged, top_k) >= estimate_risk(rules(count), judged, top_k) - 1e-9


@given(JUDGED, MORE, TOP_K)
def test_scores_of_one_grade_are_one(judged: list[float | None], unread: int, top_k: int) -> None:
    """Noise that moves no score to another anchor changes nothing."""
    of = rules(len(judged) + unread)
    assert estimate_risk(of, judged, top_k) == estimate_risk(of, [None if one is None else to_grade(one) for one in judged], top_k)


@given(JUDGED, MORE, TOP_K)
def test_only_the_number_of_rule_scores_counts(judged: list[float | None], unread: int, top_k: int) -> None:
    count = len(judged) + unread
    assert estimate_risk([0.5] * count, judged, top_k) == estimate_risk(rules(count), judged, top_k)


@given(st.lists(SCORE, max_size=150), TOP_K, RISKS, st.sampled_from([10, WAVE]))
def test_reading_ends_with_the_risk_as_allowed(scores: list[float], top_k: int, max_risk: float, first: int) -> None:
    """Whole batches until the last, never more than is left, no call beyond score-all's, and no stop while the risk is too high."""
    of, read, waves = rules(len(scores)), 0, []
    while more := choose_next_wave(of, scores[:read], top_k, max_risk, first=first):
        assert 0 < more <= len(scores) - read
        assert more % BATCH == 0 or read + more == len(scores)
        waves.append(more)
        read += more
    assert read <= len(scores)
    assert estimate_risk(of, scores[:read], top_k) <= max_risk
    assert read >= min(len(scores), top_k)
    assert sum(math.ceil(more / BATCH) for more in waves) == math.ceil(read / BATCH)


def test_works_of_the_best_grade_are_final() -> None:
    """An unread one can at most tie with the last of them, and then it ranks behind it."""
    assert estimate_risk(rules(100), [1.0] * 10 + [0.0] * 20, 10) == 0
    assert estimate_risk(rules(100), [0.9] * 10 + [0.0] * 20, 10) == 0
    assert estimate_risk(rules(100), [1.0] * 9 + [0.0] * 21, 10) > 0
    assert choose_next_wave(rules(100), [1.0] * 10 + [0.0] * 20, 10, 0.0) == 0


def test_below_the_best_grade_only_a_better_one_counts() -> None:
    """Ten relevant works of which none is of the best grade: those of their own grade are no hits."""
    assert observe(100, [0.7] * 10 + [0.0] * 20, 10).hits == ()
    assert observe(100, [1.0] + [0.7] * 9, 10).hits == (1,)
    assert observe(100, [1.0] + [0.7] * 8, 10).hits == tuple(range(1, 10))


def test_tangential_works_are_no_hits() -> None:
    assert observe(100, [0.3, 0.49, 0.5, 0.7, 0.85, 1.0], 10).hits == (3, 4, 5, 6)


def test_hits_that_go_on_ask_for_more_than_hits_at_the_top() -> None:
    """The same three hits, once in the first places and once scattered as by a judge that errs."""
    top = [1.0] * 3 + [0.0] * 27
    scattered = [1.0 if place % 10 == 9 else 0.0 for place in range(30)]
    assert estimate_risk(rules(100), scattered, 10) > estimate_risk(rules(100), top, 10) + 0.2


def test_unscored_works_do_not_change_the_estimate() -> None:
    """Thirty failures leave the prior as it was, thirty works without a hit do not."""
    failed, irrelevant = [None] * 30, [0.0] * 30
    assert observe(100, failed, 10).scored == ()
    assert estimate_risk(rules(100), failed, 10) > estimate_risk(rules(100), irrelevant, 10)


def test_the_first_wave_is_at_least_the_top_k() -> None:
    assert choose_next_wave(rules(100), [], 10, 1.0) == WAVE
    assert choose_next_wave(rules(100), [], 45, 1.0) == 50
    assert choose_next_wave(rules(100), [], 7, 1.0, first=10) == 10
    assert choose_next_wave(rules(100), [], 45, 1.0, first=10) == 50
    assert choose_next_wave(rules(7), [], 10, 0.0) == 7
    assert choose_next_wave([], [], 10, 0.0) == 0


def test_a_wave_is_what_would_do_if_it_held_nothing() -> None:
    """One batch where one is enough, a whole wave where no wave is."""
    judged: list[float | None] = [1.0] + [0.0] * 29
    after = estimate_risk(rules(100), [*judged, *[0.0] * 10], 10)
    assert choose_next_wave(rules(100), judged, 10, after) == BATCH
    assert choose_next_wave(rules(100), judged, 10, 0.0) == WAVE


def test_the_anchor_next_to_a_score() -> None:
    assert [to_grade(score) for score in (0.0, 0.14, 0.16, 0.3, 0.49, 0.51, 0.7, 0.84, 0.86, 1.0)] == [
        *(0.0, 0.0, 0.3, 0.3, 0.3, 0.7, 0.7, 0.7, 1.0, 1.0)
    ]


def test_the_chance_is_that_of_its_own_model() -> None:
    """Queries drawn as the model supposes, with so few hits that no place has two: it states what then happens."""
    drawn, prior, risk_sum, changed = random.Random(4), Prior(1.0, 2.0), 0.0, 0
    for _ in range(1_000):
        amount = drawn.gammavariate(prior.shape, 1 / prior.rate)
        rate = expected_rates(drawn.choice(EXPONENTS), 100)
        hits = [drawn.random() > math.exp(-amount * one) for one in rate]
        observed = observe(100, [float(hit) for hit in hits[:30]], 100)
        if observed.hits:
            risk_sum += estimate_change(observed, prior)
            changed += any(hits[30:])
    assert 50 < changed < 250
    assert changed == pytest.approx(risk_sum, rel=0.15)

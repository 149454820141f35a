from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.nodes.fine_scorer.waves import STEP, fit_antitonic, place_unscored


def test_between_its_neighbours() -> None:
    """Where the model agrees with the rules, an unscored work is placed between those before and after it."""
    assert place_unscored([0.9, None, 0.5]) == pytest.approx([0.9, 0.7, 0.5], abs=1e-5)
    assert place_unscored([0.8, None, None, 0.2]) == pytest.approx([0.8, 0.6, 0.4, 0.2], abs=1e-5)


def test_before_the_first_and_after_the_last() -> None:
    """Above what the first scored one is likely to get, and falling towards 0 behind the last."""
    placed = place_unscored([None, 0.6, None])
    assert placed == pytest.approx([0.6, 0.6, 0.3], abs=1e-5)
    assert placed[0] > 0.6


def test_one_odd_neighbour_does_not_lift_many() -> None:
    """The fit of 0, 0, 0, 1 is a quarter: a lucky find at its end is weak evidence for those behind it."""
    placed = place_unscored([0.0, 0.0, 0.0, 1.0, None, None])
    assert max(placed[4:]) < 0.25


def test_in_a_row_of_equals_the_order_of_the_rules_holds() -> None:
    placed = place_unscored([0.7, None, None, None, 0.7])
    assert 0.7 > placed[1] > placed[2] > placed[3] > 0.69


def test_what_was_left_unread_scores_no_higher_than_anything_that_was_read() -> None:
    assert place_unscored([0.0, 0.2, 0.9, None, None], unread_from=3)[3:] == [0.0, 0.0]
    placed = place_unscored([0.9, None, 0.3, None, None], unread_from=3)
    assert 0.3 > placed[3] > placed[4] > 0
    assert placed[:3] == place_unscored([0.9, None, 0.3])


def test_an_unscored_work_stands_above_what_the_model_calls_irrelevant() -> None:
    assert place_unscored([0.0, None, 0.0]) == [0.0, STEP, 0.0]


def test_the_fit() -> None:
    assert fit_antitonic([3, 1, 2, 0]) == [3, 1.5, 1.5, 0]
    assert fit_antitonic([1, 2, 3]) == [2, 2, 2]
    assert fit_antitonic([]) == []


scores = st.lists(st.none() | st.sampled_from([0.0, 0.3, 0.7, 1.0]) | st.floats(0, 1), min_size=1, max_size=40).filter(
    lambda many: any(one is not None for one in many)
)


@given(scores)
def test_scores_are_kept_and_in_bounds(judged: list[float | None]) -> None:
    placed = place_unscored(judged)
    assert len(placed) == len(judged)
    assert all(0 <= score <= 1 for score in placed)
    assert all(score == score_before for score, score_before in zip(placed, judged, strict=True) if score_before is not None)


@given(scores)
def test_the_unscored_keep_the_order_of_the_rules(judged: list[float | None]) -> None:
    unscored = [score for score, score_before in zip(place_unscored(judged), judged, strict=True) if score_before is None]
    assert all(one > other for one, other in pairwise(unscored))


@given(scores)
def test_no_unscored_work_passes_one_that_is_better_by_rules_and_by_model(judged: list[float | None]) -> None:
    """Better: before it by the rules, and scored as high as every work after that."""
    placed, floor = place_unscored(judged), STEP * len(judged)
    for place, score in enumerate(judged):
        if score is not None and score > floor and all(later is None or later <= score for later in judged[place:]):
            assert all(placed[after] < score for after in range(place + 1, len(judged)) if judged[after] is None)

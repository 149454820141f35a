"""The recorded judges and the measures of adaptive scoring, on a collection of three documents."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from bench import adaptive, data, judged
from bench.__main__ import NAMES
from outrider.nodes.fine_scorer.adaptive_stopping import ANCHORS, PRIOR, Prior, observe

CHANCES = [(place + 0.5) / 1_000 for place in range(1_000)]


def test_it_is_a_benchmark_by_name() -> None:
    assert "adaptive" in NAMES


def test_a_judge_without_noise_returns_the_truth() -> None:
    assert [judged.JUDGES["no noise"](truth, chance) for truth in ANCHORS for chance in (0.001, 0.999)] == [
        truth for truth in ANCHORS for _ in range(2)
    ]


def test_noise_stays_in_bounds_and_has_the_stated_width() -> None:
    """Two thirds are within one deviation."""
    scores = [judged.noisy(0.2)(0.7, chance) for chance in CHANCES]
    assert all(0 <= score <= 1 for score in scores)
    assert sum(abs(score - 0.7) <= 0.2 for score in scores) == pytest.approx(683, abs=30)


@pytest.mark.parametrize(("truth", "next_one"), [(1.0, 0.7), (0.0, 0.3)])
def test_slips_go_to_the_next_anchor_one_time_in_ten(truth: float, next_one: float) -> None:
    """And one in ten of these to the anchor after it."""
    answers = Counter(judged.slipping(0.1)(truth, chance) for chance in CHANCES)
    assert answers[truth] == pytest.approx(900, abs=2)
    assert answers[next_one] == pytest.approx(90, abs=2)
    assert sum(answers.values()) == 1_000


def test_judgements_are_recorded(tiny: data.Collection) -> None:
    """They are the same after any other judgements."""
    one = judged.query(tiny, "a", {"1": 0.9, "2": 0.5, "3": 0.1})
    again = judged.query(tiny, "a", {"3": 0.9, "1": 0.1})
    assert one.judged["no noise"] == (0.0, 1.0, 1.0)
    for judge in judged.JUDGES:
        assert again.judged[judge] == (one.judged[judge][2], one.judged[judge][0])


def test_unread_works_are_not_shown(tiny: data.Collection) -> None:
    one = judged.query(tiny, "a", {"1": 0.9, "2": 0.5, "3": 0.1})
    assert [one.rank_passing("no noise", read) for read in range(4)] == [[], [], [1], [1, 2]]
    assert [one.best_grades("no noise", read) for read in range(4)] == [[], [], [1.0], [1.0, 1.0]]


def test_candidates_are_in_the_order_of_the_rules(tiny: data.Collection) -> None:
    """The two with words of the query, best first."""
    (only,) = asyncio.run(judged.record(tiny)).queries
    assert set(only.doc_ids) == {"2", "3"}
    assert list(only.rules) == sorted(only.rules, reverse=True)


def test_a_query_that_is_read_whole_loses_nothing(tiny: data.Collection) -> None:
    """Three candidates are one batch."""
    recorded = judged.Recorded(tiny, (judged.query(tiny, "a", {"1": 0.9, "2": 0.5, "3": 0.1}),))
    (outcome,) = adaptive.outcomes(recorded, "no noise", 0.05, PRIOR)
    assert (outcome.calls, outcome.waves, outcome.ndcg, outcome.ndcg_of_all) == (1.0, 1, 1.0, 1.0)
    assert (outcome.stated, outcome.changed, outcome.exactly_changed) == (0.0, False, False)


def test_a_relevant_work_that_was_not_read_is_a_change(tiny: data.Collection) -> None:
    """The last of seven batches was saved, and the last document was the second relevant one."""
    filler = {f"none {place}": 0.5 for place in range(67)}
    recorded = judged.Recorded(tiny, (judged.query(tiny, "a", {"2": 0.9, **filler, "1": 0.2, "3": 0.1}),))
    (outcome,) = adaptive.outcomes(recorded, "no noise", 0.9, PRIOR)
    assert outcome.calls < 1
    assert 0 < outcome.stated <= 0.9
    assert outcome.changed
    assert outcome.exactly_changed
    assert outcome.ndcg == pytest.approx(0.6131, abs=1e-3)
    assert outcome.ndcg_of_all == 1.0


def test_a_prior_fits_the_observations() -> None:
    """No other point of a coarse grid is better; more changes give more hits."""
    quiet = observe(100, [1.0] + [0.0] * 29, 10)
    lively = observe(100, [1.0, 0.0, 0.0] * 10, 10)

    def observe_changes(changes: int) -> adaptive.Observed:
        counted = Counter({(quiet, True): changes, (quiet, False): 10 - changes, (lively, True): 9, (lively, False): 1})
        return dict.fromkeys(adaptive.FITTED_ON, counted)

    few, many = (adaptive.fitted([observe_changes(changes)]) for changes in (1, 6))
    loss = adaptive.log_loss(observe_changes(1)["no noise"], few)
    grid = [Prior(shape, rate) for shape in (0.1, 0.5, 1, 2, 5) for rate in (0.01, 0.1, 0.5, 1, 3)]
    assert all(adaptive.log_loss(observe_changes(1)["no noise"], other) >= loss - 1e-4 for other in grid)
    assert few.shape / few.rate < many.shape / many.rate

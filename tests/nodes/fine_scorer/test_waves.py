"""Waves of scoring, their end, and the places of unscored works."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.nodes.fine_scorer.adaptive_stopping import BATCH
from outrider.nodes.fine_scorer.fine_scorer import NOT_READ
from outrider.nodes.fine_scorer.waves import STEP, StopWhenSettled, fit_antitonic, place_unscored
from outrider.state.chat import Budget
from outrider.state.response import Scoring
from support.chat_server import ChatServer, Reply, Request
from support.scorer_over_server import QUESTION, by_title, scorer, works


@dataclass
class Plan:
    """Waves of these sizes, then no more."""

    sizes: Iterator[int]
    observations: list[list[float | None]] = field(default_factory=list)

    max_risk: float = 0.05

    def wave(self, rules: Sequence[float], judged: Sequence[float | None], top_k: int, first: int) -> int:
        assert list(rules) == sorted(rules, reverse=True)
        self.observations.append(list(judged))
        return next(self.sizes, 0)

    def risk(self, rules: Sequence[float], judged: Sequence[float | None], top_k: int) -> float:
        return 0.0123


async def test_works_are_read_in_waves_until_the_rest_hardly_matters() -> None:
    plan = Plan(iter([20, 10]))
    with ChatServer(by_title) as server:
        result = await scorer(server, plan).score(works(*[0.9] * 12, *[0.2] * 38), QUESTION, 10, Budget(), 120.0)
    assert (result.scoring, len(server.requests)) == (Scoring(read=30, of=50, risk=0.0123, max_risk=0.05), 3)
    assert [len(judged) for judged in plan.observations] == [0, 20, 30]
    unread = [one for one in result.candidates if one.scored_by == "unscored"]
    assert [one.record.doc_id for one in unread] == [f"w{at}" for at in range(30, 50)]
    assert all(one.reason == f"{NOT_READ}; title has: work" for one in unread)
    assert [one.unread for one in result.candidates] == [one.scored_by == "unscored" for one in result.candidates]
    assert all(one.scored_by == "model" for one in result.candidates[:10])
    assert result.failures == ()


async def test_what_was_left_unread_stands_behind_all_that_was_read() -> None:
    """However few of those are relevant."""
    with ChatServer(by_title) as server:
        result = await scorer(server, Plan(iter([30]))).score(works(*[0.9] * 3, *[0.0] * 47), QUESTION, 10, Budget(), 120.0)
    assert [one.record.doc_id for one in result.candidates] == [f"w{at}" for at in range(50)]
    assert [one.unread for one in result.candidates] == [False] * 30 + [True] * 20
    assert [one.score for one in result.candidates] == sorted((one.score for one in result.candidates), reverse=True)


async def test_works_that_were_lost_make_the_risk_unknown() -> None:
    """Also where the reading stopped by itself."""

    def answer(request: Request) -> Reply:
        return Reply("down", status=500) if "work 10 " in request.user else by_title(request)

    with ChatServer(answer) as server:
        result = await scorer(server, Plan(iter([30]))).score(works(*[0.5] * 50), QUESTION, 10, Budget(), 120.0)
    assert result.scoring == Scoring(read=20, of=50, risk=None, max_risk=0.05)
    assert [one.unread for one in result.candidates] == [False] * 30 + [True] * 20


async def test_score_all_reads_all() -> None:
    with ChatServer(by_title) as server:
        result = await scorer(server, Plan(iter([10])), score_all=True).score(works(*[0.5] * 30), QUESTION, 10, Budget(), 120.0)
    assert result.scoring == Scoring(read=30, of=30)


async def test_a_model_that_is_down_is_not_called_for_ever() -> None:
    with ChatServer(lambda _: Reply("down", status=500)) as server:
        node = scorer(server, Plan(iter([10] * 20)))
        result = await node.score(works(*[0.5] * 200), QUESTION, 10, Budget(), 120.0)
        titles = {one["title"] for one in (work for request in server.requests for work in request.data["papers"])}
    assert (result.candidates, result.scoring) == ((), None)
    assert len(titles) == 2 * BATCH
    assert result.failures[0].message.startswith("200 of 200 works")


async def test_a_wave_with_one_score_is_no_failed_wave() -> None:
    """However many of its calls failed, and whichever of them ended last."""

    def answer(request: Request) -> Reply:
        good = any(one["title"].split()[1] in {"0", "30"} for one in request.data["papers"])
        return by_title(request) if good else Reply("down", status=500, delay_s=0.05)

    with ChatServer(answer) as server:
        result = await scorer(server, Plan(iter([30, 30]))).score(works(*[0.5] * 60), QUESTION, 10, Budget(), 120.0)
    assert result.scoring == Scoring(read=20, of=60, risk=None)
    assert sum(one.scored_by == "model" for one in result.candidates) == 20


async def test_the_rule_that_was_fitted_stops_the_reading() -> None:
    """Ten perfect works at the top can be beaten by none."""
    with ChatServer(by_title) as server:
        result = await scorer(server, StopWhenSettled(0.05)).score(works(*[1.0] * 10, *[0.0] * 90), QUESTION, 10, Budget(), 120.0)
    assert result.scoring is not None
    assert result.scoring.read < 60
    assert result.scoring.risk is not None
    assert result.scoring.risk <= 0.05
    assert [one.record.doc_id for one in result.candidates[:10]] == [f"w{at}" for at in range(10)]


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


def test_an_unscored_work_ranks_above_what_the_model_calls_irrelevant() -> None:
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

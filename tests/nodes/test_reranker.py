from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from threading import Event
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.nodes.organizer import select_and_sort
from outrider.nodes.reranker import LISTS_APART, SWITCHED_OFF, Reranker, rerank_candidates
from outrider.settings.model import RerankerSettings, RunSettings
from outrider.state import ports
from outrider.state.errors import ModelUnavailable, SearchError
from outrider.state.hits import Candidate
from outrider.state.pipeline import PipelineState, Update
from support.fakes import candidate, paper
from support.patience import BUSY_S

RUNTIME = cast("Any", None)


@dataclass
class Longest:
    """The longer a text, the better."""

    name: str = "longest"
    texts: list[str] = field(default_factory=list)
    release: Event | None = None
    """Nothing is scored before it is set."""
    error: SearchError | None = None

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        if self.release:
            self.release.wait(600)
        self.texts.append(query)
        if self.error:
            raise self.error
        return [float(len(text)) for text in texts]


@dataclass
class Fixed:
    """These scores, whatever the texts."""

    values: Sequence[float]
    name: str = "fixed"

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        return list(self.values[: len(texts)])


def works(*lengths: int) -> tuple[Candidate, ...]:
    """In falling order of score, with texts of these lengths."""
    return tuple(candidate(paper(f"w{at}", "t" * length), score=1 - at / 10, reason="title has: t") for at, length in enumerate(lengths))


async def run(candidates: tuple[Candidate, ...], reranker: ports.Reranker | None, why: str = "why", **request: Any) -> Update:
    run_timeout_s, weight = request.pop("run_timeout_s", 30.0), request.pop("weight", 1.0)
    calls: list[bool] = []

    async def provider(*, asked: bool) -> tuple[ports.Reranker | None, str]:
        calls.append(asked)
        return reranker, why

    node = Reranker(provider, RerankerSettings(depth=3, weight=weight), RunSettings(run_timeout_s=run_timeout_s), time.time)
    state = PipelineState(query="q", candidates=candidates, started_at=time.time(), **request)
    update = await node(state, RUNTIME)
    assert calls in ([], [bool(state.rerank_enabled)])
    return update


def ids(candidates: Sequence[Candidate]) -> list[str]:
    return [one.record.doc_id for one in candidates]


async def test_the_first_are_reordered_and_the_tail_follows_as_it_was() -> None:
    longest = Longest()
    update = await run(works(1, 3, 2, 9, 8), longest)
    candidates = update["candidates"]
    assert ids(candidates) == ["w1", "w2", "w0", "w3", "w4"]
    assert [one.reranked for one in candidates] == [1, 2, 3, None, None]
    assert candidates[0].scores == {"reranker": 3.0, "reranked": 1.0}
    assert [one.score for one in candidates] == pytest.approx([1.0, 0.9, 0.8, 0.7, 0.6]), "the scores show the order"
    assert candidates[0].reason == "title has: t; place 1 by longest, 2 before"
    assert longest.texts == ["q"]
    assert "bypassed" not in update
    assert "failures" not in update


def test_places_come_from_both_scores_by_weight() -> None:
    reranked = rerank_candidates(works(1, 3, 2), "q", Longest(), 50, 0.5)
    assert ids(reranked) == ["w1", "w0", "w2"]
    assert [one.scores["reranked"] for one in reranked] == pytest.approx([0.75, 0.5, 0.25])
    assert [one.score for one in reranked] == pytest.approx([0.95, 0.9, 0.85]), "from 0.8 to 1.0, as before"
    unweighted = rerank_candidates(works(1, 3, 2), "q", Longest(), 50, 0.0)
    assert ids(unweighted) == ["w0", "w1", "w2"]
    assert [one.score for one in unweighted] == pytest.approx([1.0, 0.9, 0.8]), "a weight of 0 changes nothing"


logits = st.floats(-20, 20).map(lambda value: round(value, 6))
scores_before = st.lists(st.floats(0, 1), min_size=2, max_size=12) | st.integers(2, 12).map(lambda count: [1.0] * count)


@given(scores_before, st.lists(logits, min_size=12, max_size=12), st.integers(1, 12), st.sampled_from([0.0, 0.3, 0.5, 1.0]))
def test_sorting_by_the_shown_score_gives_the_order(before: list[float], raw: list[float], depth: int, weight: float) -> None:
    """For any earlier scores, equal ones included, the score falls from first to last and is in [0, 1]; weight 1 is the plain order."""
    first = [candidate(paper(f"w{at:02}", "t"), score=score) for at, score in enumerate(sorted(before, reverse=True))]
    reranked = rerank_candidates(first, "q", Fixed(raw), depth, weight)
    shown = [one.score for one in reranked]
    assert shown == sorted(shown, reverse=True)
    assert all(0 <= score <= 1 for score in shown)
    assert ids(select_and_sort(reversed(reranked), 0.0)) == ids(reranked), "the organizer keeps it"
    if weight == 1 and depth > 1:
        values = [one.scores["reranker"] for one in reranked if one.reranked]
        assert values == sorted(values, reverse=True)


def test_equal_earlier_scores_still_show_the_order() -> None:
    """A lenient model gives the same score to all; the tail stays behind."""
    same = [replace(one, score=1.0) for one in works(1, 3, 2, 9)]
    shown = [one.score for one in rerank_candidates(same, "q", Longest(), 3, 1.0)]
    assert shown[0] > shown[1] > shown[2] >= shown[3]
    assert shown[0] == 1.0


def test_the_threshold_reads_the_models_score_not_the_mixed_one() -> None:
    """The cross-encoder puts the model's worst work first and its best one last: both pass or fail by what the model gave."""
    judged = [replace(one, scored_by="model", scores={"model": one.score}) for one in works(1, 2, 3)]
    low = replace(judged[2], score=0.1, scores={"model": 0.1})
    reranked = rerank_candidates([judged[0], judged[1], low], "q", Longest(), 50, 1.0)
    assert reranked[0].score == 1.0
    assert reranked[-1].score == pytest.approx(0.1)
    assert ids(select_and_sort(reranked, 0.3)) == ["w1", "w0"]


def test_what_a_model_left_unread_is_not_read_by_another() -> None:
    unread = [replace(one, unread=True) for one in works(1, 3, 2, 9)]
    reranked = rerank_candidates([*works(1, 3), *unread[2:]], "q", Longest(), 50, 1.0)
    assert ids(reranked) == ["w1", "w0", "w2", "w3"]
    assert [one.reranked for one in reranked] == [1, 2, None, None]
    assert ids(rerank_candidates(unread, "q", Longest(), 50, 1.0)) == ids(unread)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"rerank_enabled": False}, SWITCHED_OFF),
        ({"fusion_enabled": False}, LISTS_APART),
        ({"fusion_enabled": False, "rerank_enabled": False}, SWITCHED_OFF),
    ],
)
async def test_a_reranker_that_the_request_switches_off_does_not_run_and_is_reported(fields: dict[str, Any], why: str) -> None:
    longest = Longest()
    update = await run(works(1, 2), longest, **fields)
    assert [(step.step, step.why) for step in update["bypassed"]] == [("reranker", why)]
    assert "candidates" not in update
    assert longest.texts == []


async def test_when_requested_it_runs_even_on_lists_that_are_not_fused() -> None:
    update = await run(works(1, 2), Longest(), fusion_enabled=False, rerank_enabled=True)
    assert ids(update["candidates"]) == ["w1", "w0"]


async def test_without_a_reranker_the_reason_is_reported() -> None:
    update = await run(works(1, 2), None, "not probed yet")
    assert update == {"bypassed": update["bypassed"]}
    assert update["bypassed"][0].why == "not probed yet"


async def test_one_work_needs_no_order() -> None:
    assert await run(works(1), Longest()) == {}
    assert await run((), Longest()) == {}


async def test_a_model_that_fails_leaves_the_order_and_is_reported() -> None:
    update = await run(works(1, 2), Longest(error=ModelUnavailable("the server is gone")))
    assert "candidates" not in update
    assert [(one.node, one.error, one.message) for one in update["failures"]] == [("reranker", "ModelUnavailable", "the server is gone")]
    assert update["bypassed"][0].why == "the server is gone"


async def test_a_slow_model_is_left_behind_when_the_time_of_the_run_is_over() -> None:
    release, started = Event(), time.monotonic()
    update = await run(works(1, 2), Longest(release=release), run_timeout_s=0.1)
    assert time.monotonic() - started < 0.1 + BUSY_S
    release.set()
    assert "candidates" not in update
    assert update["failures"][0].error == "TimeoutError"
    assert "the order is as before" in update["bypassed"][0].why

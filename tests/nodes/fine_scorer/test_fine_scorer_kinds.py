"""Repositories and other works before the model at once, each read as if the others were not there.

The model is one in this process, since a property needs hundreds of readings; it knows what works are worth by their names.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.nodes.fine_scorer.adaptive_stopping import BATCH, WAVE, choose_next_wave, estimate_risk
from outrider.nodes.fine_scorer.fine_scorer import NOT_READ, FineScorer, ScoringPrompts, ScoringResult, combine_chances
from outrider.nodes.fine_scorer.waves import FIRST_REPOSITORIES, MAX_FAILED_CALLS, Stopping, StopWhenSettled, place_unscored
from outrider.nodes.rule_ranker import RuleRanker
from outrider.prompts import parse_fence
from outrider.settings.model import LlmSettings, RankingSettings, RepositorySettings, RunSettings
from outrider.state.chat import Budget, ChatRequest, Shape
from outrider.state.errors import BudgetSpent, ChatUnavailable, KeyRejected
from outrider.state.hits import Candidate
from outrider.state.records import Repository
from outrider.state.response import Scoring
from support.fakes import candidate, paper
from support.scorer_over_server import QUESTION, clock

MAX_RISK = 0.4
RELEVANCE_ALONE = dict.fromkeys(("maturity", "activity", "documentation", "community", "ease_of_use", "maintenance"), 0.0)


@dataclass
class Judge:
    """Knows each work's worth by its name; None: it never scores it. Each call takes some turns of the loop."""

    worth: Mapping[str, float | None]
    fails: Callable[[list[str]], Exception | None] = lambda _: None
    turns: Callable[[], int] = lambda: 0
    after_s: Callable[[list[str]], float] = lambda _: 0.0
    calls: list[list[str]] = field(default_factory=list)
    """Names, a list a call."""
    name: str = "judge"

    async def answer(self, request: ChatRequest, shape: type[Shape], budget: Budget) -> Shape:
        data: Any = parse_fence(request.user)
        names = [one["title"] for one in data["papers"]] if "papers" in data else [data["repository"]["name"]]
        with budget.call(request.node, 0.0):
            self.calls.append(names)
            for _ in range(self.turns()):
                await asyncio.sleep(0)
            await asyncio.sleep(self.after_s(names))
            if error := self.fails(names):
                raise error
        if "repository" in data:
            return shape.model_validate({"relevance": self.worth[names[0]]})
        scores = [(one["id"], self.worth[one["title"]]) for one in data["papers"]]
        return shape.model_validate({"results": [{"paper_id": name, "relevance_score": worth} for name, worth in scores]})


def scorer(chat: Judge, stopping: Stopping | None = None, *, score_all: bool = False) -> FineScorer:
    return FineScorer(
        chat=chat,
        why_no_model="",
        rules=RuleRanker(RankingSettings(), clock),
        prompts=ScoringPrompts.load(),
        weights=RepositorySettings(**RELEVANCE_ALONE),
        llm=LlmSettings(score_all=score_all),
        run=RunSettings(),
        clock=clock,
        stopping=stopping or StopWhenSettled(MAX_RISK),
    )


async def read(
    ordered: Sequence[Candidate], chat: Judge, top_k: int = 10, budget: Budget | None = None, timeout_s: float = 60.0
) -> ScoringResult:
    return await scorer(chat).score(ordered, QUESTION, top_k, budget or Budget(), timeout_s)


def papers(count: int) -> list[str]:
    return [f"p{at}" for at in range(count)]


def repositories(count: int) -> list[str]:
    return [f"r{at}" for at in range(count)]


def ordered(names: Sequence[str]) -> tuple[Candidate, ...]:
    """In this order by the rules."""
    records = [Repository(doc_id=name, title=name) if name.startswith("r") else paper(name, name) for name in names]
    return tuple(candidate(one, score=1 - at / 1000, scored_by="rules", reason="by rules") for at, one in enumerate(records))


def only(names: Sequence[str], kind: str) -> list[str]:
    return [name for name in names if name.startswith(kind)]


def summarize(result: ScoringResult, kind: str = "") -> list[tuple[Any, ...]]:
    """Of a kind, best first, what was made of each; the scores of those that the model did not score come from all others'."""
    return [
        (one.record.doc_id, one.score if one.scored_by == "model" else None, one.scored_by, one.unread, one.reason)
        for one in result.candidates
        if one.record.doc_id.startswith(kind)
    ]


def read_of(result: ScoringResult, kind: str = "") -> set[str]:
    return {one.record.doc_id for one in result.candidates if one.record.doc_id.startswith(kind) and not one.unread}


WORTH = st.sampled_from([0.0, 0.0, 0.3, 0.7, 1.0]) | st.floats(0, 1)
TOP_K = st.integers(1, 30)


@st.composite
def mixed(draw: st.DrawFn, worth: st.SearchStrategy[float | None] = WORTH) -> tuple[list[str], dict[str, float | None]]:
    """Names of both kinds, in any order by the rules, and what the model thinks of each."""
    names = [*papers(draw(st.integers(1, 70))), *repositories(draw(st.integers(1, 40)))]
    order = random.Random(draw(st.integers(0, 1_000)))
    return sorted(names, key=lambda name: (order.random(), name)), {name: draw(worth) for name in names}


@settings(max_examples=40, deadline=None)
@given(st.lists(WORTH | st.none(), min_size=1, max_size=120).filter(lambda worth: worth[0] is not None), TOP_K)
async def test_of_papers_alone_it_is_what_it_would_be_in_one_line(worth: list[float | None], top_k: int) -> None:
    """Waves of at most 30 until they are settled, and those left unread behind all that were not."""
    rules, count = [one.score for one in ordered(papers(len(worth)))], 0
    calls: list[list[str]] = []
    while more := choose_next_wave(rules, worth[:count], top_k, MAX_RISK):
        calls += [papers(len(worth))[at : min(at + BATCH, count + more)] for at in range(count, count + more, BATCH)]
        count += more
    scores = place_unscored([*worth[:count], *[None] * (len(worth) - count)], count)
    best_first = sorted(range(len(worth)), key=lambda at: (at >= count, -scores[at], at))

    chat = Judge(dict(zip(papers(len(worth)), worth, strict=True)))
    result = await read(ordered(papers(len(worth))), chat, top_k)
    expected = [(f"p{at}", scores[at], at >= count) for at in best_first]
    assert [(one.record.doc_id, one.score, one.unread) for one in result.candidates] == expected
    lost = None in worth[:count]
    stated = None if lost else estimate_risk(rules, worth[:count], top_k)
    assert result.scoring == Scoring(
        read=sum(one is not None for one in worth[:count]), of=len(worth), risk=stated, max_risk=MAX_RISK if count < len(worth) else 0.0
    )
    # a call that brought nothing is made again
    assert list(dict.fromkeys(tuple(call) for call in chat.calls if call in calls)) == [tuple(call) for call in calls]
    assert lost or chat.calls == calls


@settings(max_examples=40, deadline=None)
@given(mixed(), TOP_K)
async def test_each_kind_is_read_as_if_it_were_alone(drawn_case: tuple[list[str], dict[str, float | None]], top_k: int) -> None:
    names, worth = drawn_case
    chat = Judge(worth)
    both = await read(ordered(names), chat, top_k)
    assert both.scoring is not None
    alone = {kind: await read(ordered(only(names, kind)), Judge(worth), top_k) for kind in "pr"}
    assert {kind: summarize(both, kind) for kind in "pr"} == {kind: summarize(result, kind) for kind, result in alone.items()}
    stated = [result.scoring.risk for result in alone.values() if result.scoring and result.scoring.risk is not None]
    allowed = [result.scoring.max_risk for result in alone.values() if result.scoring]
    assert both.scoring.risk == pytest.approx(1 - (1 - stated[0]) * (1 - stated[1]))
    assert both.scoring.max_risk == pytest.approx(1 - (1 - allowed[0]) * (1 - allowed[1]))
    assert both.scoring.risk <= both.scoring.max_risk
    assert both.scoring.read == sum(result.scoring.read for result in alone.values() if result.scoring)


@settings(max_examples=40, deadline=None)
@given(mixed(), TOP_K, st.randoms(use_true_random=False))
async def test_how_the_kinds_are_mixed_changes_nothing_within_one(
    drawn_case: tuple[list[str], dict[str, float | None]], top_k: int, drawn: random.Random
) -> None:
    """The order within each kind is kept, and the interleaving is drawn anew."""
    names, worth = drawn_case
    kinds = drawn.sample([name[0] for name in names], len(names))
    remaining = {kind: iter(only(names, kind)) for kind in "pr"}
    one, other = [await read(ordered(those), Judge(worth), top_k) for those in (names, [next(remaining[kind]) for kind in kinds])]
    assert {kind: summarize(one, kind) for kind in "pr"} == {kind: summarize(other, kind) for kind in "pr"}
    assert one.scoring == other.scoring


@settings(max_examples=40, deadline=None)
@given(mixed(WORTH | st.none()), TOP_K)
async def test_what_was_left_unread_of_a_kind_stands_behind_all_that_was_not(
    drawn_case: tuple[list[str], dict[str, float | None]], top_k: int
) -> None:
    """Each work comes out once, and scores fall from the first to the last."""
    names, worth = drawn_case
    result = await read(ordered(names), Judge(worth), top_k)
    if result.candidates:
        unread = [one.unread for one in result.candidates]
        assert unread == sorted(unread)
        assert sorted(one.record.doc_id for one in result.candidates) == sorted(names)
        assert [one.score for one in result.candidates] == sorted((one.score for one in result.candidates), reverse=True)
        assert all(one.reason == f"{NOT_READ}; by rules" for one in result.candidates if one.unread)


@settings(max_examples=40, deadline=None)
@given(mixed(), TOP_K, st.randoms(use_true_random=False), st.none() | st.integers(1, 20))
async def test_who_answers_first_changes_neither_the_calls_nor_the_result(
    drawn_case: tuple[list[str], dict[str, float | None]], top_k: int, drawn: random.Random, max_calls: int | None
) -> None:
    """Nor what a budget is spent on."""
    names, worth = drawn_case
    quick, slow = Judge(worth), Judge(worth, turns=lambda: drawn.randrange(20))
    one, other = [await read(ordered(names), chat, top_k, Budget(max_calls)) for chat in (quick, slow)]
    assert quick.calls == slow.calls
    assert one == other
    assert max_calls is None or len(quick.calls) <= max_calls


@given(st.lists(st.floats(0, 1), max_size=5))
def test_the_chance_that_any_comes_true(chances: list[float]) -> None:
    """A chance, no less than that of each, and no more than their sum; of one alone it is exactly that."""
    chance = combine_chances(chances)
    assert max(chances, default=0.0) - 1e-12 <= chance <= min(1.0, sum(chances) + 1e-12)
    assert combine_chances(chances[:1]) == (chances[0] if chances else 0.0)


async def test_papers_that_rank_first_keep_no_repository_from_being_read() -> None:
    """Ten perfect papers settle the papers; the one relevant repository is ninth of its kind, behind all papers."""
    names = [*papers(75), *repositories(25)]
    worth = {name: 1.0 if name in papers(10) else 0.0 for name in names} | {"r8": 0.9}
    result = await read(ordered(names), Judge(worth))
    assert read_of(result, "p") == set(papers(WAVE))
    assert read_of(result, "r") >= set(repositories(FIRST_REPOSITORIES))
    assert [one.record.doc_id for one in result.candidates[:11]] == [*papers(10), "r8"]


async def test_both_begin_at_once_in_rule_order() -> None:
    """The papers' three calls and the first repositories are on their way before any is answered."""
    names = [name for pair in zip(papers(40), repositories(40), strict=True) for name in pair]
    release = asyncio.Event()

    class Waiting(Judge):
        async def answer(self, request: ChatRequest, shape: type[Shape], budget: Budget) -> Shape:
            verdict = await super().answer(request, shape, budget)
            await release.wait()
            return verdict

    chat = Waiting(dict.fromkeys(names, 0.0))
    reading = asyncio.create_task(read(ordered(names), chat))
    await asyncio.sleep(0.2)
    begun = list(chat.calls)
    release.set()
    await reading
    assert [call for call in begun if len(call) > 1] == [papers(40)[at : at + BATCH] for at in (0, 10, 20)]
    assert [call for call in begun if len(call) == 1] == [[name] for name in repositories(FIRST_REPOSITORIES)]
    assert begun[0] == papers(BATCH)
    assert begun[1] == ["r0"]


async def test_score_all_reads_both_at_once() -> None:
    names = [*papers(35), *repositories(15)]
    chat = Judge(dict.fromkeys(names, 0.5))
    result = await scorer(chat, score_all=True).score(ordered(names), QUESTION, 10, Budget(), 60.0)
    assert (result.scoring, len(chat.calls)) == (Scoring(read=50, of=50), 4 + 15)


@dataclass
class Steps:
    """One call a wave and kind."""

    max_risk: float = 0.05

    def wave(self, rules: Sequence[float], judged: Sequence[float | None], top_k: int, first: int) -> int:
        return min(len(rules) - len(judged), BATCH if first == WAVE else 1)

    def risk(self, rules: Sequence[float], judged: Sequence[float | None], top_k: int) -> float:
        return 0.01


async def test_a_model_that_is_down_is_not_called_again_for_each_kind() -> None:
    """As many failed calls as with one kind alone."""

    async def count_calls(names: Sequence[str]) -> int:
        chat = Judge(dict.fromkeys(names, 0.5), fails=lambda _: ChatUnavailable("down"))
        result = await scorer(chat, Steps()).score(ordered(names), QUESTION, 10, Budget(), 60.0)
        assert (result.candidates, result.scoring) == ((), None)
        assert [(one.error, one.message) for one in result.failures] == [
            ("ChatUnavailable", f"{len(names)} of {len(names)} works could not be scored: down")
        ]
        return len(chat.calls)

    assert [await count_calls(names) for names in (papers(60), repositories(60), [*papers(60), *repositories(60)])] == [
        MAX_FAILED_CALLS
    ] * 3


async def test_a_model_that_is_down_is_called_no_more_than_the_first_wave_of_both() -> None:
    names = [*papers(75), *repositories(25)]
    chat = Judge(dict.fromkeys(names, 0.5), fails=lambda _: ChatUnavailable("down"))
    result = await read(ordered(names), chat)
    assert (result.candidates, len(chat.calls)) == ((), WAVE // BATCH + FIRST_REPOSITORIES)


async def test_a_model_that_cannot_judge_one_kind_is_called_for_the_other() -> None:
    """After a failed first wave no more of that kind; the other is read as if alone, and the risk is unknown."""
    names = [*papers(75), *repositories(40)]
    worth: dict[str, float | None] = {name: 0.7 if at % 9 == 0 else 0.0 for at, name in enumerate(names)}
    chat = Judge(worth, fails=lambda names_of_call: ChatUnavailable("cannot") if names_of_call[0].startswith("r") else None)
    result = await read(ordered(names), chat)
    alone = await read(ordered(papers(75)), Judge(worth))
    assert only([name for call in chat.calls for name in call], "r") == repositories(FIRST_REPOSITORIES)
    assert summarize(result, "p") == summarize(alone, "p")
    assert {(one.scored_by, one.unread) for one in result.candidates if one.record.kind == "repository"} == {("unscored", False)}
    assert result.scoring is not None
    assert result.scoring.risk is None
    assert result.failures[0].message == "40 of 115 works could not be scored and keep their places by the rules: cannot"


@pytest.mark.parametrize("why", ["budget", "time"])
async def test_what_a_settled_kind_left_unread_is_not_lost_with_the_other(why: str) -> None:
    """The papers are settled by ten perfect ones; then there is no call, or no time, for the rest of the repositories."""
    names = [*papers(75), *repositories(40)]
    worth = {name: 1.0 if name in papers(10) else 0.7 if name.startswith("r") else 0.0 for name in names}
    worth |= dict.fromkeys(repositories(FIRST_REPOSITORIES - 9), 0.0)  # nine are left, one too few
    chat = Judge(worth, after_s=lambda names_of_call: 30.0 if why == "time" and names_of_call == [f"r{FIRST_REPOSITORIES}"] else 0.0)
    budget, timeout_s = (Budget(3 + FIRST_REPOSITORIES), 60.0) if why == "budget" else (Budget(), 1.0)
    result = await read(ordered(names), chat, budget=budget, timeout_s=timeout_s)
    assert read_of(result, "p") == set(papers(WAVE))
    assert read_of(result, "r") == set(repositories(40))
    assert [(one.node, one.error) for one in result.failures] == [
        ("fine_scorer.model", (BudgetSpent if why == "budget" else TimeoutError).__name__)
    ]
    lost = [one for one in result.candidates if one.scored_by == "unscored" and not one.unread]
    assert result.failures[0].message.startswith(f"{len(lost)} of 115 works")
    assert {one.record.kind for one in lost} == {"repository"}


async def test_a_key_that_is_rejected_for_one_kind_ends_both() -> None:
    names = [*papers(75), *repositories(40)]
    chat = Judge(
        dict.fromkeys(names, 0.0),
        fails=lambda names_of_call: KeyRejected("no such key") if names_of_call[0].startswith("r") else None,
        after_s=lambda names_of_call: 30.0 if names_of_call[0].startswith("p") else 0.0,
    )
    with pytest.raises(KeyRejected):
        await asyncio.wait_for(read(ordered(names), chat), 10.0)
    assert len(chat.calls) <= 3 + FIRST_REPOSITORIES

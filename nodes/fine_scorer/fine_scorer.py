"""How well each work answers the request, by a model: repositories and other works apart, each read in rule order until the first of
them can hardly change any more.

What the model did not score is `unscored`, not irrelevant: it stands where the rules put it among the others (see `unscored`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from outrider.nodes.fine_scorer.judgement import Judgement, Question
from outrider.nodes.fine_scorer.papers import PaperScorer
from outrider.nodes.fine_scorer.place_unscored import place_unscored
from outrider.nodes.fine_scorer.repositories import RepositoryScorer
from outrider.nodes.fine_scorer.waves import Judges, Loss, ReadingState, Stopping
from outrider.nodes.rule_ranker import RuleRanker
from outrider.nodes.run_settings import end_rejected_run, run_budget, time_left
from outrider.prompts import Prompt, load
from outrider.prompts.domains import load_domain, select_section
from outrider.settings.model import LlmSettings, RepositorySettings, RunSettings
from outrider.state.chat import Budget, Chat
from outrider.state.errors import KeyRejected
from outrider.state.hits import Candidate
from outrider.state.pipeline import PipelineState, RunContext, Update
from outrider.state.ports import Clock
from outrider.state.response import Bypass, Failure, Scoring, Usage

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

NODE = "fine_scorer"
MODEL_NODE = "fine_scorer.model"
"""Failures that cost some works their scores; one of `fine_scorer` itself says that there are none, and rules rank instead."""
TIME_SHARE = 0.8
"""Of the time that a run has left; what comes after needs the rest."""
NOT_READ = "not read by the model, since it would hardly come among the first"


@dataclass(frozen=True, slots=True)
class ScoringPrompts:
    """What the model is told, for one field of knowledge."""

    papers: Prompt
    repositories: Prompt
    about: Prompt | None = None
    """What it adds for the field."""

    @classmethod
    def load(cls, name: str = "general") -> ScoringPrompts:
        """`name` is `llm.domain`; raises `SettingsError` where it cannot be used."""
        asked = frozenset({"domain"})
        return cls(load("score_papers", asked), load("score_repository", asked), load_domain(name))

    @property
    def versions(self) -> Mapping[str, str]:
        """For the provenance hash."""
        return {f"prompt:{prompt.name}": prompt.version for prompt in (self.papers, self.repositories, self.about) if prompt}

    def text(self, prompt: Prompt) -> str:
        return prompt.fill(domain=select_section(self.about, "judging")).strip()


@dataclass(frozen=True, slots=True)
class ScoringResult:
    """What came of it: `candidates` best first, empty where the model scored none."""

    candidates: tuple[Candidate, ...]
    scoring: Scoring | None = None
    """None where no model scored any."""
    failures: tuple[Failure, ...] = ()
    bypassed: tuple[Bypass, ...] = ()
    """Why there is no model, where there is none."""
    usage: Usage = field(default_factory=Usage)
    """What the models of the run have cost so far."""


@dataclass(frozen=True, slots=True)
class FineScorer:
    """Reads candidates, strategy, intent, top_k; writes candidates, best first (score, reason, tags, radar), scoring,
    failures, bypassed, usage.

    Without a model it writes only why. Where the model scored nothing, it writes `Failure(node="fine_scorer")` and no candidates;
    where it scored some, `Failure(node="fine_scorer.model")`, one a kind of error. A rejected key ends the run.
    """

    chat: Chat | None
    why_no_model: str
    rules: RuleRanker
    prompts: ScoringPrompts
    weights: RepositorySettings
    llm: LlmSettings
    run: RunSettings
    clock: Clock
    stopping: Stopping
    """Without effect where `llm.score_all` has all works read."""

    async def __call__(self, state: PipelineState, runtime: Runtime[RunContext]) -> Update:
        if not state.candidates:
            return {}
        if self.chat is None:
            return {"bypassed": (*state.bypassed, Bypass(step=NODE, why=self.why_no_model))}
        budget = run_budget(runtime, self.llm, state.usage)
        left_s = time_left(runtime, self.run, self.clock, state)
        ordered = (await self.rules(state, runtime))["candidates"]
        try:
            made = await self.score(ordered, Question.from_state(state), state.top_k, budget, left_s * TIME_SHARE)
        except KeyRejected as error:
            return end_rejected_run(state, NODE, error, budget.spent)
        update: Update = {"failures": (*state.failures, *made.failures), "usage": made.usage}
        return {**update, "candidates": made.candidates, "scoring": made.scoring} if made.candidates else update

    async def score(self, ordered: Sequence[Candidate], question: Question, top_k: int, budget: Budget, timeout_s: float) -> ScoringResult:
        """The same without LangGraph, for candidates in the order of the rules, which their `score` gives. Needs a chat."""
        works, rules = [one.record for one in ordered], [one.score for one in ordered]
        stopping = None if self.llm.score_all else self.stopping
        reading = ReadingState.from_works(works)
        try:
            async with asyncio.timeout(max(timeout_s, 0.0)):
                await self._judges().read(works, rules, question, budget, stopping, top_k, reading)
        except TimeoutError:
            late = f"not done within the {max(timeout_s, 0.0):.3g} s that scoring may take of this run"
            reading.lose(Loss(TimeoutError.__name__, late))
        failures = tuple(_failures(reading, len(works)))
        if not reading.judged:
            return ScoringResult((), failures=failures, usage=budget.spent)
        scoring = self._scoring(rules, reading, top_k)
        return ScoringResult(sort_candidates(ordered, reading), scoring, failures, usage=budget.spent)

    def _scoring(self, rules: Sequence[float], reading: ReadingState, top_k: int) -> Scoring:
        """The estimate is of works after those that were read; it says nothing of works that were lost among them."""
        settled = reading.partly_read()
        risks = [
            self.stopping.risk([rules[place] for place in line.places], reading.scores(line.places[: line.read]), top_k) for line in settled
        ]
        risk = None if reading.lost else combine_chances(risks)
        return Scoring(
            read=len(reading.judged), of=len(rules), risk=risk, max_risk=combine_chances([self.stopping.max_risk] * len(settled))
        )

    def _judges(self) -> Judges:
        if self.chat is None:
            raise ValueError("scoring needs a chat")
        weights = self.weights.model_dump()
        return Judges(
            PaperScorer(self.chat, self.prompts.text(self.prompts.papers), NODE),
            RepositoryScorer(self.chat, self.prompts.text(self.prompts.repositories), NODE, weights, self.clock),
        )


def combine_chances(chances: Iterable[float]) -> float:
    """The chance that one at least comes true, as if none knew of the others: the first works of all change only with those of a line."""
    return reduce(lambda one, other: one + other * (1 - one), chances, 0.0)


def sort_candidates(ordered: Sequence[Candidate], reading: ReadingState) -> tuple[Candidate, ...]:
    """All candidates, best first, ties in rule order; what was left unread on purpose stands behind all that was not."""
    unread = reading.unread()
    places = sorted(range(len(ordered)), key=lambda place: place in unread)
    values = dict(zip(places, place_unscored(reading.scores(places), len(ordered) - len(unread)), strict=True))
    made = [_judged(one, reading, place, values[place]) for place, one in enumerate(ordered)]
    return tuple(sorted(made, key=lambda one: (one.unread, -one.score)))  # stable: ties stay in rule order


def _judged(one: Candidate, reading: ReadingState, place: int, score: float) -> Candidate:
    said = reading.judged.get(place)
    if said is None:
        lost = reading.lost.get(place)
        why = f"could not be scored by the model ({lost.error})" if lost else NOT_READ
        return replace(one, score=score, scored_by="unscored", unread=lost is None, reason=f"{why}; {one.reason}")
    return replace(one, score=score, scored_by="model", **_told(one, said))


def _told(one: Candidate, said: Judgement) -> dict[str, Any]:
    scores = {**one.scores, "model": said.score, **said.scores}
    return {"scores": scores, "reason": said.reason or one.reason, "tags": said.tags, "radar": said.radar}


def _failures(reading: ReadingState, count: int) -> list[Failure]:
    """One a kind of error; of the node itself where the model scored nothing."""
    node = MODEL_NODE if reading.judged else NODE
    kept = "and keep their places by the rules" if reading.judged else ""
    return [
        Failure(
            node=node,
            error=lost.error,
            message=f"{many:,} of {count:,} works could not be scored{f' {kept}' if kept else ''}: {lost.message}",
        )
        for many, lost in reading.losses()
    ]

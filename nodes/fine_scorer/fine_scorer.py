"""The node that scores how well each work answers the request, by a model.

Repositories and other works are read separately, each in rule order until the first works can hardly change any more. A work that the
model did not score is `unscored`, not irrelevant: it keeps its place by the rules (see `place_unscored`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from outrider.nodes.fine_scorer.dimensions import estimate_parts
from outrider.nodes.fine_scorer.judgement import Question
from outrider.nodes.fine_scorer.papers import PaperScorer
from outrider.nodes.fine_scorer.repositories import RepositoryScorer
from outrider.nodes.fine_scorer.waves import Judges, Loss, ReadingState, Stopping, place_unscored
from outrider.nodes.rule_ranker import RuleRanker
from outrider.nodes.run_settings import end_rejected_run, run_budget, time_left
from outrider.prompts import Prompt, load, load_domain, select_section
from outrider.settings.model import LlmSettings, RepositorySettings, RunSettings
from outrider.state.chat import Budget, Chat
from outrider.state.errors import KeyRejected
from outrider.state.hits import Candidate
from outrider.state.pipeline import PipelineState, RunContext, Update
from outrider.state.ports import Clock
from outrider.state.records import Repository
from outrider.state.response import Bypass, Failure, Scoring, Usage

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

NODE = "fine_scorer"
MODEL_NODE = "fine_scorer.model"
"""Node of failures that cost some works their scores. A failure of `fine_scorer` itself means that none was scored and rules rank."""
TIME_SHARE = 0.8
"""Share of the run's remaining time; later steps need the rest."""
NOT_READ = "not read by the model, since it would hardly come among the first"


@dataclass(frozen=True, slots=True)
class ScoringPrompts:
    """The prompts for one field of knowledge."""

    papers: Prompt
    repositories: Prompt
    about: Prompt | None = None
    """The text that the field adds."""

    @classmethod
    def load(cls, name: str = "general") -> ScoringPrompts:
        """`name` is `llm.domain`; raises `SettingsError` for an unknown one."""
        placeholders = frozenset({"domain"})
        return cls(load("score_papers", placeholders), load("score_repository", placeholders), load_domain(name))

    @property
    def versions(self) -> Mapping[str, str]:
        """For the provenance hash."""
        return {f"prompt:{prompt.name}": prompt.version for prompt in (self.papers, self.repositories, self.about) if prompt}

    def text(self, prompt: Prompt) -> str:
        return prompt.fill(domain=select_section(self.about, "judging")).strip()


@dataclass(frozen=True, slots=True)
class ScoringResult:
    """`candidates` are best first, empty if the model scored none."""

    candidates: tuple[Candidate, ...]
    scoring: Scoring | None = None
    """None if the model scored none."""
    failures: tuple[Failure, ...] = ()
    bypassed: tuple[Bypass, ...] = ()
    """Why there is no model, if there is none."""
    usage: Usage = field(default_factory=Usage)
    """Cost of the run's models so far."""


@dataclass(frozen=True, slots=True)
class FineScorer:
    """Reads candidates, strategy, intent, top_k; writes candidates, best first (score, reason, tags, radar), scoring,
    failures, bypassed, usage.

    Without a model it writes only the reason. If the model scored nothing, it writes `Failure(node="fine_scorer")` and no candidates;
    if it scored some, `Failure(node="fine_scorer.model")` for each kind of error. A rejected key ends the run.
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
    """Without effect with `llm.score_all`."""

    async def __call__(self, state: PipelineState, runtime: Runtime[RunContext]) -> Update:
        if not state.candidates:
            return {}
        if self.chat is None:
            return {"bypassed": (*state.bypassed, Bypass(step=NODE, why=self.why_no_model))}
        budget = run_budget(runtime, self.llm, state.usage)
        left_s = time_left(runtime, self.run, self.clock, state)
        ordered = (await self.rules(state, runtime))["candidates"]
        try:
            result = await self.score(ordered, Question.from_state(state), state.top_k, budget, left_s * TIME_SHARE)
        except KeyRejected as error:
            return end_rejected_run(state, NODE, error, budget.spent)
        update: Update = {"failures": (*state.failures, *result.failures), "usage": result.usage}
        return {**update, "candidates": result.candidates, "scoring": result.scoring} if result.candidates else update

    async def score(self, ordered: Sequence[Candidate], question: Question, top_k: int, budget: Budget, timeout_s: float) -> ScoringResult:
        """The same without LangGraph, for candidates in rule order with their rule scores. Needs a chat."""
        if self.chat is None:
            raise ValueError("scoring needs a chat")
        works, rules = [candidate.record for candidate in ordered], [candidate.score for candidate in ordered]
        estimates = estimate_parts([work for work in works if isinstance(work, Repository)], self.clock())
        prompt, weights = self.prompts.text(self.prompts.repositories), self.weights.model_dump()
        judges = Judges(
            PaperScorer(self.chat, self.prompts.text(self.prompts.papers), NODE),
            RepositoryScorer(self.chat, prompt, NODE, weights, self.clock, estimates),
        )
        stopping = None if self.llm.score_all else self.stopping
        reading = ReadingState.from_works(works)
        try:
            async with asyncio.timeout(max(timeout_s, 0.0)):
                await judges.read(works, rules, question, budget, stopping, top_k, reading)
        except TimeoutError:
            late = f"not done within the {max(timeout_s, 0.0):.3g} s that scoring may take of this run"
            reading.lose(Loss(TimeoutError.__name__, late))
        # one for each kind of error; of the node itself if the model scored nothing
        node, places = (MODEL_NODE, " and keep their places by the rules") if reading.judged else (NODE, "")
        failures = tuple(
            Failure(node=node, error=loss.error, message=f"{lost:,} of {len(works):,} works could not be scored{places}: {loss.message}")
            for lost, loss in reading.losses()
        )
        if not reading.judged:
            return ScoringResult((), failures=failures, usage=budget.spent)
        return ScoringResult(sort_candidates(ordered, reading), self._estimate(rules, reading, top_k), failures, usage=budget.spent)

    def _estimate(self, rules: Sequence[float], reading: ReadingState, top_k: int) -> Scoring:
        """The risk is None if works were lost: the estimate covers only the unread works behind those that were read."""
        queues = reading.partly_read()
        risks: list[float] = []
        for queue in queues:
            scores = reading.scores(queue.places[: queue.read])
            risks.append(self.stopping.risk([rules[place] for place in queue.places], scores, top_k))
        return Scoring(
            read=len(reading.judged),
            of=len(rules),
            risk=None if reading.lost else combine_chances(risks),
            max_risk=combine_chances([self.stopping.max_risk] * len(queues)),
        )


def combine_chances(chances: Iterable[float]) -> float:
    """The chance of at least one of these independent events: the top changes only with the top of one queue."""
    return reduce(lambda one, other: one + other * (1 - one), chances, 0.0)


def sort_candidates(ordered: Sequence[Candidate], reading: ReadingState) -> tuple[Candidate, ...]:
    """All candidates, best first, ties in rule order; works left unread on purpose come last."""
    unread = reading.unread()
    places = sorted(range(len(ordered)), key=lambda place: place in unread)
    scores = dict(zip(places, place_unscored(reading.scores(places), len(ordered) - len(unread)), strict=True))
    scored: list[Candidate] = []
    for place, candidate in enumerate(ordered):
        judgement, loss = reading.judged.get(place), reading.lost.get(place)
        changes: dict[str, Any] = {"score": scores[place], "scored_by": "model" if judgement else "unscored"}
        if judgement:
            changes |= {"scores": {**candidate.scores, "model": judgement.score, **judgement.scores}}
            changes |= {"reason": judgement.reason or candidate.reason, "tags": judgement.tags, "radar": judgement.radar}
        else:
            why = f"could not be scored by the model ({loss.error})" if loss else NOT_READ
            changes |= {"unread": loss is None, "reason": f"{why}; {candidate.reason}"}
        scored.append(replace(candidate, **changes))
    return tuple(sorted(scored, key=lambda candidate: (candidate.unread, -candidate.score)))  # stable: ties stay in rule order

"""Six dimensions of a repository, each with what it follows from: four from metadata by the formulas of `dimensions`, two by a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from outrider.nodes.fine_scorer.dimensions import PARTS, Dimension, Facts, dimensions
from outrider.nodes.fine_scorer.judgement import CallResult, Judgement, Question
from outrider.nodes.fine_scorer.repositories import RepositoryScorer
from outrider.state.analysis import AnalysisState, AnalysisUpdate, Rating
from outrider.state.chat import Budget
from outrider.state.errors import KeyRejected
from outrider.state.ports import Clock
from outrider.state.records import Repository
from outrider.state.response import Failure

NODE = "ratings"
BY_MODEL = ("documentation", "ease_of_use")
NO_PAPER = "only repositories are rated on dimensions"


@dataclass(frozen=True, slots=True)
class Ratings:
    """Reads record, question; writes ratings, relevance, usage, failures, notes. Nothing for a paper."""

    scorer: RepositoryScorer | None
    why_no_model: str
    clock: Clock

    async def __call__(self, state: AnalysisState, budget: Budget) -> AnalysisUpdate:
        if not isinstance(state.record, Repository):
            return {"notes": (*state.notes, NO_PAPER)}
        judged, failures = await self._judged(state.record, state.question, budget)
        judgement = judged.works[0]
        ratings = sorted([*rate_by_metadata(state.record, self.clock()), *self._by_model(judgement)], key=lambda one: one.dimension)
        relevance = judgement.scores.get("relevance") if judgement else None
        return {
            "ratings": tuple(ratings),
            "relevance": relevance,
            "usage": budget.spent,
            "failures": (*state.failures, *failures),
            "notes": state.notes if self.scorer else (*state.notes, f"no model judged: {self.why_no_model}"),
        }

    async def _judged(self, record: Repository, question: str, budget: Budget) -> tuple[CallResult, tuple[Failure, ...]]:
        if self.scorer is None:
            return CallResult((None,)), ()
        try:
            judged = await self.scorer.judge(record, Question(question), budget)
        except KeyRejected as error:
            judged = CallResult((None,), error)
        failures = (Failure(node=NODE, error=type(judged.error).__name__, message=str(judged.error)),) if judged.error else ()
        return judged, failures

    def _by_model(self, judgement: Judgement | None) -> list[Rating]:
        if judgement is None:
            why = "a model that could judge it" if self.scorer is None else "an answer of the model"
            return [Rating(dimension=name, score=None, missing=(why,), by="model") for name in BY_MODEL]
        radar = {str(one["dimension"]): one for one in judgement.radar}
        return [_said(name, radar[name]) for name in BY_MODEL]


def _said(name: str, told: Mapping[str, JsonValue]) -> Rating:
    score, reason = told.get("score"), str(told.get("reason") or "")
    return Rating(dimension=name, score=score if isinstance(score, int | float) else None, because=(reason,) if reason else (), by="model")


def rate_by_metadata(record: Repository, now: float) -> list[Rating]:
    """The four of `dimensions`, with each part of the mean as it counts."""
    facts = Facts(record, now)
    return [_explained(name, one, facts) for name, one in dimensions(record, now).items()]


def _explained(name: str, found: Dimension, facts: Facts) -> Rating:
    if name == "maintenance" and facts.record.archived:
        return Rating(dimension=name, score=0.0, because=("it is archived",))
    parts = ((figure, part.value(facts, figure)) for figure, part in PARTS[name].items())
    because = tuple(f"{figure} {facts.value(figure)}: {value:.2f}" for figure, value in parts if value is not None)
    return Rating(dimension=name, score=None if found.score is None else round(found.score, 2), because=because, missing=found.missing)

"""Ratings of a repository on six dimensions: four by formulas from metadata, two by a model."""

from __future__ import annotations

from dataclasses import dataclass

from outrider.nodes.fine_scorer.dimensions import PARTS, Facts, dimensions
from outrider.nodes.fine_scorer.judgement import CallResult, Question
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
        result = CallResult((None,))
        if self.scorer is not None:
            try:
                result = await self.scorer.judge(state.record, Question(state.question), budget)
            except KeyRejected as error:
                result = CallResult((None,), error)
        judgement = result.works[0]
        ratings = rate_by_metadata(state.record, self.clock())
        if judgement is None:
            missing = "a model that could judge it" if self.scorer is None else "an answer of the model"
            ratings += [Rating(dimension=name, score=None, missing=(missing,), by="model") for name in BY_MODEL]
        else:
            radar = {str(entry["dimension"]): entry for entry in judgement.radar}
            for name in BY_MODEL:
                score, reason = radar[name].get("score"), str(radar[name].get("reason") or "")
                known = score if isinstance(score, int | float) else None
                ratings.append(Rating(dimension=name, score=known, because=(reason,) if reason else (), by="model"))
        failures = (Failure(node=NODE, error=type(result.error).__name__, message=str(result.error)),) if result.error else ()
        return {
            "ratings": tuple(sorted(ratings, key=lambda rating: rating.dimension)),
            "relevance": judgement.scores.get("relevance") if judgement else None,
            "usage": budget.spent,
            "failures": (*state.failures, *failures),
            "notes": state.notes if self.scorer else (*state.notes, f"no model judged: {self.why_no_model}"),
        }


def rate_by_metadata(record: Repository, now: float) -> list[Rating]:
    """The four dimensions from metadata, with each part of the mean; `now` in seconds since the epoch."""
    facts = Facts(record, now)
    ratings: list[Rating] = []
    for name, dimension in dimensions(record, now).items():
        if name == "maintenance" and record.archived:
            ratings.append(Rating(dimension=name, score=0.0, because=("it is archived",)))
            continue
        parts = ((figure, part.value(facts, figure)) for figure, part in PARTS[name].items())
        because = tuple(f"{figure} {facts.value(figure)}: {value:.2f}" for figure, value in parts if value is not None)
        score = None if dimension.score is None else round(dimension.score, 2)
        ratings.append(Rating(dimension=name, score=score, because=because, missing=dimension.missing))
    return ratings

"""Parts of a score with their weights and values, recomputed with the weights in use.

Parts are given only where their weighted mean is the score: a reranker, or settings that have changed since, leave none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pydantic import Field

from outrider.nodes import rule_ranker
from outrider.nodes.fine_scorer.dimensions import overall
from outrider.state.model import Model

if TYPE_CHECKING:
    from outrider.settings.model import RankingSettings, RepositorySettings, Settings
    from outrider.state.hits import Hit
    from outrider.state.response import SearchResponse

NAMES = {"bm25": "text", "meaning": "subject", "summary": "subject", "": "subject"}
"""Keys of a hit's scores by the name of their part; others have the same."""
EXACT, ROUNDED = 1e-4, 6e-3
"""How far the mean of parts may be from the score: those of a radar are rounded."""


class ScorePart(Model):
    name: str = Field(description="`text`, `subject`, `fused`, `recency`, `citations`, `relevance`, or a dimension.")
    weight: float = Field(description="Of all parts, together 1.")
    value: float = Field(description="0 to 1.")
    adds: float = Field(description="What it adds to the score.")


def read_parts(hit: Hit, answer: SearchResponse, settings: Settings) -> tuple[ScorePart, ...]:
    """The parts that count, in the order of their weights; none where they do not make up the score."""
    if hit.scored_by == "model":
        return _read_model_parts(hit, settings.repository)
    if hit.scored_by != "rules" or hit.reason == rule_ranker.NAMED:
        return ()
    weights = rule_ranker.weigh_wishes(settings.ranking, str(answer.query))
    by_vectors = any(rule_ranker.DENSE in other.scores for other in answer.hits)
    for halved in (by_vectors, not by_vectors):  # the work that was found by vectors may not be among the hits
        parts = _read_rule_parts(hit, rule_ranker.weigh_texts(weights, by_vectors=halved))
        if abs(sum(part.adds for part in parts) - hit.score + hit.scores.get("learned", 0.0)) < EXACT:
            return parts
    return ()


def _read_rule_parts(hit: Hit, weights: RankingSettings) -> tuple[ScorePart, ...]:
    about = next((name for name in ("meaning", "summary") if name in hit.scores), "")
    return _make_parts(rule_ranker.weigh_parts(weights, about, is_repository=hit.kind == "repository"), hit.scores)


def _read_model_parts(hit: Hit, weights: RepositorySettings) -> tuple[ScorePart, ...]:
    if not hit.radar:
        return (ScorePart(name="relevance", weight=1.0, value=hit.score, adds=hit.score),)
    relevance = hit.scores.get("relevance", 0.0)
    counted = {str(one["dimension"]): _read_number(one.get("counted", one["score"])) for one in hit.radar}
    if abs(overall(relevance, counted, weights.model_dump()) - hit.score) >= ROUNDED:
        return ()
    values = {"relevance": relevance, **{name: value / 10 for name, value in counted.items()}}
    return _make_parts({name: float(getattr(weights, name)) for name in values}, values)


def _read_number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _make_parts(weights: Mapping[str, float], values: Mapping[str, float]) -> tuple[ScorePart, ...]:
    total = sum(weights.values()) or 1.0
    rows: Iterable[tuple[str, float]] = sorted(weights.items(), key=lambda item: -item[1])
    return tuple(
        ScorePart(name=NAMES.get(name, name), weight=weight / total, value=(value := values.get(name, 0.0)), adds=weight * value / total)
        for name, weight in rows
        if weight
    )

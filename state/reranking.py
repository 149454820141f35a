"""Texts and scores of rerankers, and verdicts of their evaluation on a library.

Here because nodes and the library both need them and may not import each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from outrider.state.model import Model
from outrider.state.records import Record

READ_CHARS = 4_000
"""Characters of title, abstract and body together: about the 1,000 tokens that small rerankers were trained on."""

NOT_PROBED = "not probed yet: `outrider library probe` shows whether one helps"
LEAST_STEP = 1e-6
"""Least mean distance of neighbouring scores after reranking."""

Effect = Literal["better", "unclear", "worse"]


class Verdict(Model):
    """One reranker, judged on one library by known items: queries made from a record that the ranking must find again."""

    reranker: str
    revision: str = Field("", description="Revision of the judged weights; a verdict without it is ignored.")
    effect: Effect = Field(description="Better or worse if p is below .05; else unclear.")
    chosen: bool = Field(False, description="The best of those that make the ranking better; `auto` runs it.")
    before: float = Field(description="Mean nDCG@10 of the first stage.")
    after: float = Field(description="Mean nDCG@10 of the reranked list.")
    p: float = Field(description="p-value of the paired randomisation test, two-sided.")
    queries: int
    depth: int
    weight: float = Field(description="Weight of the reranker's score against the score before it.")
    seed: int
    snapshot: str = Field(description="Library id and version that it was judged on.")
    judged_at: str = Field(description="ISO 8601; all verdicts of one probe have the same.")
    why: str = Field(description="One sentence, for answers.")

    @property
    def difference(self) -> float:
        return self.after - self.before


def verdict_order(verdict: Verdict) -> tuple[bool, float, str]:
    """Sort key for verdicts of one evaluation: better rankings first, then by difference, then by name."""
    return verdict.effect != "better", -verdict.difference, verdict.reranker


def make_reranker_text(record: Record, chars: int = READ_CHARS) -> str:
    """The text that a reranker reads: title, abstract or description, and the beginning of the body."""
    return "\n\n".join(part for part in (record.title, record.full_text()[:chars]) if part)[:chars]


def blend_scores(before: Sequence[float], after: Sequence[float], weight: float) -> list[float]:
    """`weight * after + (1 - weight) * before`, each scaled to [0, 1] over the list (min-max); all-equal scores count as 0."""
    return [weight * new + (1 - weight) * old for new, old in zip(_scale(after), _scale(before), strict=True)]


def scale_to_earlier(mixed: Sequence[float], before: Sequence[float]) -> list[float]:
    """`mixed`, in [0, 1], on the scale of the earlier scores: 0 becomes the lowest of `before`, 1 the highest. Results are in [0, 1].

    A weight of 0 gives the earlier scores back. If these are (almost) equal, the scale is widened to `LEAST_STEP` a work, so that the
    results show the order.
    """
    low, high = min(before, default=0.0), max(before, default=0.0)
    if high - low < (least := LEAST_STEP * len(before)):
        low = max(0.0, high - least)
        high = low + least
    return [min(1.0, low + (high - low) * value) for value in mixed]


def order_by_score(scores: Sequence[float]) -> list[int]:
    """Places, best score first; of equal scores the earlier place."""
    return sorted(range(len(scores)), key=lambda place: (-scores[place], place))


def _scale(values: Sequence[float]) -> list[float]:
    low, high = min(values, default=0.0), max(values, default=0.0)
    return [(value - low) / (high - low) if high > low else 0.0 for value in values]

"""Assessment of screening: advice to stop, proof of the target, a lower bound of recall"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from outrider.state.errors import BadRequest
from outrider.state.model import Model
from outrider.statistics.ranked_stop import compute_ranked_p_value
from outrider.statistics.recall_certificate import (
    DrawnSample,
    Method,
    OpenSample,
    Proof,
    RecallBound,
    count_tolerated,
    is_proven,
    size_sealed_sample,
)

NextStep = Literal["read by rank", "draw", "stop"]
START_OF_DRAWING = {True: 0.9, False: 0.6}
"""p-value of the ranked test below which drawing begins, for sealed samples and open ones. It changes the work alone, never the validity.

A sealed sample loses little by an early beginning. An open one loses evidence with each relevant record that it draws, and reading on loses
little where much of the rest must be drawn anyway (`python -m bench stopping`)."""


class Advice(Model):
    """The test on the ranked order. It guarantees nothing."""

    p_value: float = Field(ge=0, le=1)
    suggests_stop: bool
    sentence: str


class ScreeningAssessment(Model):
    """What is known of a review's screening."""

    total: int = Field(ge=1)
    screened: int = Field(ge=0)
    included: int = Field(ge=0)
    target_recall: float
    confidence: float
    advice: Advice
    proof: Proof
    recall: RecallBound
    next_step: NextStep = Field(description="What costs the least work: read by rank, draw a record, or stop.")


def assess_screening(
    labels_in_order: Sequence[bool],
    total: int,
    sample: DrawnSample | None = None,
    target_recall: float = 0.95,
    confidence: float = 0.95,
) -> ScreeningAssessment:
    """Assess the labels (relevant or not) in the order of screening, of `total` records; drawn ones are among them.

    Proof and lower bound are two statements, and each holds with the confidence by itself. Raises `BadRequest`.
    """
    sample = sample or DrawnSample()
    _check(labels_in_order, total, sample, target_recall, confidence)
    drawn = frozenset(sample.positions)
    ranked = [label for at, label in enumerate(labels_in_order) if at not in drawn]
    p_value = compute_ranked_p_value(ranked, total - len(drawn), target_recall)
    advice = Advice(p_value=p_value, suggests_stop=p_value < 1 - confidence, sentence=_advise(p_value, target_recall, confidence))
    open_sample = OpenSample(labels_in_order, sorted(drawn), total, target_recall)
    proof = _prove(open_sample, sample, total, target_recall, confidence)
    return ScreeningAssessment(
        total=total, screened=len(labels_in_order), included=open_sample.found, target_recall=target_recall, confidence=confidence,
        advice=advice, proof=proof, recall=_bound_recall(open_sample, confidence), next_step=_choose_step(proof, sample, p_value),
    )  # fmt: skip


def _check(labels: Sequence[bool], total: int, sample: DrawnSample, target_recall: float, confidence: float) -> None:
    for name, share in (("target recall", target_recall), ("confidence", confidence)):
        if not 0 < share < 1:
            raise BadRequest(f"the {name} lies between 0 and 1, not at {share}")
    if total < 1 or len(labels) > total:
        raise BadRequest(f"{len(labels):,} labels do not fit a review of {total:,} records")
    if len(set(sample.positions)) != len(sample.positions) or not all(0 <= at < len(labels) for at in sample.positions):
        raise BadRequest(f"the drawn sample names places outside the {len(labels):,} labels, or one of them twice")
    if (sealed := sample.sealed) and not (len(sample.positions) <= sealed.drawn <= len(labels) and sealed.ahead <= sum(labels)):
        raise BadRequest("the sealed sample does not fit the labels")


def _advise(p_value: float, target_recall: float, confidence: float) -> str:
    shown = "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"
    what = f"The ranked test (hypergeometric, Callaghan and Müller-Hansen 2020; {shown})"
    if p_value < 1 - confidence:
        return (
            f"{what} suggests that a recall of {target_recall:.0%} is reached. This is advice, not proof: it trusts the ranking, and is "
            "not corrected for repeated looks."
        )
    return f"{what} does not suggest to stop for a recall of {target_recall:.0%}."


def _prove(evidence: OpenSample, sample: DrawnSample, total: int, target_recall: float, confidence: float) -> Proof:
    """The state of the proof, and the number of records that it still takes."""
    found, left, sealed = evidence.found, evidence.left, sample.sealed
    tolerated = count_tolerated(found, target_recall)
    method: Method = "sealed sample" if sealed else "open sample"
    if sealed:
        drawn, ahead = sealed.drawn, sealed.ahead
        proven = is_proven(sealed, found, total, target_recall, confidence)
        draws = max(0, size_sealed_sample(total, min(tolerated + 1, total), confidence) - drawn)
        # the draws that were not made yet fall on records that are screened already, too
        more = -(-min(draws, total - drawn) * left // max(1, total - drawn))
    else:
        drawn, ahead = len(sample.positions), 0
        more = evidence.count_draws(confidence)
        proven = not more or tolerated >= left
    more = min(more, left)
    claim = f"recall is at least {target_recall:.0%} (confidence {confidence:.0%}"
    if not left or proven:
        how = "all records screened" if not left else method
        texts = {"all records screened": "all records are screened", "sealed sample": f"{drawn:,} records of the random order of drawing"}
        ground = texts.get(how, f"{drawn:,} randomly drawn records, valid at repeated looks")
        sentence = "All records are screened: nothing is missed." if not left else f"Proven: {claim}; {ground})."
        return Proof(state="proven", method=how, drawn=drawn, more_if_none_relevant=0, more_at_most=left, sentence=sentence)
    if not tolerated:
        state, sentence = "not provable yet", (
            f"Not provable yet: relevant records found: {found:,}; a single missed one puts recall below {target_recall:.0%}. A proof "
            f"would take about {more:,} of the {left:,} records that are left."
        )  # fmt: skip
    elif ahead and not more:
        state, sentence = "in progress", (
            f"Not proven yet: enough records are drawn, and the ranking has yet to reach relevant ones of them ({ahead:,}). "
            f"Read on by rank; at most {left:,} records are left."
        )  # fmt: skip
    else:
        state = "in progress" if drawn else "no sample"
        start = "Not proven yet" if drawn else "Nothing is proven without a random sample"
        sentence = (
            f"{start}: about {more:,} more randomly drawn records prove that {claim}) if none of them is relevant; each relevant one among "
            f"them raises the number, to at most the {left:,} that are left."
        )  # fmt: skip
    return Proof(state=state, method=method, drawn=drawn, more_if_none_relevant=more, more_at_most=left, sentence=sentence)


def _bound_recall(evidence: OpenSample, confidence: float) -> RecallBound:
    if not evidence.left:
        sentence = f"All records are screened; recall is 100% of the {evidence.found:,} relevant ones."
        return RecallBound(lower=1.0, confidence=confidence, method="all records screened", sentence=sentence)
    most = evidence.bound_total(confidence)
    lower = evidence.found / most if most else 1.0
    # rounded down: a bound must not gain by its display
    sentence = (
        f"Recall of screening is at least {int(lower * 1000) / 10:.1f}% (confidence {confidence:.0%}, test martingale over the random "
        f"draws, valid at repeated looks). Relevant records: {evidence.found:,} found, at most {most:,} in all."
    )  # fmt: skip
    return RecallBound(lower=lower, confidence=confidence, method="open sample", sentence=sentence)


def _choose_step(proof: Proof, sample: DrawnSample, p_value: float) -> NextStep:
    if proof.state == "proven":
        return "stop"
    sealed = sample.sealed
    if sealed and sealed.ahead:
        return "read by rank"  # it must reach them in any case; drawing meanwhile may be in vain
    has_begun = bool(sample.positions)
    return "draw" if (has_begun and sealed) or p_value <= START_OF_DRAWING[sealed is not None] else "read by rank"

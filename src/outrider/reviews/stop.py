"""What the labels of a review tell about its recall, for status, page and reports"""

from __future__ import annotations

from collections.abc import Sequence

from outrider.reviews.review_state import ScreenedLabel
from outrider.statistics.assess_screening import ScreeningAssessment, assess_screening
from outrider.statistics.recall_certificate import make_sample

TARGET_RECALL, CONFIDENCE = 0.95, 0.95
NEXT_STEPS = {
    "read by rank": "Next: read on by rank: outrider review screen {name}",
    "draw": "Next: decide on records that are drawn at random: outrider review screen {name} --random, or the box on the page",
    "stop": "Next: you may stop.",
}
RESOLVE_STEP = "Next: resolve the conflicts, for no other record is left: outrider review label {name} ID DECISION --resolve"
FIRST_STEP = "Next: decide on the first records: outrider review screen {name}"


def assess_review(
    labels: Sequence[ScreenedLabel], draws: Sequence[int], target_recall: float = TARGET_RECALL, confidence: float = CONFIDENCE
) -> ScreeningAssessment:
    """`labels` are the final verdicts in their order, `draws` all works in the order of drawing. Raises `BadRequest`."""
    labels = _settle_draws(labels, draws)
    sample = make_sample(
        {str(label.record): label.included for label in labels},
        [str(label.record) for label in labels if label.is_drawn],
        [str(label.record) for label in labels if label.is_reached],
        [str(number) for number in draws],
    )
    return assess_screening([label.included for label in labels], len(draws), sample, target_recall, confidence)


def _settle_draws(labels: Sequence[ScreenedLabel], draws: Sequence[int]) -> list[ScreenedLabel]:
    """The labels with evidence of draws that does not depend on what reviewers skip, or decide later.

    A drawn label counts once all earlier draws have theirs, and comes last until then. An earlier draw that was decided by rank afterwards
    ends the sample.
    """
    place_of = {number: place for place, number in enumerate(draws)}
    known = {label.record for label in labels}
    end = next((place for place, number in enumerate(draws) if number not in known), len(draws))
    last_place = -1
    for label in labels:
        place = place_of[label.record]
        if label.is_drawn:
            last_place = max(last_place, place)
        elif place < last_place:
            end = min(end, place)
    times, latest = {label.record: at for at, label in enumerate(labels)}, -1
    for label in sorted(filter(lambda one: one.is_drawn, labels), key=lambda one: place_of[one.record]):
        latest = max(latest, times[label.record]) if place_of[label.record] < end else len(labels)
        times[label.record] = latest
    settled = (label._replace(is_drawn=label.is_drawn and place_of[label.record] < end) for label in labels)
    return sorted(settled, key=lambda label: (times[label.record], label.is_drawn, place_of[label.record]))


def describe_stop(
    name: str,
    labels: Sequence[ScreenedLabel],
    draws: Sequence[int],
    target_recall: float = TARGET_RECALL,
    confidence: float = CONFIDENCE,
    conflicts: int = 0,
) -> tuple[str, ...]:
    """Sentences on the recall so far, each with its method and confidence, and what to do next; before the first verdict only that."""
    has_only_conflicts = 0 < conflicts == len(draws) - len(labels)
    if not labels:
        return ((RESOLVE_STEP if has_only_conflicts else FIRST_STEP).format(name=name),) if draws else ()
    found = assess_review(labels, draws, target_recall, confidence)
    step = RESOLVE_STEP if has_only_conflicts and found.next_step != "stop" else NEXT_STEPS[found.next_step]
    return (found.advice.sentence, found.proof.sentence, found.recall.sentence, step.format(name=name))

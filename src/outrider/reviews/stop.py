"""What the labels of a review tell about its recall: the one place from which status, page and reports take it"""

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
FIRST_STEP = "Next: decide on the first records: outrider review screen {name}"


def assess_review(
    labels: Sequence[ScreenedLabel], draws: Sequence[int], target_recall: float = TARGET_RECALL, confidence: float = CONFIDENCE
) -> ScreeningAssessment:
    """`labels` are the final verdicts in their order, `draws` all works in the order of drawing. Raises `BadRequest`."""
    sample = make_sample(
        {str(label.record): label.included for label in labels},
        [str(label.record) for label in labels if label.is_drawn],
        [str(label.record) for label in labels if label.is_reached],
        [str(number) for number in draws],
    )
    return assess_screening([label.included for label in labels], len(draws), sample, target_recall, confidence)


def describe_stop(
    name: str, labels: Sequence[ScreenedLabel], draws: Sequence[int], target_recall: float = TARGET_RECALL, confidence: float = CONFIDENCE
) -> tuple[str, ...]:
    """Sentences on the recall so far, each with its method and confidence, and what to do next; before the first verdict only that."""
    if not labels:
        return (FIRST_STEP.format(name=name),) if draws else ()
    found = assess_review(labels, draws, target_recall, confidence)
    return (found.advice.sentence, found.proof.sentence, found.recall.sentence, NEXT_STEPS[found.next_step].format(name=name))

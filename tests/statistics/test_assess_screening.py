"""The assessment of a review: states, sentences, next steps, and what is refused."""

from __future__ import annotations

import pytest

from outrider.state.errors import BadRequest
from outrider.statistics.assess_screening import assess_screening
from outrider.statistics.recall_certificate import DrawnSample, SealedSample

FOUND = [at % 5 == 0 for at in range(200)]
"""40 relevant records in the first 200."""


def test_without_a_sample_nothing_is_proven() -> None:
    """The ranked test may suggest a stop; the proof names the records that it would take."""
    assessment = assess_screening([*FOUND, *[False] * 700], 1_200)
    assert assessment.advice.suggests_stop
    assert "advice, not proof" in assessment.advice.sentence
    assert (assessment.proof.state, assessment.proof.drawn, assessment.next_step) == ("no sample", 0, "draw")
    assert f"about {assessment.proof.more_if_none_relevant:,} more randomly drawn records" in assessment.proof.sentence
    assert 0 < assessment.proof.more_if_none_relevant < assessment.proof.more_at_most == 300


def test_few_inclusions_are_not_provable_yet() -> None:
    """18 found ones: a single missed one counts, and nearly all records must be screened."""
    assessment = assess_screening([True] * 18 + [False] * 282, 1_000)
    assert assessment.proof.state == "not provable yet"
    assert assessment.proof.more_if_none_relevant >= 0.94 * 700
    assert assessment.proof.sentence.startswith("Not provable yet: relevant records found: 18; a single missed one")


def test_a_sealed_sample_proves_when_the_ranking_has_passed_its_relevant_records() -> None:
    """Enough draws are no proof while a drawn relevant record lies ahead of the ranking: read on."""
    labels = [*FOUND, *[False] * 700]
    positions = tuple(range(200, 900))
    waiting = assess_screening(labels, 1_200, DrawnSample(positions=positions, sealed=SealedSample(drawn=800, ahead=1)))
    proven = assess_screening(labels, 1_200, DrawnSample(positions=positions, sealed=SealedSample(drawn=800, ahead=0)))
    assert (waiting.proof.state, waiting.next_step, waiting.proof.more_if_none_relevant) == ("in progress", "read by rank", 0)
    assert "yet to reach relevant ones of them (1)" in waiting.proof.sentence
    assert (proven.proof.state, proven.next_step, proven.proof.method) == ("proven", "stop", "sealed sample")


def test_a_bound_of_recall_has_method_and_confidence() -> None:
    """It grows with the draws, and its sentence names both."""
    few, many = (
        assess_screening([*FOUND, *[False] * count], 1_200, DrawnSample(positions=tuple(range(200, 200 + count)))) for count in (100, 700)
    )
    assert 0 < few.recall.lower < 0.95 <= many.recall.lower < 1
    assert (many.proof.state, many.proof.method, many.next_step) == ("proven", "open sample", "stop")
    assert "confidence 95%" in few.recall.sentence
    assert "test martingale" in few.recall.sentence


def test_a_review_that_is_screened_to_its_end_is_proven() -> None:
    """Without any assumption."""
    assessment = assess_screening([True, False, False], 3)
    assert (assessment.proof.state, assessment.proof.method, assessment.recall.lower) == ("proven", "all records screened", 1.0)


def test_an_empty_review_reads_on() -> None:
    """Nothing is known before the first label."""
    assessment = assess_screening([], 100)
    assert (assessment.proof.state, assessment.next_step, assessment.recall.lower) == ("not provable yet", "read by rank", 0.0)


@pytest.mark.parametrize(
    "arguments",
    [
        {"labels_in_order": [True] * 3, "total": 2},
        {"labels_in_order": [], "total": 0},
        {"labels_in_order": [True], "total": 2, "target_recall": 1.0},
        {"labels_in_order": [True], "total": 2, "confidence": 0.0},
        {"labels_in_order": [True], "total": 2, "sample": DrawnSample(positions=(1,))},
        {"labels_in_order": [True] * 2, "total": 2, "sample": DrawnSample(positions=(1, 1))},
        {"labels_in_order": [True], "total": 2, "sample": DrawnSample(sealed=SealedSample(drawn=2))},
    ],
)
def test_labels_that_do_not_fit_are_refused(arguments: dict[str, object]) -> None:
    """Each error says what does not fit."""
    with pytest.raises(BadRequest):
        assess_screening(**arguments)  # type: ignore[arg-type]

"""Draws for the proof of recall: what the ranking may learn from them, and when the proof holds."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from outrider.reviews.review import NewBatch, NewDecision, Review
from outrider.reviews.session import ReviewSession
from outrider.reviews.stop import assess_review, describe_stop
from outrider.state.records import Record
from outrider.state.reviews import Order, Presentation, Verdict
from support.fakes import paper
from support.review_folder import AT, make_review

RECORDS, RELEVANT = 120, 40


def make_session(folder: Path, reviewers: int = 1) -> ReviewSession:
    """Every third record is about otters and relevant."""
    review = Review.create(folder, {"name": folder.name, "created": AT, "seed": 0, "reviewers": reviewers, "question": "otters"})
    records: list[Record] = [
        paper(f"p{number}", f"{'Otters' if number % 3 == 0 else 'Badgers'} in river {number}", abstract=f"They are {number}.")
        for number in range(1, RECORDS + 1)
    ]
    review.import_batch(NewBatch("a file", records, {}), [], "ann", AT, 0)
    return ReviewSession(review)


def is_relevant(number: int) -> bool:
    return number % 3 == 0


def screen(session: ReviewSession, order: Order, by: str = "ann") -> tuple[int, Presentation]:
    """Decide on the next record as it is."""
    found = session.next_record(by, order)
    assert found.number is not None
    verdict: Verdict = "include" if is_relevant(found.number) else "exclude"
    session.review.decide([NewDecision(found.number, verdict, by, shown=found.shown)], AT)
    return found.number, found.shown


def test_the_ranking_learns_a_drawn_label_once_it_has_passed_the_record(tmp_path: Path) -> None:
    session = make_session(tmp_path / "rivers")
    state = session.review.state
    drawn = [screen(session, "random")[0] for _ in range(6)]
    assert drawn == [*state.list_draws()[:6]]
    assert {is_relevant(number) for number in drawn} == {True, False}
    assert state.list_labels("ann") == {}
    assert state.list_sealed("ann") == drawn
    passed: set[int] = set()
    for _ in range(RELEVANT):
        _, shown = screen(session, "model")
        passed.update(shown.passed)
        assert not passed & {*state.list_sealed("ann")}
    assert passed >= {number for number in drawn if is_relevant(number)}
    again = Review(tmp_path / "rivers").state
    assert again.list_labels("ann") == state.list_labels("ann")
    assert {*again.list_sealed("ann")} == {*drawn} - passed
    sealed = {*drawn} - passed
    for label in again.list_screened():
        assert (label.is_drawn, label.is_reached) == (label.record in drawn, label.record not in sealed)


def test_a_review_is_screened_until_its_recall_is_proven(tmp_path: Path) -> None:
    session = make_session(tmp_path / "rivers")
    state = session.review.state
    steps = []
    for _ in range(RECORDS):
        labels = state.list_screened()
        step = assess_review(labels, state.list_draws(), 0.8).next_step
        steps.append(step)
        if step == "stop":
            break
        screen(session, "random" if step == "draw" else "model")
    assert {"read by rank", "draw"} <= {*steps}
    assert steps[-1] == "stop"
    labels = state.list_screened()
    assert len(labels) < RECORDS
    assert sum(label.included for label in labels) >= 0.8 * RELEVANT
    sentences = describe_stop("rivers", labels, state.list_draws(), 0.8)
    assert sentences[1].startswith("Proven: recall is at least 80% (confidence 95%; ")
    assert sentences[2].startswith("Recall of screening is at least ")
    assert sentences[3] == "Next: you may stop."


def test_a_draw_that_is_passed_over_ends_the_sample(tmp_path: Path) -> None:
    session = make_session(tmp_path / "rivers")
    state = session.review.state
    first = session.next_record("ann", "random")
    assert first.number is not None
    second = session.next_record("ann", "random", skip={first.number})
    assert second.number == state.list_draws()[1]
    session.review.decide([NewDecision(second.number, "exclude", "ann", shown=second.shown)], AT)
    assert assess_review(state.list_screened(), state.list_draws()).proof.drawn == 0


def test_a_draw_that_is_shown_again_stays_a_draw(tmp_path: Path) -> None:
    session = make_session(tmp_path / "rivers")
    number, shown = screen(session, "random")
    assert session.find_presentation("ann", number) == shown
    assert session.find_presentation("bob", number) == Presentation()
    session.review.undo("ann", AT)
    again = session.find_presentation("ann", number)
    session.review.decide([NewDecision(number, "include", "ann", shown=again)], AT)
    (label,) = session.review.state.list_screened()
    assert (label.record, label.is_drawn) == (number, True)


def test_before_the_first_verdict_only_the_next_step_is_told(tmp_path: Path) -> None:
    state = make_session(tmp_path / "rivers").review.state
    (sentence,) = describe_stop("rivers", state.list_screened(), state.list_draws())
    assert sentence == "Next: decide on the first records: outrider review screen rivers"
    assert describe_stop("rivers", (), ()) == ()


@pytest.mark.parametrize("target", [0.0, 1.0, 2.0])
def test_an_impossible_target_is_a_clear_error(tmp_path: Path, target: float) -> None:
    from outrider.state.errors import BadRequest

    session = make_session(tmp_path / "rivers")
    screen(session, "model")
    with pytest.raises(BadRequest, match="target recall"):
        assess_review(session.review.state.list_screened(), session.review.state.list_draws(), target)


def test_a_skipped_record_holds_back_what_the_ranking_has_behind_it(tmp_path: Path) -> None:
    session = make_session(tmp_path / "rivers")
    for _ in range(30):
        screen(session, "random")
    skipped: set[int] = set()
    for _ in range(20):
        found = session.next_record("ann", "model", skip=skipped)
        assert found.number is not None
        if not skipped:
            skipped.add(found.number)
            held = session.review.state.list_sealed("ann")
        else:
            session.review.decide([NewDecision(found.number, "exclude", "ann", shown=found.shown)], AT)
    ranking = session.next_record("ann", "model")
    assert ranking.number in skipped
    assert not {*held} - {*session.review.state.list_sealed("ann")} - {*ranking.shown.passed}


@pytest.mark.parametrize("takes_back", [False, True])
def test_a_corrected_draw_stays_a_draw(tmp_path: Path, takes_back: bool) -> None:
    session = make_session(tmp_path / "rivers")
    number, _ = screen(session, "random")
    if takes_back:
        session.review.undo("ann", AT)
    session.review.decide([NewDecision(number, "maybe", "ann")], AT)
    state = Review(tmp_path / "rivers").state
    assert state.list_sealed("ann") == [number]
    assert [(label.is_drawn, label.is_reached) for label in state.list_screened()] == [(True, False)]


def test_a_record_that_is_shown_once_more_stays_a_draw(tmp_path: Path) -> None:
    session = make_session(tmp_path / "rivers")
    found = session.next_record("ann", "random")
    assert found.number is not None
    again = ReviewSession(Review(tmp_path / "rivers"))
    assert again.find_presentation("ann", found.number) == again.find_presentation("ann", found.number, Presentation()) == found.shown
    assert again.find_presentation("bob", found.number) == again.find_presentation("ann", found.number + 1) == Presentation()
    assert again.find_presentation("ann", found.number, Presentation(order="model", rank=2)) == Presentation(order="model", rank=2)


def test_of_two_reviewers_both_rankings_must_reach_a_draw(tmp_path: Path) -> None:
    session = make_session(tmp_path / "rivers", reviewers=2)
    state = session.review.state
    for by in ("ann", "bob"):
        for _ in range(20):
            screen(session, "random", by)
    drawn = state.list_screened()
    for _ in range(RECORDS - 20):
        screen(session, "model", "ann")
    assert [label.is_reached for label in drawn] == [False] * 20
    assert assess_review(state.list_screened(), state.list_draws(), 0.8).proof.state != "proven"
    assert {*state.list_labels("bob")} == set()
    while state.find_open("bob"):
        screen(session, "model", "bob")
    assert sum(label.is_reached for label in state.list_screened()) > RECORDS - 20


def test_draws_that_were_skipped_are_no_evidence(tmp_path: Path) -> None:
    """Whoever skips the relevant draws must not lower the bound of those that are missing."""
    session = make_session(tmp_path / "rivers")
    state = session.review.state
    skipped: set[int] = set()
    while (found := session.next_record("ann", "random", skip=skipped)).number not in skipped:
        assert found.number is not None
        if is_relevant(found.number):
            skipped.add(found.number)
        else:
            session.review.decide([NewDecision(found.number, "exclude", "ann", shown=found.shown)], AT)
    for _ in range(RELEVANT // 2):
        screen(session, "random")
    bound = assess_review(state.list_screened(), state.list_draws()).recall
    assert bound.lower <= 0.5
    for _ in range(3):
        screen(session, "model")  # an earlier draw, which the ranking takes
    assert assess_review(state.list_screened(), state.list_draws()).recall.lower <= 0.6


def test_where_only_conflicts_are_left_they_are_the_next_step(tmp_path: Path) -> None:
    review = make_review(tmp_path / "rivers", records=3, reviewers=2)
    for number, other in ((1, "include"), (2, "exclude"), (3, "exclude")):
        review.decide([NewDecision(number, "include", "ann"), NewDecision(number, cast("Verdict", other), "bob")], AT)
        left = 3 - number
        (*_, step) = describe_stop("rivers", review.state.list_screened(), review.state.list_draws(), conflicts=max(0, number - 1))
        assert ("resolve the conflicts" in step) == (left == 0)

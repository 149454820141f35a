"""The folder of a review: its log, blinding, conflicts, and what survives a killed process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from outrider.reviews.decision_log import NAME
from outrider.reviews.review import NewBatch, NewDecision, NewNote, Review
from outrider.reviews.session import OpenReviews, ReviewSession
from outrider.state.errors import BadRequest
from outrider.state.reviews import NoSuchReview, Presentation, ReviewDamaged
from support.fakes import doi, paper
from support.review_folder import AT, make_review


def decide(review: Review, record: int, verdict: Any, by: str = "ann", **fields: Any) -> None:
    review.decide([NewDecision(record, verdict, by, **fields)], AT)


def test_decisions_hold_in_another_process_and_undo_returns_to_the_one_before(tmp_path: Path) -> None:
    review = make_review(tmp_path / "otters")
    decide(review, 1, "include", shown=Presentation(order="model", rank=1, model="svm 12"))
    decide(review, 2, "exclude", reason="wrong animal")
    decide(review, 2, "maybe")
    review.decide([NewNote(2, "ask Bob", "ann")], AT)
    again = Review(tmp_path / "otters")
    assert [again.state.state(number) for number in (1, 2, 3)] == ["include", "maybe", "unscreened"]
    assert again.state.decisions(1)[0].shown == Presentation(order="model", rank=1, model="svm 12")
    assert again.view(2).notes[0].text == "ask Bob"
    assert again.undo("ann", AT) == 2
    review.refresh()
    assert review.state.state(2) == "exclude"
    assert review.state.list_reasons() == ("wrong animal",)
    assert [review.undo("ann", AT), review.undo("ann", AT)] == [2, 1]
    assert (review.state.list_labels("ann"), review.state.list_reasons()) == ({}, ())
    with pytest.raises(BadRequest, match="nothing to take back"):
        review.undo("ann", AT)


def test_a_reviewer_sees_no_decision_of_others_until_all_decided_and_a_decision_resolves_the_conflict(tmp_path: Path) -> None:
    review = make_review(tmp_path / "otters", reviewers=2)
    decide(review, 1, "include", by="ann")
    assert review.state.state(1) == "waiting"
    assert review.view(1, "bob").decisions == ()
    assert [one.by for one in review.view(1, "ann").decisions] == ["ann"]
    assert 1 in review.state.find_open("bob")
    assert 1 not in review.state.find_open("ann")
    assert review.state.list_labels("bob") == {}
    with pytest.raises(BadRequest, match="no conflict to resolve"):
        decide(review, 1, "include", by="eve", resolves=True)
    decide(review, 1, "exclude", by="bob", reason="wrong animal")
    assert review.state.state(1) == "conflict"
    assert [one.verdict for one in review.view(1, "ann").decisions] == ["include", "exclude"]
    assert review.state.find_open("eve") == [2, 3, 4, 5]
    decide(review, 1, "include", by="eve", resolves=True)
    assert review.state.state(1) == "include"
    assert review.state.list_labels("bob") == {1: True}
    assert review.undo("eve", AT) == 1
    assert review.state.state(1) == "conflict"
    for by in ("ann", "bob"):
        decide(review, 2, "exclude", by=by)
    assert review.state.state(2) == "exclude"
    assert [(one.record, one.included) for one in review.state.list_screened()] == [(2, False)]


def test_a_note_on_a_duplicate_is_one_on_its_work(tmp_path: Path) -> None:
    review = make_review(tmp_path / "otters")
    review.import_batch(NewBatch("another file", [paper("q1", "Study 2 of otters")], {0: 2}), [], "ann", AT, 5)
    review.decide([NewNote(6, "ask Bob", "ann")], AT)
    for again in (review, Review(tmp_path / "otters")):
        assert [[note.text for note in again.view(number, "ann").notes] for number in (1, 2, 6)] == [[], ["ask Bob"], ["ask Bob"]]


def test_a_work_is_shown_with_what_its_duplicates_say(tmp_path: Path) -> None:
    """The abstract that the first record lacks, and a retraction that only the second reports; a duplicate stays as it was imported."""
    review = make_review(tmp_path / "otters", records=1)
    bare = paper("b", "Otters of Loch Ness", year=2001)
    full = paper("f", "Otters of Loch Ness", abstract="They eat eels.", year=2002, metadata={"retracted": True, "included": "1"})
    review.import_batch(NewBatch("two", [bare, full], {1: 2}), [], "ann", AT, 1)
    view = review.view(2)
    assert (view.record.doc_id, view.record.abstract, view.record.year) == ("b", "They eat eels.", 2001)
    assert [notice.kind for notice in view.notices] == ["retracted"]
    assert review.view(3).record == full
    assert review.texts()[1:] == ["Otters of Loch Ness They eat eels."] * 2
    assert Review(tmp_path / "otters").view(2) == view


def test_a_torn_last_line_is_told_and_dropped_and_damage_elsewhere_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "otters"
    decide(make_review(folder), 1, "include")
    log = folder / NAME
    whole = log.read_bytes()
    log.write_bytes(whole + b'{"kind":"exclude","rec')
    review = Review(folder)
    assert "cut off" in review.remarks[0]
    decide(review, 2, "exclude")
    assert (Review(folder).state.state(2), review.remarks) == ("exclude", ())
    assert log.read_bytes().startswith(whole)
    log.write_bytes(whole.replace(b'"include"', b'"exclude"'))
    with pytest.raises(ReviewDamaged, match="line 3"):
        Review(folder)
    log.write_bytes(whole[:20])
    with pytest.raises(ReviewDamaged, match="first line"):
        Review(folder)
    log.write_bytes(whole)
    records = folder / "records-1.jsonl"
    records.write_bytes(records.read_bytes()[:-30])
    with pytest.raises(ReviewDamaged, match="not what was imported"):
        Review(folder).records([1])


SCREEN = """
import sys
from pathlib import Path
from outrider.reviews.review import NewDecision, Review
review = Review(Path(sys.argv[1]))
for number in range(1, 1001):
    review.decide([NewDecision(number, "exclude", sys.argv[2])], "2026-11-26T12:00:00.000+00:00")
    print(number, flush=True)
"""


def test_a_process_that_is_killed_loses_no_decision_that_it_reported(tmp_path: Path) -> None:
    make_review(tmp_path / "otters", records=1_000)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", SCREEN, str(tmp_path / "otters"), "ann"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        assert process.stdout is not None
        reported = [process.stdout.readline() for _ in range(20)]
        process.send_signal(signal.SIGKILL)
        reported += process.stdout.read().splitlines()
    last = int([line for line in reported if line.strip()][-1])
    state = Review(tmp_path / "otters").state
    assert last >= 20
    assert [state.state(number) for number in range(1, last + 1)] == ["exclude"] * last


def test_reviewers_who_decide_at_once_lose_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "otters"
    make_review(folder, records=40, reviewers=2)

    def screen(by: str, review: Review) -> None:
        for number in range(1, 41):
            decide(review, number, "include", by=by)

    shared = Review(folder)  # two in one process, as on a server, and one of another
    threads = [threading.Thread(target=screen, args=pair) for pair in (("ann", shared), ("bob", shared), ("eve", Review(folder)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    state = Review(folder).state
    assert {by: number for by, (number, _) in state.count_by_reviewer().items()} == {"ann": 40, "bob": 40, "eve": 40}


def test_two_reviewers_see_different_records_where_one_decision_is_enough(tmp_path: Path) -> None:
    session = ReviewSession(make_review(tmp_path / "otters"))
    first = session.next_record("ann")
    assert session.next_record("ann") == first
    assert session.next_record("bob").number != first.number
    skipped = session.next_record("ann", skip=[first.number or 0])
    assert skipped.number not in (first.number, None)
    for number in range(1, 6):
        decide(session.review, number, "exclude")
    assert session.next_record("ann").number is None


def test_a_hundred_thousand_labels_open_in_two_seconds_of_work(tmp_path: Path) -> None:
    folder, labels = tmp_path / "year", 100_000
    review = Review.create(folder, {"name": "year", "created": AT, "reviewers": 1})
    review.import_batch(NewBatch("a file", [paper("p1", "Otters")] * labels, {}), [], "ann", AT, 0)
    shown = Presentation(order="model", rank=1, model="svm 12345")
    review.decide([NewDecision(number, "exclude", "ann", "wrong population", shown) for number in range(1, labels + 1)], AT)
    began = time.process_time()
    state = Review(folder).state
    took = time.process_time() - began
    assert (state.count_decided("ann"), state.state(labels)) == (labels, "exclude")
    assert took < 2.0


def test_the_next_record_is_found_while_others_decide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = ReviewSession(make_review(tmp_path / "otters", records=2_000))
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # more decisions in the time

    def write() -> None:
        for number in range(1, 500):
            decide(session.review, number, "include")

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(1) as writer:
            done = writer.submit(write)
            while not done.done():
                assert session.next_record("bob", "random").left
                with session.review.reading() as state:
                    assert {*state.list_labels("bob").values()} <= {True}
    finally:
        sys.setswitchinterval(interval)
    done.result()
    assert session.next_record("bob", "random").left == 1_501


def test_of_an_import_that_was_cut_off_nothing_holds(tmp_path: Path) -> None:
    folder = tmp_path / "otters"
    review = make_review(folder)
    before = (folder / NAME).stat().st_size
    labels = [NewDecision(6 + number, "include", "a file", imported=True) for number in range(3)]
    batch = NewBatch("another file", [paper(f"q{number}", f"Otters of {number}") for number in range(3)], {})
    review.import_batch(batch, labels, "ann", AT, 5)
    whole = (folder / NAME).read_bytes()
    for size in (before + 1, *(at + 1 for at in range(before, len(whole) - 1) if whole[at : at + 1] == b"\n"), len(whole) - 1):
        (folder / NAME).write_bytes(whole[:size])
        cut = Review(folder)
        assert (cut.state.total, cut.state.list_labels("ann"), len(cut.remarks)) == (5, {}, 1)
    cut.import_batch(batch, labels, "ann", AT, 5)
    review = Review(folder)
    assert (review.state.total, len(review.state.list_labels("ann")), review.remarks) == (8, 3, ())


def test_a_resolution_holds_where_the_decisions_below_it_are_taken_back(tmp_path: Path) -> None:
    review = make_review(tmp_path / "r", records=2, reviewers=2)
    decide(review, 1, "include")
    decide(review, 1, "exclude", "bob")
    decide(review, 1, "include", "cay", resolves=True)
    review.undo("ann", AT, 1)
    review.undo("bob", AT, 1)
    state = review.state
    assert (state.state(1), state.find_open("ann"), state.count_screened()) == ("include", [2], 1)
    assert [(one.record, one.included) for one in state.list_screened()] == [(1, True)]
    review.undo("cay", AT, 1)
    assert (state.state(1), state.find_open("ann"), state.list_screened()) == ("unscreened", [1, 2], [])


def test_a_reason_that_another_blind_reviewer_typed_is_not_offered_until_all_works_have_a_verdict(tmp_path: Path) -> None:
    review = make_review(tmp_path / "r", records=2, reviewers=2)
    review.state.reasons = ("no data", "wrong animal")
    decide(review, 1, "exclude", reason="too old")
    decide(review, 1, "exclude", "bob", reason="in Latin")
    decide(review, 2, "exclude", reason="too old")
    decide(review, 2, "include", "bob")
    own, others = ("too old", "no data", "wrong animal"), ("in Latin", "no data", "wrong animal")
    assert [review.state.list_reasons(by) for by in ("ann", "bob", "cay", None)] == [
        own,
        others,
        review.state.reasons,
        review.state.reasons,
    ]
    decide(review, 2, "include", "cay", resolves=True)
    everyone = ("too old", "in Latin", "no data", "wrong animal")
    assert [review.state.list_reasons(by) for by in ("ann", "bob", None)] == [everyone] * 3
    review.undo("ann", AT, 1)
    assert review.state.list_reasons("bob") == others


def test_reviewers_who_share_the_records_share_their_reasons(tmp_path: Path) -> None:
    review = make_review(tmp_path / "r", records=2)
    decide(review, 1, "exclude", reason="too old")
    assert review.state.list_reasons("bob") == ("too old",)


def test_agreement_is_that_of_the_decisions_made_blind(tmp_path: Path) -> None:
    review = make_review(tmp_path / "r", records=4, reviewers=2)
    for number, ann, bob in ((1, "include", "include"), (2, "include", "exclude"), (3, "exclude", "exclude")):
        decide(review, number, ann)
        decide(review, number, bob, "bob")
    both = review.state.pair_verdicts
    assert both() == {("ann", "bob"): [("include", "include"), ("include", "exclude"), ("exclude", "exclude")]}
    decide(review, 2, "include", "cay", resolves=True)
    decide(review, 2, "exclude")  # she has seen his
    decide(review, 1, "maybe", "cay")
    decide(review, 4, "exclude")  # he has not decided
    assert both() == {("ann", "bob"): [("include", "include"), ("include", "exclude"), ("exclude", "exclude")]}
    review.undo("bob", AT, 3)
    assert both() == {("ann", "bob"): [("include", "include"), ("include", "exclude")]}
    decide(review, 3, "include", "bob")
    assert both() == {("ann", "bob"): [("include", "include"), ("include", "exclude"), ("exclude", "include")]}
    assert Review(tmp_path / "r").state.pair_verdicts() == both()
    review.decide([NewDecision(4, "include", "a file", imported=True)], AT)
    decide(review, 4, "include", "bob")
    assert len(both()["ann", "bob"]) == 3
    alone = make_review(tmp_path / "one", records=1)
    decide(alone, 1, "include")
    decide(alone, 1, "include", "bob")
    assert alone.state.pair_verdicts() == {}


def test_an_id_of_several_works_names_none(tmp_path: Path) -> None:
    """Such as the DOI of a supplement, or what two files call their first record."""
    review = make_review(tmp_path / "r", records=1)
    batch = [paper("p1", "Another study", identifiers=doi("10.1000/s")), paper("p3", "A third", identifiers=doi("10.1000/s"))]
    review.import_batch(NewBatch("b", [*batch, batch[1]], {2: 3}), [], "ann", AT, 1)
    for name, numbers in (("p1", "1, 2"), ("10.1000/S", "2, 3"), ("doi:10.1000/s", "2, 3")):
        with pytest.raises(BadRequest, match=f"names different works: records {numbers}; write a number"):
            review.find_numbers(["1", name])
    assert review.find_numbers(["p3", "2"]) == [3, 2]  # its copy is a duplicate of it


def test_a_review_that_was_begun_anew_under_its_name_is_another(tmp_path: Path) -> None:
    """By another process, while this one has the first open. One that was cut is still told from it."""
    opened = OpenReviews(tmp_path)
    decide(make_review(tmp_path / "r", records=3), 1, "include")
    first = opened.open(tmp_path / "r")
    assert opened.open(tmp_path / "r") is first
    OpenReviews(tmp_path).delete(tmp_path / "r")
    with pytest.raises(NoSuchReview):
        opened.open(tmp_path / "r")
    make_review(tmp_path / "r", records=2, question="what do otters eat?")
    again = opened.open(tmp_path / "r")
    assert (again.review.state.total, again.review.state.count_screened()) == (2, 0)
    log = tmp_path / "r" / NAME
    log.write_bytes(log.read_bytes().splitlines(keepends=True)[0])
    with pytest.raises(ReviewDamaged, match="was cut"):
        opened.open(tmp_path / "r")

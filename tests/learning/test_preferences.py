"""Weights from use: bounded, explained, and used only where leave-one-out proves that they help."""

from __future__ import annotations

import random

from outrider.learning.preferences import NEEDED, fit, prove
from outrider.learning.store import LearningStore
from outrider.state.learning import MAX_BOOST, Feature, FeedbackList, JudgedWork

WANTED, OTHER = Feature("venue", "hepatology"), Feature("venue", "nonsense")


def make_lists(count: int, *, liked: Feature | None, seed: int = 1) -> list[FeedbackList]:
    """Searches of ten works with scores close together, of which a person keeps three: those of a venue, or any three."""
    draw = random.Random(seed)
    lists = []
    for number in range(count):
        works = []
        venues = [WANTED] * 3 + [OTHER] * 7
        draw.shuffle(venues)
        chosen = set(draw.sample(range(10), 3))
        for at, venue in enumerate(venues):
            is_kept = venue == liked if liked else at in chosen
            works.append(JudgedWork(doc_id=f"{number}-{at}", score=0.9 - at / 100, features=(venue,), action="keep" if is_kept else None))
        lists.append(FeedbackList(id=str(number), query=f"query {number}", works=tuple(works)))
    return lists


def test_a_real_preference_is_proven_and_raises_what_has_it() -> None:
    lists = make_lists(20, liked=WANTED)
    proof, preferences = prove(lists), fit(lists)
    assert proof.is_proven
    assert proof.after > proof.before + 0.1
    boost, why = preferences.weigh((WANTED,))
    assert 0 < boost <= MAX_BOOST
    assert why == "raised by what you kept and dropped before (venue hepatology)"
    assert preferences.weigh((OTHER,))[0] < 0
    assert preferences.weigh((Feature("venue", "unknown"),)) == (0.0, "")


def test_chance_is_not_proven() -> None:
    """Of twenty people who keep works at random, hardly any gets an order of their own."""
    proven = sum(prove(make_lists(20, liked=None, seed=seed)).is_proven for seed in range(20))
    assert proven <= 2


def test_too_few_searches_prove_nothing() -> None:
    proof = prove(make_lists(NEEDED - 1, liked=WANTED))
    assert (proof.is_proven, f"needs {NEEDED} searches" in proof.why) == (False, True)
    assert not prove([]).is_proven


def test_one_query_asked_often_is_no_proof() -> None:
    """What was learned from a query is not tested on the same query."""
    lists = [one.model_copy(update={"query": " The  same query"}) for one in make_lists(20, liked=WANTED)]
    proof = prove(lists)
    assert (proof.before, proof.is_proven) == (proof.after, False)
    assert fit(lists).weights == {}, "one search alone gives no weight"


def test_weights_stay_within_their_bound() -> None:
    lists = make_lists(300, liked=WANTED)
    features = tuple(Feature("keyword", str(number)) for number in range(50))
    loaded = [
        one.model_copy(
            update={"works": tuple(w.model_copy(update={"features": (*w.features, *features)} if w.action else {}) for w in one.works)}
        )
        for one in lists
    ]
    preferences = fit(loaded)
    assert all(-1 < weight < 1 for weight in preferences.weights.values())
    assert preferences.weigh((WANTED, *features))[0] == MAX_BOOST


def test_feedback_is_stored_undone_and_forgotten(tmp_path: object) -> None:
    from pathlib import Path

    store = LearningStore(Path(str(tmp_path)) / "learning.sqlite")
    (shown,) = make_lists(1, liked=None)
    assert store.read("library", "") == []
    store.record(shown, "library", "ann", {"0-1": "open"})
    store.record(shown, "library", "ann", {"0-1": "keep"})
    store.record(shown, "library", "ann", {"0-1": "open"})
    store.record(shown, "library", "ann", {"0-2": "drop"})
    (kept,) = store.read("library", "ann")
    assert {work.doc_id: work.action for work in kept.works if work.action} == {"0-1": "keep", "0-2": "drop"}
    assert store.read("library", "bob") == store.read("other", "ann") == []
    store.record(shown, "library", "ann", {"0-1": "undo"})
    store.record(shown, "library", "ann", {"0-2": "undo"})
    assert store.read("library", "ann") == []
    assert (store.path.stat().st_mode & 0o777, store.reset("library", "ann"), store.reset("library", "ann")) == (0o600, 1, 0)


def test_past_queries_are_completed_by_frequency_and_forgotten(tmp_path: object) -> None:
    from pathlib import Path

    store = LearningStore(Path(str(tmp_path)) / "learning.sqlite")
    for query in ("Liver injury", "liver  failure", "liver failure", "kidney", "x" * 1_000, " "):
        store.remember(query, "ann")
    assert store.complete("LIV", "ann", 5) == ["liver failure", "Liver injury"]
    assert store.complete("liver", "bob", 5) == []
    assert store.complete("liv", "ann", 1) == ["liver failure"]
    assert (store.forget_queries("ann"), store.complete("l", "ann", 5)) == (3, [])
    assert b"failure" not in store.path.read_bytes(), "what was forgotten is not in the file"

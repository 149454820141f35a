"""The order of records: the question first, then what the labels teach."""

from __future__ import annotations

import sys

import pytest

from outrider.reviews.ranker import Ranker

pytest.importorskip("sklearn", reason="the extra `review` is not installed")

TEXTS = [
    f"{animal} {number} {what}"
    for number, (animal, what) in enumerate([("otter", "eats fish in a river"), ("badger", "digs holes below a wood")] * 20)
]
OTTERS = frozenset(range(1, 41, 2))


def test_records_that_fit_the_question_come_first_until_both_classes_are_known() -> None:
    ranker = Ranker(TEXTS, question="Which animal digs?")
    ranking = ranker.rank({}, range(1, 41))
    assert (ranking.order, {*ranking.numbers[:20]} & OTTERS) == ("question", frozenset())
    assert ranker.rank({2: True}, [1, 3, 4]).order == "question"


def test_the_model_learns_from_the_labels_and_names_its_words() -> None:
    ranking = Ranker(TEXTS).rank({1: True, 2: False}, range(3, 41))
    assert {*ranking.numbers[:19]} == OTTERS - {1}
    assert (ranking.order, ranking.model) == ("model", "svm 2")
    assert "otter" in ranking.terms
    assert not {"badger", "dig"} & {*ranking.terms}


def test_the_order_follows_from_seed_labels_and_records_alone() -> None:
    labels = {1: True, 2: False, 3: True}
    first = Ranker(TEXTS, seed=3)
    first.rank({5: True, 6: False}, range(7, 41))
    assert first.rank(labels, range(4, 41)) == Ranker(TEXTS, seed=3).rank(labels, [*reversed(range(4, 41))])
    orders = {Ranker(TEXTS, seed=seed).rank({}, range(1, 41)).numbers for seed in range(3)}
    assert len(orders) == 3


def test_few_and_empty_texts_are_ranked() -> None:
    for texts in (["", ""], ["otters"], ["", "otters", "badgers"]):
        ranker = Ranker(texts)
        numbers = range(1, len(texts) + 1)
        assert sorted(ranker.rank({}, numbers).numbers) == [*numbers]
        assert ranker.rank({}, []).numbers == ()
    assert Ranker(["", "", ""]).rank({1: True, 2: False}, [3]).numbers == (3,)


def test_without_the_library_the_question_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    ranker = Ranker(TEXTS, "who eats fish")
    assert not ranker.learns
    ranking = ranker.rank({1: True, 2: False}, range(3, 41))
    assert (ranking.order, ranking.numbers[0] in OTTERS) == ("question", True)

"""Certificates: exact validity on small populations, whatever decides when to draw, read and stop."""

from __future__ import annotations

from functools import cache
from itertools import combinations, pairwise, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.statistics.recall_certificate import (
    OpenSample,
    SealedSample,
    count_tolerated,
    is_proven,
    make_sample,
    order_draws,
    size_sealed_sample,
)

SMALL = 5
CASES = [(0.5, 0.6), (0.5, 0.8), (0.6, 0.7), (0.75, 0.5), (0.8, 0.6)]
"""Target and confidence."""


@pytest.mark.parametrize(("target", "confidence"), CASES)
def test_a_sealed_sample_is_valid_for_each_order_and_each_policy(target: float, confidence: float) -> None:
    """A false proof in any state of any drawing counts as a failure, so that the best deceiving policy is covered; all are enumerated."""

    @cache
    def proves(drawn: int, ahead: int, found: int) -> bool:
        return is_proven(SealedSample(drawn=drawn, ahead=ahead), found, SMALL, target, confidence)

    drawings = list(permutations(range(SMALL)))
    states = [(drawn, depth) for drawn in range(SMALL + 1) for depth in range(SMALL + 1)]
    worst = 0.0
    for count in range(1, SMALL + 1):
        for relevant in map(set, combinations(range(SMALL), count)):  # places in the ranking
            failures = 0
            for draws in drawings:
                for drawn, depth in states:
                    sample = relevant.intersection(draws[:drawn])
                    ahead = sum(place >= depth for place in sample)
                    found = ahead + sum(place < depth for place in relevant)
                    if found < target * count and proves(drawn, ahead, found):
                        failures += 1
                        break
            worst = max(worst, failures / len(drawings))
    assert 0 < worst <= 1 - confidence + 1e-12


@pytest.mark.parametrize(("target", "confidence"), CASES)
def test_an_open_sample_is_valid_for_each_adaptive_policy(target: float, confidence: float) -> None:
    """The adversary knows the labels, sees each draw, and chooses the next step and the record that is read: the game is solved exactly."""

    def fail(labels: tuple[bool, ...], drawn: tuple[int, ...], hidden: int, rest: int) -> float:
        """The largest probability of a false proof from here."""
        total = len(labels) + rest
        if sum(labels) < target * (sum(labels) + hidden) and OpenSample(labels, drawn, total, target).count_draws(confidence) == 0:
            return 1.0
        if not rest:
            return 0.0
        steps = []
        if hidden:
            steps.append(fail((*labels, True), drawn, hidden - 1, rest - 1))
        if hidden < rest:
            steps.append(fail((*labels, False), drawn, hidden, rest - 1))
        after, chance = (*drawn, len(labels)), hidden / rest
        by_draw = chance * fail((*labels, True), after, hidden - 1, rest - 1) if hidden else 0.0
        if hidden < rest:
            by_draw += (1 - chance) * fail((*labels, False), after, hidden, rest - 1)
        return max(*steps, by_draw)

    worst = max(fail((), (), relevant, 5) for relevant in range(1, 6))
    assert 0 < worst <= 1 - confidence + 1e-9


@pytest.mark.parametrize(("missed", "share"), [(1, 0.95), (3, 1 - 0.05 ** (1 / 3)), (12, 1 - 0.05 ** (1 / 12))])
def test_the_size_of_a_sealed_sample_is_that_of_the_formula(missed: int, share: float) -> None:
    """1 - (1 - confidence)^(1/c) of a large population, and one draw less is too few."""
    size = size_sealed_sample(100_000, missed, 0.95)
    assert size == pytest.approx(share * 100_000, rel=2e-4)
    chance = 1.0
    for number in range(missed):
        chance *= (100_000 - size + 1 - number) / (100_000 - number)
    assert chance > 0.05


def test_few_inclusions_tolerate_no_missed_one() -> None:
    """Below 19 found ones a single missed one puts recall below 95 %."""
    assert [count_tolerated(found, 0.95) for found in (0, 18, 19, 38, 218)] == [0, 0, 1, 2, 11]


@given(st.data())
def test_more_evidence_never_lowers_the_bound(data: st.DataObject) -> None:
    """A screened record, read or drawn, never raises the total that is possible; the bound stays between the found ones and all."""
    total = data.draw(st.integers(1, 40))
    labels = data.draw(st.lists(st.booleans(), max_size=total))
    drawn = [at for at in range(len(labels)) if data.draw(st.booleans())]
    target, confidence = data.draw(st.sampled_from([0.5, 0.9, 0.95])), data.draw(st.sampled_from([0.8, 0.95]))
    before = 0.0
    for size in range(len(labels) + 1):
        sample = OpenSample(labels[:size], [at for at in drawn if at < size], total, target)
        most = sample.bound_total(confidence)
        assert sample.found <= most <= sample.found + total - size
        recall = sample.found / most if most else 0.0
        assert 0 <= recall <= 1
        if size and not labels[size - 1]:
            assert recall >= before
        before = recall


@given(st.data())
def test_the_evidence_grows_with_the_total(data: st.DataObject) -> None:
    """So that the largest total that is not rejected bounds all."""
    total = data.draw(st.integers(1, 40))
    labels = data.draw(st.lists(st.booleans(), max_size=total))
    drawn = [at for at in range(len(labels)) if data.draw(st.booleans())]
    sample = OpenSample(labels, drawn, total, data.draw(st.sampled_from([0.5, 0.9, 0.95])))
    evidence = [sample.measure(relevant)[1] for relevant in range(sample.found, total + 1)]
    assert all(later >= earlier - 1e-9 for earlier, later in pairwise(evidence))


def test_the_announced_number_of_draws_proves() -> None:
    """Draws without a relevant record prove the target after exactly this number, from the beginning and from the middle."""
    labels = [at % 5 == 0 for at in range(200)] + [False] * 100
    for drawn in ([], list(range(200, 300))):
        sample = OpenSample(labels, drawn, 1_000, 0.95)
        number = sample.count_draws(0.95)
        later = [*drawn, *range(300, 300 + number)]
        assert number > 0
        assert OpenSample([*labels, *[False] * number], later, 1_000, 0.95).count_draws(0.95) == 0
        assert OpenSample([*labels, *[False] * (number - 1)], later[:-1], 1_000, 0.95).count_draws(0.95) == 1


def test_the_order_of_drawing_is_random_but_repeatable() -> None:
    """It depends on the seed alone; a later record leaves the order of the others."""
    ids = [f"doc:{number}" for number in range(50)]
    order = order_draws(ids, "seed")
    assert order == order_draws(ids[::-1], "seed") != order_draws(ids, "another")
    assert tuple(one for one in order_draws([*ids, "doc:new"], "seed") if one != "doc:new") == order


def test_draws_count_up_to_the_first_one_without_a_label() -> None:
    """A record that was read by rank counts as drawn when its turn comes; a relevant draw lies ahead until the ranking reaches it."""
    draws = ("a", "b", "c", "d", "e")
    sample = make_sample({"b": True, "a": True, "c": False, "e": True}, drawn={"a", "c", "e"}, reached={"b", "c"}, draws=draws)
    assert sample.positions == (1, 2)
    assert sample.sealed == SealedSample(drawn=3, ahead=1)

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.distiller.distiller import Distiller
from outrider.distiller.selection import (
    CLOSE,
    NOISE,
    REPEAT_SIMILARITY,
    THRESHOLD,
    SelectionSettings,
    find_repeats,
    lift_context_scores,
    numbers_and_negations,
    select_units,
)
from outrider.distiller.units import SegmentedText, segment_text
from outrider.state.distilling import Reading
from outrider.text.words import content_words, stem
from support.distiller_fakes import texts

FACT = "Aspirin lowers the risk of stroke by 12 % in adults with diabetes."


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ("aspirin lowered the risks of stroke by 12 % in adults with diabetes", True),
        ("In adults with diabetes, aspirin lowers the risk of stroke by 12 %.", True),
        ("Aspirin lowers the risk of stroke by 13 % in adults with diabetes.", False),
        ("Aspirin never lowers the risk of stroke by 12 % in adults with diabetes.", False),
        ("Aspirin doesn't lower the risk of stroke by 12 % in adults with diabetes.", False),
        ("Aspirin lowers the risk of stroke.", False),
        ("", False),
    ],
)
def test_repeats_have_the_same_numbers_and_negations(other: str, same: bool) -> None:
    assert find_repeats([FACT, other]) == [0, 0 if same else 1]


def test_opposite_comparatives_are_no_repeats() -> None:
    assert find_repeats([f"The patients had {word} risk of stroke after daily aspirin therapy." for word in ("higher", "lower")]) == [0, 1]


def test_five_repeats_count_once() -> None:
    assert find_repeats(["Mice sleep at night.", *[FACT] * 5]) == [0, 1, 1, 1, 1, 1]


words = st.lists(st.sampled_from("alpha beta gamma delta epsilon zeta eta theta iota kappa".split()), min_size=1, max_size=10)


@given(st.lists(words.map(" ".join), max_size=12))
def test_prefix_filtering_equals_comparing_all_pairs(sentences: list[str]) -> None:
    bags = [frozenset(map(stem, content_words(text))) for text in sentences]
    expected: list[int] = []
    for at, bag in enumerate(bags):
        firsts = (other for other in range(at) if expected[other] == other)
        expected.append(next((other for other in firsts if len(bag & bags[other]) >= REPEAT_SIMILARITY * len(bag | bags[other])), at))
    assert find_repeats(sentences) == expected


@given(st.lists(st.lists(st.sampled_from("alpha beta gamma never not 5 12 higher".split()), max_size=6).map(" ".join), max_size=10))
def test_every_repeat_has_the_numbers_and_negations_of_its_first(sentences: list[str]) -> None:
    for at, first in enumerate(find_repeats(sentences)):
        assert first == find_repeats(sentences)[first] <= at
        assert sorted(numbers_and_negations(sentences[at])) == sorted(numbers_and_negations(sentences[first]))


def test_the_time_is_linear_in_the_number_of_units() -> None:
    sentences = [" ".join(pair) for pair in itertools.product([f"word{at}" for at in range(70)], repeat=2)]
    assert len(set(find_repeats(sentences))) == len(sentences) - 70 * 69 // 2  # two words in either order are the same


def test_numbers_and_negations_are_listed_in_order() -> None:
    assert numbers_and_negations("No 3.5 mg wasn't 1,000") == ["3.5", "1,000", "no", "n't"]


def _lift_scores(text: str, *scores: float) -> tuple[list[float], list[str]]:
    worth, why = lift_context_scores(segment_text(Reading("a", text)), scores)
    return worth, list(why)


def test_a_sentence_that_this_refers_to_gets_the_same_score() -> None:
    text = "Aspirin thins blood. This lowers risk. Mice sleep."
    assert _lift_scores(text, 0.1, 0.9, 0.2) == ([0.9, 0.9, 0.2], ["context", "relevant", "relevant"])


def test_context_is_at_most_two_sentences() -> None:
    assert _lift_scores("A is. It is. It was. It will be.", 0.1, 0.1, 0.1, 0.9)[0] == [0.1, 0.9, 0.9, 0.9]


def test_this_study_refers_to_no_sentence() -> None:
    assert _lift_scores("Mice sleep. This study shows risk.", 0.1, 0.9)[0] == [0.1, 0.9]


def test_a_heading_is_no_unit_and_gets_no_score() -> None:
    worth, why = _lift_scores("# A\n\nOne is.\n\n## B\n\nTwo is.", 0.1, 0.8)
    assert (worth, why) == ([0.1, 0.8], ["relevant", "relevant"])


@given(texts, st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_lifting_lowers_no_score_and_exceeds_no_maximum(text: str, values: list[float]) -> None:
    its = segment_text(Reading("a", text))
    scores = [values[at % len(values)] for at in range(len(its.units))]
    worth, why = lift_context_scores(its, scores)
    assert all(one >= own for one, own in zip(worth, scores, strict=True))
    assert max(worth, default=0) == max(scores, default=0)
    assert all((one > own) == (reason != "relevant") for one, own, reason in zip(worth, scores, why, strict=True))


class _Given:
    """An engine with given scores, the same for each text."""

    name = revision = "given"

    def __init__(self, values: list[float]) -> None:
        self.values = values

    def scores(self, query: str, cuts: list[SegmentedText]) -> list[list[float]]:
        return [[self.values[at % len(self.values)] for at in range(len(its.units))] for its in cuts]


FEW = SelectionSettings(max_units=3, max_units_first=5)


@given(st.lists(texts, min_size=1, max_size=3), st.lists(st.floats(0, 1), min_size=1, max_size=8), st.integers(1, 4), st.integers(4, 6))
def test_few_units_are_the_best_and_close_to_the_best(bodies: list[str], values: list[float], most: int, first: int) -> None:
    readings = [Reading(str(at), body) for at, body in enumerate(bodies)]
    kept = Distiller(_Given(values), selection=SelectionSettings(max_units=most, max_units_first=first)).distil("q", readings)
    for at, reading in enumerate(readings):
        own = [unit for unit in kept.units if unit.doc_id == reading.doc_id]
        scores = [values[place % len(values)] for place in range(len(segment_text(reading).units))]
        best = max(scores, default=0.0)
        assert len(own) <= (first if at == 0 else most)
        assert all(unit.score >= CLOSE * best for unit in own)
        assert (reading.doc_id in kept.unanswered) == (best < NOISE)
        assert not (own and reading.doc_id in kept.unanswered)
        assert all((unit.why == "best") == (best < THRESHOLD) for unit in own)


def test_nothing_is_kept_where_nothing_answers() -> None:
    readings = [Reading("a", "Mice sleep at night. Cats do not."), Reading("b", "Dogs bark at cats.")]
    kept = Distiller(_Given([0.05]), selection=FEW).distil("q", readings)
    assert (kept.units, kept.text, kept.unanswered) == ((), "", ("a", "b"))


def test_without_a_limit_the_threshold_decides() -> None:
    text = " ".join(f"Sentence number {word} is here." for word in "one two three four five six seven".split())
    assert len(Distiller(_Given([0.9])).distil("q", [Reading("a", text)]).units) == 7
    assert len(Distiller(_Given([0.9]), selection=FEW).distil("q", [Reading("a", text)]).units) == 5


def test_a_sentence_that_only_introduces_the_next_is_left_out() -> None:
    cut = segment_text(Reading("a", "It retries calls. For example, this retries:\n\n    run(job, times=3)\n\nIt stops."))
    assert [cut.text(at) for at in range(3)] == ["It retries calls.", "For example, this retries:", "run(job, times=3)"]
    settings = SelectionSettings(max_units=3, max_units_first=3)
    kept = [
        [unit.text for unit in select_units([cut], [scores], settings).units] for scores in ([0.9, 0.8, 0.1, 0.1], [0.9, 0.8, 0.7, 0.1])
    ]
    assert kept == [["It retries calls."], ["It retries calls.", "For example, this retries:", "run(job, times=3)"]]

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.distiller.selection import REPEAT_SIMILARITY, find_repeats, lift_context_scores, numbers_and_negations
from outrider.distiller.units import segment_text
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


def test_a_heading_gets_the_best_score_of_its_section_and_subsections() -> None:
    text = "# A\n\nOne.\n\n## B\n\nTwo.\n\n# C\n\nThree."
    worth, why = _lift_scores(text, 0.0, 0.1, 0.0, 0.8, 0.0, 0.3)
    assert worth == [0.8, 0.1, 0.8, 0.8, 0.3, 0.3]
    assert why == ["heading", "relevant", "heading", "relevant", "heading", "relevant"]


@given(texts, st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_lifting_lowers_no_score_and_exceeds_no_maximum(text: str, values: list[float]) -> None:
    its = segment_text(Reading("a", text))
    scores = [values[at % len(values)] for at in range(len(its.units))]
    worth, why = lift_context_scores(its, scores)
    assert all(one >= own for one, own in zip(worth, scores, strict=True))
    assert max(worth, default=0) == max(scores, default=0)
    assert all((one > own) == (reason != "relevant") for one, own, reason in zip(worth, scores, why, strict=True))

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from outrider.distiller.context_scores import lifted
from outrider.distiller.units import cut
from outrider.state.distilling import Reading
from support.distiller_fakes import texts


def _lifted(text: str, *scores: float) -> tuple[list[float], list[str]]:
    worth, why = lifted(cut(Reading("a", text)), scores)
    return worth, list(why)


def test_the_sentence_that_this_points_back_at_is_worth_as_much() -> None:
    text = "Aspirin thins blood. This lowers risk. Mice sleep."
    assert _lifted(text, 0.1, 0.9, 0.2) == ([0.9, 0.9, 0.2], ["context", "relevant", "relevant"])


def test_no_further_back_than_two() -> None:
    assert _lifted("A is. It is. It was. It will be.", 0.1, 0.1, 0.1, 0.9)[0] == [0.1, 0.9, 0.9, 0.9]


def test_this_study_points_at_no_sentence() -> None:
    assert _lifted("Mice sleep. This study shows risk.", 0.1, 0.9)[0] == [0.1, 0.9]


def test_a_heading_is_worth_the_best_of_its_section_and_of_the_sections_within() -> None:
    text = "# A\n\nOne.\n\n## B\n\nTwo.\n\n# C\n\nThree."
    worth, why = _lifted(text, 0.0, 0.1, 0.0, 0.8, 0.0, 0.3)
    assert worth == [0.8, 0.1, 0.8, 0.8, 0.3, 0.3]
    assert why == ["heading", "relevant", "heading", "relevant", "heading", "relevant"]


@given(texts, st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_nothing_is_worth_less_than_it_was_and_nothing_more_than_the_best(text: str, values: list[float]) -> None:
    its = cut(Reading("a", text))
    scores = [values[at % len(values)] for at in range(len(its.units))]
    worth, why = lifted(its, scores)
    assert all(one >= own for one, own in zip(worth, scores, strict=True))
    assert max(worth, default=0) == max(scores, default=0)
    assert all((one > own) == (reason != "relevant") for one, own, reason in zip(worth, scores, why, strict=True))

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.distiller.engines.lexical import Lexical, Rhetoric, smooth_with_neighbours
from outrider.distiller.selection import NOISE
from outrider.distiller.units import segment_text
from outrider.state.distilling import Reading
from support.distiller_fakes import ODD, texts


def _scores(query: str, *sentences: str) -> list[list[float]]:
    return Lexical().scores(query, [segment_text(Reading(str(at), text)) for at, text in enumerate(sentences)])


def test_units_with_more_words_of_the_query_score_higher() -> None:
    ((both, one, neighbour, none),) = _scores(
        "aspirin and stroke", "Aspirin prevents stroke. A stroke is bad. Mice sleep at night. They dream of cheese."
    )
    assert both > one > neighbour > none


def test_a_text_without_a_word_of_the_query_is_noise() -> None:
    scores = _scores("aspirin", "Mice sleep. They dream.", "Aspirin helps.")
    assert max(scores[0]) < NOISE < min(scores[1])


def test_a_query_without_words_makes_all_noise() -> None:
    assert max(_scores("?!", "Mice sleep. They dream.")[0]) < NOISE


@pytest.mark.parametrize("engine", [Lexical(), Rhetoric()])
@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
def test_odd_texts_have_a_probability_for_each_unit(engine: Lexical | Rhetoric, text: str) -> None:
    its = segment_text(Reading("a", text))
    (scores,) = engine.scores("word نص 学习 x", [its])
    assert len(scores) == len(its.units)
    assert all(0 <= one <= 1 for one in scores)


@given(texts, st.text(max_size=20))
def test_scores_are_deterministic(text: str, query: str) -> None:
    its = segment_text(Reading("a", text))
    assert Lexical().scores(query, [its]) == Lexical().scores(query, [its])


@given(st.lists(st.floats(0, 1), max_size=6), st.floats(0, 1))
def test_smoothed_scores_stay_in_the_range(scores: list[float], share: float) -> None:
    smoothed = smooth_with_neighbours(scores, share)
    assert len(smoothed) == len(scores)
    assert all(min(scores) - 1e-9 <= one <= max(scores) + 1e-9 for one in smoothed)


def test_a_megabyte_is_read_at_once() -> None:
    """Two seconds of the processor; it takes about a quarter of one."""
    sentence = "The daily dose of {} mg of aspirin lowers the risk of stroke in {} adults with diabetes (p < 0.05). "
    text = "".join(sentence.format(at, at * 7) for at in range(10_000))[:1_000_000]
    started = time.process_time()
    _scores("aspirin lowers the risk of stroke", text)
    assert time.process_time() - started < 2


def test_a_stated_result_outranks_a_stated_aim() -> None:
    text = "The aim was to study aspirin in many adults here. We used many methods in several settings. Results show a reduced risk of it."
    ((aim, method, result),) = Rhetoric().scores("", [segment_text(Reading("a", text))])
    assert result > max(aim, method)

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from outrider.text.words import CONTINUOUS, WORD, content_words, stems, words


def test_words_of_several_scripts() -> None:
    assert words("Liver-Enzymes, naïve 深度学习 2020") == ["liver", "enzymes", "naïve", "深度", "度学", "学习", "2020"]


@given(st.text(alphabet=st.characters(max_codepoint=127), max_size=80) | st.text(max_size=80))
def test_the_fast_way_equals_the_regular_expression(text: str) -> None:
    assume(not CONTINUOUS.search(text))
    assert words(text) == WORD.findall(text.lower())


def test_stop_words_go_unless_nothing_else_is_left() -> None:
    assert content_words("the effect of aspirin") == ["effect", "aspirin"]
    assert content_words("to be or not to be") == ["to", "be", "or", "not", "to", "be"]


def test_stems_join_forms() -> None:
    assert stems("retrying retries retry") == ["retri"] * 3

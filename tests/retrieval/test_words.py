from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from outrider.retrieval.words import MAX_QUERY_CHARS, MAX_QUERY_TERMS, STOP_WORDS, only_stop_words, searched, words


@given(st.text(max_size=200))
def test_a_short_query_is_searched_whole_but_for_its_end(text: str) -> None:
    asked = searched(text)
    assert text.startswith(asked)
    assert list(words(asked)) == list(words(text))


def test_a_long_query_is_searched_up_to_a_number_of_distinct_words() -> None:
    text = " ".join(f"w{number} again" for number in range(5_000))[:MAX_QUERY_CHARS]
    assert len(set(words(searched(text)))) == MAX_QUERY_TERMS
    assert searched("same " * 10_000) == ("same " * 10_000)[: MAX_QUERY_CHARS - 1]


def test_stop_words_are_function_words_only() -> None:
    assert not STOP_WORDS & {"ai", "cat", "dog", "war", "c", "r", "us", "like", "system", "new", "two"}
    assert only_stop_words("The who, isn't it?")
    assert not only_stop_words("the ai")

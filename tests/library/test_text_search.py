"""The part of a query that is searched, and the weight of its added terms."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from outrider.library.library import Library
from outrider.library.text_search import MAX_QUERY_TERMS, cut_query, only_stop_words
from outrider.state.records import Paper
from outrider.state.request import MAX_QUERY_CHARS
from outrider.text.words import STOP_WORDS, words


@given(st.text(max_size=200))
def test_a_short_query_is_searched_whole_but_for_its_end(text: str) -> None:
    part = cut_query(text)
    assert text.startswith(part)
    assert words(part) == words(text)


def test_a_long_query_is_searched_up_to_a_number_of_distinct_words() -> None:
    text = " ".join(f"w{number} again" for number in range(5_000))[:MAX_QUERY_CHARS]
    assert len(set(words(cut_query(text)))) == MAX_QUERY_TERMS
    assert cut_query("same " * 10_000) == ("same " * 10_000)[: MAX_QUERY_CHARS - 1]


def test_stop_words_are_function_words_only() -> None:
    assert not STOP_WORDS & {"ai", "cat", "dog", "war", "c", "r", "us", "like", "system", "new", "two"}
    assert only_stop_words("The who, isn't it?")
    assert not only_stop_words("the ai")


async def test_an_added_term_never_outranks_a_word_of_the_query(library: Library) -> None:
    """Of two equally frequent terms, the query's own ranks first; the added one finds further records, and breaks ties."""
    texts = {
        "a": "kangaroo river", "b": "marsupial river", "c": "kangaroo marsupial", "d": "nothing here", "e": "nothing again",
        "f": "nothing more", "g": "nothing else",
    }  # fmt: skip
    await library.upsert([Paper(doc_id=name, title=text) for name, text in texts.items()])
    alone = await library.search("kangaroo")
    widened = await library.search("kangaroo", widened=("marsupial",))
    assert [hit.record.doc_id for hit in alone] == ["a", "c"]
    assert [hit.record.doc_id for hit in widened] == ["c", "a", "b"]
    assert widened[2].score < widened[1].score / 2

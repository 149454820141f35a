"""The searched part of a query, added terms and their weights."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from outrider.library.library import Library
from outrider.library.text_search import FIRST, MAX_QUERY_TERMS, POOL, cut_query, only_stop_words, related_terms
from outrider.state.records import Document, Paper
from outrider.state.request import MAX_QUERY_CHARS
from outrider.text.strip_markup import fold_text
from outrider.text.words import STOP_WORDS, words


@given(st.text(max_size=200))
def test_a_short_query_is_searched_whole_but_for_its_end(text: str) -> None:
    part = cut_query(text)
    assert fold_text(text).startswith(part)
    assert words(part) == words(fold_text(text))


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


def hits(*titles: str) -> list[Paper]:
    return [Paper(doc_id=str(number), title=title) for number, title in enumerate(titles)]


ABOUT = ["Kangaroo pouches"] * 4 + ["Kangaroos"] * (FIRST - 4)
OTHERS = ["Rivers of the north"] * (POOL - FIRST)


def test_a_term_of_the_first_hits_is_found_and_one_of_the_query_is_not() -> None:
    """Whatever form the query's word has."""
    assert related_terms("kangaroo", hits(*ABOUT, *OTHERS), 5) == ("pouches",)
    assert related_terms("pouch", hits(*ABOUT, *OTHERS), 5)[0] in ("kangaroo", "kangaroos")


def test_terms_more_frequent_in_later_hits_are_dropped() -> None:
    """Half of the first hits have it, and all others."""
    first = [*(["Kangaroo rivers"] * (FIRST // 2)), *(["Kangaroo"] * (FIRST // 2))]
    assert related_terms("kangaroo", hits(*first, *(["Rivers"] * (POOL - FIRST))), 5) == ()


def test_one_or_two_documents_are_no_topic() -> None:
    """Three of ten first hits must have a term; two where there are fewer hits than ten."""
    two = ["Kangaroo pouches"] * 2
    assert related_terms("kangaroo", hits(*two, *(["Kangaroo"] * (FIRST - 2)), *OTHERS), 5) == ()
    assert related_terms("kangaroo", hits(*two, "Kangaroo"), 5) == ("pouches",)


def test_a_term_occurs_in_some_title_or_description() -> None:
    """Bodies also say "overall"."""
    records = [Document(doc_id=str(number), title="Kangaroo", text="overall pouches") for number in range(FIRST - 1)]
    assert related_terms("kangaroo", [*records, Document(doc_id="x", title="Pouches")], 5) == ("pouches",)


def test_forms_of_a_word_count_together_under_the_most_frequent() -> None:
    """Of equally frequent forms the shortest represents them; stop words, numbers and short words are no terms."""
    assert related_terms("kangaroo", hits("Kangaroo hopping", "Kangaroo hops", "Kangaroo hops to 2020 ab"), 5) == ("hops",)
    assert related_terms("kangaroo", hits("Hopping of it 2020 ab", "Hop of it 2020 ab"), 5) == ("hop",)


def test_terms_are_few_and_ties_go_by_word() -> None:
    same = hits(*(["Kangaroo delta bravo charlie"] * 3))
    assert related_terms("kangaroo", same, 2) == ("bravo", "charlie")
    assert related_terms("kangaroo", same, 0) == ()
    assert related_terms("kangaroo", [], 3) == ()

"""Which words of a request tell is one rule; how they are parted is each service's own."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.sources import openalex, semantic_scholar
from outrider.sources.adapter import content_words, drop_stop_words, query_terms, split_words
from outrider.sources.arxiv import select_terms
from outrider.sources.github.search import build_query
from outrider.sources.pubmed import search as pubmed
from outrider.state.ports import SourceQuery
from outrider.text.words import STOP_WORDS, WORD


def query(text: str, *keywords: str) -> SourceQuery:
    return SourceQuery(text, "relevance", None, 10, keywords=keywords)


def test_keywords_go_before_the_text() -> None:
    assert query_terms(query("find me a parser", "parser")) == ("parser",)
    assert query_terms(query("parser")) == ("parser",)


@pytest.mark.parametrize(
    ("terms", "rest"),
    [
        (["the", "C++", "parser"], ["C++", "parser"]),
        (["state of the art", "of the", "don't"], ["state of the art"]),
        (["to", "be"], ["to", "be"]),
        (["--", "ice"], ["ice"]),
        ([], []),
    ],
)
def test_stop_words_tell_only_where_nothing_else_is_left(terms: list[str], rest: list[str]) -> None:
    assert drop_stop_words(terms) == rest


@pytest.mark.parametrize("word", ["C++", "C#", "F#"])
def test_where_a_service_takes_signs_a_name_keeps_them(word: str) -> None:
    search_query = query(f"a {word} parser", word, "parser")
    assert semantic_scholar.search_words(search_query) == f"{word} parser"
    assert build_query(search_query).startswith(f"{word} parser ")


@given(st.lists(st.text(max_size=30), max_size=5), st.sampled_from([WORD, re.compile(r"\S+"), re.compile(r"[^-\s]+")]), st.booleans())
def test_every_word_stands_in_the_text_once_and_holds_a_letter_or_digit(texts: list[str], part: re.Pattern[str], lower: bool) -> None:
    words = split_words(texts, part, ".,", lower=lower)
    folded = [word.casefold() for word in words]
    assert len(folded) == len(set(folded))
    assert all(WORD.search(word) for word in words)
    assert all(any(word.casefold() in text.casefold() for text in texts) for word in words)
    content = content_words(texts, part, ".,", lower=lower)
    assert set(content) <= set(words)
    assert bool(content) == bool(words)


@given(st.text(max_size=60))
def test_no_adapter_asks_for_stop_words_beside_a_telling_word(text: str) -> None:
    search_query = query(f"the liver of {text}")
    for words in (
        openalex.search_words(search_query),
        pubmed.search_words(search_query),
        semantic_scholar.search_words(search_query).split(),
        select_terms(search_query.text.split()),
    ):
        assert "liver" in [word.lower() for word in words]
        assert not STOP_WORDS & {word.lower() for word in words}

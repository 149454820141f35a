"""Which words of a request tell is one rule; how they are parted is each service's own."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.sources.adapter import content_words, parted_words, said_by, telling
from outrider.sources.arxiv import terms_of
from outrider.sources.github.search import question
from outrider.sources.openalex import search_words
from outrider.sources.pubmed.search import words_of
from outrider.sources.semantic_scholar import searched_words
from outrider.state.ports import SourceQuery
from outrider.text.words import STOP_WORDS, WORD


def query(text: str, *keywords: str) -> SourceQuery:
    return SourceQuery(text, "relevance", None, 10, keywords=keywords)


def test_keywords_go_before_the_text() -> None:
    assert said_by(query("find me a parser", "parser")) == ("parser",)
    assert said_by(query("parser")) == ("parser",)


@pytest.mark.parametrize(
    ("terms", "kept"),
    [
        (["the", "C++", "parser"], ["C++", "parser"]),
        (["state of the art", "of the", "don't"], ["state of the art"]),
        (["to", "be"], ["to", "be"]),
        (["--", "ice"], ["ice"]),
        ([], []),
    ],
)
def test_stop_words_tell_only_where_nothing_else_is_left(terms: list[str], kept: list[str]) -> None:
    assert telling(terms) == kept


@pytest.mark.parametrize("word", ["C++", "C#", "F#"])
def test_where_a_service_takes_signs_a_name_keeps_them(word: str) -> None:
    said = query(f"a {word} parser", word, "parser")
    assert searched_words(said) == f"{word} parser"
    assert question(said).startswith(f"{word} parser ")


@given(st.lists(st.text(max_size=30), max_size=5), st.sampled_from([WORD, re.compile(r"\S+"), re.compile(r"[^-\s]+")]), st.booleans())
def test_every_word_stands_in_the_text_once_and_holds_a_letter_or_digit(texts: list[str], part: re.Pattern[str], lower: bool) -> None:
    made = parted_words(texts, part, ".,", lower=lower)
    folded = [word.casefold() for word in made]
    assert len(folded) == len(set(folded))
    assert all(WORD.search(word) for word in made)
    assert all(any(word.casefold() in text.casefold() for text in texts) for word in made)
    told = content_words(texts, part, ".,", lower=lower)
    assert set(told) <= set(made)
    assert bool(told) == bool(made)


@given(st.text(max_size=60))
def test_no_adapter_asks_for_stop_words_beside_a_telling_word(text: str) -> None:
    said = query(f"the liver of {text}")
    for words in (search_words(said), words_of(said), searched_words(said).split(), terms_of(said.text.split())):
        assert "liver" in [word.lower() for word in words]
        assert not STOP_WORDS & {word.lower() for word in words}

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.boolean.parser import parse
from outrider.sources import openalex, pubmed, semantic_scholar
from outrider.sources.adapter import (
    build_answer,
    content_words,
    drop_stop_words,
    format_age,
    match_then_rank,
    query_terms,
    score_results,
    split_words,
)
from outrider.sources.arxiv import select_terms
from outrider.sources.github.search import build_query
from outrider.sources.http.service import Reply
from outrider.state.errors import RateLimited, SourceError, SourceTimeout, SourceUnavailable
from outrider.state.ports import BooleanQuery, SourceAnswer, SourceQuery
from outrider.text.words import STOP_WORDS, WORD
from support.fakes import paper


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "0 s"), (59, "59 s"), (60, "1 min"), (7_300, "2 h"), (86_400, "1 day"), (200_000, "2 days")]
)
def test_an_age_in_its_largest_unit(seconds: float, text: str) -> None:
    assert format_age(seconds) == text


def test_a_record_that_comes_twice_keeps_its_first_place() -> None:
    results = score_results([(paper("a"), 3.0), (paper("b"), 2.0), (paper("a"), 9.0)])
    assert [(one.record.doc_id, one.score) for one in results] == [("a", 3.0), ("b", 2.0)]


def test_scores_are_the_services_own_or_ranks_but_not_both() -> None:
    assert [one.score for one in score_results([(paper("a"), 3.0), (paper("b"), None)])] == [1.0, 0.5]


@pytest.mark.parametrize(
    ("age_s", "stale", "missing", "status"),
    [(0.0, False, "", ""), (9.0, False, "", "cached"), (9.0, True, "", "stale"), (9.0, True, "1 page did not come", "partial")],
)
def test_partial_takes_precedence_over_cached(age_s: float, stale: bool, missing: str, status: str) -> None:
    reply = Reply("https://api.example.org/works?q=x", 200, {}, b"", age_s, stale)
    answer = build_answer((), 5, [reply], missing=missing)
    assert (answer.status, answer.total) == (status, 5)
    assert ("api.example.org is unavailable; this is its response of 9 s ago" in answer.message) == stale
    assert missing in answer.message


def test_an_old_answer_has_the_reason_and_the_retry_time() -> None:
    url = "https://api.example.org/works?q=x"
    replies = [
        Reply(url, 200, {}, b"", 9.0, True, RateLimited("example answered 429 to its works; try again in 60 s", 1_060.0)),
        Reply(url, 200, {}, b"", 5.0, True, SourceUnavailable("example is left alone", 1_030.0)),
        Reply(url, 200, {}, b"", 7.0),
    ]
    answer = build_answer((), 5, replies)
    assert answer.message == (
        "example answered 429 to its works; try again in 60 s; api.example.org is unavailable; this is its response of 9 s ago"
    )
    assert (answer.status, answer.retry_at) == ("stale", 1_060.0)
    assert build_answer((), 5, replies, missing="page 3 did not come", retry_at=2_000.0).retry_at == 2_000.0
    assert build_answer((), 5, replies[2:]).retry_at is None


# The words of a request


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
def test_stop_words_count_only_where_no_other_word_exists(terms: list[str], rest: list[str]) -> None:
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
def test_no_adapter_sends_stop_words_with_a_content_word(text: str) -> None:
    search_query = query(f"the liver of {text}")
    for words in (
        openalex.search_words(search_query),
        pubmed.search_words(search_query),
        semantic_scholar.search_words(search_query).split(),
        select_terms(search_query.text.split()),
    ):
        assert "liver" in [word.lower() for word in words]
        assert not STOP_WORDS & {word.lower() for word in words}


@pytest.mark.parametrize(
    ("by_words", "raised"), [(SourceTimeout("within 0.0002 s"), "answered 500"), (SourceUnavailable("answered 503"), "answered 503")]
)
async def test_a_search_by_words_without_time_reports_what_used_the_time_up(by_words: SourceError, raised: str) -> None:
    async def match(_: BooleanQuery) -> SourceAnswer:
        raise SourceUnavailable("answered 500")

    async def rank() -> SourceAnswer:
        raise by_words

    query = SourceQuery("liver", "relevance", None, 10, boolean=BooleanQuery(parse("liver").tree, "liver"))
    with pytest.raises(SourceError, match=raised):
        await match_then_rank(query, match, rank)

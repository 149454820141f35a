from __future__ import annotations

import re
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.sources.github.search import build_query
from outrider.state.intent import Constraints, NumberRange, RepositoryWishes
from outrider.state.ports import EXPANDED, SourceQuery

WORDS = ("React", "animation", "library")
WISHES = RepositoryWishes(language="C++", topics=("react", "ui"), created_after=date(2024, 1, 31))


def query(*keywords: str, strategy: str = "stars", **more: Any) -> SourceQuery:
    return SourceQuery(more.pop("text", ""), strategy, None, 50, keywords=keywords, **more)


def stars(low: int | None = None, high: int | None = None) -> Constraints:
    return Constraints(stars=NumberRange(min=low, max=high))


def test_words_and_wishes() -> None:
    text = build_query(query(*WORDS, repositories=WISHES, constraints=stars(50)))
    assert text == "React animation library language:C++ topic:react stars:>=50 created:>=2024-01-31 archived:false"


def test_asking_for_less_drops_wishes_and_words_but_no_rule() -> None:
    text = build_query(query(*WORDS, "springs", repositories=WISHES, constraints=stars(50)), plain=True)
    assert text == "React animation library stars:>=50 created:>=2024-01-31 archived:false"


@pytest.mark.parametrize(
    ("constraints", "qualifier"),
    [(stars(), ""), (stars(10), "stars:>=10 "), (stars(None, 500), "stars:<=500 "), (stars(10, 500), "stars:10..500 ")],
)
def test_stars(constraints: Constraints, qualifier: str) -> None:
    assert build_query(query("crm", constraints=constraints)) == f"crm {qualifier}archived:false"


def test_widening_terms_stand_beside_the_words_as_alternatives() -> None:
    text = build_query(query(*WORDS, strategy=EXPANDED, widened=("motion", "state transition", "React", "tween"), repositories=WISHES))
    assert text == 'React animation library OR motion OR "state transition" OR tween language:C++ created:>=2024-01-31 archived:false'


def test_a_language_of_two_words_is_quoted() -> None:
    wishes = RepositoryWishes(language='Jupyter "Notebook" user:x')
    assert build_query(query("plots", repositories=wishes)) == 'plots language:"Jupyter Notebook user x" archived:false'


def test_words_that_say_nothing_are_left_out_unless_there_are_no_others() -> None:
    assert build_query(query("a", "CLI", "tool", "for", "developers")) == "CLI tool developers archived:false"
    assert build_query(query("to", "be", "or", "not")) == "to be or not archived:false"


def test_of_many_words_the_first_are_asked_for() -> None:
    assert build_query(query("one two", "three", "Three", "four", "five", "six")) == "two three four five archived:false"


def test_the_text_stands_in_for_missing_keywords() -> None:
    assert build_query(query(text="C++ web framework")) == "C++ web framework archived:false"


@pytest.mark.parametrize("keywords", [(), ("",), ('"', "::", "(-)")])
def test_without_words_nothing_is_asked(keywords: tuple[str, ...]) -> None:
    assert build_query(query(*keywords, repositories=WISHES, constraints=stars(50))) == ""


@pytest.mark.parametrize(
    ("word", "words"),
    [
        ("user:torvalds", "user torvalds"),
        ("-graphics", "graphics"),
        ("x AND (y)", "x y"),
        ('a"b', "b"),
        ("stars:>1\u0000", "stars 1"),
        ("node.js", "node.js"),
        ("C#", "C#"),
        ("机器学习", "机器学习"),
    ],
)
def test_a_word_is_no_syntax(word: str, words: str) -> None:
    assert build_query(query(word)) == f"{words} archived:false"


TERMS = st.lists(st.text(max_size=80) | st.sampled_from(["AND", "x OR y", "-user:me", "org:x", '"', "is:private"]), max_size=12).map(tuple)


@given(TERMS, TERMS, st.sampled_from(["stars", "updated", EXPANDED]), st.booleans())
def test_no_words_break_githubs_rules(keywords: tuple[str, ...], widened: tuple[str, ...], strategy: str, plain: bool) -> None:
    """256 characters of words, five operators, no qualifier but ours, quotation marks in pairs."""
    text = build_query(query(*keywords, strategy=strategy, widened=widened), plain=plain)
    assert not text or text.endswith(" archived:false")
    words = text.removesuffix("archived:false")
    assert ":" not in words
    assert words.count('"') % 2 == 0
    operators = re.findall(r"(?:^| )(AND|OR|NOT)(?= |$)", re.sub(r'"[^"]*"', "x", words))
    assert set(operators) <= {"OR"}
    assert len(operators) <= 5
    assert len(words.replace(" OR ", " ").strip()) <= 256
    assert not re.search(r"(?:^| )-", words)

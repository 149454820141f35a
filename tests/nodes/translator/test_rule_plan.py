from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.nodes.translator.rule_plan import MAX_CONCEPTS, extract_concepts, extract_keywords


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("retry a failing call with exponential backoff", ("retry", "failing call", "exponential backoff")),
        ("LLMs in medical imaging diagnosis", ("LLMs", "medical imaging diagnosis")),
        ("What are the effects of aspirin on the liver?", ("effects", "aspirin", "liver")),
        ("C++ and C# parsers", ("C++", "C# parsers")),
        ("深度学习 图像", ("深度学习 图像",)),
        ("C++17, F#, .NET and ASP.NET in R", ("C++17", "F#", ".NET", "ASP.NET", "R")),
        ("at the end.Then a 5.0", ("end.Then", "5.0")),
        ("to be or not to be?", ("to", "be", "or", "not")),
        ("", ()),
    ],
)
def test_phrases_between_stop_words_in_order(text: str, expected: tuple[str, ...]) -> None:
    assert extract_concepts(text) == expected


@given(st.text(max_size=300))
def test_deterministic_few_and_taken_from_the_text(text: str) -> None:
    """At most eight, none twice, the same each time, every word of them a word of the text."""
    once = extract_concepts(text)
    assert once == extract_concepts(text)
    assert len(once) == len(set(once)) <= MAX_CONCEPTS
    assert all(word in text for phrase in once for word in phrase.split(" "))


@pytest.mark.parametrize("name", ["C++", "C#", "F#", ".NET", "R", "Node.js", "C++17", "x86-64"])
def test_the_name_of_a_language_is_a_keyword_as_it_is_written(name: str) -> None:
    assert name in extract_keywords(extract_concepts(f"show me parsers for {name}, please"))


@given(st.lists(st.text(max_size=20), max_size=9))
def test_keywords_are_the_words_of_the_phrases_each_once(phrases: list[str]) -> None:
    keywords = extract_keywords(phrases)
    assert {word.casefold() for word in keywords} == {word.casefold() for phrase in phrases for word in phrase.split()}
    assert len(keywords) == len({word.casefold() for word in keywords})

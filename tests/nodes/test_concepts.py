from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.nodes.concepts import MAX_CONCEPTS, concepts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("retry a failing call with exponential backoff", ("retry", "failing call", "exponential backoff")),
        ("LLMs in medical imaging diagnosis", ("LLMs", "medical imaging diagnosis")),
        ("What are the effects of aspirin on the liver?", ("effects", "aspirin", "liver")),
        ("C++ and C# parsers", ("C++", "C# parsers")),
        ("深度学习 图像", ("深度学习 图像",)),
        ("to be or not to be", ("to", "be", "or", "not")),
        ("", ()),
    ],
)
def test_phrases_between_stop_words_in_order(text: str, expected: tuple[str, ...]) -> None:
    assert concepts(text) == expected


@given(st.text(max_size=300))
def test_deterministic_few_and_taken_from_the_text(text: str) -> None:
    """At most eight, none twice, the same each time, every word of them a word of the text."""
    once = concepts(text)
    assert once == concepts(text)
    assert len(once) == len(set(once)) <= MAX_CONCEPTS
    assert all(word in text for phrase in once for word in phrase.split(" "))

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.text.sentences import MAX_SENTENCE_CHARS, sentence_spans


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("See Smith et al. (2020), e.g. Fig. 2 of J. Doe. Next.", ["See Smith et al. (2020), e.g. Fig. 2 of J. Doe.", "Next."]),
        ("We gave 3.5 mg/kg. p = 0.05 was not reached.", ["We gave 3.5 mg/kg. p = 0.05 was not reached."]),
        ('He said "Stop." Then left.', ['He said "Stop."', "Then left."]),
        ("深度学习。很好！真的？", ["深度学习。", "很好！", "真的？"]),
        ("# Title\nBody line.\n\n- first\n- second", ["# Title", "Body line.", "- first", "- second"]),
        ("", []),
        (" \n ", []),
    ],
)
def test_boundaries(text: str, sentences: list[str]) -> None:
    assert [text[start:end] for start, end in sentence_spans(text)] == sentences


@given(st.text(alphabet="Ab. !?\n#-\"'1。é😀", max_size=400))
def test_spans_are_ordered_trimmed_and_lose_nothing(text: str) -> None:
    spans = sentence_spans(text)
    assert all(start < end for start, end in spans)
    assert all(first[1] <= second[0] for first, second in itertools.pairwise(spans))
    assert "".join("".join(text[start:end].split()) for start, end in spans) == "".join(text.split())
    assert all(text[start:end] == text[start:end].strip() for start, end in spans)


def test_a_long_run_is_cut_at_white_space() -> None:
    text = "word " * 2_000
    assert max(end - start for start, end in sentence_spans(text)) <= MAX_SENTENCE_CHARS

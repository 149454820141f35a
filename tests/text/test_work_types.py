from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.text.languages_and_work_types import GENRES, TYPES, normal_type


@pytest.mark.parametrize(
    ("work_type", "normal"),
    [
        ("journal-article", "article"), ("Journal Article", "article"), ("JournalArticle", "article"), ("JOUR", "article"),
        ("Systematic Review", "review"), ("MetaAnalysis", "review"), ("posted-content", "preprint"), ("inproceedings", "conference"),
        ("Case Reports", "case-report"), ("Research Support, N.I.H., Extramural", None), ("Pdf", None), ("", None), ("-", None),
    ],
)  # fmt: skip
def test_one_word_for_every_spelling_of_a_type(work_type: str, normal: str | None) -> None:
    assert normal_type(work_type) == normal


@given(st.sampled_from(sorted(TYPES)), st.sampled_from(["", " ", "-", "_"]))
def test_our_own_words_mean_themselves_in_any_spelling(name: str, sign: str) -> None:
    assert normal_type(name.upper().replace("-", sign)) == name


def test_no_word_means_two_things() -> None:
    words = [word for name, others in TYPES.items() for word in (name.replace("-", ""), *others.split())]
    assert len(set(words)) == len(words)
    assert set(TYPES) >= GENRES

"""One code a language and one name a type of work, in every spelling."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.text.languages_and_work_types import (
    GENRES,
    TYPES,
    _language_codes,
    find_spellings,
    normal_language,
    normal_type,
    split_languages,
)


@pytest.mark.parametrize(
    ("spelling", "normal"),
    [
        ("en", "en"), ("eng", "en"), ("English", "en"), ("en-US", "en"), ("EN_gb", "en"), (" english ", "en"), ("zh-Hant-TW", "zh"),
        ("fre", "fr"), ("fra", "fr"), ("ger", "de"), ("scr", "hr"), ("Scottish Gaelic", "gd"), ("Bokmål", "nb"), ("grc", "grc"),
        ("und", None), ("mul", None), ("", None), ("xx", None), ("e", None), ("en, fr", None), ("of the birds", None), ("123", None),
    ],
)  # fmt: skip
def test_codes_tags_and_names(spelling: str, normal: str | None) -> None:
    assert normal_language(spelling) == normal


def test_the_register_is_of_two_letters_each_with_codes_and_a_name() -> None:
    by_code: dict[str, list[str]] = {}
    for spelling, two in _language_codes().items():
        by_code.setdefault(two, []).append(spelling)
    assert len(by_code) == 183  # ISO 639-1 without `bh`, which was withdrawn
    for two, spellings in by_code.items():
        assert two in spellings
        assert any(len(one) == 3 for one in spellings)


@given(st.text(max_size=20) | st.sampled_from(sorted(_language_codes())))
def test_what_is_normal_stays_so(spelling: str) -> None:
    normal = normal_language(spelling)
    assert normal is None or (normal_language(normal) == normal and 2 <= len(normal) <= 3)


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


def test_types_of_databases_and_reference_managers() -> None:
    """Web of Science, Embase, CSL and RefWorks have words of their own."""
    words = {
        "Proceedings Paper": "conference",
        "Meeting Abstract": "conference",
        "Conference Abstract": "conference",
        "paper-conference": "conference",
        "Editorial Material": "editorial",
        "Article in Press": "article",
        "article-newspaper": "news",
        "Book, Whole": "book",
        "Book, Section": "chapter",
    }
    assert {word: normal_type(word) for word in words} == words


def test_no_word_means_two_things() -> None:
    words = [word for name, others in TYPES.items() for word in (name.replace("-", ""), *others.split())]
    assert len(set(words)) == len(words)
    assert set(TYPES) >= GENRES


def test_several_languages_in_one_text() -> None:
    """A text is split where every part names a language."""
    for text in ("English; German", "English, German", "English/German", "English and German", "English;German;"):
        assert split_languages(text) == ["English", "German"]
    for text in ("English", "Greek, Modern", "", "und; mul", "en-GB"):
        assert split_languages(text) == [text]


def test_spellings_of_a_language() -> None:
    """Every text that names the language, also beside another."""
    texts = ["English", "en", "eng; ger", "German", "Rust", "en-US"]
    assert find_spellings(texts, "eng") == ["English", "en", "eng; ger", "en-US"]
    assert find_spellings(texts, "Deutsch") == find_spellings(texts, "Rust") == []

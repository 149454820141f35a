"""One language, one code, in every spelling."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.text.languages_and_work_types import _language_codes, normal_language


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

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.linkage.names_and_titles import normal_title


@pytest.mark.parametrize(
    ("title", "normal"),
    [
        ("<i>Aspirin</i> &amp; the Liver.", "aspirin the liver"),
        ("Straße, Café", "strasse cafe"),
        ("深度学习：综述", "深度学习 综述"),
        ("p < 0.05 and x > 3", "p 0 05 and x 3"),
        ("", ""),
        ("...", ""),
    ],
)
def test_one_form(title: str, normal: str) -> None:
    assert normal_title(title) == normal


@given(st.text(alphabet=st.characters(exclude_characters="&<>"), max_size=60))
def test_normal_titles_stay_as_they_are(title: str) -> None:
    assert normal_title(normal_title(title)) == normal_title(title)

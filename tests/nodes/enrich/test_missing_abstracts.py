from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as some

from outrider.nodes.enrich.missing_abstracts import title_of_find, title_of_work

FIND = "Liver injury: what patients should know"


@pytest.mark.parametrize(
    "page",
    [
        FIND,
        f"{FIND} | Clinic of Example",
        f"{FIND} - Example",
        "Liver injury: what patients should know about it",
        "Liver injury: what patients ...",
    ],
)
def test_a_page_of_the_find(page: str) -> None:
    assert title_of_find(page, FIND)
    assert title_of_find(FIND, page)


@pytest.mark.parametrize("page", ["", "Sign in - Example SSO", "example.org is for sale", "Liver", "Just a moment...", "Home"])
def test_another_page(page: str) -> None:
    assert not title_of_find(page, FIND)
    assert not title_of_find(page, f"{FIND} | Example")


def test_a_short_title_goes_on_with_a_site() -> None:
    assert title_of_find("Phages", "Phages - Wikipedia")
    assert title_of_find("Phages | Wikipedia", "Phages")
    assert not title_of_find("Sign in - Wikipedia", "Wikipedia")
    assert not title_of_work("Phages", "Phages of the gut")


@given(some.text("abc de", min_size=1, max_size=30), some.text("abc de-|", max_size=30))
def test_either_may_be_the_longer_one(one: str, other: str) -> None:
    assert title_of_find(one, other) == title_of_find(other, one)
    assume(one.strip())
    assert title_of_find(one, f"{one} | {other}") or "|" in one or "-" in one

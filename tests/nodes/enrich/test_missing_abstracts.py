from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as some

from outrider.nodes.enrich.missing_abstracts import matches_result_title, matches_work_title

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
    assert matches_result_title(page, FIND)
    assert matches_result_title(FIND, page)


@pytest.mark.parametrize("page", ["", "Sign in - Example SSO", "example.org is for sale", "Liver", "Just a moment...", "Home"])
def test_another_page(page: str) -> None:
    assert not matches_result_title(page, FIND)
    assert not matches_result_title(page, f"{FIND} | Example")


def test_a_short_title_goes_on_with_a_site() -> None:
    assert matches_result_title("Phages", "Phages - Wikipedia")
    assert matches_result_title("Phages | Wikipedia", "Phages")
    assert not matches_result_title("Sign in - Wikipedia", "Wikipedia")
    assert not matches_work_title("Phages", "Phages of the gut")


@given(some.text("abc de", min_size=1, max_size=30), some.text("abc de-|", max_size=30))
def test_either_may_be_the_longer_one(one: str, other: str) -> None:
    assert matches_result_title(one, other) == matches_result_title(other, one)
    assume(one.strip())
    assert matches_result_title(one, f"{one} | {other}") or "|" in one or "-" in one

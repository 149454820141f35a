from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.nodes.translator.rule_plan import read_constraints, star_range
from outrider.settings.model import StarsSettings

STARS = StarsSettings()


@pytest.mark.parametrize(
    ("query", "low", "high", "rest"),
    [
        ("LLMs in imaging since 2022", 2022, None, "LLMs in imaging"),
        ("imaging after 2019", 2020, None, "imaging"),
        ("imaging before 2015", None, 2014, "imaging"),
        ("imaging until 2015", None, 2015, "imaging"),
        ("imaging between 2010 and 2015", 2010, 2015, "imaging"),
        ("imaging 2015-2010", 2010, 2015, "imaging"),
        ("imaging published in 2018", 2018, 2018, "imaging"),
        ("imaging of the last five years", 2021, None, "imaging"),
        ("imaging in the past 3 years", 2023, None, "imaging"),
        ("after 2015 imaging before 2010", 2009, 2016, "imaging"),
        ("the 2001 anthrax letters", None, None, "the 2001 anthrax letters"),
        ("imaging", None, None, "imaging"),
    ],
)
def test_years(query: str, low: int | None, high: int | None, rest: str) -> None:
    """A year phrase becomes bounds and leaves the query; bounds the wrong way round are swapped."""
    constraints, remainder = read_constraints(query, STARS, this_year=2026)
    assert (constraints.years.min, constraints.years.max, remainder) == (low, high, rest)


@pytest.mark.parametrize(
    ("query", "low", "high"),
    [
        ("popular React library", 1000, None),
        ("a widely used parser", 1000, None),
        ("mature ORM", 5000, None),
        ("a new state manager", 10, 1000),
        ("lightweight router", 10, 500),
        ("popular new thing", 1000, None),
    ],
)
def test_stars(query: str, low: int, high: int | None) -> None:
    """Star words name a range whatever the search mode."""
    bounds = star_range(query, STARS)
    assert bounds is not None
    assert (bounds.min, bounds.max) == (low, high)


@pytest.mark.parametrize("query", ["React animation library", "renewable energy"])
def test_without_a_star_word_toy_projects_are_left_out(query: str) -> None:
    constraints, _ = read_constraints(query, STARS, 2026)
    assert (constraints.stars.min, constraints.stars_named) == (50, False)


@given(st.text(alphabet="abc 0123456789-–since before after until last years", max_size=80))
def test_years_are_always_a_range(query: str) -> None:
    constraints, _ = read_constraints(query, STARS, this_year=2026)
    low, high = constraints.years.min, constraints.years.max
    assert low is None or high is None or low <= high


@pytest.mark.parametrize(
    ("query", "low", "high", "rest"),
    [
        ("popular web framework with over 5,000 stars", 5000, None, "popular web framework"),
        ("parser at least 2k stars", 2000, None, "parser"),
        ("parser under 300 stars", None, 300, "parser"),
        ("1000+ stars parser", 1000, None, "parser"),
    ],
)
def test_a_number_of_stars_is_taken_at_its_word(query: str, low: int | None, high: int | None, rest: str) -> None:
    constraints, remainder = read_constraints(query, STARS, 2026)
    assert (constraints.stars.min, constraints.stars.max, constraints.stars_named, remainder) == (low, high, True, rest)

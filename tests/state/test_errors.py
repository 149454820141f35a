from __future__ import annotations

from outrider.state.errors import did_you_mean, find_nearest, shorten


def test_the_nearest_known_name_is_offered() -> None:
    """Only one that is like the wrong one, whatever type that has."""
    assert did_you_mean("yeer", ["title", "year"]) == "; did you mean 'year'?"
    assert did_you_mean("zzz", ["title", "year"]) == did_you_mean(7, ["title"]) == did_you_mean("year", []) == ""
    assert find_nearest("canddates", ["candidates"], 0.9) == "candidates"
    assert find_nearest("date", ["candidates"], 0.9) is None


def test_long_values_are_cut() -> None:
    assert shorten("x" * 58) == repr("x" * 58)
    assert shorten("x" * 59) == "'" + "x" * 56 + "..."

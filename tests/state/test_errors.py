from __future__ import annotations

from outrider.state.errors import did_you_mean, nearest, shown


def test_the_nearest_known_name_is_offered() -> None:
    """Only one that is like the wrong one, whatever type that has."""
    assert did_you_mean("yeer", ["title", "year"]) == "; did you mean 'year'?"
    assert did_you_mean("zzz", ["title", "year"]) == did_you_mean(7, ["title"]) == did_you_mean("year", []) == ""
    assert nearest("canddates", ["candidates"], 0.9) == "candidates"
    assert nearest("date", ["candidates"], 0.9) is None


def test_long_values_are_cut() -> None:
    assert shown("x" * 58) == repr("x" * 58)
    assert shown("x" * 59) == "'" + "x" * 56 + "..."

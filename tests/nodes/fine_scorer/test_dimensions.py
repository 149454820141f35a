"""The formulas against figures computed by hand."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.nodes.fine_scorer.dimensions import (
    DAY_S,
    OVERALL_FORMULA,
    PARTS,
    TYPICAL,
    TYPICAL_WEIGHT,
    YEAR_S,
    Facts,
    dimensions,
    estimate_parts,
    overall,
)
from outrider.settings.model import RepositorySettings
from outrider.state.records import Repository

NOW = 1_790_000_000.0  # 2026-09-21T14:13:20Z
WEIGHTS = RepositorySettings().model_dump()
unit = st.floats(0, 1)
ten = st.floats(0, 10)


def repository(metadata: dict[str, Any] | None = None, **fields: Any) -> Repository:
    return Repository.model_validate({"doc_id": "r", "title": "o/r", "metadata": metadata or {}, **fields})


def test_maturity() -> None:
    """Half of five years; 99 stars: log 100 / log 10,001; 20 releases: 1."""
    one = dimensions(repository({"created_at": "2024-03-22T11:13:20Z", "releases": 20}, stars=99), NOW)["maturity"]
    expected = 10 * (0.5 + math.log(100) / math.log(10_001) + 1) / 3
    assert one.score == pytest.approx(expected) == pytest.approx(6.6667, abs=1e-3)
    assert one.missing == ()


def test_activity() -> None:
    """Pushed 90 days ago: one half; 9 commits: log 10 / log 101; issues unknown."""
    one = dimensions(repository({"commits_90d": 9}, updated_at="2026-06-23T14:13:20+00:00"), NOW)["activity"]
    assert one.score == pytest.approx(10 * (0.5 + math.log(10) / math.log(101)) / 2) == pytest.approx(4.9946, abs=1e-3)
    assert one.missing == ("closed_90d",)


def test_community() -> None:
    one = dimensions(repository({"contributors": 100}, stars=10_000, forks=1_000), NOW)["community"]
    assert one.score == pytest.approx(10.0)


def test_maintenance() -> None:
    """Pushed today: 1; released 730 days ago: a quarter; answers in 7 days: one half; 3 of 4 issues closed."""
    metadata = {"last_release_at": "2024-09-21T14:13:20", "issue_response_days": 7, "closed_issues": 3, "open_issues": 1}
    one = dimensions(repository(metadata, updated_at="2026-09-21T14:13:20Z"), NOW)["maintenance"]
    assert one.score == pytest.approx(10 * (1 + 0.25 + 0.5 + 0.75) / 4)


def test_an_archived_repository_is_not_maintained() -> None:
    values = dimensions(repository(updated_at="2026-09-21", archived=True), NOW)
    assert values["maintenance"].score == 0.0
    assert values["activity"].score is not None


def test_of_what_nothing_is_known_there_is_no_score_and_it_counts_as_a_typical_project() -> None:
    for name, one in dimensions(repository(), NOW).items():
        assert one.score is None
        assert one.missing == tuple(PARTS[name])
        assert one.counted == pytest.approx(10 * sum(TYPICAL[name].values()) / len(PARTS[name]))
        assert 3 < one.counted < 6


def test_an_unknown_part_counts_its_estimate() -> None:
    """Known: 99 stars. The shown score is of what is known; what counts is not."""
    one = dimensions(repository(stars=99), NOW, {**TYPICAL, "maturity": {"created_at": 0.2, "stars": 0.9, "releases": 0.1}})["maturity"]
    known = math.log(100) / math.log(10_001)
    assert one.score == pytest.approx(10 * known)
    assert one.counted == pytest.approx(10 * (0.2 + known + 0.1) / 3)
    assert one.missing == ("created_at", "releases")


def test_estimates_shrink_the_candidates_mean_towards_a_typical_project_and_never_exceed_it() -> None:
    typical = TYPICAL["community"]["stars"]
    assert estimate_parts([], NOW) == TYPICAL
    assert estimate_parts([repository(stars=50_000)] * 9, NOW)["community"]["stars"] == typical, "fame of others lifts nobody"
    unknown = [repository()] * 20
    few, many = (estimate_parts([*unknown, *[repository(stars=0)] * count], NOW)["community"]["stars"] for count in (1, 50))
    assert few == pytest.approx(TYPICAL_WEIGHT * typical / (TYPICAL_WEIGHT + 1)), "the unknown ones do not count"
    assert many == pytest.approx(TYPICAL_WEIGHT * typical / (TYPICAL_WEIGHT + 50))


dates = st.none() | st.integers(0, 400).map(lambda days: datetime.fromtimestamp(NOW - days * DAY_S, UTC).isoformat())
facts_of_others = st.fixed_dictionaries(
    {"created_at": dates, "contributors": st.none() | st.integers(0, 500), "releases": st.none() | st.integers(0, 100)}
)


@given(unit, ten, ten, st.integers(23_000, 300_000), dates, st.none() | st.integers(200, 10**5), facts_of_others, st.integers(0, 12))
def test_one_without_facts_never_comes_before_one_with_23_000_stars(
    relevance: float,
    documentation: float,
    ease: float,
    stars: int,
    pushed: str | None,
    forks: int | None,
    facts: dict[str, Any],
    small: int,
) -> None:
    """At equal relevance, documentation and ease of use, however old the famous one's last push and however small the others are."""
    released = {name: value for name, value in facts.items() if value is not None and (name != "releases" or value > 2)}
    released = {name: value for name, value in released.items() if name != "contributors" or value > 1}
    famous = repository(released, stars=stars, updated_at=pushed, forks=forks)
    others = [repository({"releases": 0}, stars=at) for at in range(small)]
    estimates = estimate_parts([famous, repository(), *others], NOW)
    scores = []
    for one in (famous, repository()):
        by_metadata = {name: dimension.counted for name, dimension in dimensions(one, NOW, estimates).items()}
        scores.append(overall(relevance, {**by_metadata, "documentation": documentation, "ease_of_use": ease}, WEIGHTS))
    assert scores[0] >= scores[1]
    if relevance > 0.9:
        assert scores[0] > scores[1], "no cap at twice the relevance"


@given(
    st.sampled_from([(dimension, name) for dimension, parts in PARTS.items() for name in parts if name in ("stars", "forks")]),
    st.integers(0, 10**6),
)
def test_learning_a_fact_moves_a_dimension_as_the_fact_compares_with_the_estimate(place: tuple[str, str], count: int) -> None:
    dimension, name = place
    known = PARTS[dimension][name].value(Facts(repository(**{name: count}), NOW), name)
    before, after = (dimensions(one, NOW)[dimension].counted for one in (repository(), repository(**{name: count})))
    assert known is not None
    assert (after > before) == (known > TYPICAL[dimension][name])


@pytest.mark.parametrize("value", [True, -1, math.nan, math.inf, "many", None, [3]])
def test_what_is_no_count_is_missing(value: Any) -> None:
    assert "releases" in dimensions(repository().model_copy(update={"metadata": {"releases": value}}), NOW)["maturity"].missing


@pytest.mark.parametrize("value", ["yesterday", "", 2024, None])
def test_what_is_no_date_is_missing(value: Any) -> None:
    assert "created_at" in dimensions(repository({"created_at": value}), NOW)["maturity"].missing


def test_a_date_to_come_counts_as_today() -> None:
    assert dimensions(repository(updated_at="2030-01-01"), NOW)["activity"].score == pytest.approx(10.0)


def test_overall_is_the_weighted_mean() -> None:
    """(0.4 x 0.8 + 0.1 x 0.5 + 0.1 x 1.0) / 0.6"""
    assert overall(0.8, {"maturity": 5.0, "documentation": 10.0}, WEIGHTS) == pytest.approx(0.47 / 0.6)
    assert overall(0.8, {}, WEIGHTS) == pytest.approx(0.8)
    assert overall(1.0, {"maturity": 0.0}, {**WEIGHTS, "maturity": 1.0, "relevance": 1.0}) == pytest.approx(0.5)


def test_fame_does_not_lift_what_does_not_answer_the_request() -> None:
    best = dict.fromkeys(("maturity", "activity", "community", "maintenance", "documentation", "ease_of_use"), 10.0)
    assert overall(0.0, best, WEIGHTS) == 0.0
    assert overall(0.1, best, WEIGHTS) == pytest.approx(0.2), "below the threshold of 0.3"
    assert overall(0.7, best, WEIGHTS) == pytest.approx(0.88)


@given(unit, unit, st.fixed_dictionaries(dict.fromkeys(PARTS, ten)))
def test_overall_is_in_bounds_and_never_falls_with_relevance(one: float, other: float, scores: dict[str, float]) -> None:
    low, high = (overall(relevance, scores, WEIGHTS) for relevance in sorted((one, other)))
    assert 0 <= low <= high + 1e-12
    assert high <= 1


counts = st.none() | st.integers(0, 10**9)


@given(counts, counts, st.dictionaries(st.sampled_from(sorted({name for parts in PARTS.values() for name in parts})), counts))
def test_every_dimension_is_in_bounds(stars: int | None, forks: int | None, metadata: dict[str, Any]) -> None:
    for one in dimensions(repository(metadata, stars=stars, forks=forks), NOW).values():
        assert one.score is None or 0 <= one.score <= 10


EVERY_PART = [(dimension, name) for dimension, parts in PARTS.items() for name in parts]
MATHS = {"log1p": math.log1p, "exp2": math.exp2, "min": min, "DAY_S": DAY_S, "YEAR_S": YEAR_S}


@pytest.mark.parametrize(("dimension", "name"), EVERY_PART)
@given(value=st.integers(0, 10**6), open_issues=st.integers(0, 10**6))
def test_a_printed_formula_computes_what_its_function_computes(dimension: str, name: str, value: int, open_issues: int) -> None:
    """On random counts, and on dates of random age in seconds. A part without a formula over its input fails, too."""
    part = PARTS[dimension][name]
    formula = part.formula.format(name=name)
    assert name in formula
    date = f"age_s({name})" in formula
    known: Any = datetime.fromtimestamp(NOW - value * 1_000, UTC).isoformat() if date else value
    record = repository({"open_issues": open_issues} | ({} if name in Repository.model_fields else {name: known}))
    facts = Facts(record.model_copy(update={name: known} if name in Repository.model_fields else {}), NOW)
    names = {name: value, "open_issues": open_issues, "age_s": lambda number: number * 1_000.0}
    computed = part.value(facts, name)
    if computed is None:
        assert (name, value, open_issues) == ("closed_issues", 0, 0)
    else:
        assert computed == pytest.approx(eval(formula, {**MATHS, **names}))


@given(unit, st.fixed_dictionaries(dict.fromkeys(PARTS, ten)))
def test_the_printed_formula_of_the_overall_score_computes_it(relevance: float, scores: dict[str, float]) -> None:
    known = {"relevance": relevance} | {name: score / 10 for name, score in scores.items()}
    mean = sum(WEIGHTS[name] * value for name, value in known.items()) / sum(WEIGHTS[name] for name in known)
    assert overall(relevance, scores, WEIGHTS) == pytest.approx(eval(OVERALL_FORMULA, {"min": min, "mean": mean, "relevance": relevance}))

"""Scores of a repository on four dimensions, 0 to 10, from metadata alone.

Each part of a dimension is a number in [0, 1], and a dimension is ten times the mean of the parts whose inputs are known:

===========  ==========================================================================================================
maturity     `created_at`: years since, of 5; `stars`: log scale to 10,000; `releases`: log scale to 20
activity     `updated_at`: half-life of 90 days; `commits_90d`: log scale to 100; `closed_90d`: log scale to 50
community    `contributors`: log scale to 100; `stars`: log scale to 10,000; `forks`: log scale to 1,000
maintenance  0 if `archived`; else `updated_at`: half-life of 365 days; `last_release_at`: the same;
             `issue_response_days`: 7 / (7 + days); `closed_issues`: their share of all, with `open_issues`
===========  ==========================================================================================================

A count on a *log scale to* N is log(1 + count) / log(1 + N), at most 1; a date with a *half-life of* N days is 0.5 ^ (days since / N).
`stars`, `forks`, `updated_at` and `archived` are fields of the record. All others are in its `metadata`, if the source provides them:
dates in ISO 8601, `commits_90d` and `closed_90d` as counts of the last 90 days (issues and pull requests), and `issue_response_days`
as the median.

What is unknown is shown as unknown, and counts as an estimate (see `estimate_parts`). Leaving it out of the mean would favour sources that
tell little: a repository of which nothing is known would be rated by the model's words alone, and come before a famous one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from outrider.state.records import Repository

DAY_S = 86_400.0
YEAR_S = 365.25 * DAY_S


@dataclass(frozen=True, slots=True)
class Dimension:
    """`score`, 0 to 10, is the mean of the known parts, None if there are none; `counted` is the mean with estimates for the rest."""

    score: float | None
    counted: float
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Facts:
    """The inputs of one repository; a value that is not a number or date counts as missing."""

    record: Repository
    now: float

    def value(self, name: str) -> object:
        return getattr(self.record, name) if name in Repository.model_fields else self.record.metadata.get(name)

    def count(self, name: str) -> float | None:
        value = self.value(name)
        usable = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf
        return float(value) if usable else None  # type: ignore[arg-type]

    def age_s(self, name: str) -> float | None:
        """Seconds since a date, 0 for one in the future."""
        value = self.value(name)
        try:
            then = datetime.fromisoformat(value) if isinstance(value, str) else None
        except ValueError:
            return None
        if then is None:
            return None
        return max(0.0, self.now - (then if then.tzinfo else then.replace(tzinfo=UTC)).timestamp())


@dataclass(frozen=True, slots=True)
class Part:
    """One input's part of a dimension: the function, and its formula in Python's notation, which the web page shows."""

    formula: str
    """Over `{name}`, the input: a count as it is, a date as `age_s({name})`. A test compares it with the function."""
    value: Callable[[Facts, str], float | None]
    """The part in [0, 1]; None if the input is missing."""


def _log_scale(full: float) -> Part:
    def value(facts: Facts, name: str) -> float | None:
        return None if (count := facts.count(name)) is None else min(1.0, math.log1p(count) / math.log1p(full))

    return Part(f"min(1.0, log1p({{name}}) / log1p({full}))", value)


def _half_life(days: float) -> Part:
    def value(facts: Facts, name: str) -> float | None:
        return None if (age_s := facts.age_s(name)) is None else math.exp2(-age_s / (days * DAY_S))

    return Part(f"exp2(-age_s({{name}}) / ({days} * DAY_S))", value)


def _share_closed(facts: Facts, name: str) -> float | None:
    closed, still_open = facts.count(name), facts.count("open_issues")
    return None if closed is None or still_open is None or not closed + still_open else closed / (closed + still_open)


FIVE_YEARS = Part(
    "min(1.0, age_s({name}) / (5 * YEAR_S))",
    lambda facts, name: None if (age_s := facts.age_s(name)) is None else min(1.0, age_s / (5 * YEAR_S)),
)
RESPONSE_TIME = Part("7 / (7 + {name})", lambda facts, name: None if (days := facts.count(name)) is None else 7 / (7 + days))
PARTS: Mapping[str, Mapping[str, Part]] = {
    "maturity": {
        "created_at": FIVE_YEARS,
        "stars": _log_scale(10_000),
        "releases": _log_scale(20),
    },
    "activity": {"updated_at": _half_life(90), "commits_90d": _log_scale(100), "closed_90d": _log_scale(50)},
    "community": {"contributors": _log_scale(100), "stars": _log_scale(10_000), "forks": _log_scale(1_000)},
    "maintenance": {
        "updated_at": _half_life(365),
        "last_release_at": _half_life(365),
        "issue_response_days": RESPONSE_TIME,
        "closed_issues": Part("{name} / ({name} + open_issues)", _share_closed),
    },
}


Estimates = Mapping[str, Mapping[str, float]]
"""What an unknown part counts, by dimension and input."""
TYPICAL_COUNTS = {
    "stars": 50,
    "forks": 5,
    "contributors": 2,
    "releases": 3,
    "commits_90d": 5,
    "closed_90d": 2,
    "issue_response_days": 14,
    "closed_issues": 10,
    "open_issues": 10,
}
TYPICAL_AGE_DAYS = {"created_at": 900, "updated_at": 180, "last_release_at": 365}
"""A small project that is still alive, with the stars that a request asks for by default (`stars.default_min`)."""
TYPICAL_WEIGHT = 5
"""Candidates that weigh as much as the typical project."""


def _rate_typical_project() -> Estimates:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    dates = {name: (now - timedelta(days=days)).isoformat() for name, days in TYPICAL_AGE_DAYS.items()}
    known = {**TYPICAL_COUNTS, **dates}
    fields = {name: value for name, value in known.items() if name in Repository.model_fields}
    facts = Facts(Repository.model_validate({"doc_id": "typical", "metadata": known, **fields}), now.timestamp())
    return {dimension: {name: part.value(facts, name) or 0.0 for name, part in parts.items()} for dimension, parts in PARTS.items()}


TYPICAL = _rate_typical_project()


def estimate_parts(records: Sequence[Repository], now: float) -> Estimates:
    """What unknown parts count among these candidates: their mean, shrunk towards the typical project's, and at most that.

    `(sum + TYPICAL_WEIGHT * typical) / (known + TYPICAL_WEIGHT)`. The limit keeps famous candidates from lifting one of which nothing is
    known, so that no gap is worth more than the fact that a project is small.
    """
    facts = [Facts(record, now) for record in records]
    estimates: dict[str, dict[str, float]] = {}
    for dimension, parts in PARTS.items():
        estimates[dimension] = {}
        for name, part in parts.items():
            known = [value for one in facts if (value := part.value(one, name)) is not None]
            typical = TYPICAL[dimension][name]
            mean = (sum(known) + TYPICAL_WEIGHT * typical) / (len(known) + TYPICAL_WEIGHT)
            estimates[dimension][name] = min(typical, mean)
    return estimates


def dimensions(record: Repository, now: float, estimates: Estimates = TYPICAL) -> dict[str, Dimension]:
    """The four dimensions of the table above; `now` in seconds since the epoch."""
    facts = Facts(record, now)
    scores: dict[str, Dimension] = {}
    for dimension, parts in PARTS.items():
        values = {name: part.value(facts, name) for name, part in parts.items()}
        known = [value for value in values.values() if value is not None]
        counted = [estimates[dimension][name] if value is None else value for name, value in values.items()]
        missing = tuple(name for name, value in values.items() if value is None)
        scores[dimension] = Dimension(10 * sum(known) / len(known) if known else None, 10 * sum(counted) / len(counted), missing)
    if record.archived:
        scores["maintenance"] = Dimension(0.0, 0.0)
    return scores


OVERALL_FORMULA = "min(mean, 2 * relevance, 1.0)"
"""The result of `overall`, for the web page."""


def overall(relevance: float, scores: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """A repository's score in [0, 1]: the weighted mean of its relevance (0 to 1) and dimensions (0 to 10), at most twice its relevance.

    `scores` are what counts of each dimension, with estimates for what is unknown. The cap keeps a famous, well maintained repository that
    does not answer the request below the threshold. `weights` are by dimension and include `relevance`, whose weight is above 0.
    """
    parts = {"relevance": relevance, **{name: score / 10 for name, score in scores.items()}}
    total = sum(weights[name] for name in parts)
    mean = sum(weights[name] * value for name, value in parts.items()) / total
    return min(mean, 2 * relevance, 1.0)

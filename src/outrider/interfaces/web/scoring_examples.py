"""Made-up works scored step by step, by the functions and weights that score real ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from pydantic import Field

from outrider.nodes import rule_ranker
from outrider.nodes.fine_scorer import dimensions
from outrider.settings.model import RankingSettings, RepositorySettings
from outrider.state.hits import Candidate
from outrider.state.model import Model
from outrider.state.records import Paper, Repository

NOW = datetime(2026, 1, 1, tzinfo=UTC)
QUERY = "does aspirin harm the liver, by recent and highly cited work"
PAPERS = (
    (
        Paper(doc_id="first", title="Aspirin and harm to the liver: a review", abstract="Aspirin harms livers.", year=2024, citations=15),
        1.0,
    ),
    (
        Paper(
            doc_id="example",
            title="Liver enzymes after aspirin in adults",
            abstract="High doses of aspirin raised liver enzymes, low doses hardly did.",
            year=2019,
            citations=120,
        ),
        0.86,
    ),
    (Paper(doc_id="last", title="Pain and its treatment", abstract="Aspirin and other drugs are compared.", year=2011, citations=900), 0.4),
)
"""Candidates with their fused scores; the second one is the example."""
AGES_DAYS = {"created_at": 1_100, "updated_at": 20, "last_release_at": 60}
COUNTS = {
    "stars": 420, "forks": 35, "contributors": 12, "releases": 9, "commits_90d": 34, "issue_response_days": 3, "closed_issues": 180,
    "open_issues": 20,
}  # fmt: skip
"""Of the repository; how many issues were closed in 90 days is unknown."""
BY_MODEL = {"relevance": 0.9, "documentation": 0.7, "ease_of_use": 0.8}
"""What a model might say of it, from 0 to 1."""


class Figure(Model):
    """One input of a dimension."""

    name: str
    given: str
    calculation: str = Field(description="The formula with the numbers; empty for an estimate.")
    value: float
    is_known: bool


class Step(Model):
    """One part of a score."""

    name: str
    given: str
    calculation: str = Field("", description="The formula with the numbers, if it is one.")
    value: float = Field(description="0 to 1.")
    weight: float
    share: float = Field(description="What it adds to the score.")
    figures: tuple[Figure, ...] = ()


class WorkedExample(Model):
    by: str = Field(description="Who scores: `rules` or `model`.")
    title: str
    facts: tuple[str, ...]
    steps: tuple[Step, ...]
    calculation: str = Field(description="The sum of the steps, with the numbers.")
    score: float


def make_rules_example(weights: RankingSettings) -> WorkedExample:
    candidates = [Candidate(record, scores={"fused": fused}) for record, fused in PAPERS]
    ranked = rule_ranker.rank_by_rules(candidates, QUERY, rule_ranker.weigh_wishes(weights, QUERY), NOW.year)
    (scored,) = (one for one in ranked if one.record.doc_id == "example")
    year, citations = scored.record.year or 0, scored.record.citations or 0
    numbers = {"this_year": NOW.year, "year": year, "half_life_years": weights.recency_half_life_years, "count": citations}
    recency = rule_ranker.FORMULAS["recency"].rpartition(" else ")[2]  # the year is known
    reason, _, _ = scored.reason.rpartition("; ")
    rows = (
        ("text", "bm25", f"{reason}; compared with the other {len(PAPERS) - 1} works", ""),
        ("fused", "fused", f"second of {len(PAPERS)} in the merged lists", ""),
        ("recency", "recency", f"published in {year}", _insert(recency, numbers)),
        ("citations", "citations", f"{citations:,} citations", _insert(rule_ranker.FORMULAS["renown"], numbers)),
    )
    own = {name: float(getattr(weights, f"{name}_weight")) for name, *_ in rows}
    total = sum(own.values())
    steps = tuple(
        Step(
            name=name,
            given=given,
            calculation=calculation,
            value=(value := scored.scores[key]),
            weight=own[name],
            share=own[name] * value / total,
        )
        for name, key, given, calculation in rows
    )
    facts = (f"You ask: {QUERY}", f"The abstract: {scored.record.abstract}", f"{year}, {citations:,} citations")
    return WorkedExample(
        by="rules", title=scored.record.title, facts=facts, steps=steps, calculation=_weighted_mean(steps, total), score=scored.score
    )


def make_repository_example(weights: RepositorySettings) -> WorkedExample:
    """The scores of a model are assumed, all others computed."""
    dates = {name: (NOW - timedelta(days=days)).isoformat() for name, days in AGES_DAYS.items()}
    known: dict[str, object] = {**COUNTS, **dates}
    fields = {name: value for name, value in known.items() if name in Repository.model_fields}
    record = Repository.model_validate({"doc_id": "example", "title": "example/retry", "metadata": known, **fields})
    by_metadata = dimensions.dimensions(record, NOW.timestamp())
    counted = {name: one.counted for name, one in by_metadata.items()} | {
        name: 10 * value for name, value in BY_MODEL.items() if name != "relevance"
    }
    own: dict[str, float] = weights.model_dump()
    total = sum(own.values())
    steps = []
    for name, weight in own.items():
        value = BY_MODEL["relevance"] if name == "relevance" else counted[name] / 10
        figures = _list_figures(name, record) if name in by_metadata else ()
        given = (
            f"the mean of {len(figures)} figures"
            if figures
            else f"a model says {value:.2f}"
            if name == "relevance"
            else f"a model says {10 * value:.0f} of 10"
        )
        steps.append(Step(name=name, given=given, value=value, weight=weight, share=weight * value / total, figures=figures))
    score = dimensions.overall(BY_MODEL["relevance"], counted, own)
    mean = _weighted_mean(steps, total)
    return WorkedExample(
        by="model",
        title=record.title,
        facts=(
            f"{COUNTS['stars']} stars, {COUNTS['forks']} forks, {COUNTS['contributors']} contributors, {COUNTS['releases']} releases",
            f"created {AGES_DAYS['created_at']:,} days ago, last push {AGES_DAYS['updated_at']} days ago",
            "nobody says how many issues were closed in 90 days",
        ),
        steps=tuple(steps),
        calculation=_insert(dimensions.OVERALL_FORMULA, {"mean": mean, "relevance": BY_MODEL["relevance"]}),
        score=score,
    )


def _list_figures(dimension: str, record: Repository) -> tuple[Figure, ...]:
    facts = dimensions.Facts(record, NOW.timestamp())
    figures = []
    for name, part in dimensions.PARTS[dimension].items():
        value = part.value(facts, name)
        days = AGES_DAYS.get(name)
        given = f"{days:,} days ago" if days is not None else f"{COUNTS[name]:,}" if name in COUNTS else "unknown"
        number = f"{days} * DAY_S" if days is not None else str(COUNTS.get(name, ""))
        formula = part.formula.format(name=name).replace(f"age_s({name})", number)
        calculation = _insert(formula, {name: number, "open_issues": COUNTS["open_issues"]}) if value is not None else ""
        estimate = dimensions.TYPICAL[dimension][name]
        figures.append(
            Figure(
                name=name_input(name),
                given=given,
                calculation=calculation,
                value=estimate if value is None else value,
                is_known=value is not None,
            )
        )
    return tuple(figures)


def name_input(name: str) -> str:
    """The name of an input for readers: `commits_90d` as `commits in 90 days`."""
    return re.sub(r"_(\d+)d$", r" in \1 days", name.removesuffix("_at")).replace("_", " ")


def _insert(formula: str, numbers: Mapping[str, object]) -> str:
    """The formula with numbers for names."""
    return re.sub(
        r"[a-z_][a-z_0-9]*", lambda name: f"{value:g}" if isinstance(value := numbers.get(name[0], name[0]), float) else str(value), formula
    )


def _weighted_mean(steps: tuple[Step, ...] | list[Step], total: float) -> str:
    return f"({' + '.join(f'{step.weight:g} * {step.value:.3f}' for step in steps if step.weight)}) / {total:g}"

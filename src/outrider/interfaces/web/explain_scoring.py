"""Explanation of scoring for the page, from the scoring code and the settings in use."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from datetime import timedelta
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from outrider.interfaces.web.scoring_examples import NOW, WorkedExample, make_repository_example, make_rules_example, name_input
from outrider.nodes import organizer, rule_ranker
from outrider.nodes.fine_scorer import dimensions
from outrider.nodes.fine_scorer import waves as unscored
from outrider.nodes.fine_scorer.papers import TAGS
from outrider.nodes.rule_ranker import ABOUT_SHARE, DELTA, K1, TEXT_DEPTH, B
from outrider.settings.model import RankingSettings, RepositorySettings
from outrider.state.model import Model
from outrider.state.records import Paper, Repository

if TYPE_CHECKING:
    from outrider.services import Services

COUNTS = (0, 1, 10, 100, 1_000, 10_000)
DAYS = (0, 30, 90, 180, 365, 730, 1_825)
AGES = (0, 1, 2, 5, 10, 20, 40)
"""Inputs of the examples, which the scoring functions compute."""
OTHER_INPUTS = {"open_issues": 50}
"""An input that one part needs besides its own, for the examples."""
POINTS = 40
"""Steps of a curve from the axis to its end."""
MEANINGS = {
    "score": "What orders the hits of one search, from 0 to 1. It does not compare with scores of another search.",
    "relevance": "How well the work answers your request, from 0 to 1, as a model judges it from its title and text.",
    "maturity": "How long a repository has existed, and how much it has been used and released: its age, stars and releases.",
    "activity": "How much has happened in a repository lately: its last push, and the commits and closed issues of 90 days.",
    "documentation": "How well a repository is documented, as a model judges it from the README and the folder.",
    "community": "How many people stand behind a repository: its contributors, stars and forks.",
    "ease_of_use": "How quickly you could start to use a repository, as a model judges it.",
    "maintenance": "Whether a repository is cared for: its last push and release, and how it answers and closes issues.",
    "text": "How well the words of your request match title and text, beside the other works of this search (BM25+).",
    "subject": "How well name and summary of a repository fit your request: by meaning where it was found so, else by words.",
    "fused": "How high the work stands in the lists of all sources and kinds of search, merged into one.",
    "recency": "How new the work is: 1 for this year, and half of that after each half-life.",
    "citations": "How often the work is cited or starred, on a scale where each step is ten times as much.",
}
"""Each number in one sentence for a reader; how it is computed stands beside the code that does it."""


class Example(Model):
    """An input and its value, 0 to 1."""

    given: int
    unit: str
    value: float


class Curve(Model):
    """A part over its input."""

    label: str = Field(description="The input and its unit.")
    scale: Literal["linear", "log"] = Field(description="Of the input: its own, or that of log(1 + input).")
    points: tuple[tuple[float, float], ...]


class PartShown(Model):
    name: str = Field(description="The input, a field of the record or of its metadata.")
    formula: str
    typical: float = Field(description="What the part counts at most where its input is unknown.")
    examples: tuple[Example, ...]
    curve: Curve


class DimensionShown(Model):
    name: str
    weight: float
    about: str
    by: str = Field(description="Who scores it: metadata or the model.")
    parts: tuple[PartShown, ...] = ()


class Weight(Model):
    name: str
    weight: float
    about: str


class Named(Model):
    name: str
    text: str


class Explanation(Model):
    """All of it from code objects, settings and the prompts that are sent."""

    model: str = Field(description="The chat model, or why there is none.")
    has_model: bool = Field(description="Whether a model scores; otherwise rules do.")
    meanings: tuple[Named, ...] = Field(description="What each number means, in a sentence.")
    worked: tuple[WorkedExample, ...] = Field(
        description="Made-up works, scored by the functions of this server: one by rules, one with a model."
    )
    relevance: Weight
    dimensions: tuple[DimensionShown, ...]
    constants: dict[str, float]
    overall: tuple[Named, ...]
    rules: tuple[Weight, ...]
    rule_formulas: tuple[Named, ...]
    rule_parts: tuple[PartShown, ...]
    rule_constants: dict[str, float]
    threshold: float
    order: str
    tags: tuple[str, ...]
    prompts: tuple[Named, ...]
    sources: tuple[Named, ...] = Field(description="The modules as they run.")


def explain_scoring(services: Services) -> Explanation:
    settings = services.settings
    prompts = services.scoring_prompts
    ranking = settings.ranking
    return Explanation(
        model=services.chat_says,
        has_model=services.chat is not None,
        meanings=tuple(Named(name=name, text=text) for name, text in MEANINGS.items()),
        worked=(make_rules_example(ranking), make_repository_example(settings.repository)),
        relevance=_weight(settings.repository, "relevance"),
        dimensions=tuple(_dimension(name, settings.repository) for name in RepositorySettings.model_fields if name != "relevance"),
        constants={"DAY_S": dimensions.DAY_S, "YEAR_S": dimensions.YEAR_S},
        overall=(Named(name="overall", text=dimensions.OVERALL_FORMULA),),
        rules=tuple(_weight(ranking, name) for name in RankingSettings.model_fields if name in RULES),
        rule_formulas=tuple(Named(name=name, text=formula) for name, formula in rule_ranker.FORMULAS.items()),
        rule_parts=_rule_parts(ranking),
        rule_constants={
            "k1": K1,
            "b": B,
            "delta": DELTA,
            "depth": TEXT_DEPTH,
            "about_share": round(ABOUT_SHARE, 3),
            "half_life_years": ranking.recency_half_life_years,
        },
        threshold=settings.organizer.relevance_threshold,
        order=inspect.cleandoc(organizer.select_and_sort.__doc__ or ""),
        tags=TAGS,
        prompts=tuple(Named(name=one.name, text=one.text) for one in (prompts.repositories, prompts.papers)),
        sources=tuple(Named(name=one.__name__.removeprefix("outrider."), text=inspect.getsource(one)) for one in SOURCES),
    )


RULES = ("text_weight", "fused_weight", "recency_weight", "citations_weight")
SOURCES: tuple[ModuleType, ...] = (dimensions, rule_ranker, unscored)


def _weight(settings: Any, name: str) -> Weight:
    field = type(settings).model_fields[name]
    return Weight(name=name.removesuffix("_weight"), weight=getattr(settings, name), about=field.description or "")


def _dimension(name: str, settings: RepositorySettings) -> DimensionShown:
    parts = dimensions.PARTS.get(name)
    return DimensionShown(
        **_weight(settings, name).model_dump(),
        by="model" if parts is None else "metadata",
        parts=tuple(_part(input_name, part, dimensions.TYPICAL[name][input_name]) for input_name, part in (parts or {}).items()),
    )


def _part(name: str, part: dimensions.Part, typical: float) -> PartShown:
    """The formula with examples. An input of the wrong type counts as missing, so a date has examples in days, and a count in numbers."""

    def value(number: float, unit: str) -> float | None:
        known = (NOW - timedelta(days=number)).isoformat() if unit else number
        fields: dict[str, Any] = {name: known} if name in Repository.model_fields else {"metadata": {**OTHER_INPUTS, name: known}}
        return part.value(dimensions.Facts(Repository.model_construct(None, doc_id="example", **fields), NOW.timestamp()), name)

    unit = "days" if value(1, "days") is not None else ""
    examples = _examples(lambda number: value(number, unit), DAYS if unit else COUNTS, unit)
    label = name_input(name)
    is_linear = bool(unit) or name.endswith("_days")
    end = (DAYS[-1] if unit else 60) if is_linear else COUNTS[-1]
    curve = _curve(lambda number: value(number, unit) or 0.0, f"days since {label}" if unit else label, end, is_linear=is_linear)
    return PartShown(name=name, formula=part.formula.format(name=name), typical=round(typical, 3), examples=examples, curve=curve)


def _rule_parts(ranking: RankingSettings) -> tuple[PartShown, ...]:
    """The parts of a rule score that follow from one number."""

    def by_age(age: float) -> float:
        return rule_ranker.recency(NOW.year - age, NOW.year, ranking.recency_half_life_years)  # type: ignore[arg-type] # between two years

    def by_count(number: float) -> float:
        return rule_ranker.renown(Paper.model_construct(None, doc_id="example", citations=number))  # type: ignore[arg-type] # between two counts

    unknown = rule_ranker.recency(None, NOW.year, ranking.recency_half_life_years)
    shown: list[tuple[str, Callable[[float], float], str, Sequence[int], float]] = [
        ("recency", by_age, "age of the work in years", AGES, unknown),
        ("renown", by_count, "citations or stars", COUNTS, by_count(0)),
    ]
    return tuple(
        PartShown(
            name=name, formula=rule_ranker.FORMULAS[name], typical=round(typical, 3), examples=_examples(value, inputs, ""),
            curve=_curve(value, label, inputs[-1], is_linear=inputs is AGES),
        )
        for name, value, label, inputs, typical in shown
    )  # fmt: skip


def _examples(value: Callable[[float], float | None], inputs: Sequence[int], unit: str) -> tuple[Example, ...]:
    values = [(given, value(given)) for given in inputs]
    return tuple(Example(given=given, unit=unit, value=round(known, 3)) for given, known in values if known is not None)


def _curve(value: Callable[[float], float], label: str, end: float, *, is_linear: bool) -> Curve:
    """Points at even distances on the axis, which for counts is that of log(1 + count)."""
    places = [place / POINTS for place in range(POINTS + 1)]
    inputs = [end * place if is_linear else math.expm1(math.log1p(end) * place) for place in places]
    points = tuple((round(number, 2), round(value(number), 4)) for number in inputs)
    return Curve(label=label, scale="linear" if is_linear else "log", points=points)

"""Explanation of scoring for the page, from the scoring code and the settings in use."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pydantic import Field

from outrider.nodes import organizer, rule_ranker
from outrider.nodes.fine_scorer import dimensions
from outrider.nodes.fine_scorer import waves as unscored
from outrider.nodes.fine_scorer.papers import TAGS
from outrider.nodes.rule_ranker import ABOUT_SHARE, DELTA, K1, TEXT_DEPTH, B
from outrider.settings.model import RankingSettings, RepositorySettings
from outrider.state.model import Model
from outrider.state.records import Repository

if TYPE_CHECKING:
    from outrider.services import Services

COUNTS = (0, 1, 10, 100, 1_000, 10_000)
DAYS = (0, 30, 90, 180, 365, 730, 1_825)
"""Inputs of the examples, which the scoring functions compute."""
OTHER_INPUTS = {"open_issues": 50}
"""An input that one part needs besides its own, for the examples."""
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Example(Model):
    """An input and its value, 0 to 1."""

    given: int
    unit: str
    value: float


class PartShown(Model):
    name: str = Field(description="The input, a field of the record or of its metadata.")
    formula: str
    typical: float = Field(description="What the part counts at most where its input is unknown.")
    examples: tuple[Example, ...]


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
    relevance: Weight
    dimensions: tuple[DimensionShown, ...]
    constants: dict[str, float]
    overall: tuple[Named, ...]
    rules: tuple[Weight, ...]
    rule_formulas: tuple[Named, ...]
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
        relevance=_weight(settings.repository, "relevance"),
        dimensions=tuple(_dimension(name, settings.repository) for name in RepositorySettings.model_fields if name != "relevance"),
        constants={"DAY_S": dimensions.DAY_S, "YEAR_S": dimensions.YEAR_S},
        overall=(Named(name="overall", text=dimensions.OVERALL_FORMULA),),
        rules=tuple(_weight(ranking, name) for name in RankingSettings.model_fields if name in RULES),
        rule_formulas=tuple(Named(name=name, text=formula) for name, formula in rule_ranker.FORMULAS.items()),
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
    inputs: list[tuple[int, str, object]] = [(days, "days", (NOW - timedelta(days=days)).isoformat()) for days in DAYS]
    inputs += [(count, "", count) for count in COUNTS]
    examples = []
    for number, unit, known in inputs:
        fields: dict[str, Any] = {name: known} if name in Repository.model_fields else {"metadata": {**OTHER_INPUTS, name: known}}
        facts = dimensions.Facts(Repository.model_construct(None, doc_id="example", **fields), NOW.timestamp())
        value = part.value(facts, name)
        if value is not None:
            examples.append(Example(given=number, unit=unit, value=round(value, 3)))
    return PartShown(name=name, formula=part.formula.format(name=name), typical=round(typical, 3), examples=tuple(examples))

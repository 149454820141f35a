"""How works are scored, for the page: taken from the code that does it and the settings that it runs with."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pydantic import Field

from outrider.nodes import dimensions, organizer, rule_ranker, unscored
from outrider.nodes.paper_scoring import TAGS
from outrider.nodes.rule_ranker import DELTA, K1, TEXT_DEPTH, B
from outrider.settings.model import RankingSettings, RepositorySettings
from outrider.state.model import Model
from outrider.state.records import Repository

if TYPE_CHECKING:
    from outrider.services import Services

COUNTS = (0, 1, 10, 100, 1_000, 10_000)
DAYS = (0, 30, 90, 180, 365, 730, 1_825)
"""Of the examples, which the scoring functions themselves compute."""
BESIDE = {"open_issues": 50}
"""An input that one part needs beside its own, for the examples."""
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Example(Model):
    """An input and what it gives, 0 to 1."""

    given: int
    unit: str
    value: float


class PartShown(Model):
    name: str = Field(description="The input, a field of the record or of its metadata.")
    formula: str
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


def explained_scoring(services: Services) -> Explanation:
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
        rule_constants={"k1": K1, "b": B, "delta": DELTA, "depth": TEXT_DEPTH, "half_life_years": ranking.recency_half_life_years},
        threshold=settings.organizer.relevance_threshold,
        order=inspect.cleandoc(organizer.organized.__doc__ or ""),
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
    told = _weight(settings, name)
    parts = dimensions.PARTS.get(name)
    return DimensionShown(
        name=name,
        weight=told.weight,
        about=told.about,
        by="model" if parts is None else "metadata",
        parts=tuple(_part(one, said) for one, said in (parts or {}).items()),
    )


def _part(name: str, part: dimensions.Part) -> PartShown:
    given = [(days, "days", _facts(name, (NOW - timedelta(days=days)).isoformat())) for days in DAYS]
    given += [(count, "", _facts(name, count)) for count in COUNTS]
    values = [(number, unit, part.value(facts, name)) for number, unit, facts in given]
    shown = tuple(Example(given=number, unit=unit, value=round(value, 3)) for number, unit, value in values if value is not None)
    return PartShown(name=name, formula=part.formula.format(name=name), examples=shown)


def _facts(name: str, value: object) -> dimensions.Facts:
    """A repository of which nothing else is known. An input of another type counts as missing, so only the right examples stay."""
    said: dict[str, Any] = {name: value} if name in Repository.model_fields else {"metadata": {**BESIDE, name: value}}
    return dimensions.Facts(Repository.model_construct(None, doc_id="example", **said), NOW.timestamp())

"""The intent of a request, and the strategy of its searches."""

from __future__ import annotations

from datetime import date
from typing import Literal

from pydantic import Field

from outrider.state.earlier_rounds import EarlierStrategy
from outrider.state.model import Model
from outrider.state.request import RetrieverType, SearchMode

IntentType = Literal["survey", "method", "dataset", "baseline", "library", "general"]


class NumberRange(Model):
    """Inclusive bounds, either of which may be open."""

    min: int | None = None
    max: int | None = None

    def holds(self, value: int) -> bool:
        return (self.min is None or value >= self.min) and (self.max is None or value <= self.max)


class Constraints(Model):
    """Constraints named in the request's words. A record that lacks the field passes."""

    years: NumberRange = NumberRange()
    stars: NumberRange = Field(NumberRange(), description="Of repositories.")
    has_code: bool = Field(False, description="Only works that have code of their own.")
    code_alive: bool = Field(False, description="Only works whose code is not dead.")
    stars_named: bool = Field(False, description="Whether words of the request name the stars; else they are the default minimum.")


class ParsedIntent(Model):
    topic: str
    concepts: tuple[str, ...]
    intent_type: IntentType = "general"
    constraints: Constraints = Constraints()


class PlannedQuery(Model):
    """One search: `text` for engines that rank, `boolean_query` for those that match."""

    text: str
    keywords: tuple[str, ...]
    boolean_query: str
    synonyms: tuple[str, ...] = ()


class RepositoryWishes(Model):
    """Criteria besides words for code hosts. Preferences, not rules: no other source supports them."""

    language: str | None = None
    topics: tuple[str, ...] = ()
    created_after: date | None = None


class SearchStrategy(Model):
    queries: tuple[PlannedQuery, ...]
    sources: tuple[str, ...]
    strategies: tuple[RetrieverType, ...]
    search_mode: SearchMode = SearchMode.BALANCED
    expanded_keywords: tuple[str, ...] = ()
    constraints: Constraints = Constraints()
    repositories: RepositoryWishes = RepositoryWishes()
    made_by: Literal["rules", "model"] = "rules"
    edited: bool = Field(False, description="Whether a person changed it at a checkpoint.")
    user_feedback: str = Field("", description="The caller's feedback on the earlier results.")
    earlier: tuple[EarlierStrategy, ...] = Field(
        (), description="The rounds before this one, oldest first; its queries differ from theirs."
    )

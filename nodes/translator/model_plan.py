"""The model's plan: a draft of intent and queries, which `sanitize_plan` makes safe to run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, Field, JsonValue

from outrider.prompts import Prompt, fence, load, load_domain, select_section
from outrider.settings.model import StarsSettings
from outrider.state.chat import Budget, Chat, ChatRequest
from outrider.state.model import Model
from outrider.state.request import SearchRequest
from outrider.text.sanitize import without_control

STARS = ("popular_min", "mature_min", "emerging_min", "emerging_max", "lightweight_max")
MAX_OUTPUT_TOKENS = 1_500
"""About twice the size of four queries with all their words."""
MAX_REQUEST_CHARS = 4_000
"""The model reads only the beginning of a longer request."""
MAX_SHOWN_ROUNDS = 8
MAX_SHOWN_CHARS = 300
"""Characters of an earlier query in the prompt."""
MOST_TERMS = 20
MOST_QUERIES = 8
NUMBER = re.compile(r"\d{1,9}")


def to_line(value: object) -> object:
    """Small models write null for what they leave out, and continue where they should stop."""
    return _encodable(str(value)[:500]) if isinstance(value, str | int | float) else ""


def to_terms(value: object) -> object:
    if isinstance(value, str):
        value = re.split(r"[,;\n]", value)
    return [_encodable(term[:100]) for term in value if isinstance(term, str)][:MOST_TERMS] if isinstance(value, list | tuple) else []


def _encodable(text: str) -> str:
    """Drop halves of surrogate pairs, which JSON can hold but no file or terminal."""
    return text.encode("utf-8", "ignore").decode("utf-8")


def to_number(value: object) -> object:
    """A whole number of up to nine digits, also in quotes; else None."""
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if isinstance(value, float) and value.is_integer():
        text = str(int(value))
    text = text.strip().replace(",", "")
    return int(text) if NUMBER.fullmatch(text) else None


def to_queries(value: object) -> object:
    """A plain text is a query, too."""
    if not isinstance(value, list | tuple):
        return value
    return [{"text": item} if isinstance(item, str) else item for item in value if isinstance(item, str | Mapping | Model)][:MOST_QUERIES]


Line = Annotated[str, BeforeValidator(to_line), Field(max_length=500)]
Terms = Annotated[tuple[str, ...], BeforeValidator(to_terms), Field(max_length=MOST_TERMS)]
Number = Annotated[int | None, BeforeValidator(to_number)]


class DraftQuery(Model):
    model_config = ConfigDict(frozen=True, extra="ignore")

    text: Line = ""
    keywords: Terms = ()
    synonyms: Terms = ()
    boolean_query: Line = ""


class Draft(Model):
    """The model's answer, with lengths limited but not yet trusted. Further fields, such as sources, are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    topic: Line = ""
    concepts: Terms = ()
    intent_type: Line = ""
    queries: Annotated[tuple[DraftQuery, ...], BeforeValidator(to_queries), Field(max_length=MOST_QUERIES)]
    expanded_keywords: Terms = ()
    year_from: Number = None
    year_to: Number = None
    language: Line = ""
    topics: Terms = ()
    created_after: Line = ""
    stars_min: Number = None
    stars_max: Number = None


@dataclass(frozen=True, slots=True)
class QueryPrompt:
    """The prompt for one field of knowledge."""

    base: Prompt
    field: Prompt | None = None

    @classmethod
    def load(cls, field: str = "general") -> QueryPrompt:
        """`field` is `llm.domain`; raises `SettingsError` for an unknown one."""
        return cls(load("translate", frozenset({*STARS, "domain"})), load_domain(field))

    @property
    def versions(self) -> Mapping[str, str]:
        """For the provenance hash."""
        return {f"prompt:{prompt.name}": prompt.version for prompt in (self.base, self.field) if prompt}

    def format(self, stars: StarsSettings) -> str:
        bounds = {name: str(getattr(stars, name)) for name in STARS}
        return self.base.fill(domain=select_section(self.field, "planning"), **bounds)


@dataclass(frozen=True, slots=True)
class QueryBuilder:
    """Asks the model for a plan. Raises `ChatError`."""

    chat: Chat
    prompt: QueryPrompt
    stars: StarsSettings

    def question(self, request: SearchRequest, sources: tuple[str, ...], now: float) -> ChatRequest:
        """`now` in seconds since the epoch."""
        fields: dict[str, JsonValue] = {
            "request": _to_plain_line(str(request.query), MAX_REQUEST_CHARS),
            "today": datetime.fromtimestamp(now, UTC).date().isoformat(),
            "search_mode": request.search_mode.value,
            "sources": list(sources),
        }
        rounds: list[JsonValue] = []
        for earlier in request.previous_strategies[-MAX_SHOWN_ROUNDS:]:
            queries: list[JsonValue] = [
                {"text": _to_plain_line(query.text), "boolean_query": _to_plain_line(query.boolean_query)} for query in earlier.queries
            ]
            feedback = {"user_feedback": _to_plain_line(earlier.user_feedback)} if earlier.user_feedback else {}
            rounds.append({"queries": queries, **feedback})
        if rounds:
            fields["earlier_rounds"] = rounds
        if feedback_now := _to_plain_line(request.user_feedback, len(request.user_feedback)):
            fields["user_feedback"] = feedback_now
        return ChatRequest("translator", self.prompt.format(self.stars), fence(fields), MAX_OUTPUT_TOKENS)

    async def draft(self, question: ChatRequest, budget: Budget) -> Draft:
        return await self.chat.answer(question, Draft, budget)


def _to_plain_line(text: str, most: int = MAX_SHOWN_CHARS) -> str:
    return " ".join(without_control(text[:most]).split())

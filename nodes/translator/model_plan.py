"""The model's part of the translator: one question, and a draft of intent and queries that `draft_sanitising` makes safe."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, Field, JsonValue

from outrider.prompts import Prompt, fence, load
from outrider.prompts.domains import load_domain, select_section
from outrider.settings.model import StarsSettings
from outrider.state.chat import Budget, Chat, ChatRequest
from outrider.state.iteration import EarlierStrategy
from outrider.state.model import Model
from outrider.state.request import SearchRequest
from outrider.text.sanitize import without_control

STARS = ("popular_min", "mature_min", "emerging_min", "emerging_max", "lightweight_max")
MAX_OUTPUT_TOKENS = 1_500
"""About twice what four queries with all their words take."""
MAX_REQUEST_CHARS = 4_000
"""Of a longer request the model reads the beginning."""
MAX_SHOWN_ROUNDS = 8
MAX_SHOWN_CHARS = 300
"""Of an earlier query, in the prompt."""
MOST_TERMS = 20
MOST_QUERIES = 8
NUMBER = re.compile(r"\d{1,9}")


def _line(value: object) -> object:
    """Small models write null for what they leave out, and go on where they should stop."""
    return _encodable(str(value)[:500]) if isinstance(value, str | int | float) else ""


def _terms(value: object) -> object:
    if isinstance(value, str):
        value = re.split(r"[,;\n]", value)
    return [_encodable(term[:100]) for term in value if isinstance(term, str)][:MOST_TERMS] if isinstance(value, list | tuple) else []


def _encodable(text: str) -> str:
    """Without halves of surrogate pairs, which JSON can hold and no file or terminal can."""
    return text.encode("utf-8", "ignore").decode("utf-8")


def _number(value: object) -> object:
    """A whole number of up to nine digits, also one in quotes; else none."""
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if isinstance(value, float) and value.is_integer():
        text = str(int(value))
    text = text.strip().replace(",", "")
    return int(text) if NUMBER.fullmatch(text) else None


def _queries(value: object) -> object:
    """One that is only a text is a query, too."""
    if not isinstance(value, list | tuple):
        return value
    return [{"text": one} if isinstance(one, str) else one for one in value if isinstance(one, str | Mapping | Model)][:MOST_QUERIES]


Line = Annotated[str, BeforeValidator(_line), Field(max_length=500)]
Terms = Annotated[tuple[str, ...], BeforeValidator(_terms), Field(max_length=MOST_TERMS)]
Number = Annotated[int | None, BeforeValidator(_number)]


class DraftQuery(Model):
    model_config = ConfigDict(frozen=True, extra="ignore")

    text: Line = ""
    keywords: Terms = ()
    synonyms: Terms = ()
    boolean_query: Line = ""


class Draft(Model):
    """What a model said, cut but not yet believed. It may say more, of sources for example: that is not read."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    topic: Line = ""
    concepts: Terms = ()
    intent_type: Line = ""
    queries: Annotated[tuple[DraftQuery, ...], BeforeValidator(_queries), Field(max_length=MOST_QUERIES)]
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
    """What the model is told, for one field of knowledge."""

    base: Prompt
    field: Prompt | None = None

    @classmethod
    def load(cls, field: str = "general") -> QueryPrompt:
        """`field` is `llm.domain`; raises `SettingsError` where it cannot be used."""
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
    """Asks the model. Raises `ChatError`."""

    chat: Chat
    prompt: QueryPrompt
    stars: StarsSettings

    def question(self, request: SearchRequest, sources: tuple[str, ...], now: float) -> ChatRequest:
        """`now` in seconds since the epoch."""
        return ChatRequest("translator", self.prompt.format(self.stars), fence(_said(request, sources, now)), MAX_OUTPUT_TOKENS)

    async def draft(self, question: ChatRequest, budget: Budget) -> Draft:
        return await self.chat.answer(question, Draft, budget)


def _said(request: SearchRequest, sources: tuple[str, ...], now: float) -> JsonValue:
    said: dict[str, JsonValue] = {
        "request": _plain(str(request.query), MAX_REQUEST_CHARS),
        "today": datetime.fromtimestamp(now, UTC).date().isoformat(),
        "search_mode": request.search_mode.value,
        "sources": list(sources),
    }
    if request.previous_strategies:
        said["earlier_rounds"] = [_round(one) for one in request.previous_strategies[-MAX_SHOWN_ROUNDS:]]
    if feedback := _plain(request.user_feedback, len(request.user_feedback)):
        said["user_feedback"] = feedback
    return said


def _round(one: EarlierStrategy) -> JsonValue:
    queries = [{"text": _plain(query.text), "boolean_query": _plain(query.boolean_query)} for query in one.queries]
    told: dict[str, JsonValue] = {"queries": json.loads(json.dumps(queries))}
    return {**told, "user_feedback": _plain(one.user_feedback)} if one.user_feedback else told


def _plain(text: str, most: int = MAX_SHOWN_CHARS) -> str:
    return " ".join(without_control(text[:most]).split())

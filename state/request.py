"""The search request, and its validation for all interfaces."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from enum import StrEnum
from importlib.metadata import EntryPoint, entry_points
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BeforeValidator, Field, JsonValue, ValidationError, field_validator

from outrider.state.earlier_rounds import MAX_FEEDBACK_CHARS, Rounds
from outrider.state.errors import HALF_A_CHARACTER, BadRequest, explain_wrong_fields, has_lone_surrogate
from outrider.state.filters import parse_filter
from outrider.state.model import Model

MAX_QUERY_CHARS = 20_000
MAX_BOOLEAN_CHARS = 200_000
"""Limit for a Boolean query, as in its parser: protocols are long."""
MAX_QUERY_TERMS = 1_024
"""Distinct words of one query that are searched; the rest is left out, and the answer reports it."""
MAX_TOP_K = 1_000
KNOWN_SOURCES = (
    "library", "github", "openalex", "semantic_scholar", "arxiv", "pubmed", "crossref", "serpapi_scholar", "serpapi_google", "web",
)  # fmt: skip
SOURCES_GROUP = "outrider.sources"
"""Group of the entry points through which other packages add sources."""


def source_plugins() -> tuple[EntryPoint, ...]:
    """Entry points in a total order, without loading them."""
    return tuple(sorted(entry_points(group=SOURCES_GROUP), key=lambda one: (one.name, one.value)))


def known_sources() -> tuple[str, ...]:
    """Names of our sources and of those that other packages add."""
    return tuple(dict.fromkeys((*KNOWN_SOURCES, *(one.name for one in source_plugins()))))


Checkpoint = Literal["plan", "results"]
"""Where a run may wait for a person."""


class SearchMode(StrEnum):
    """How far a query is expanded: by no term, by 2-3, by 5-8. Nothing else depends on it."""

    FOCUSED = "focused"
    BALANCED = "balanced"
    EXPLORATORY = "exploratory"


class RetrieverType(StrEnum):
    """How the library is searched. `dense`, `sparse` and `graph` are accepted as synonyms."""

    LANCE_DENSE = "lance_dense"
    LANCE_FTS = "lance_fts"
    GRAPH_NEIGHBOR = "graph_neighbor"


SYNONYMS = {"dense": "lance_dense", "sparse": "lance_fts", "graph": "graph_neighbor"}


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


Strategy = Annotated[
    RetrieverType, BeforeValidator(lambda value: SYNONYMS.get(_lower(value), _lower(value)) if isinstance(value, str) else value)
]


class SearchRequest(Model):
    """One request. Only the given fields narrow the search; every default means "everything available"."""

    query: str | dict[str, str] = Field(description="Words, a question, or (systematic mode) a mapping field -> text.")
    strategies: tuple[Strategy, ...] | None = Field(None, description="The library's retrievers; all of them by default.")
    sources: tuple[str, ...] | None = Field(None, description="Sources to search; all configured ones by default.")
    mode: Annotated[Literal["discovery", "systematic"], BeforeValidator(_lower)] = Field(
        "discovery", validation_alias=AliasChoices("mode", "execution_mode"), description="Ranked answer, or exact Boolean protocol."
    )
    search_mode: Annotated[SearchMode, BeforeValidator(_lower)] = Field(SearchMode.BALANCED, description="How far the query is expanded.")
    filters: dict[str, JsonValue] | None = Field(None, description='For example {"year": {"$gt": 2020}, "retracted": false}.')
    fusion_enabled: bool = Field(True, description="Fuse the ranked lists; otherwise interleave them.")
    rerank_enabled: bool | None = Field(None, description="Reorder the first works with a reranker; by default if it improves the ranking.")
    distill_enabled: bool = Field(True, description="Keep only the sentences that answer.")
    top_k: int = Field(10, ge=1, le=MAX_TOP_K, description="How many hits to return.")
    distill_top: int = Field(5, ge=0, le=50, description="How many of the first hits are distilled.")
    answer_enabled: bool | None = Field(
        None, description="Also write a short answer with the chat model, each sentence with citations; by default `answer.enabled`."
    )
    full_text_enabled: bool | None = Field(
        None, description="Also fetch open full texts of the first hits before distilling; by default if `enrich.full_text` is first_n."
    )
    checkpoints: tuple[Checkpoint, ...] | None = Field(
        None,
        description="Wait for a person after the `plan`, after the `results`, or both; by default as set in `checkpoints`.",
    )
    previous_strategies: Rounds = Field((), description="Strategies of earlier answers; the new queries differ from theirs.")
    grey_literature: bool = Field(
        False,
        description="Systematic mode: besides the exact hits, `hits` has works that are near the query by vectors but do not match it.",
    )
    user_feedback: str = Field("", max_length=MAX_FEEDBACK_CHARS, description="Your feedback on the earlier results, for the model.")

    @field_validator("query")
    @classmethod
    def check_text(cls, query: str | dict[str, str]) -> str | dict[str, str]:
        texts = [query] if isinstance(query, str) else list(query.values())
        length = sum(map(len, texts))
        if length > MAX_BOOLEAN_CHARS:
            raise ValueError(f"has {length:,} characters; at most {MAX_BOOLEAN_CHARS:,} are read")
        if any(map(has_lone_surrogate, texts)):  # no service accepts such a text
            raise ValueError(HALF_A_CHARACTER)
        if not texts or not all(searchable(text) for text in texts):
            raise ValueError("has no letter or digit to search for")
        return query

    @field_validator("sources")
    @classmethod
    def check_sources(cls, sources: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for name in sources or ():
            if name not in KNOWN_SOURCES and name not in known_sources():
                raise ValueError(f"names the unknown source {name!r}; known: {', '.join(known_sources())}")
        return sources or None

    @field_validator("filters")
    @classmethod
    def check_filters(cls, filters: dict[str, JsonValue] | None) -> dict[str, JsonValue] | None:
        try:
            parse_filter(filters or {})
        except BadRequest as error:
            raise ValueError(str(error)) from error
        return filters or None


def refuse_misfits(request: SearchRequest) -> None:
    """Raise `BadRequest` for fields that the mode cannot honour: none is ignored silently."""
    if request.mode == "systematic":
        if request.answer_enabled:
            raise BadRequest("answer_enabled cannot be used in mode 'systematic': it returns every match and keeps no sentence to cite")
        if request.full_text_enabled:
            raise BadRequest("full_text_enabled cannot be used in mode 'systematic'; afterwards: outrider library fulltext ID...")
        # A run is its query and nothing else: what narrows or widens it must stand in the query, where the manifest shows it.
        for name in ("filters", "user_feedback", "previous_strategies", "checkpoints"):
            if getattr(request, name):
                raise BadRequest(f"{name} cannot be used in mode 'systematic'; write it into the query, such as AND 2020:3000[dp]")
        if request.strategies and request.strategies != (RetrieverType.LANCE_FTS,):
            raise BadRequest("mode 'systematic' matches words exactly; leave strategies out (grey_literature also searches by vectors)")
        return
    if not isinstance(request.query, str):
        raise BadRequest("a mapping of fields to texts is a Boolean query: ask for it with mode 'systematic', or give a string")
    if len(request.query) > MAX_QUERY_CHARS:
        raise BadRequest(f"query: has {len(request.query):,} characters; at most {MAX_QUERY_CHARS:,} are searched")
    if request.grey_literature:
        raise BadRequest("grey_literature belongs to mode 'systematic'; a ranked answer searches by vectors anyway")


def check_request(request: Mapping[str, Any] | SearchRequest) -> SearchRequest:
    """Validate a request; `BadRequest` names every wrong field and the reason."""
    try:
        checked = SearchRequest.model_validate(request)
    except ValidationError as error:
        raise BadRequest(explain_wrong_fields(error.errors(), SearchRequest.model_fields)) from error
    refuse_misfits(checked)
    return checked


def searchable(text: str) -> bool:
    """Whether a text holds a letter or digit of any script."""
    return any(unicodedata.category(char)[0] in "LN" for char in text)

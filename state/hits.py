"""Results on their way through the graph: ranked lists, candidates (works), hits.

What a search makes by the hundred, and nobody outside gives us, is a plain dataclass or a named tuple: a tenth of the time of a checked
model.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, JsonValue

from outrider.state.model import Model, fast_dataclass
from outrider.state.records import Identifiers, Kind, Record

ScoredBy = Literal["model", "rules", "unscored"]


@fast_dataclass
class Path:
    """One way from an anchor to a record: `anchor -relation-> (through) -> record`."""

    anchor: str
    """A record's id, or an entity such as `mesh:aspirin`."""
    relation: str
    """`cites`, `cited by`, `author`, `keyword`, `mesh`, `venue`, `depends on`, or whatever an ingested edge is called."""
    through: str = ""
    """The entity that both share, where the way leads through one."""


@fast_dataclass
class FoundBy:
    """Who found a work, with which query, at which rank (from 1)."""

    source: str
    strategy: str
    query: str
    rank: int
    why: Annotated[str, Field(description="What the strategy can say about it, for example that it cites 3 of the first 10.")] = ""
    paths: Annotated[tuple[Path, ...], Field(description="The ways by which the graph came to it.")] = ()


class Scored(NamedTuple):
    """A record with the score of the engine that found it; scores of different engines do not compare."""

    record: Record
    score: float
    why: str = ""
    paths: tuple[Path, ...] = ()


@fast_dataclass
class Ranked:
    """A place in a ranked list; the record itself stands once, with its candidate."""

    doc_id: str
    score: float
    why: str = ""
    paths: tuple[Path, ...] = ()


class RankedList(Model):
    """One source's answer to one query by one strategy, best first."""

    source: str
    strategy: str
    query: str
    results: tuple[Ranked, ...]


class Duplicate(Model):
    """A record that was folded into another because both are the same work."""

    doc_id: str
    source: str
    origin: str | None = None
    why: str


class Related(Model):
    """A work that belongs to this one and is another, or another version of it."""

    relation: str = Field(
        description="As read from the hit: `preprint of`, `has preprint`, `version of`, `corrects`, `corrected by`, `retracts`, "
        "`retracted by`, `comments on`, `commented on by`, `part beside`, `code of`, `has code`."
    )
    doc_id: str
    title: str = ""
    why: str = ""


SeenIn = Literal["both", "api-only", "web-only", "library-only"]


@fast_dataclass
class Candidate:
    """One work: its leading record, everyone who found it, and what each stage thought of it."""

    record: Record
    found_by: tuple[FoundBy, ...] = ()
    duplicates: tuple[Duplicate, ...] = ()
    related: tuple[Related, ...] = ()
    members: tuple[Record, ...] = ()
    """The records that it was made of, as they came, so that they can be parted again; empty for one alone."""
    scores: dict[str, float] = field(default_factory=dict)
    score: float = 0.0
    """In [0, 1]."""
    scored_by: ScoredBy = "unscored"
    reason: str = ""
    reranked: int | None = None
    """Place among the works that a reranker reordered, from 1; they come first."""
    unchecked: tuple[str, ...] = ()
    """Rules of the coarse filter that could not be applied, since the record lacks what they look at."""
    unread: bool = False
    """Whether a model left it unread, since it would hardly come among the first."""
    tags: tuple[str, ...] = ()
    """What a model says the work is, such as survey or dataset."""
    radar: tuple[dict[str, JsonValue], ...] = ()
    """Dimensions of a repository."""


class Rejected(Model):
    """A candidate that a rule removed, and the rule."""

    doc_id: str
    title: str
    why: str


class Hit(Model):
    rank: int
    doc_id: str
    kind: Kind
    title: str
    description: str = ""
    abstract: str = ""
    url: str | None = None
    identifiers: Identifiers = Identifiers()
    authors: tuple[str, ...] = ()
    year: int | None = None
    venue: str | None = None
    citations: int | None = None
    stars: int | None = None
    language: str | None = None
    tags: tuple[str, ...] = ()
    score: float = Field(ge=0, le=1)
    scores: dict[str, float] = Field(default_factory=dict)
    radar: tuple[dict[str, JsonValue], ...] = Field(
        (), description="Dimensions of a repository: `dimension`, `score` (0 to 10 or null), and its `reason` or what was `missing`."
    )
    scored_by: ScoredBy = "unscored"
    reason: str = ""
    unchecked: tuple[str, ...] = Field((), description="Rules of the coarse filter that could not be applied for lack of the field.")
    flags: tuple[str, ...] = Field((), description="Known ways in which its text speaks to a model instead of a reader.")
    found_by: tuple[FoundBy, ...] = ()
    duplicates: tuple[Duplicate, ...] = ()
    related: tuple[Related, ...] = ()
    seen_in: SeenIn = Field(
        "library-only",
        description="Whether services (api) know it, pages of the web, or both; what is the user's own counts for neither.",
    )
    content: str = Field("", description="Abstract or description.")
    original_text: str = Field("", description="All the text that we hold; spans point into it.")
    distilled_text: str = Field("", description="Verbatim pieces of original_text, in order.")
    spans: tuple[tuple[int, int], ...] = Field((), description="Character offsets [start, end) of those pieces.")
    source_strategy: str = Field("", description="The strategy that ranked the work best.")
    metadata: dict[str, JsonValue] = Field(default_factory=dict)

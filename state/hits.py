"""Results on their way through the graph: ranked lists, candidates (works), hits.

Types that a search creates by the hundred, and no input contains, are plain dataclasses or named tuples: ten times as fast as validated
models.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field, JsonValue, model_validator

from outrider.state.code_links import LinkedCode, LinkedPaper
from outrider.state.full_text import FullText
from outrider.state.model import Model, fast_dataclass
from outrider.state.notices import Notice, list_notices
from outrider.state.records import Identifiers, Kind, Metadata, Record, WebLink

ScoredBy = Literal["model", "rules", "unscored"]


@fast_dataclass
class Path:
    """One way from an anchor to a record: `anchor -relation-> (through) -> record`."""

    anchor: str
    """A record's id, or an entity such as `mesh:aspirin`."""
    relation: str
    """`cites`, `cited by`, `author`, `keyword`, `mesh`, `venue`, `depends on`, or the name of an ingested edge."""
    through: str = ""
    """The shared entity, if the path leads through one."""


@fast_dataclass
class FoundBy:
    """The source, strategy and query that found a work, and its rank (from 1)."""

    source: str
    strategy: str
    query: str
    rank: int
    why: Annotated[str, Field(description="The strategy's reason, for example that it cites 3 of the first 10.")] = ""
    paths: Annotated[tuple[Path, ...], Field(description="The paths in the graph that led to it.")] = ()


class Scored(NamedTuple):
    """A record with the score of the engine that found it; scores of different engines do not compare."""

    record: Record
    score: float
    why: str = ""
    paths: tuple[Path, ...] = ()

    @property
    def doc_id(self) -> str:
        return self.record.doc_id


@fast_dataclass
class Ranked:
    """A place in a ranked list; its candidate holds the record."""

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
    """A record that was merged into another because both are the same work."""

    doc_id: str
    source: str
    origin: str | None = None
    why: str


class Related(Model):
    """Another work that belongs to this one, or another version of it."""

    relation: str = Field(
        description="As read from the hit: `preprint of`, `has preprint`, `version of`, `corrects`, `corrected by`, `retracts`, "
        "`retracted by`, `comments on`, `commented on by`, `part beside`, `code of`, `has code`."
    )
    doc_id: str
    title: str = ""
    why: str = ""


SeenIn = Literal["both", "api-only", "web-only", "library-only"]


Answers = Literal["yes", "perhaps", "no", "unread"]


@fast_dataclass
class Candidate:
    """One work: its leading record, every list that has it, and the results of each stage."""

    record: Record
    found_by: tuple[FoundBy, ...] = ()
    duplicates: tuple[Duplicate, ...] = ()
    related: tuple[Related, ...] = ()
    members: tuple[Record, ...] = ()
    """The records that it was merged from, unchanged, so that a merge can be undone; empty for a single record."""
    scores: dict[str, float] = field(default_factory=dict)
    score: float = 0.0
    """In [0, 1]; what orders the works."""
    scored_by: ScoredBy = "unscored"
    reason: str = ""
    learned: str = ""
    """What use of the library added to the score or took from it, and why."""
    reranked: int | None = None
    """Place among the works that a reranker reordered, from 1; it breaks ties of the score."""
    unchecked: tuple[str, ...] = ()
    """Rules of the coarse filter that could not be checked, since the record lacks the field."""
    unread: bool = False
    """Whether a model left it unread, since it would hardly rank among the first."""
    tags: tuple[str, ...] = ()
    """A model's tags for the work, such as survey or dataset."""
    radar: tuple[dict[str, JsonValue], ...] = ()
    """Dimensions of a repository."""
    code: tuple[LinkedCode, ...] = ()
    """Repositories of a paper, alive ones first."""
    papers: tuple[LinkedPaper, ...] = ()
    """Papers of a repository."""


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
    url: WebLink = None
    file: str = Field("", description="Name of the file that it was read from, without its folder; empty for records of a service.")
    identifiers: Identifiers = Identifiers()
    authors: tuple[str, ...] = ()
    year: int | None = None
    venue: str | None = None
    citations: int | None = None
    stars: int | None = None
    language: str | None = None
    tags: tuple[str, ...] = ()
    score: float = Field(ge=0, le=1, description="What orders the hits.")
    scores: dict[str, float] = Field(default_factory=dict, description="The score of each stage.")
    radar: tuple[dict[str, JsonValue], ...] = Field(
        (),
        description="Dimensions of a repository: `dimension`, `score` (0 to 10; null: unknown), `reason` or `missing`, `counted`.",
    )
    scored_by: ScoredBy = "unscored"
    reason: str = ""
    learned: str = Field("", description="Why use of the library raised or lowered it; `scores` has how much (`learned`).")
    unchecked: tuple[str, ...] = Field((), description="Rules of the coarse filter that could not be checked for lack of the field.")
    flags: tuple[str, ...] = Field((), description="Known patterns of instructions to a model in its text.")
    found_by: tuple[FoundBy, ...] = ()
    duplicates: tuple[Duplicate, ...] = ()
    related: tuple[Related, ...] = ()
    notices: tuple[Notice, ...] = Field(
        (),
        description="Retractions, withdrawals, concerns and corrections, the gravest first; and whether the work itself is such a notice.",
    )
    code: tuple[LinkedCode, ...] = Field(
        (), description="Repositories of the work with evidence, and whether they are alive, quiet, dead or unknown, alive ones first."
    )
    papers: tuple[LinkedPaper, ...] = Field((), description="Papers of a repository with evidence.")
    seen_in: SeenIn = Field(
        "library-only",
        description="Whether services (api), pages of the web, or both have it; the user's own records count for neither.",
    )
    full_text: FullText | None = Field(
        None, description="Where a fetched full text came from: address, form, licence, version; null for another text."
    )
    content: str = Field("", description="Abstract or description.")
    original_text: str = Field("", description="All available text; spans are offsets into it.")
    distilled_text: str = Field("", description="Verbatim pieces of original_text, in order.")
    spans: tuple[tuple[int, int], ...] = Field((), description="Character offsets [start, end) of those pieces.")
    answers: Answers = Field(
        "unread",
        description="Whether a piece answers: `yes`; `perhaps`, if the best one is uncertain; `no`; `unread`, if the text was not "
        "distilled.",
    )
    summary: str = Field("", description="First sentence of the abstract or description, for a hit without an answer.")
    source_strategy: str = Field("", description="The strategy that ranked the work best.")
    metadata: Metadata = Field(default_factory=dict)

    @model_validator(mode="after")
    def read_notices(self) -> Self:
        """Answers that were saved without notices get them from the metadata."""
        if "notices" not in self.model_fields_set and (notices := list_notices(self, self.related)):
            self.__dict__["notices"] = notices  # the model is frozen, and this is still its making
            self.model_fields_set.add("notices")
        return self

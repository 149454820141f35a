"""Protocols of everything that nodes need from outside."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from outrider.moved import former_names
from outrider.state.boolean import Node
from outrider.state.distilling import Distilled, Frame, Reading, no_frame
from outrider.state.embedding import EmbeddedText, EmbeddingSpace, TextRole
from outrider.state.filters import Filter
from outrider.state.hits import Path, Ranked, RankedList, Scored
from outrider.state.intent import Constraints, RepositoryWishes
from outrider.state.learning import Preferences
from outrider.state.records import Kind, Page, Record, Repository

if TYPE_CHECKING:
    import numpy as np

OnCount = Callable[[int, int], None]
"""Called with the number done and the total."""


@dataclass(frozen=True, slots=True)
class BooleanQuery:
    """A planned query for a source that matches Boolean expressions."""

    tree: Node
    expression: str = ""
    """In the source's own syntax; empty for one that reads the tree."""
    wider: bool = False
    """Whether the expression matches more than the tree: the source cannot express a part of it."""


@dataclass(frozen=True, slots=True)
class SourceQuery:
    """One search of one source by one strategy. A source ignores what it does not support: later steps check again."""

    text: str
    strategy: str
    """One of the source's strategies."""
    where: Filter | None
    """Filter for the results. A source without filters applies `constraints` and `repositories` as far as it can."""
    limit: int
    widened: tuple[str, ...] = ()
    """Additional terms; they count less than the words of `text`."""
    keywords: tuple[str, ...] = ()
    """Content words, for sources that require every word."""
    constraints: Constraints = field(default_factory=Constraints)
    repositories: RepositoryWishes = field(default_factory=RepositoryWishes)
    within_s: float = 25.0
    """Time limit in seconds."""
    boolean: BooleanQuery | None = None
    """The same search as a Boolean query, for sources with `Capabilities.boolean`: they return its matches first, and if these are fewer
    than `limit`, what `text` finds."""
    phrases: tuple[str, ...] = ()
    """Phrases of the Boolean query; a record that holds one ranks higher."""
    depth: int = 0
    """Results in place of `limit` for the fusion of a search by words with one by vectors; a source without vectors keeps to `limit`."""
    places_only: bool = False
    """Whether the answer may name works by id, as `SourceAnswer.places`: of several lists only some works are wanted after their fusion."""

    @property
    def most(self) -> int:
        """Results that are taken at most."""
        return max(self.limit, self.depth)


CompareAgain = Callable[[Sequence[str]], tuple[Ranked, ...]]
"""Orders the results of a search by vectors again, by the works of these ids, which came first after a fusion; empty to leave them."""
ReadRecords = Callable[[Sequence[str]], Awaitable[Mapping[str, Record]]]
"""Reads records by id; those that are gone are left out."""
AnswerStatus = Literal["", "partial", "cached", "stale"]


@dataclass(frozen=True, slots=True)
class SourceAnswer:
    """Results, best first; `total` if the source reports one."""

    results: tuple[Scored, ...]
    total: int | None = None
    message: str = ""
    model: str = ""
    """The model that ranked, with its revision."""
    status: AnswerStatus = ""
    """If it is incomplete or not current: cut short, from the cache, or older than it should be."""
    retry_at: float | None = None
    """The earliest time to request the rest, in seconds since the epoch."""
    compare_again: CompareAgain | None = None
    subject: Record | None = None
    """Of a list of citations: the work that they belong to, with the identifiers under which the service knows it."""
    places: tuple[Ranked, ...] = ()
    """In place of `results`, with `read`, which gives their records."""
    read: ReadRecords | None = None


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Abilities of a source."""

    kinds: frozenset[Kind]
    """Kinds of its records."""
    identifiers: frozenset[str] = frozenset()
    """Schemes (fields of `Identifiers`) by which `get` finds a record."""
    most: int = 1_000
    """Most results of one search, however many are requested."""
    queries: int = 4
    """Most queries of one plan: some services allow few requests."""
    filters: bool = False
    """Whether it applies `where` itself; else the caller does."""
    batch: int = 1
    """Identifiers per lookup request; from 2 on it is a `BatchSource`."""
    boolean: bool = False
    """Whether it matches Boolean expressions (`SourceQuery.boolean`)."""


EXPANDED = "expanded"
"""The strategy that searches with the terms of an expanded query; skipped without such terms."""


class Source(Protocol):
    """A searchable service or library. Raises `SearchError`; any other error is a bug."""

    @property
    def name(self) -> str: ...

    @property
    def strategies(self) -> tuple[str, ...]:
        """The strategies that this source can run; a request's `strategies` picks among the library's only."""
        ...

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def timeout_s(self) -> float:
        """Time limit of one search in seconds, within the run's time."""
        ...

    async def search(self, query: SourceQuery) -> SourceAnswer: ...

    async def get(self, scheme: str, value: str, within_s: float) -> Record | None:
        """The record with this identifier; None if the source has none."""
        ...


class BatchSource(Source, Protocol):
    """A source that returns many records in one request."""

    async def get_many(self, scheme: str, values: Sequence[str], within_s: float) -> Mapping[str, Record]:
        """The records that it has, by value; at most `capabilities.batch` values."""
        ...


class ReadPage(Protocol):
    """The page behind a link."""

    @property
    def kind(self) -> Literal["html", "text", "pdf", "doi"]:
        """For `pdf` and `doi` the page holds only link and identifiers: neither is fetched."""
        ...

    @property
    def page(self) -> Page: ...


class PageReader(Protocol):
    """Fetches pages politely (robots.txt, rate limits). Raises `SourceError`."""

    async def fetch(self, url: str, within_s: float) -> ReadPage: ...


@dataclass(frozen=True, slots=True)
class Detailed:
    """Repositories with their details, in the given order; one without further details is unchanged."""

    records: tuple[Repository, ...]
    asked: int
    """Requested repositories; fewer than given if the service's limit allows no more."""
    returned: int
    """Repositories with new details."""
    status: Literal["ok", "partial", "empty", "cached", "stale", "rate_limited", "unauthorized", "forbidden", "unavailable", "timeout"]
    message: str = ""
    retry_at: float | None = None


class Detailer(Protocol):
    """A service with more details of its repositories than its search returns: README, tree, releases, activity."""

    @property
    def name(self) -> str: ...

    async def details(self, records: Sequence[Repository], within_s: float) -> Detailed:
        """Most important first, as far as limit and time allow; raises no error of a service."""
        ...


class LibraryReader(Protocol):
    """The library's functions besides search that the pipeline needs."""

    async def whole(self, records: Sequence[Record]) -> list[Record]:
        """The same records with their whole bodies, of which a search returns only the beginning."""
        ...

    async def snapshot(self) -> str | None:
        """`<library id>@<version>` of the current version; None without a library."""
        ...

    async def related_terms(self, text: str, limit: int) -> tuple[str, ...]:
        """Terms that distinguish the first hits of `text` from the later ones, best first."""
        ...

    async def explain_filter(self, where: Filter) -> tuple[str, ...]:
        """For each field of a filter, how many records fail it only because they lack the field; empty for none."""
        ...


class PreferencesProvider(Protocol):
    """What was learned from use of the library."""

    async def __call__(self) -> tuple[Preferences | None, str]:
        """The preferences that order hits, or None with the reason why none do."""
        ...


class ResultStore(Protocol):
    """The library as a store for works that services returned; created if missing. Raises `SearchError`."""

    async def keep(self, records: Sequence[Record], renew: Callable[[Record, Record | None], Record]) -> tuple[int, int]:
        """Save records; returns how many were new, and how many changed. `renew` makes the record to save from a record and the stored one.

        A stored record that it returns unchanged is not written. A caller that stops waiting does not stop the saving.
        """
        ...


class CachedText(NamedTuple):
    text: str
    age_s: float


class TextCache(Protocol):
    """A cache of texts. Raises nothing: a failing cache only costs time."""

    async def get(self, key: str, within_s: float) -> CachedText | None: ...

    async def put(self, key: str, text: str) -> None:
        """Returns without waiting for the write."""
        ...


class TextEmbedder(Protocol):
    """Embeds texts in one space. Blocking: call it in a thread. Raises `ModelError`."""

    @property
    def space(self) -> EmbeddingSpace:
        """Loads the model at first use."""
        ...

    def embed(self, text: str | Sequence[str], role: TextRole = "document") -> np.ndarray:
        """Vectors of shape (n, d), float32, in the order of the texts; a single text is n = 1."""
        ...

    def embed_each(self, texts: Sequence[str], role: TextRole = "document", progress: OnCount | None = None) -> list[EmbeddedText]:
        """The same, one by one: a text that cannot be embedded is returned with its problem."""
        ...


class Reranker(Protocol):
    """Scores (query, text) pairs. Blocking: call it in a thread. Raises `ModelError`."""

    @property
    def name(self) -> str:
        """For responses and metrics."""
        ...

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """One finite score a text, in their order; a larger one is a better match. Scores of two queries do not compare."""
        ...


class Neighbour(NamedTuple):
    doc_id: str
    score: float
    paths: tuple[Path, ...]


class Neighbours(Protocol):
    """A graph of records and entities, within the library or outside it. Raises `SearchError`."""

    async def entities(self, text: str) -> tuple[str, ...]:
        """Entities, as `type:name`, that the text names, most specific first."""
        ...

    async def named(self, name: str) -> tuple[str, ...]:
        """Entities of exactly this name, with or without a type, sorted."""
        ...

    async def alike(self, name: str) -> tuple[str, ...]:
        """Some entities whose names begin alike, for mistyped names."""
        ...

    async def around(self, anchors: Sequence[str], limit: int) -> list[Neighbour]:
        """One hop from anchors (records' ids, entities): records by the number of independent paths that lead there, best first."""
        ...

    async def connected(self, entity: str, kind: str, limit: int) -> list[tuple[str, tuple[str, ...]]]:
        """Entities of a type that share records with `entity`, most shared first, each with the ids of those records."""
        ...


class RerankerProvider(Protocol):
    """The reranker to run, or None, and why; `asked` if the request wants one whatever an evaluation showed."""

    async def __call__(self, *, asked: bool = False) -> tuple[Reranker | None, str]: ...


Fusion = Callable[[Sequence[RankedList]], Mapping[str, float]]
"""Fused scores by doc_id; a larger score is better."""
Clock = Callable[[], float]
"""Seconds since the epoch."""


class TextDistiller(Protocol):
    """Selects the units of texts that answer a query. Blocking: call it in a thread."""

    @property
    def engine(self) -> str:
        """Its name in the settings."""
        ...

    @property
    def verbatim(self) -> bool:
        """False if it leaves words out of sentences."""
        ...

    def distil(self, query: str, readings: Sequence[Reading], max_tokens: int | None = None, frame: Frame = no_frame) -> Distilled:
        """`max_tokens` limits the result's `text`, including the frame; None keeps the engine's own limit.

        Raises `ModelError`, `MissingExtra`.
        """
        ...


class DistillerProvider(Protocol):
    """The distillers to try in order; the last needs no model."""

    async def __call__(self) -> Sequence[TextDistiller]: ...


__getattr__ = former_names(__name__, {"Keeper": "ResultStore", "Shelf": "LibraryReader"})

"""What nodes need from the outside, as protocols; `services` decides who provides it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from outrider.state.distilling import Distilled, Frame, Reading, no_frame
from outrider.state.embedding import EmbeddedText, EmbeddingSpace, TextRole
from outrider.state.filters import Filter
from outrider.state.hits import Path, RankedList, Scored
from outrider.state.intent import Constraints, RepositoryWishes
from outrider.state.records import Kind, Page, Record, Repository

if TYPE_CHECKING:
    import numpy as np

OnCount = Callable[[int, int], None]
"""Called with how many are done, of how many."""


@dataclass(frozen=True, slots=True)
class SourceQuery:
    """One search of one source by one strategy. What a source cannot be asked for it leaves aside: later steps look again."""

    text: str
    strategy: str
    """One of the source's own."""
    where: Filter | None
    """What the results must fit. A source that cannot be asked so is asked for `constraints` and `repositories` as far as it can be."""
    limit: int
    widened: tuple[str, ...] = ()
    """Terms that help without being asked for; they count less than the words of `text`."""
    keywords: tuple[str, ...] = ()
    """Its content words, for sources that match every word."""
    constraints: Constraints = field(default_factory=Constraints)
    repositories: RepositoryWishes = field(default_factory=RepositoryWishes)
    within_s: float = 25.0
    """Seconds that it may take."""


AnswerStatus = Literal["", "partial", "cached", "stale"]


@dataclass(frozen=True, slots=True)
class SourceAnswer:
    """Best first; `total` where the source says how many there are."""

    results: tuple[Scored, ...]
    total: int | None = None
    message: str = ""
    model: str = ""
    """The model that ranked, with what identifies it."""
    status: AnswerStatus = ""
    """Where it is not all that was asked for, or not of now: cut short, from the cache, or older than it should be."""
    retry_at: float | None = None
    """When the rest may be asked for, in seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a source can do."""

    kinds: frozenset[Kind]
    """Of its records."""
    identifiers: frozenset[str] = frozenset()
    """Schemes (fields of `Identifiers`) by which `get` finds a record."""
    most: int = 1_000
    """Results of one search at most, however many are asked for."""
    queries: int = 4
    """Queries of one plan that it is asked at most: some services allow few requests."""
    filters: bool = False
    """Whether it applies `where` itself; else whoever asks does."""
    batch: int = 1
    """Identifiers that it gives records for with one call; from 2 on it is a `BatchSource`."""


EXPANDED = "expanded"
"""The strategy that searches with the words that widen a query; skipped where there are none."""


class Source(Protocol):
    """A place that can be searched. Raises `SearchError`; anything else is a bug."""

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
        """Seconds that a search of it may take, as far as the run has them."""
        ...

    async def search(self, query: SourceQuery) -> SourceAnswer: ...

    async def get(self, scheme: str, value: str, within_s: float) -> Record | None:
        """The record with this identifier; None where the source has none."""
        ...


class BatchSource(Source, Protocol):
    """A source that gives many records with one call."""

    async def get_many(self, scheme: str, values: Sequence[str], within_s: float) -> Mapping[str, Record]:
        """By value, the records that it has; `capabilities.batch` values at most."""
        ...


class ReadPage(Protocol):
    """What a link led to."""

    @property
    def kind(self) -> Literal["html", "text", "pdf", "doi"]:
        """Of `pdf` and `doi` the page holds nothing but link and identifiers: neither is fetched."""
        ...

    @property
    def page(self) -> Page: ...


class PageReader(Protocol):
    """Fetches pages as a good guest. Raises `SourceError`."""

    async def fetch(self, url: str, within_s: float) -> ReadPage: ...


@dataclass(frozen=True, slots=True)
class Detailed:
    """Repositories with what was found out beside, in the order asked for; one of which nothing more came is as it was."""

    records: tuple[Repository, ...]
    asked: int
    """Repositories that were asked for; fewer than there are where the service's limit allows no more."""
    returned: int
    """Of which something came."""
    status: Literal["ok", "partial", "empty", "cached", "stale", "rate_limited", "unauthorized", "forbidden", "unavailable", "timeout"]
    message: str = ""
    retry_at: float | None = None


class Detailer(Protocol):
    """A service that tells more of its repositories than its search does: README, tree, releases, activity."""

    @property
    def name(self) -> str: ...

    async def details(self, records: Sequence[Repository], within_s: float) -> Detailed:
        """Most important first, as far as limit and time allow; raises nothing that a service may cause."""
        ...


class LibraryReader(Protocol):
    """What the pipeline needs of the library beyond searching it."""

    async def whole(self, records: Sequence[Record]) -> list[Record]:
        """The same records with their whole bodies, where a search gave only the beginning."""
        ...

    async def snapshot(self) -> str | None:
        """`<library id>@<version>` of what is searched now; None where there is no library."""
        ...

    async def related_terms(self, text: str, limit: int) -> tuple[str, ...]:
        """Terms that mark the first hits of `text` off from the later ones, best first."""
        ...


class ResultStore(Protocol):
    """The library as the place where works are kept that others found; it is made where there is none. Raises `SearchError`."""

    async def keep(self, records: Sequence[Record], renew: Callable[[Record, Record | None], Record]) -> tuple[int, int]:
        """How many were new, and how many changed. `renew` makes the record to keep from a record and the stored one of its `doc_id`.

        What it gives back as it was held is not written. Whoever stops waiting does not stop the keeping.
        """
        ...


class CachedText(NamedTuple):
    text: str
    age_s: float


class TextCache(Protocol):
    """Texts that are kept for a while. Raises nothing: a cache that fails costs time only."""

    async def get(self, key: str, within_s: float) -> CachedText | None: ...

    async def put(self, key: str, text: str) -> None:
        """Nobody waits for it."""
        ...


class TextEmbedder(Protocol):
    """Texts to vectors of one space. Blocking: call it in a thread. Raises `ModelError`."""

    @property
    def space(self) -> EmbeddingSpace:
        """Loads the model at first use."""
        ...

    def embed(self, text: str | Sequence[str], role: TextRole = "document") -> np.ndarray:
        """Vectors of shape (n, d), float32, in the order of the texts; a single text is n = 1."""
        ...

    def embed_each(self, texts: Sequence[str], role: TextRole = "document", progress: OnCount | None = None) -> list[EmbeddedText]:
        """The same, one by one: a text that cannot be embedded is told with its problem, the others are embedded."""
        ...


class Reranker(Protocol):
    """Scores (query, text) pairs. Blocking: call it in a thread. Raises `ModelError`."""

    @property
    def name(self) -> str:
        """For answers and for the gate's figures."""
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

    async def recognize_entities(self, text: str) -> tuple[str, ...]:
        """Entities, as `type:name`, that the text names, most specific first."""
        ...

    async def find_entities(self, name: str) -> tuple[str, ...]:
        """Entities of exactly this name, with or without a type, sorted."""
        ...

    async def find_similar_names(self, name: str) -> tuple[str, ...]:
        """Some entities whose names begin as this one does, for what was mistyped."""
        ...

    async def find_neighbours(self, anchors: Sequence[str], limit: int) -> list[Neighbour]:
        """One hop from anchors (records' ids, entities): records by the number of independent paths that lead there, best first."""
        ...

    async def find_connected(self, entity: str, kind: str, limit: int) -> list[tuple[str, tuple[str, ...]]]:
        """Entities of a type that share records with `entity`, most shared first, each with the ids of those records."""
        ...


class RerankerProvider(Protocol):
    """The reranker to run, or None, and why; `asked` where the request wants one whatever a probe found."""

    async def __call__(self, *, asked: bool = False) -> tuple[Reranker | None, str]: ...


Fusion = Callable[[Sequence[RankedList]], Mapping[str, float]]
"""Fused scores by doc_id; a larger score is a better place."""
Clock = Callable[[], float]
"""Seconds since the epoch."""


class TextDistiller(Protocol):
    """Chooses the units of texts that answer a query. Blocking, meant for a thread."""

    @property
    def engine(self) -> str:
        """Its name in the settings."""
        ...

    @property
    def verbatim(self) -> bool:
        """False where it leaves words out of what it keeps."""
        ...

    def distil(self, query: str, readings: Sequence[Reading], max_tokens: int | None = None, frame: Frame = no_frame) -> Distilled:
        """`max_tokens` bounds the result's `text`, frame and all; None leaves the bound that it was made with.

        Raises `ModelError`, `MissingExtra`.
        """
        ...


class DistillerProvider(Protocol):
    """The distillers to try, one after another; the last needs no model."""

    async def __call__(self) -> Sequence[TextDistiller]: ...

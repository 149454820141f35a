"""What nodes need from the outside, as protocols; `services` decides who provides it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from outrider.state.embedding import EmbeddedText, EmbeddingSpace, TextRole
from outrider.state.filters import Filter
from outrider.state.hits import Path, RankedList, Scored
from outrider.state.records import Record
from outrider.state.request import RetrieverType

if TYPE_CHECKING:
    import numpy as np

OnCount = Callable[[int, int], None]
"""Called with how many are done, of how many."""


@dataclass(frozen=True, slots=True)
class SourceQuery:
    """One search of one source by one strategy."""

    text: str
    strategy: RetrieverType
    where: Filter | None
    limit: int
    widened: tuple[str, ...] = ()
    """Terms that help without being asked for; they count less than the words of `text`."""


@dataclass(frozen=True, slots=True)
class SourceAnswer:
    """Best first; `total` where the source says how many there are."""

    results: tuple[Scored, ...]
    total: int | None = None
    message: str = ""
    model: str = ""
    """The model that ranked, with what identifies it."""


class Source(Protocol):
    """A place that can be searched. Raises `SearchError`; anything else is a bug."""

    @property
    def name(self) -> str: ...

    @property
    def strategies(self) -> tuple[RetrieverType, ...]:
        """The strategies that this source can run."""
        ...

    async def search(self, query: SourceQuery) -> SourceAnswer: ...


class Shelf(Protocol):
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

    async def entities(self, text: str) -> tuple[str, ...]:
        """Entities, as `type:name`, that the text names, most specific first."""
        ...

    async def named(self, name: str) -> tuple[str, ...]:
        """Entities of exactly this name, with or without a type, sorted."""
        ...

    async def alike(self, name: str) -> tuple[str, ...]:
        """Some entities whose names begin as this one does, for what was mistyped."""
        ...

    async def around(self, anchors: Sequence[str], limit: int) -> list[Neighbour]:
        """One hop from anchors (records' ids, entities): records by the number of independent paths that lead there, best first."""
        ...

    async def connected(self, entity: str, kind: str, limit: int) -> list[tuple[str, tuple[str, ...]]]:
        """Entities of a type that share records with `entity`, most shared first, each with the ids of those records."""
        ...


class RerankerProvider(Protocol):
    """The reranker to run, or None, and why; `asked` where the request wants one whatever a probe found."""

    async def __call__(self, *, asked: bool = False) -> tuple[Reranker | None, str]: ...


Fusion = Callable[[Sequence[RankedList]], Mapping[str, float]]
"""Fused scores by doc_id; a larger score is a better place."""
Clock = Callable[[], float]
"""Seconds since the epoch."""

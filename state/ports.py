"""What nodes need from the outside, as protocols; `services` decides who provides it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from outrider.state.filters import Filter
from outrider.state.hits import RankedList, Scored
from outrider.state.records import Record
from outrider.state.request import RetrieverType


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


Fusion = Callable[[Sequence[RankedList]], Mapping[str, float]]
"""Fused scores by doc_id; a larger score is a better place."""
Clock = Callable[[], float]
"""Seconds since the epoch."""

"""Interfaces of a systematic run: pages of exact hits from a pinned library or a service.

Records are never collected in memory: a caller gets pages, and a page's `cursor` suffices to resume after it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from pydantic import Field

from outrider.state.boolean import Node, RecordPart
from outrider.state.model import Model
from outrider.state.records import Record

PAGE = 500
"""Default number of records per page."""
LIBRARY_ORDER = "by doc_id, compared by code points"
"""The total order of hits from the library."""

Proof = Literal["verified", "as the source says"]
"""Whether our evaluator verified the query in the record's text, or only the service reports the match."""


class Snapshot(Model):
    """The version of a library that a run reads from its first page to its last."""

    library: str = Field(description="Its id.")
    version: int
    tag: str = Field(description="Keeps the version; to be removed when the run need not be repeatable any more.")
    tokenizer: str = Field(description="The tokenizer with its version: two runs are comparable only with the same.")
    indexes: dict[str, str] = Field(default_factory=dict, description="Each text index and how much of the rows it covers.")


class Matched(NamedTuple):
    """A hit and its proof."""

    record: Record
    proof: Proof = "verified"


class MatchedPage(NamedTuple):
    """Hits in the run's order; the next request with `cursor` returns those that follow."""

    hits: tuple[Matched, ...]
    cursor: str


class PinnedLibrary(Protocol):
    """One version of the library, unaffected by later writes. Raises `LibraryError`."""

    @property
    def snapshot(self) -> Snapshot: ...

    @property
    def address(self) -> str:
        """For messages, without a password."""
        ...

    def pages(self, tree: Node, after: str = "", size: int = PAGE) -> AsyncIterator[MatchedPage]:
        """Every record that the tree matches and no other, whole, in `LIBRARY_ORDER`; `after` is the cursor of an earlier page."""
        ...

    async def count(self, tree: Node) -> int: ...

    async def count_without(self, part: RecordPart) -> int:
        """The number of records that lack a part."""
        ...

    async def count_if(self, tree: Node, part: RecordPart, test: Callable[[Any], bool]) -> int:
        """The number of records that pass a test, among those that may match the tree and may lack the part.

        The test must fail for all others. It gets a `boolean.document.Readable`.
        """
        ...

    async def has_hits(self, tree: Node) -> bool: ...

    async def content_hashes(self, doc_ids: Sequence[str]) -> Mapping[str, str]:
        """Hashes of those records that it holds."""
        ...

    def close(self) -> None:
        """Close the files; the tag stays."""
        ...


class OpenLibrary(Protocol):
    """Pins the current version of the library, or opens the version of an earlier run. Raises `LibraryError`."""

    async def __call__(self, snapshot: Snapshot | None, /) -> PinnedLibrary: ...


@dataclass(frozen=True, slots=True)
class SentQuery:
    """The query that a service gets for a tree."""

    source: str
    query: str = ""
    """As it is sent; empty if it is refused."""
    parameters: tuple[tuple[str, str], ...] = ()
    widened: tuple[str, ...] = ()
    """Parts that the service cannot express: without them it returns more records, which our evaluator filters."""
    refused: str = ""
    """Why the service is not searched: a part that it cannot express would lose hits."""
    native: bool = False
    """Whether the service accepts the query as written."""
    reproducible: bool = True
    """False for a service whose totals differ between two calls."""
    lacking: tuple[str, ...] = ()
    """Alternatives that were left out since no record of the service has the field: they match nothing there."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of a query's results below the service's cap: its description, the reported total, the fetched number."""

    what: str
    total: int
    fetched: int


@dataclass(slots=True)
class Harvest:
    """Progress of reading a service to the end; updated with each page."""

    total: int | None = None
    """Matching records that the service reports."""
    fetched: int = 0
    """Distinct records that came."""
    matched: int = 0
    """Records that our evaluator accepted or could not judge."""
    slices: list[Slice] = field(default_factory=list)
    complete: bool = False
    """Set at the end, and only where the counts add up."""
    remarks: list[str] = field(default_factory=list)
    """Why it is incomplete, or what changed meanwhile."""
    took_s: float = 0.0
    seen: set[str] = field(default_factory=set)
    """Ids of all records that came; in a resumed run also those from before the interruption."""
    dropped: list[str] = field(default_factory=list)
    """Ids of the last page's records that our evaluator rejected."""


class RemoteSource(Protocol):
    """A service that can be read to the last hit. Raises `SourceError`; pages that came stay."""

    @property
    def name(self) -> str: ...

    def translate(self, tree: Node, text: str) -> SentQuery:
        """`text` is the query as written, for a service that accepts its syntax."""
        ...

    def harvest(self, tree: Node, sent_query: SentQuery, into: Harvest, after: str = "") -> AsyncIterator[MatchedPage]:
        """All matching records of the service, each once, slice by slice; `after` is the cursor of an earlier page."""
        ...

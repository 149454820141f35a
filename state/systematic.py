"""Types and ports of a systematic run: pages of exact hits, of a pinned library or of a service.

Records never pile up: whoever asks gets pages, and a page's `cursor` is all that is needed to go on after it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from pydantic import Field

from outrider.state.boolean import Node
from outrider.state.model import Model
from outrider.state.records import Record

PAGE = 500
"""Records of a page, unless asked for otherwise."""
LIBRARY_ORDER = "by doc_id, compared by code points"
"""The stated total order of hits from the library."""

Proof = Literal["verified", "as the source says"]
"""Whether our own evaluator found the query in the record's text, or a service's word is all there is."""


class Snapshot(Model):
    """The version of a library that a run reads from its first page to its last."""

    library: str = Field(description="Its id.")
    version: int
    tag: str = Field(description="Keeps the version; removed by whoever no longer needs the run to be repeatable.")
    tokenizer: str = Field(description="How words are cut, with its version: two runs compare only where it is the same.")
    indexes: dict[str, str] = Field(default_factory=dict, description="Each text index and how much of the rows it covers.")


class Matched(NamedTuple):
    """A hit and what stands behind it."""

    record: Record
    proof: Proof = "verified"


class MatchedPage(NamedTuple):
    """Hits in the run's order; asking again with `cursor` gives those that follow."""

    hits: tuple[Matched, ...]
    cursor: str


class PinnedLibrary(Protocol):
    """One version of the library, whatever is written meanwhile. Raises `LibraryError`."""

    @property
    def snapshot(self) -> Snapshot: ...

    def pages(self, tree: Node, after: str = "", size: int = PAGE) -> AsyncIterator[MatchedPage]:
        """Every record that the tree matches and no other, whole, in `LIBRARY_ORDER`; `after` is the cursor of an earlier page."""
        ...

    async def count(self, tree: Node) -> int: ...

    async def content_hashes(self, doc_ids: Sequence[str]) -> Mapping[str, str]:
        """Of the records of these ids that it holds."""
        ...

    def close(self) -> None:
        """The tag stays."""
        ...


@dataclass(frozen=True, slots=True)
class SentQuery:
    """What a service is asked for a tree."""

    source: str
    query: str = ""
    """As it is sent; empty where it is refused."""
    parameters: tuple[tuple[str, str], ...] = ()
    widened: tuple[str, ...] = ()
    """What could not be said and was left out: each makes the service answer more, which our evaluator filters again."""
    refused: str = ""
    """Why the service is not asked at all: what cannot be said would lose hits."""
    native: bool = False
    """Whether the service reads the query as it was written."""
    reproducible: bool = True
    """False for a service whose totals differ between two calls."""
    lacking: tuple[str, ...] = ()
    """Alternatives that were left out since no record of the service has what they ask for: they find nothing there."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of a query's answer that fits under the service's cap: what it was, what the service said, what came."""

    what: str
    total: int
    fetched: int


@dataclass(slots=True)
class Harvest:
    """How a service was read to the end; filled in while its pages come."""

    total: int | None = None
    """Records that the service says match."""
    fetched: int = 0
    """Different records that came."""
    matched: int = 0
    """Those that our evaluator let pass, or could not judge."""
    slices: list[Slice] = field(default_factory=list)
    complete: bool = False
    """Set at the end, and only where the counts add up."""
    remarks: list[str] = field(default_factory=list)
    """What makes it incomplete, or what changed meanwhile."""
    took_s: float = 0.0
    seen: set[str] = field(default_factory=set)
    """Ids of all that came; of a harvest that is gone on with, those from before the break, too."""
    dropped: list[str] = field(default_factory=list)
    """Ids of the last page's records that our evaluator did not let pass."""


class WorldSource(Protocol):
    """A service that can be read to the last hit. Raises `SourceError`; pages that came stay."""

    @property
    def name(self) -> str: ...

    def translate(self, tree: Node, text: str) -> SentQuery:
        """`text` is the query as it was written, for a service that reads its language."""
        ...

    def harvest(self, tree: Node, sent_query: SentQuery, into: Harvest, after: str = "") -> AsyncIterator[MatchedPage]:
        """All that the service has, each once, slice by slice; `after` is the cursor of an earlier page."""
        ...

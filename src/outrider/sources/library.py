"""The user's own library as a source, searched by its retrievers"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from outrider.state.errors import LibraryMissing
from outrider.state.filters import Compare, Filter
from outrider.state.ports import Capabilities, SourceAnswer, SourceQuery
from outrider.state.records import LIBRARY, Record
from outrider.state.request import RetrieverType

BY_IDENTIFIER = frozenset({"doi", "pmid", "arxiv"})
"""Identifier schemes that have a column."""
CAPABILITIES = Capabilities(frozenset({"paper", "repository", "page", "document"}), BY_IDENTIFIER, most=10_000, filters=True, boolean=True)


class SearchableLibrary(Protocol):
    """An open library."""

    async def search(self, query: SourceQuery) -> SourceAnswer: ...

    async def whole(self, records: Sequence[Record]) -> list[Record]: ...

    async def snapshot(self) -> str: ...

    async def related_terms(self, text: str, limit: int) -> tuple[str, ...]: ...

    async def first(self, where: Filter) -> Record | None: ...

    async def explain_filter(self, where: Filter) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True)
class LibrarySource:
    """A `Source` and the pipeline's `Shelf`. The library is opened at first use; a missing one is a status, not an error."""

    open_library: Callable[[], Awaitable[SearchableLibrary]]
    name: str = LIBRARY
    strategies: tuple[str, ...] = tuple(RetrieverType)
    capabilities: Capabilities = CAPABILITIES
    timeout_s: float = math.inf

    async def search(self, query: SourceQuery) -> SourceAnswer:
        return await (await self.open_library()).search(query)

    async def get(self, scheme: str, value: str, within_s: float) -> Record | None:
        return await (await self.open_library()).first(Compare(scheme, "$eq", value)) if scheme in BY_IDENTIFIER else None

    async def whole(self, records: Sequence[Record]) -> list[Record]:
        try:
            return await (await self.open_library()).whole(records)
        except LibraryMissing:
            return list(records)

    async def snapshot(self) -> str | None:
        try:
            return await (await self.open_library()).snapshot()
        except LibraryMissing:
            return None

    async def related_terms(self, text: str, limit: int) -> tuple[str, ...]:
        try:
            return await (await self.open_library()).related_terms(text, limit)
        except LibraryMissing:
            return ()

    async def explain_filter(self, where: Filter) -> tuple[str, ...]:
        try:
            return await (await self.open_library()).explain_filter(where)
        except LibraryMissing:
            return ()

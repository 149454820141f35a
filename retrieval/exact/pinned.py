"""One version of the library, read while others write: all hits of a tree, page by page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from outrider.boolean.relax import AnyOf
from outrider.retrieval import reading as stored
from outrider.retrieval.exact import ranking
from outrider.retrieval.exact.candidates import both, rows, union
from outrider.retrieval.exact.cursor import behind, cursor, scope
from outrider.retrieval.exact.other_words import ODD
from outrider.retrieval.exact.plan import NOTHING, Match, Plan, Where, asks_for_language, planned
from outrider.retrieval.exact.reading import Reader
from outrider.retrieval.exact.terms import Terms
from outrider.retrieval.schema import OTHER
from outrider.retrieval.search import ALL_ROWS
from outrider.retrieval.sql import to_sql
from outrider.state.boolean import Node
from outrider.state.filters import Filter
from outrider.state.hits import Scored
from outrider.state.records import Record
from outrider.state.systematic import PAGE, Matched, MatchedPage, Snapshot

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from lancedb.db import AsyncConnection
    from lancedb.table import AsyncTable

    from outrider.retrieval.place import Place


class Pinned:
    """Made by `Library.pin` and `Library.pinned`. `state.systematic.PinnedLibrary`."""

    def __init__(self, place: Place, connection: AsyncConnection, table: AsyncTable, snapshot: Snapshot) -> None:
        self._place = place
        self._table = table
        self._snapshot = snapshot
        self._terms = Terms(connection, table)
        self._languages: list[str] | None = None
        self._always: pa.Table | None = None

    @property
    def snapshot(self) -> Snapshot:
        return self._snapshot

    async def pages(self, tree: Node, after: str = "", size: int = PAGE) -> AsyncIterator[MatchedPage]:
        """Every record that the tree matches and no other, whole, in `LIBRARY_ORDER`, `size` to a page; the last page may have fewer.

        No page for no hits. `BadRequest` for a cursor of another query, version or library.
        """
        within = scope(self._snapshot.library, self._snapshot.version, tree)
        held: list[Record] = []
        addresses = await self.candidates(tree, behind(within, after))
        async with aclosing(Reader(self._place, self._table, tree, addresses).placed()) as blocks:
            async for found, _ in blocks:
                held += found
                while len(held) >= size:
                    yield _page(held[:size], within)
                    held = held[size:]
        if held:
            yield _page(held, within)

    async def count(self, tree: Node) -> int:
        return await Reader(self._place, self._table, tree, await self.candidates(tree)).count()

    async def best(self, tree: Node, where: Filter | None, limit: int) -> list[Scored]:
        """The first hits by BM25 of the tree's words, ties and hits without a score by `doc_id`; the others are not looked at."""
        import numpy as np

        addresses = await self.candidates(tree, where=where)
        with self._place.translated():
            scores = await ranking.scores(self._table, tree)
        given = np.array([scores.get(address, 0.0) for address in addresses.tolist()])
        order = np.argsort(-given, kind="stable")
        reader = Reader(self._place, self._table, tree, addresses[order])
        found: list[Scored] = []
        async with aclosing(reader.placed()) as blocks:
            async for records, places in blocks:
                found += [Scored(record, float(given[order[place]])) for record, place in zip(records, places, strict=True)]
                if len(found) >= limit:
                    break
        return found[:limit]

    async def content_hashes(self, doc_ids: Sequence[str]) -> dict[str, str]:
        """Of the records of these ids that this version holds; computed, as an earlier Outrider may have written another."""
        found: dict[str, str] = {}
        for chunk in stored.chunks(doc_ids):
            with self._place.translated():
                found |= {record.doc_id: record.content_hash() for record in await stored.fetch(self._table, chunk)}
        return found

    def close(self) -> None:
        self._table.close()  # type: ignore[no-untyped-call]

    async def candidates(self, tree: Node, after: str | None = None, where: Filter | None = None) -> np.ndarray:
        """Addresses (uint64) of all rows that may match, by doc_id; of those behind an id, and of those that fit a filter."""
        with self._place.translated():
            plan = await self._planned(tree)
            found = union([await rows(self._table, await self._terms.looked_up(plan)), await self._unsure()])
            if where is not None:
                found = both(found, await rows(self._table, Where(to_sql(where))))
        return await asyncio.to_thread(_in_order, found, after)

    async def _planned(self, tree: Node) -> Plan:
        if OTHER not in (await self._table.schema()).names:
            return NOTHING  # every row is unsure
        return planned(tree, await self._said_languages() if asks_for_language(tree) else ())

    async def _said_languages(self) -> list[str]:
        """Every language that a record names."""
        if self._languages is None:
            found = await self._table.query().select(["language"]).where("language IS NOT NULL").limit(ALL_ROWS).to_arrow()
            self._languages = sorted(found["language"].unique().to_pylist())
        return self._languages

    async def _unsure(self) -> pa.Table:
        """Rows whose words the index may cut otherwise than the evaluator, and those that were written without `OTHER`."""
        if self._always is None:
            prepared = OTHER in (await self._table.schema()).names
            plan: Plan = AnyOf((Match(OTHER, (ODD,)), Where(f"{OTHER} IS NULL"))) if prepared else Where("true")
            self._always = await rows(self._table, plan)
        return self._always


def _in_order(found: pa.Table, after: str | None) -> np.ndarray:
    import pyarrow.compute as pc

    if after is not None:
        found = found.filter(pc.greater(found["doc_id"], after))
    addresses: np.ndarray = found.sort_by("doc_id")["_rowid"].to_numpy()
    return addresses


def _page(records: Sequence[Record], within: str) -> MatchedPage:
    return MatchedPage(tuple(map(Matched, records)), cursor(within, records[-1].doc_id))

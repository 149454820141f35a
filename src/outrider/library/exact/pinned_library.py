"""Where a run through the hits of one query in one version of the library stands, as text that can be kept and checked.

Exact hits in the order of the ranking index, where words of the query rank.

One version of the library, read while others write: all hits of a tree, page by page.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from outrider.boolean.occurrences import WILD
from outrider.boolean.printer import printed
from outrider.boolean.relax import AnyOf
from outrider.library.exact.candidates import both, rows, union
from outrider.library.exact.dictionary import Terms
from outrider.library.exact.hit_reader import Reader
from outrider.library.exact.plan import NOTHING, Match, Plan, Where, asks_for_language, planned
from outrider.library.filter_sql import to_sql
from outrider.library.record_table import chunk_ids, read_records
from outrider.library.schema import ODD, OTHER, RANKED
from outrider.library.text_search import ALL_ROWS, match_query, only_stop_words, searched
from outrider.state.boolean import WORD_FIELDS, Heading, Node, Not, Pattern, Text, Words, children
from outrider.state.errors import BadRequest
from outrider.state.filters import Filter
from outrider.state.hits import Scored
from outrider.state.records import Record
from outrider.state.systematic import PAGE, Matched, MatchedPage, Snapshot

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from lancedb.db import AsyncConnection
    from lancedb.table import AsyncTable

    from outrider.library.location import Location


FORMAT = "1"


def scope(library_id: str, version: int, tree: Node) -> str:
    """What a cursor belongs to: the same query of the same version of the same library."""
    return f"{library_id}\n{version}\n{printed(tree)}"


def cursor(within: str, doc_id: str) -> str:
    """Behind the hit of this id."""
    return f"{FORMAT}.{_digest(within, doc_id)}.{base64.urlsafe_b64encode(doc_id.encode()).decode().rstrip('=')}"


def behind(within: str, said: str) -> str | None:
    """The id that a cursor stands behind, None for the beginning; `BadRequest` for one of another query, version or library."""
    if not said:
        return None
    try:
        form, digest, coded = said.split(".")
        doc_id = base64.urlsafe_b64decode(coded + "=" * (-len(coded) % 4)).decode()
    except (ValueError, binascii.Error) as error:
        raise BadRequest(f"{said[:80]!r} is no cursor of a library's hits; begin without one") from error
    if form != FORMAT or digest != _digest(within, doc_id):
        raise BadRequest("the cursor belongs to another query, or to another version of the library; begin without one")
    return doc_id


def _digest(within: str, doc_id: str) -> str:
    return hashlib.sha256(f"{within}\n{doc_id}".encode()).hexdigest()[:16]


async def rank_scores(table: AsyncTable, tree: Node) -> dict[int, float]:
    """BM25 of the words that the tree asks for, by row address; of rows with any of them, hits or not."""
    asked = searched(" ".join(dict.fromkeys(_words(tree))))
    if only_stop_words(asked):
        return {}
    found = await table.query().nearest_to_text(match_query(asked, RANKED)).select(["_score"]).with_row_id().limit(ALL_ROWS).to_arrow()
    return dict(zip(found["_rowid"].to_pylist(), found["_score"].to_pylist(), strict=True))


def _words(node: Node) -> Iterator[str]:
    """Without those behind a NOT, and without parts of words."""
    match node:
        case Not():
            return
        case Text(pattern, fields) if not WORD_FIELDS.isdisjoint(fields):
            yield from _of_pattern(pattern)
        case Heading(name):
            yield from (word for word in name.split() if not WILD.search(word))
    for child in children(node):
        yield from _words(child)


def _of_pattern(pattern: Pattern) -> Iterator[str]:
    if isinstance(pattern, Words):
        yield from (word for word in pattern.words if not WILD.search(word))
    else:
        for part in pattern.parts:
            yield from _of_pattern(part)


class Pinned:
    """Made by `Library.pin` and `Library.pinned`. `state.systematic.PinnedLibrary`."""

    def __init__(self, location: Location, connection: AsyncConnection, table: AsyncTable, snapshot: Snapshot) -> None:
        self._location = location
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
        async with aclosing(Reader(self._location, self._table, tree, addresses).placed()) as blocks:
            async for found, _ in blocks:
                held += found
                while len(held) >= size:
                    yield _page(held[:size], within)
                    held = held[size:]
        if held:
            yield _page(held, within)

    async def count(self, tree: Node) -> int:
        return await Reader(self._location, self._table, tree, await self.candidates(tree)).count()

    async def best(self, tree: Node, where: Filter | None, limit: int) -> list[Scored]:
        """The first hits by BM25 of the tree's words, ties and hits without a score by `doc_id`; the others are not looked at."""
        import numpy as np

        addresses = await self.candidates(tree, where=where)
        with self._location.translate_errors():
            by_address = await rank_scores(self._table, tree)
        given = np.array([by_address.get(address, 0.0) for address in addresses.tolist()])
        order = np.argsort(-given, kind="stable")
        reader = Reader(self._location, self._table, tree, addresses[order])
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
        for chunk in chunk_ids(doc_ids):
            with self._location.translate_errors():
                found |= {record.doc_id: record.content_hash() for record in await read_records(self._table, chunk)}
        return found

    def close(self) -> None:
        self._table.close()  # type: ignore[no-untyped-call]

    async def candidates(self, tree: Node, after: str | None = None, where: Filter | None = None) -> np.ndarray:
        """Addresses (uint64) of all rows that may match, by doc_id; of those behind an id, and of those that fit a filter."""
        with self._location.translate_errors():
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

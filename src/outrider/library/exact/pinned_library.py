"""One version of the library: all hits of a tree, in pages or by rank, while others write.

`ROWS_LACKING` holds SQL conditions on the rows of records that lack a part, such as a year. Most parts are a column, which is NULL where
the record has no value. The others are only in the record's JSON: a pattern finds the rows that surely have them, and those that cannot be
decided so are read.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from outrider.boolean.document import JOURNAL_KEYS, Readable, lacks
from outrider.boolean.occurrences import WILD
from outrider.boolean.printer import format_tree
from outrider.boolean.relax import AnyOf
from outrider.library.exact.candidate_matcher import CandidateMatcher
from outrider.library.exact.plan import NOTHING, Match, Plan, Where, find_rows, intersect, make_plan, names_language, unite
from outrider.library.exact.word_dictionary import PatternExpander
from outrider.library.filter_sql import literal, to_sql
from outrider.library.record_table import chunk_ids, read_records
from outrider.library.schema import ODD, OTHER, RANKED
from outrider.library.text_search import ALL_ROWS, cut_query, match_query, only_stop_words
from outrider.state.boolean import WORD_FIELDS, Everything, Field, Heading, Node, Not, Pattern, RecordPart, Text, Words, children
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

    from outrider.library.address_and_locks import Location

CURSOR_FORMAT = "1"
FEW = 20
"""Candidates that are read first to see whether there is a hit: nearly always there is one among them."""
COUNTED = 10_000
"""Candidates behind the first hits that are read only to count the hits among them."""


class PinnedVersion:
    """Opened by `Library.pin` and `Library.pinned`. A `state.systematic.PinnedLibrary`."""

    def __init__(self, location: Location, connection: AsyncConnection, table: AsyncTable, snapshot: Snapshot) -> None:
        self._location = location
        self._table = table
        self._snapshot = snapshot
        self._patterns = PatternExpander(connection, table)
        self._languages: list[str] | None = None
        self._always: pa.Table | None = None

    @property
    def snapshot(self) -> Snapshot:
        return self._snapshot

    @property
    def address(self) -> str:
        return self._location.address

    def close(self) -> None:
        self._table.close()  # type: ignore[no-untyped-call]

    async def pages(self, tree: Node, after: str = "", size: int = PAGE) -> AsyncIterator[MatchedPage]:
        """Every record that the tree matches and no other, whole, in `LIBRARY_ORDER`, `size` to a page; the last page may have fewer.

        No page for no hits. `BadRequest` for a cursor of another query, version or library.
        """
        scope = f"{self._snapshot.library}\n{self._snapshot.version}\n{format_tree(tree)}"  # the scope of a cursor
        addresses = await self.candidates(tree, parse_cursor(scope, after))
        pending: list[Record] = []
        async with aclosing(CandidateMatcher(self._location, self._table, tree, addresses).read()) as blocks:
            async for records, _ in blocks:
                pending += records
                while len(pending) >= size:
                    yield _build_page(pending[:size], scope)
                    pending = pending[size:]
        if pending:
            yield _build_page(pending, scope)

    async def count(self, tree: Node) -> int:
        """The number of all hits."""
        if isinstance(tree, Everything):
            with self._location.translate_errors():
                return await self._table.count_rows()
        return await CandidateMatcher(self._location, self._table, tree, await self.candidates(tree)).count()

    async def count_without(self, part: RecordPart) -> int:
        """The number of records that lack a part; only those are read whose columns do not tell."""
        rows = ROWS_LACKING[part]
        with self._location.translate_errors():
            count = await self._table.count_rows(rows.surely)
        return count + (await self._count_among(rows.unsure, Everything(), lambda record: lacks(record, part)) if rows.unsure else 0)

    async def count_if(self, tree: Node, part: RecordPart, test: Callable[[Readable], bool]) -> int:
        """The number of records that pass a test, among those that may match the tree and may lack the part."""
        return await self._count_among(ROWS_LACKING[part].possibly, tree, test)

    async def _count_among(self, condition: str, tree: Node, test: Callable[[Readable], bool]) -> int:
        with self._location.translate_errors():
            rows = await find_rows(self._table, Where(condition))
        is_all = isinstance(tree, Everything)
        addresses = await (asyncio.to_thread(_sort_addresses, rows, None) if is_all else self.candidates(tree, within=rows))
        return await CandidateMatcher(self._location, self._table, tree, addresses).count(test)

    async def has_hits(self, tree: Node) -> bool:
        addresses = await self.candidates(tree)
        for part in (addresses[:FEW], addresses[FEW:]):
            if await CandidateMatcher(self._location, self._table, tree, part).any():
                return True
        return False

    async def best(self, tree: Node, where: Filter | None, limit: int, *, counted: bool = True) -> tuple[list[Scored], int | None]:
        """The first hits by BM25 of the tree's words, ties and hits without a score by `doc_id`; and the number of all hits, or None if
        more than `COUNTED` candidates would have to be read for it, or if it is not `counted`.
        """
        import numpy as np

        addresses = await self.candidates(tree, where=where)
        with self._location.translate_errors():
            by_address: dict[int, float] = {}  # BM25 of the rows with any word of the tree, hits or not
            if not only_stop_words(text := cut_query(" ".join(dict.fromkeys(list_words(tree))))):
                ranked = self._table.query().nearest_to_text(match_query(text, RANKED)).select(["_score"])
                rows = await ranked.with_row_id().limit(ALL_ROWS).to_arrow()
                by_address = dict(zip(rows["_rowid"].to_pylist(), rows["_score"].to_pylist(), strict=True))
        scores = np.array([by_address.get(address, 0.0) for address in addresses.tolist()])
        order = np.argsort(-scores, kind="stable")
        hits: list[Scored] = []
        rest = ordered = addresses[order]
        async with aclosing(CandidateMatcher(self._location, self._table, tree, ordered).read()) as blocks:
            async for records, places in blocks:
                hits += [Scored(record, float(scores[order[place]])) for record, place in zip(records, places, strict=True)]
                if len(hits) >= limit:
                    rest = ordered[places[-1] + 1 :]
                    break
            else:
                rest = ordered[:0]
        total = (
            None
            if not counted or len(rest) > COUNTED
            else len(hits) + await CandidateMatcher(self._location, self._table, tree, rest).count()
        )
        return hits[:limit], total

    async def content_hashes(self, doc_ids: Sequence[str]) -> dict[str, str]:
        """Of the records of these ids that this version holds; computed, as an earlier Outrider may have written another."""
        hashes: dict[str, str] = {}
        for chunk in chunk_ids(doc_ids):
            with self._location.translate_errors():
                hashes |= {record.doc_id: record.content_hash() for record in await read_records(self._table, chunk)}
        return hashes

    async def candidates(
        self, tree: Node, after: str | None = None, where: Filter | None = None, within: pa.Table | None = None
    ) -> np.ndarray:
        """Addresses (uint64) of all rows that may match, by doc_id; only those behind an id, that fit a filter, and among some rows."""
        with self._location.translate_errors():
            plan: Plan = NOTHING  # in a library without `OTHER` every row is unsure
            is_prepared = OTHER in (await self._table.schema()).names
            if self._always is None:  # rows whose words the index may split otherwise than the evaluator, and those without `OTHER`
                unsure: Plan = AnyOf((Match(OTHER, (ODD,)), Where(f"{OTHER} IS NULL"))) if is_prepared else Where("true")
                self._always = await find_rows(self._table, unsure)
            if is_prepared:
                if self._languages is None and names_language(tree):
                    rows = await self._table.query().select(["language"]).where("language IS NOT NULL").limit(ALL_ROWS).to_arrow()
                    self._languages = sorted(rows["language"].unique().to_pylist())
                plan = make_plan(tree, self._languages or ())
            rows = unite([await find_rows(self._table, await self._patterns.expand(plan)), self._always])
            if where is not None:
                rows = intersect(rows, await find_rows(self._table, Where(to_sql(where))))
            if within is not None:
                rows = intersect(rows, within)
        return await asyncio.to_thread(_sort_addresses, rows, after)


def _sort_addresses(rows: pa.Table, after: str | None) -> np.ndarray:
    """By doc_id, those behind an id."""
    import pyarrow.compute as pc

    if after is not None:
        rows = rows.filter(pc.greater(rows["doc_id"], after))
    addresses: np.ndarray = rows.sort_by("doc_id")["_rowid"].to_numpy()
    return addresses


def _build_page(records: Sequence[Record], scope: str) -> MatchedPage:
    """A page, with a cursor after its last record."""
    doc_id = records[-1].doc_id
    cursor = f"{CURSOR_FORMAT}.{_digest(scope, doc_id)}.{base64.urlsafe_b64encode(doc_id.encode()).decode().rstrip('=')}"
    return MatchedPage(tuple(map(Matched, records)), cursor)


def parse_cursor(scope: str, cursor: str) -> str | None:
    """The id before a cursor's position, None for the beginning; `BadRequest` for one of another query, version or library."""
    if not cursor:
        return None
    try:
        form, digest, coded = cursor.split(".")
        doc_id = base64.urlsafe_b64decode(coded + "=" * (-len(coded) % 4)).decode()
    except (ValueError, binascii.Error) as error:
        raise BadRequest(f"{cursor[:80]!r} is no cursor of a library's hits; begin without one") from error
    if form != CURSOR_FORMAT or digest != _digest(scope, doc_id):
        raise BadRequest("the cursor belongs to another query, or to another version of the library; begin without one")
    return doc_id


def _digest(scope: str, doc_id: str) -> str:
    return hashlib.sha256(f"{scope}\n{doc_id}".encode()).hexdigest()[:16]


def list_words(node: Node) -> Iterator[str]:
    """Without those behind a NOT, and without parts of words."""
    match node:
        case Not():
            return
        case Text(pattern, fields) if not WORD_FIELDS.isdisjoint(fields):
            yield from _list_pattern_words(pattern)
        case Heading(name):
            yield from (word for word in name.split() if not WILD.search(word))
    for child in children(node):
        yield from list_words(child)


def _list_pattern_words(pattern: Pattern) -> Iterator[str]:
    if isinstance(pattern, Words):
        yield from (word for word in pattern.words if not WILD.search(word))
    else:
        for part in pattern.parts:
            yield from _list_pattern_words(part)


@dataclass(frozen=True, slots=True)
class RowsLacking:
    """`possibly` holds for every row whose record lacks the part; those of them that are also `unsure` must be read to know."""

    possibly: str
    unsure: str = ""

    @property
    def surely(self) -> str:
        return f"({self.possibly}) AND ({self.unsure}) IS NOT TRUE" if self.unsure else self.possibly


def _has_key(*names: str) -> str:
    """Rows whose JSON has one of the keys somewhere. A quote within a text is escaped there, so no text looks like a key."""
    return " OR ".join(f"""contains(record, '"{name}":')""" for name in names)


def _matches(pattern: str) -> str:
    return f"regexp_like(record, {literal(pattern)})"


def _list_column(name: str) -> RowsLacking:
    """An empty text in a list is no value."""
    with_empty_text = f"array_has({name}, '')"
    return RowsLacking(f"{name} IS NULL OR {with_empty_text}", with_empty_text)


def _in_metadata(condition: str, *values: str) -> RowsLacking:
    """Rows surely have one of the values if it follows the beginning of the metadata: `[^{}]*` enters no other object.

    Of the other rows only those of the condition can have one.
    """
    pattern = r'"metadata":\{[^{}]*(' + "|".join(values) + ")"
    without = f"NOT {_matches(pattern)}"
    return RowsLacking(without, f"{without} AND ({condition})")


def _of_papers(name: str) -> RowsLacking:
    """A field that only papers have, behind their metadata; a key of the metadata means nothing."""
    value = f'"{name}":"[^"]'
    with_metadata, without_metadata = _matches(r'"metadata":\{[^{}]*\}[^{}]*' + value), _matches(value)
    has_value = f"({with_metadata} OR ({without_metadata} AND NOT {_has_key('metadata')}))"
    without = f"NOT (kind = 'paper' AND {has_value})"
    return RowsLacking(without, f"{without} AND ({_has_key(name)})")


ROWS_LACKING: Mapping[RecordPart, RowsLacking] = {
    "year": RowsLacking("year IS NULL"),
    "headings": RowsLacking("mesh IS NULL", f"mesh IS NULL AND {_has_key('mesh_qualified')}"),
    "qualifiers": _in_metadata(
        f"mesh IS NOT NULL AND contains(array_to_string(mesh, ' '), '/') OR {_has_key('mesh_qualified')}",
        r'"mesh_qualified":\["[^"/]*/[A-Za-z]',
    ),
    Field.TITLE: RowsLacking("title IS NULL"),
    Field.ABSTRACT: RowsLacking("exact_abstract IS NULL"),
    Field.BODY: RowsLacking("text IS NULL AND exact_text IS NULL"),
    Field.KEYWORDS: _list_column("tags"),
    Field.AUTHOR: _list_column("authors"),
    Field.JOURNAL: RowsLacking("venue IS NULL", f"venue IS NULL AND ({_has_key(*JOURNAL_KEYS)})"),
    Field.LANGUAGE: RowsLacking("language IS NULL"),
    Field.PUBLICATION_TYPE: _in_metadata(_has_key("publication_types", "type"), r'"publication_types":\["[^"]', '"type":"[^"]'),
    Field.PMID: RowsLacking("pmid IS NULL"),
    Field.DOI: RowsLacking("doi IS NULL"),
    Field.VOLUME: _of_papers("volume"),
    Field.ISSUE: _of_papers("issue"),
    Field.PAGES: _of_papers("pages"),
}
"""As `boolean.document.lacks` decides for a record."""

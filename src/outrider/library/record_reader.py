"""Reading records by id, by page and in one stream, in the order of their ids."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from outrider.library.filter_sql import any_of, to_sql
from outrider.library.schema import BRIEF, FULL, brief_records, full_records
from outrider.library.text_search import ALL_ROWS
from outrider.state.filters import And, Compare, Filter
from outrider.state.records import Record

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.table import AsyncTable

CHUNK = 500
"""Ids that one condition names."""


async def columns_of(table: AsyncTable, doc_ids: Sequence[str], columns: Sequence[str]) -> AsyncIterator[dict[str, Any]]:
    """A row for each id that the table holds, in no particular order."""
    for chunk in chunks(dict.fromkeys(doc_ids)):
        asked = table.query().where(any_of("doc_id", chunk)).select(list(columns)).limit(ALL_ROWS)
        for row in (await asked.to_arrow()).to_pylist():
            yield row


async def fetch(table: AsyncTable, doc_ids: Sequence[str]) -> list[Record]:
    rows = [row async for row in columns_of(table, doc_ids, FULL)]
    records = {record.doc_id: record for record in full_records(_columns(rows))}
    return [records[doc_id] for doc_id in doc_ids if doc_id in records]


async def brief(table: AsyncTable, doc_ids: Sequence[str], where: Filter | None) -> list[Record]:
    records: dict[str, Record] = {}
    for chunk in chunks(dict.fromkeys(doc_ids)):
        named = Compare("doc_id", "$in", tuple(chunk))
        condition = named if where is None else And((named, where))
        found = await table.query().where(to_sql(condition)).select(BRIEF).limit(ALL_ROWS).to_arrow()
        records |= {record.doc_id: record for record in brief_records(found.to_pydict())}
    return [records[doc_id] for doc_id in doc_ids if doc_id in records]


async def addresses(table: AsyncTable, where: Filter | None) -> pa.Table:
    """`doc_id` and `_rowid` of every matching record, sorted by id (code points): about 60 bytes a record."""
    asked = table.query().select(["doc_id"]).with_row_id().limit(ALL_ROWS)
    if where is not None:
        asked = asked.where(to_sql(where))
    return (await asked.to_arrow()).sort_by("doc_id")


async def at(table: AsyncTable, rows: pa.Table) -> list[Record]:
    """The records at these addresses, in their order. `table` must stand at the version that gave them."""
    if not rows.num_rows:
        return []
    found = await table.take_row_ids(rows["_rowid"].to_pylist()).select(FULL).to_arrow()
    records = {record.doc_id: record for record in full_records(found.to_pydict())}
    return [records[doc_id] for doc_id in rows["doc_id"].to_pylist()]


async def sample(table: AsyncTable, size: int, seed: int) -> list[Record]:
    """Whole records, spread evenly over the ids: one at a random place of each of `size` equal parts; all where they are fewer."""
    rows = await addresses(table, None)
    size = min(size, rows.num_rows)
    if size < 1:
        return []
    draw = random.Random(seed)  # noqa: S311 - a sample, no secret
    places = [int((part + draw.random()) * rows.num_rows / size) for part in range(size)]
    return await at(table, rows.take(places))


async def count(table: AsyncTable, where: Filter | None) -> int:
    found: int = await table.count_rows(None if where is None else to_sql(where))
    return found


def _columns(rows: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in FULL}


def chunks(items: Iterable[str]) -> Iterator[list[str]]:
    """As many as one condition names."""
    left = iter(items)
    return iter(lambda: list(islice(left, CHUNK)), [])

"""Writing records: one commit of rows, with the edges before it and those that they replace after it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from outrider.library import edges, schema
from outrider.library.location import Place
from outrider.state.records import Record

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.db import AsyncConnection
    from lancedb.table import AsyncTable


@dataclass(frozen=True, slots=True)
class Upserted:
    """How many distinct records of a batch were new, differed from what was there, or were there already."""

    added: int = 0
    updated: int = 0
    unchanged: int = 0


async def written(
    place: Place, connection: AsyncConnection, table: AsyncTable, records: Mapping[str, Record], hashes: Mapping[str, str]
) -> tuple[int, int]:
    """How many were new, and how many replaced others. Only under the lock."""
    named = await asyncio.to_thread(edges.table, list(records.values()))
    rows, former = await asyncio.gather(
        asyncio.to_thread(_rows, records, hashes, await table.schema()),
        place.committed(lambda: edges.add(connection, named, list(records))),
    )
    added, updated = await place.committed(lambda: _merge(table, rows))
    await place.committed(lambda: edges.drop(connection, former))
    return added, updated


async def _merge(table: AsyncTable, rows: pa.Table) -> tuple[int, int]:
    merge = table.merge_insert("doc_id").when_matched_update_all().when_not_matched_insert_all()
    done = await merge.execute(rows)
    return done.num_inserted_rows, done.num_updated_rows


def _rows(records: Mapping[str, Record], hashes: Mapping[str, str], columns: pa.Schema) -> pa.Table:
    import pyarrow as pa

    return pa.Table.from_pylist([schema.to_row(record, hashes[doc_id]) for doc_id, record in records.items()], schema=columns)

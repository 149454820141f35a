"""Whether the vectors agree with the records, reading both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from outrider.library import record_reader as reading
from outrider.library.maintenance import REINDEX
from outrider.library.text_search import ALL_ROWS
from outrider.library.vectors.write import VECTOR, document_text

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.table import AsyncTable

AT_ONCE = 1_000
SHOWN = 5


async def problems(records: AsyncTable, vectors: AsyncTable, model: str) -> AsyncIterator[str]:
    """What is wrong, with what mends it. `records` must stand at one version."""
    held = await vectors.query().select(["doc_id", "content_hash"]).limit(ALL_ROWS).to_arrow()
    said = await records.query().select(["doc_id", "content_hash"]).with_row_id().limit(ALL_ROWS).to_arrow()
    if bare := await _with_text(records, await asyncio.to_thread(said.join, held, "doc_id", join_type="left anti")):
        yield f"{_records(bare)} no vector of {model}; embed with: {REINDEX}, which says why where it cannot"
    there = await asyncio.to_thread(said.join, held, "doc_id", join_type="left semi")
    stale = await asyncio.to_thread(there.join, held, ["doc_id", "content_hash"], join_type="left anti")
    if stale.num_rows:
        yield f"{_records(stale.num_rows)} a vector of what it said before; embed anew with: {REINDEX}"
    strangers = await asyncio.to_thread(held.join, said, "doc_id", join_type="left anti")
    if strangers.num_rows:
        yield f"{_vectors(strangers.num_rows)} not there, as an ingest leaves them that was killed or still runs; drop them with: {REINDEX}"
    if broken := await _broken(vectors):
        names = ", ".join(map(repr, broken[:SHOWN])) + (", ..." if len(broken) > SHOWN else "")
        yield f"{_records(len(broken))} a vector that is not of numbers, or of zeros ({names}); remove and ingest again"


def _records(count: int) -> str:
    return "1 record has" if count == 1 else f"{count:,} records have"


def _vectors(count: int) -> str:
    return "1 vector is of a record that is" if count == 1 else f"{count:,} vectors are of records that are"


async def _with_text(records: AsyncTable, rows: pa.Table) -> int:
    """How many of these hold something to embed."""
    found = 0
    for start in range(0, rows.num_rows, AT_ONCE):
        found += sum(bool(document_text(record)) for record in await reading.at(records, rows.slice(start, AT_ONCE)))
    return found


async def _broken(vectors: AsyncTable) -> list[str]:
    import numpy as np

    broken: list[str] = []
    scan = vectors.query().select(["doc_id", VECTOR]).limit(ALL_ROWS)
    async for batch in await scan.to_batches(max_batch_length=AT_ONCE):
        flat = batch.column(VECTOR).flatten().to_numpy().reshape(batch.num_rows, -1)
        sound = np.isfinite(flat).all(axis=1) & flat.any(axis=1)
        broken += [doc_id for doc_id, good in zip(batch.column("doc_id").to_pylist(), sound, strict=True) if not good]
    return sorted(broken)

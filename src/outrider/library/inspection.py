"""Inspection of a library: its counts (`library info`) and its problems (`library check`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from outrider.library import maintenance, record_table, schema, versions
from outrider.library.address_and_locks import Location
from outrider.library.citation_tables import CitationTables
from outrider.library.edges import EdgeTable
from outrider.library.metadata_tables import FileTable
from outrider.library.schema import FULL, full_records
from outrider.library.text_search import ALL_ROWS
from outrider.library.vectors.store import Vectors, VectorsInfo
from outrider.library.vectors.token_index import TokenIndex, TokenIndexInfo
from outrider.library.vectors.write import VECTOR, document_text
from outrider.state.filters import Compare

if TYPE_CHECKING:
    from lancedb.table import AsyncTable

KINDS = ("paper", "repository", "page", "document")
ROWS_AT_ONCE = 200
VECTORS_AT_ONCE = 1_000
MANY = 100
"""Rows whose problems are named; of the others only the number is."""
NAMED = 5
"""Broken vectors whose records are named."""

FIX_INDEX = "the next 'outrider ingest' rebuilds it"
FIX_ROW = "remove it with 'outrider library remove' and ingest its file again"
FIX_EDGES = f"'{maintenance.REINDEX}' writes them"
FIX_STALE_EDGES = f"'{maintenance.REINDEX}' rewrites them"
FIX_STRANGERS = f"'{maintenance.REINDEX}' drops them"


@dataclass(frozen=True, slots=True)
class LibraryInfo:
    """Counts of a library, as `outrider library info` shows them."""

    library_id: str
    uri: str
    format: int
    version: int
    records: int
    by_kind: dict[str, int]
    size_bytes: int | None
    """Of all files with old versions; None on object storage."""
    indexes: tuple[str, ...]
    unindexed_rows: int
    tags: dict[str, int]
    files: int
    edges: int
    """Of the graph, with a record's own names."""
    vectors: VectorsInfo | None
    """None where its records were never embedded."""
    token_vectors: TokenIndexInfo | None = None
    """For late interaction; None where they were never computed with the model of the vectors."""


async def collect_info(
    library_id: str, location: Location, records: AsyncTable, edges: EdgeTable, files: FileTable, vectors: Vectors, tokens: TokenIndex
) -> LibraryInfo:
    """The counts of an open library; `records` may change meanwhile."""
    space = await vectors.space()
    counts = {kind: await record_table.count_records(records, Compare("kind", "$eq", kind)) for kind in KINDS}
    return LibraryInfo(
        library_id=library_id,
        uri=location.address,
        format=schema.FORMAT,
        version=int(await records.version()),
        records=await record_table.count_records(records, None),
        by_kind={kind: count for kind, count in counts.items() if count},
        size_bytes=await location.size_bytes(),
        indexes=tuple(sorted(index.name for index in await records.list_indices())),
        unindexed_rows=await maintenance.count_unindexed_rows(records),
        tags=await versions.read_tags(records),
        files=await files.count(),
        edges=await edges.count(),
        vectors=await vectors.info(records),
        token_vectors=None if space is None else await tokens.info(space, records),
    )


async def find_problems(
    records: AsyncTable, edges: EdgeTable, vectors: Vectors, tokens: TokenIndex, citations: CitationTables
) -> tuple[str, ...]:
    """Every problem with its remedy; all rows are read. `records` must stand at one version."""
    problems: list[str] = []
    mismatch = await edges.compare(records)
    if missing := mismatch.missing.num_rows:  # every record that an Outrider without a graph wrote
        problems.append(f"{missing:,} records have no edges: the graph does not find them; {FIX_EDGES}")
    if stale := await edges.count_stale(records, mismatch.several):
        problems.append(f"{stale:,} records have edges that they do not name; {FIX_STALE_EDGES}")
    if strangers := len(mismatch.strangers):
        problems.append(f"{strangers:,} missing records have edges; {FIX_STRANGERS}")
    current = await vectors.registry.current()
    if current is not None:
        problems += [problem async for problem in _check_vectors(records, await vectors.table(current), current.space.model_name)]
    problems += await tokens.find_problems(None if current is None else current.space, records)
    problems += await citations.find_problems()
    present = {column for index in await records.list_indices() for column in index.columns}
    for column, _ in await maintenance.plan_indexes(records):
        if column not in present:
            problems.append(f"the index on {column} is missing; {FIX_INDEX}")
        elif reason := await maintenance.read_index_error(records, column):
            problems.append(f"the index on {column} cannot be read ({reason}); {FIX_INDEX}")
    rows = [problem async for problem in _check_rows(records)]
    return (*problems, *rows[:MANY], *([f"{len(rows) - MANY} more rows have problems"] if len(rows) > MANY else []))


async def _check_vectors(records: AsyncTable, vectors: AsyncTable, model: str) -> AsyncIterator[str]:
    """Records without a vector, outdated vectors, vectors without a record, and vectors that no search can compare."""
    reindex = maintenance.REINDEX
    stored = await vectors.query().select(["doc_id", "content_hash"]).limit(ALL_ROWS).to_arrow()
    known = await records.query().select(["doc_id", "content_hash"]).with_row_id().limit(ALL_ROWS).to_arrow()
    without_vector = await asyncio.to_thread(known.join, stored, "doc_id", join_type="left anti")
    bare = 0  # records without a vector that hold text to embed
    for start in range(0, without_vector.num_rows, VECTORS_AT_ONCE):
        batch = await record_table.read_addresses(records, without_vector.slice(start, VECTORS_AT_ONCE))
        bare += sum(bool(document_text(record)) for record in batch)
    if bare:
        yield f"{_count_records(bare)} no vector of {model}; embed with: {reindex}, which reports why it cannot"
    embedded = await asyncio.to_thread(known.join, stored, "doc_id", join_type="left semi")
    stale = await asyncio.to_thread(embedded.join, stored, ["doc_id", "content_hash"], join_type="left anti")
    if stale.num_rows:
        yield f"{_count_records(stale.num_rows)} a vector of its former text; embed it again with: {reindex}"
    strangers = (await asyncio.to_thread(stored.join, known, "doc_id", join_type="left anti")).num_rows
    if strangers:
        count = "1 vector belongs to a missing record" if strangers == 1 else f"{strangers:,} vectors belong to missing records"
        yield f"{count}, as after an ingest that was killed or still runs; drop them with: {reindex}"
    if broken := await _find_broken(vectors):
        names = ", ".join(map(repr, broken[:NAMED])) + (", ..." if len(broken) > NAMED else "")
        problem = f"a vector with values that are not numbers, or with zeros only ({names})"
        yield f"{_count_records(len(broken))} {problem}; remove and ingest again"


def _count_records(count: int) -> str:
    return "1 record has" if count == 1 else f"{count:,} records have"


async def _find_broken(vectors: AsyncTable) -> list[str]:
    """Ids whose vector has values that are no numbers, or only zeros, sorted."""
    import numpy as np

    broken: list[str] = []
    scan = vectors.query().select(["doc_id", VECTOR]).limit(ALL_ROWS)
    async for batch in await scan.to_batches(max_batch_length=VECTORS_AT_ONCE):
        flat = batch.column(VECTOR).flatten().to_numpy().reshape(batch.num_rows, -1)
        sound = np.isfinite(flat).all(axis=1) & flat.any(axis=1)
        broken += [doc_id for doc_id, good in zip(batch.column("doc_id").to_pylist(), sound, strict=True) if not good]
    return sorted(broken)


async def _check_rows(records: AsyncTable) -> AsyncIterator[str]:
    ids: set[str] = set()
    scan = records.query().select(["doc_id", "kind", "content_hash", *FULL]).limit(ALL_ROWS)
    async for batch in await scan.to_batches(max_batch_length=ROWS_AT_ONCE):
        for row in batch.to_pylist():
            if row["doc_id"] in ids:
                yield f"record {row['doc_id']!r} is stored twice; {FIX_ROW}"
            ids.add(row["doc_id"])
            reason = ""
            try:
                (record,) = full_records({name: [row[name]] for name in FULL})
            except ValidationError as error:
                reason = f"cannot be read ({error.errors()[0]['msg']})"
            else:
                if (record.doc_id, record.kind) != (row["doc_id"], row["kind"]):
                    reason = "holds another record's data"
                elif record.content_hash() != row["content_hash"]:
                    reason = "does not agree with its content hash"
            if reason:
                yield f"record {row['doc_id']!r} {reason}; {FIX_ROW}"

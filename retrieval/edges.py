"""The graph's table: an edge a row, from a record to what it names, written when the record is.

`relation` is what the record says of the entity `kind:name`: `is` for its own names (`doc:<doc_id>`, its identifiers), `author`,
`keyword`, `mesh`, `venue`, or the relation of an ingested edge (`cites`, `depends_on`, `adverse_effect`). So an edge `cites doi:x`
leads to the record that `is doi:x`, whichever of the two came first.

Edges are written before their record: a process that dies between leaves edges without a record, which nobody sees, never a record
without edges.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING

from outrider.retrieval import entities, upkeep
from outrider.retrieval.entities import Entity
from outrider.retrieval.opening import opened
from outrider.retrieval.reading import CHUNK
from outrider.retrieval.schema import BRIEF, brief_records
from outrider.retrieval.search import ALL_ROWS
from outrider.retrieval.sql import any_of
from outrider.state.ports import OnCount
from outrider.state.records import Record

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.db import AsyncConnection
    from lancedb.table import AsyncTable

NAME = "edges"
"""The table is made with the first record."""
IS = "is"
COLUMNS = ("doc_id", "relation", "kind", "name")
INDEXED = ("doc_id", "name")
FEW_ROWS = {"lance-encoding:structural-encoding": "fullzip"}
"""Lance's layout for reading single rows (docs: "File format, structural encoding"): half the time of a lookup among 2 million."""
KEEP = timedelta(hours=1)
REBUILT_AT_ONCE = 2_000
OWN_IDS = f"relation = '{IS}' AND kind = '{entities.RECORD}'"
"""Every record has exactly one such edge."""
FIX = "'outrider library reindex' writes them"

Row = tuple[str, str, str, str]
"""As `COLUMNS`."""


def schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema([pa.field(name, pa.string(), nullable=False, metadata=FEW_ROWS) for name in COLUMNS])


def of(record: Record) -> list[Row]:
    """The edges of a record, each once."""
    return [(record.doc_id, relation, node.kind, node.name) for relation, node in dict.fromkeys(_named(record)) if node]


def _named(record: Record) -> Iterator[tuple[str, Entity | None]]:
    yield IS, Entity(entities.RECORD, record.doc_id)
    for scheme, value in record.identifiers.pairs():
        yield IS, entities.entity(scheme, value)
    for name in record.authors:
        yield "author", entities.entity("author", name)
    for tag in record.tags:
        yield "keyword", entities.entity("keyword", tag)
    for heading in _headings(record):
        yield "mesh", entities.entity("mesh", heading)
    if record.venue:
        yield "venue", entities.entity("venue", record.venue)
    for edge in record.edges:
        relation = _plain(edge.relation)
        yield relation, entities.parsed(edge.target, relation)


@lru_cache(maxsize=1_000)
def _plain(relation: str) -> str:
    return "_".join(relation.lower().split())


def _headings(record: Record) -> Iterator[str]:
    """MeSH terms as given and, where qualified (`Aspirin/adverse effects`), the heading alone as well."""
    qualified = record.metadata.get("mesh_qualified")
    listed = [term for term in qualified if isinstance(term, str)] if isinstance(qualified, list) else []
    for term in (*getattr(record, "mesh", ()), *listed):
        yield term
        heading, slash, _ = term.partition("/")
        if slash:
            yield heading


def table(records: Iterable[Record]) -> pa.Table:
    import pyarrow as pa

    listed = [row for record in records for row in of(record)]
    return pa.table([pa.array([row[at] for row in listed], pa.string()) for at in range(len(COLUMNS))], schema=schema())


async def write(connection: AsyncConnection, new: pa.Table, replaced: Sequence[str]) -> None:
    """Append the edges of records, without those that `replaced` records had before."""
    held = await opened(connection, NAME) or await _made(connection)
    await _delete(held, replaced)
    await held.add(new)


async def rows(held: AsyncTable, where: str, limit: int) -> list[Row]:
    found = await held.query().where(where).select(list(COLUMNS)).limit(limit).to_arrow()
    return list(zip(*(found[name].to_pylist() for name in COLUMNS), strict=True))


async def count(connection: AsyncConnection) -> int:
    held = await opened(connection, NAME)
    return 0 if held is None else await held.count_rows()


async def remove(connection: AsyncConnection, doc_ids: Sequence[str]) -> None:
    held = await opened(connection, NAME)
    if held is not None:
        await _delete(held, doc_ids)


async def _delete(held: AsyncTable, doc_ids: Sequence[str]) -> None:
    for start in range(0, len(doc_ids), CHUNK):
        await held.delete(any_of("doc_id", doc_ids[start : start + CHUNK]))


async def _made(connection: AsyncConnection) -> AsyncTable:
    """Indexed from the start: a lookup never scans more than what was added since the last upkeep."""
    from lancedb.index import BTree

    held = await connection.create_table(NAME, schema=schema(), exist_ok=True)
    for column in INDEXED:
        await held.create_index(column, config=BTree())
    return held


async def rebuild(connection: AsyncConnection, records: AsyncTable, progress: OnCount | None = None) -> int:
    """Write all edges anew from the records; how many records were read. Until the end readers see part of the graph."""
    await connection.create_table(NAME, schema=schema(), mode="overwrite")
    held = await _made(connection)
    done, total = 0, await records.count_rows()
    scan = records.query().select(BRIEF).limit(ALL_ROWS)
    async for batch in await scan.to_batches(max_batch_length=REBUILT_AT_ONCE):
        read = brief_records(batch.to_pydict())
        await held.add(table(read))
        done += len(read)
        if progress is not None:
            progress(done, total)
    await held.optimize(cleanup_older_than=KEEP)
    return done


async def compact(connection: AsyncConnection, force: bool = False) -> None:
    """Where due: fold new rows into the indexes, merge small files, drop old versions, which no reader holds for long."""
    held = await opened(connection, NAME)
    if held is not None and (force or await upkeep.due(held)):
        await held.optimize(cleanup_older_than=KEEP)


async def problems(connection: AsyncConnection, records: AsyncTable) -> tuple[str, ...]:
    """Whether records lack edges, as all do that an Outrider without a graph wrote."""
    import pyarrow.compute as pc

    ids = (await records.query().select(["doc_id"]).limit(ALL_ROWS).to_arrow())["doc_id"]
    held = await opened(connection, NAME)
    known = None if held is None else await held.query().where(OWN_IDS).select(["doc_id"]).limit(ALL_ROWS).to_arrow()
    missing = len(ids) if known is None else pc.sum(pc.invert(pc.is_in(ids, value_set=known["doc_id"]))).as_py() or 0
    return (f"{missing:,} records have no edges: the graph does not find them; {FIX}",) if missing else ()

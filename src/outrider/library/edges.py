"""The graph's table: an edge a row, from a record to what it names, written when the record is.

`relation` is what the record says of the entity `kind:name`: `is` for its own names (`doc:<doc_id>`, its identifiers), `author`,
`keyword`, `mesh`, `venue`, or the relation of an ingested edge (`cites`, `depends_on`, `adverse_effect`). So an edge `cites doi:x`
leads to the record that `is doi:x`, whichever of the two came first.

New edges are added before their record is written, and those that it had go after that. So a process that dies between leaves edges of
what no record says, never a record without edges: `problems` tells them, `mend` and the record's next change clear them away.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from outrider.library import entities
from outrider.library import maintenance as upkeep
from outrider.library.entities import Entity
from outrider.library.filter_sql import any_of
from outrider.library.open_tables import opened
from outrider.library.record_reader import CHUNK, chunks
from outrider.library.schema import WITH_EDGES, records_with_edges
from outrider.library.text_search import ALL_ROWS
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
MENDED_AT_ONCE = 2_000
OWN_IDS = f"relation = '{IS}' AND kind = '{entities.RECORD}'"
"""Every record has exactly one such edge; it has several only between the two steps of a write."""
FIX = f"'{upkeep.REINDEX}' writes them"
FIX_STALE = f"'{upkeep.REINDEX}' writes them anew"
FIX_STRANGERS = f"'{upkeep.REINDEX}' drops them"

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


@dataclass(frozen=True, slots=True)
class Former:
    """The edges that these records had: all of theirs up to the row `last`. What is added later has higher row ids."""

    doc_ids: Sequence[str]
    last: int


async def add(connection: AsyncConnection, new: pa.Table, doc_ids: Sequence[str]) -> Former:
    """Append all edges of these records; what is given back is for `drop`, once the records are written."""
    held = await opened(connection, NAME) or await _made(connection)
    former = await _former(held, doc_ids)
    await held.add(new)
    return former


async def _former(held: AsyncTable, doc_ids: Sequence[str]) -> Former:
    """Asks the table, not the records: a process that died may have left edges of a record that was never written."""
    had: set[str] = set()
    last = -1
    for chunk in chunks(doc_ids):
        found = await held.query().where(any_of("doc_id", chunk)).select(["doc_id"]).with_row_id().limit(ALL_ROWS).to_arrow()
        had.update(found["doc_id"].to_pylist())
        last = max(last, *found["_rowid"].to_pylist(), -1)
    return Former(sorted(had), last)


async def drop(connection: AsyncConnection, former: Former) -> None:
    held = await opened(connection, NAME)
    if held is not None:
        await _delete(held, former.doc_ids, f" AND _rowid <= {former.last}")


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


async def _delete(held: AsyncTable, doc_ids: Sequence[str], condition: str = "") -> None:
    for chunk in chunks(doc_ids):
        await held.delete(any_of("doc_id", chunk) + condition)


async def _made(connection: AsyncConnection) -> AsyncTable:
    """Indexed from the start: a lookup never scans more than what was added since the last upkeep."""
    from lancedb.index import BTree

    held = await connection.create_table(NAME, schema=schema(), exist_ok=True)
    for column in INDEXED:
        await held.create_index(column, config=BTree())
    return held


async def compact(connection: AsyncConnection, force: bool = False) -> None:
    """Where due: fold new rows into the indexes, merge small files, drop old versions, which no reader holds for long."""
    held = await opened(connection, NAME)
    if held is not None and (force or await upkeep.due(held)):
        await held.optimize(cleanup_older_than=upkeep.KEEP_BESIDE)


@dataclass(frozen=True, slots=True)
class Amiss:
    """Where edges and records do not agree, as far as ids tell: `doc_id` and `_rowid` of records, ids of others."""

    missing: pa.Table
    several: pa.Table
    """Records whose edges were written more than once: by a process that died, or two that shared no lock."""
    strangers: list[str]
    """Not there, and yet with edges."""


async def amiss(connection: AsyncConnection, records: AsyncTable) -> Amiss:
    """Reads only ids. `records` must stand at one version."""
    import pyarrow as pa
    import pyarrow.compute as pc

    said = await records.query().select(["doc_id"]).with_row_id().limit(ALL_ROWS).to_arrow()
    held = await opened(connection, NAME)
    if held is None:
        return Amiss(said, said.slice(0, 0), [])
    own = await held.query().where(OWN_IDS).select(["doc_id"]).limit(ALL_ROWS).to_arrow()
    counts = pa.TableGroupBy(own, "doc_id").aggregate([([], "count_all")])
    strangers = counts.join(said, "doc_id", join_type="left anti")["doc_id"]
    return Amiss(
        missing=said.join(counts, "doc_id", join_type="left anti").sort_by("_rowid"),
        several=said.join(counts.filter(pc.field("count_all") > 1), "doc_id", join_type="left semi").sort_by("_rowid"),
        strangers=sorted(strangers.to_pylist()),
    )


async def mend(connection: AsyncConnection, records: AsyncTable, progress: OnCount | None = None) -> int:
    """Give every record its edges, and nothing else any; how many records needed it. Only under the library's lock.

    A run that is killed goes on when it is started again.
    """
    import pyarrow as pa

    found = await amiss(connection, records)
    wrong = pa.concat_tables([found.missing, found.several])
    total: int = wrong.num_rows
    for start in range(0, total, MENDED_AT_ONCE):
        read = await _read(records, wrong.slice(start, MENDED_AT_ONCE))
        await drop(connection, await add(connection, table(read), [record.doc_id for record in read]))
        if progress is not None:
            progress(start + len(read), total)
    await remove(connection, found.strangers)
    await compact(connection)
    return total


async def _read(records: AsyncTable, rows: pa.Table) -> list[Record]:
    """Bodies cut: no edge comes from them."""
    found = await records.take_row_ids(rows["_rowid"].to_pylist()).select(WITH_EDGES).to_arrow()
    return records_with_edges(found.to_pydict())


async def problems(connection: AsyncConnection, records: AsyncTable) -> tuple[str, ...]:
    """Records that lack edges, as all do that an Outrider without a graph wrote, and edges of what no record says."""
    found = await amiss(connection, records)
    said = []
    if missing := found.missing.num_rows:
        said.append(f"{missing:,} records have no edges: the graph does not find them; {FIX}")
    if stale := await _stale(connection, records, found.several):
        said.append(f"{stale:,} records have edges of what they do not say; {FIX_STALE}")
    if strangers := len(found.strangers):
        said.append(f"{strangers:,} records that are not there have edges; {FIX_STRANGERS}")
    return tuple(said)


async def _stale(connection: AsyncConnection, records: AsyncTable, several: pa.Table) -> int:
    """How many of these have edges that are not theirs; the same edges twice do no harm."""
    held = await opened(connection, NAME)
    if held is None:
        return 0
    stale = 0
    for start in range(0, several.num_rows, CHUNK):
        part = several.slice(start, CHUNK)
        found: defaultdict[str, set[Row]] = defaultdict(set)
        for row in await rows(held, any_of("doc_id", part["doc_id"].to_pylist()), ALL_ROWS):
            found[row[0]].add(row)
        stale += sum(found[record.doc_id] != set(of(record)) for record in await _read(records, part))
    return stale

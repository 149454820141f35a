"""Edges of the graph: the table of entities that records name, written with each record.

`relation` is `is` for a record's own names (`doc:<doc_id>`, its identifiers), `author`, `keyword`, `classifier`, `mesh`, `venue`, or the
relation of an ingested edge (`cites`, `depends_on`, `adverse_effect`). So an edge `cites doi:x` leads to the record that `is doi:x`,
whichever of the two came first.

New edges are added before their record is written, and its former edges are removed after that. So a process that dies between these
steps leaves edges that no record names, never a record without edges: `EdgeTable.compare` finds them, `EdgeTable.mend` and the record's
next change remove them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from outrider.library import maintenance
from outrider.library.address_and_locks import Location
from outrider.library.copies.ask_table import ask_table
from outrider.library.entity_names import RECORD, Entity, make_entity, parse_entity
from outrider.library.filter_sql import in_list
from outrider.library.record_table import CHUNK, KeptTable, chunk_ids, open_table
from outrider.library.schema import WITH_EDGES, records_with_edges
from outrider.library.text_search import ALL_ROWS
from outrider.state.ports import OnCount
from outrider.state.records import Record

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.db import AsyncConnection
    from lancedb.table import AsyncTable

NAME = "edges"
"""The table is created with the first record."""
IS = "is"
CLASSIFIER = "classifier"
"""Relation of a package to a keyword that it has from a classifier of PyPI."""
COLUMNS = ("doc_id", "relation", "kind", "name")
INDEXED = ("doc_id", "name")
FEW_ROWS = {"lance-encoding:structural-encoding": "fullzip"}
"""Lance's layout for reading single rows (docs: "File format, structural encoding"): half the time of a lookup among 2 million."""
MENDED_AT_ONCE = 2_000
OWN_IDS = f"relation = '{IS}' AND kind = '{RECORD}'"
"""Every record has exactly one such edge; it has several only between the two steps of a write."""

EdgeRow = tuple[str, str, str, str]
"""As `COLUMNS`."""


def list_edges(record: Record) -> list[EdgeRow]:
    """The edges of a record, each once."""
    entities: list[tuple[str, Entity | None]] = [(IS, Entity(RECORD, record.doc_id))]
    entities += [(IS, make_entity(scheme, value)) for scheme, value in record.identifiers.pairs()]
    entities += [("author", make_entity("author", name)) for name in record.authors]
    classifiers = _list_classifiers(record)
    entities += [(CLASSIFIER if tag in classifiers else "keyword", make_entity("keyword", tag)) for tag in record.tags]
    qualified = record.metadata.get("mesh_qualified")
    listed = [term for term in qualified if isinstance(term, str)] if isinstance(qualified, list) else []
    for term in (*getattr(record, "mesh", ()), *listed):
        entities.append(("mesh", make_entity("mesh", term)))
        heading, slash, _ = term.partition("/")
        if slash:  # qualified, such as `Aspirin/adverse effects`: the heading alone as well
            entities.append(("mesh", make_entity("mesh", heading)))
    if record.venue:
        entities.append(("venue", make_entity("venue", record.venue)))
    for edge in record.edges:
        relation = "_".join(edge.relation.lower().split())
        entities.append((relation, parse_entity(edge.target, relation)))
    return [(record.doc_id, relation, node.kind, node.name) for relation, node in dict.fromkeys(entities) if node]


def _list_classifiers(record: Record) -> frozenset[str]:
    """The tags that a package has from its classifiers, such as `Internet / WWW/HTTP` from `Topic :: Internet :: WWW/HTTP`."""
    lines = record.metadata.get("classifiers")
    return frozenset(" / ".join(str(line).split(" :: ")[1:]) for line in lines) if isinstance(lines, list) else frozenset()


def build_table(records: Iterable[Record]) -> pa.Table:
    """The edges of these records, with the columns `COLUMNS`."""
    import pyarrow as pa

    rows = [row for record in records for row in list_edges(record)]
    return pa.table([pa.array([row[at] for row in rows], pa.string()) for at in range(len(COLUMNS))], schema=_build_schema())


def _build_schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema([pa.field(name, pa.string(), nullable=False, metadata=FEW_ROWS) for name in COLUMNS])


@dataclass(frozen=True, slots=True)
class FormerEdges:
    """The edges that these records had: all of theirs up to the row `last`. Edges added later have higher row ids."""

    doc_ids: Sequence[str]
    last: int


@dataclass(frozen=True, slots=True)
class EdgeMismatch:
    """Disagreement of edges and records, as far as ids show: `doc_id` and `_rowid` of records, ids of others."""

    missing: pa.Table
    several: pa.Table
    """Records whose edges were written more than once: by a process that died or lost its lease."""
    strangers: list[str]
    """Ids that have edges and no record."""


class EdgeTable:
    """The edges of one library. Every method that writes needs the library's lock."""

    def __init__(self, location: Location, connection: AsyncConnection) -> None:
        self._connection = connection
        self._kept = KeptTable(location, connection, NAME, listed=False)

    def close(self) -> None:
        self._kept.close()

    async def reader(self) -> AsyncTable | None:
        """A handle for lookups at the latest version; None where the table does not exist."""
        return await self._kept.open()

    async def count(self) -> int:
        table = await self._open()
        return 0 if table is None else await table.count_rows()

    async def add(self, edges: pa.Table, doc_ids: Sequence[str]) -> FormerEdges:
        """Append all edges of these records; give the result to `drop` once the records are written.

        The former edges are those of the table, not of the records: a process that died may have left edges of a record that was
        never written.
        """
        from lancedb.index import BTree

        table = await self._open()
        if table is None:
            table = await self._connection.create_table(NAME, schema=_build_schema(), exist_ok=True)
            # Indexed from the start: a lookup never scans more than was added since the last maintenance.
            for column in INDEXED:
                await table.create_index(column, config=BTree())
        former: set[str] = set()
        last = -1
        for chunk in chunk_ids(doc_ids):
            rows = await table.query().where(in_list("doc_id", chunk)).select(["doc_id"]).with_row_id().limit(ALL_ROWS).to_arrow()
            former.update(rows["doc_id"].to_pylist())
            last = max(last, *rows["_rowid"].to_pylist(), -1)
        await table.add(edges)
        return FormerEdges(sorted(former), last)

    async def drop(self, former: FormerEdges) -> None:
        await self.remove(former.doc_ids, f" AND _rowid <= {former.last}")

    async def remove(self, doc_ids: Sequence[str], condition: str = "") -> None:
        """Remove the edges of these records, or those that fit a further condition (SQL that begins with AND)."""
        table = await self._open()
        if table is not None:
            for chunk in chunk_ids(doc_ids):
                await table.delete(in_list("doc_id", chunk) + condition)

    async def compact(self, force: bool = False) -> None:
        """Where due: fold new rows into the indexes, merge small files, drop old versions, which no reader holds for long."""
        table = await self._open()
        if table is not None and (force or await maintenance.due(table)):
            await table.optimize(cleanup_older_than=maintenance.KEEP_METADATA)

    async def compare(self, records: AsyncTable) -> EdgeMismatch:
        """Compare ids of edges and records. `records` must stand at one version."""
        import pyarrow as pa
        import pyarrow.compute as pc

        known = await records.query().select(["doc_id"]).with_row_id().limit(ALL_ROWS).to_arrow()
        table = await self._open()
        if table is None:
            return EdgeMismatch(known, known.slice(0, 0), [])
        own = await table.query().where(OWN_IDS).select(["doc_id"]).limit(ALL_ROWS).to_arrow()
        counts = pa.TableGroupBy(own, "doc_id").aggregate([([], "count_all")])
        strangers = counts.join(known, "doc_id", join_type="left anti")["doc_id"]
        return EdgeMismatch(
            missing=known.join(counts, "doc_id", join_type="left anti").sort_by("_rowid"),
            several=known.join(counts.filter(pc.field("count_all") > 1), "doc_id", join_type="left semi").sort_by("_rowid"),
            strangers=sorted(strangers.to_pylist()),
        )

    async def count_stale(self, records: AsyncTable, several: pa.Table) -> int:
        """How many of the records `several` have edges that they do not name; the same edges twice do no harm."""
        table = await self._open()
        if table is None:
            return 0
        stale = 0
        for start in range(0, several.num_rows, CHUNK):
            part = several.slice(start, CHUNK)
            edges: defaultdict[str, set[EdgeRow]] = defaultdict(set)
            for row in await read_edges(table, in_list("doc_id", part["doc_id"].to_pylist()), ALL_ROWS):
                edges[row[0]].add(row)
            stale += sum(edges[record.doc_id] != set(list_edges(record)) for record in await _read_records(records, part))
        return stale

    async def mend(self, records: AsyncTable, progress: OnCount | None = None) -> int:
        """Write the edges of every record anew where they are missing or doubled, and remove all others; the number of records mended.

        A run that is killed continues when it is started again.
        """
        import pyarrow as pa

        mismatch = await self.compare(records)
        wrong = pa.concat_tables([mismatch.missing, mismatch.several])
        total: int = wrong.num_rows
        for start in range(0, total, MENDED_AT_ONCE):
            batch = await _read_records(records, wrong.slice(start, MENDED_AT_ONCE))
            await self.drop(await self.add(build_table(batch), [record.doc_id for record in batch]))
            if progress is not None:
                progress(start + len(batch), total)
        await self.remove(mismatch.strangers)
        await self.compact()
        return total

    async def _open(self) -> AsyncTable | None:
        return await open_table(self._connection, NAME)


async def read_edges(table: AsyncTable, where: str, limit: int) -> list[EdgeRow]:
    """Edges that fit a condition of SQL over `COLUMNS`, in no order."""

    async def read(table: AsyncTable) -> pa.Table:
        return await table.query().where(where).select(list(COLUMNS)).limit(limit).to_arrow()

    rows = await ask_table(table, read)
    return list(zip(*(rows[name].to_pylist() for name in COLUMNS), strict=True))


async def _read_records(records: AsyncTable, rows: pa.Table) -> list[Record]:
    """Bodies cut: no edge comes from them."""
    columns = await records.take_row_ids(rows["_rowid"].to_pylist()).select(WITH_EDGES).to_arrow()
    return records_with_edges(columns.to_pydict())

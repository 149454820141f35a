"""The table of records: creation, reading by id, by page and by sample, and writing.

Reading functions take any table with a column `doc_id`, at its latest version or at an earlier one.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from outrider.library import maintenance, schema
from outrider.library.address_and_locks import TABLE, Location
from outrider.library.copies.ask_table import ask_table
from outrider.library.filter_sql import in_list, literal, to_sql
from outrider.library.record_cache import TableState, read_times
from outrider.library.schema import BRIEF, FULL, brief_records, full_records
from outrider.library.text_search import ALL_ROWS
from outrider.runtime.run_reads import read_once
from outrider.state.errors import LibraryCorrupt, LibraryTooNew, LibraryTooOld
from outrider.state.filters import And, Compare, Filter
from outrider.state.notices import is_retracted, list_notices
from outrider.state.records import Record

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.db import AsyncConnection
    from lancedb.table import AsyncTable

CHUNK = 500
"""Ids that one condition names."""
NOTICE_WORDS = "(?i)retract|withdraw|removal"
"""One of these is in every record with a notice of retraction."""


async def open_table(connection: AsyncConnection, name: str = TABLE) -> AsyncTable | None:
    """A table of the library, None where it has none of that name."""
    try:
        table = await connection.open_table(name)
    except ValueError as error:
        if "was not found" in str(error):
            return None
        raise
    return _as_library_table(table)


async def open_kept_table(connection: AsyncConnection, name: str = TABLE) -> AsyncTable | None:
    """As `open_table`, for a handle that stays open for reads of the latest version: on object storage, writers refresh it."""
    table = await open_table(connection, name)
    storage = getattr(connection, "storage", None)
    if table is not None and storage is not None:
        from outrider.library.lance_table import LibraryTable, RowCache

        storage.handles.add(table)
        if isinstance(table, LibraryTable):
            table.local_copy = connection.find_copy(name)  # type: ignore[attr-defined]
            table.storage = storage if name == TABLE else None
            # with exact reads, it would ask for the version twice
            table.rows = RowCache() if storage.interval_s and table.has_addresses else None
    return table


async def open_standing_table(connection: AsyncConnection) -> AsyncTable | None:
    """The records on object storage at the version that is the latest now, where this handle stays.

    `connection` never asks for a later one, and opens the version that it opened last in one request.
    """
    table = await open_table(connection)
    if table is not None:
        from outrider.library.lance_table import LibraryTable, RowCache

        if isinstance(table, LibraryTable):
            table.storage, table.local_copy, table.rows = connection.storage, connection.find_copy(TABLE), RowCache()  # type: ignore[attr-defined]
    return table


async def open_listed_table(connection: AsyncConnection, name: str) -> AsyncTable | None:
    """As `open_kept_table`; which tables there are, a run asks once."""
    names = await read_once(("tables", id(connection)), lambda: _list_names(connection))
    return None if names is not None and name not in names else await open_kept_table(connection, name)


async def find_write_times(location: Location) -> Mapping[str, int]:
    """When a version of each table was last written, by its name, of a library in a folder. A run looks once.

    It looks at all tables at once: a thread for each of ten reads takes 3 % of the time of a warm search.
    """
    path = location.path
    return {} if path is None else await read_once(("written", path), lambda: asyncio.to_thread(read_times, path))


class KeptTable:
    """A handle of a table beside the records, opened once for all reads of the latest version.

    A library in a folder may be deleted and created anew meanwhile: a handle reads the new table of its name, but has to be opened again
    once there is none, and a new table may have the version number of the old one.
    """

    def __init__(self, location: Location, connection: AsyncConnection, name: str, *, listed: bool = True) -> None:
        """A `listed` one, which most libraries lack, is looked up among the names of the tables, which a run asks for once."""
        self._location = location
        self._connection = connection
        self._open_new = open_listed_table if listed else open_kept_table
        self.name = name
        self.handle: AsyncTable | None = None
        self._written_ns: int | None = None

    def close(self) -> None:
        if self.handle is not None:
            self.handle.close()  # type: ignore[no-untyped-call]

    async def open(self) -> AsyncTable | None:
        """None where nothing is stored; `LibraryMissing` where the folder of the library is gone."""
        self._written_ns = (await find_write_times(self._location)).get(self.name)
        if self.handle is not None and self._location.path is not None and self._written_ns is None:
            if await self._location.find_state() != "library":
                raise self._location.missing_error()
            self.handle = None  # not closed: another read may be under way
        if self.handle is None:
            self.handle = await self._open_new(self._connection, self.name)
        return self.handle

    async def find_state(self, table: AsyncTable) -> TableState:
        """Of the table that `open` returned last."""
        return TableState(int(await table.version()), self._written_ns)


async def _list_names(connection: AsyncConnection) -> frozenset[str] | None:
    """None where they cannot be listed: opening one then says what is wrong."""
    try:
        return frozenset((await connection.list_tables()).tables)
    except (RuntimeError, OSError, ValueError):
        return None


async def create_table(location: Location, connection: AsyncConnection) -> AsyncTable:
    """A new table with its indexes, or the one that another process created meanwhile."""
    async with location.write():
        table = await open_table(connection)
        if table is None and location.path is not None and await location.find_state() == "library":
            raise LibraryCorrupt(f"the library at {location.address} is damaged: its table has no readable version; restore it from a copy")
        if table is None:
            table = await connection.create_table(TABLE, schema=schema.build_schema(uuid.uuid4().hex))
        await maintenance.ensure_indexes(table)
    kept = None if location.path is not None else await open_kept_table(connection)
    return kept or _as_library_table(table)


def _as_library_table(table: AsyncTable) -> AsyncTable:
    from outrider.library.lance_table import as_library_table

    return as_library_table(table)


def read_library_id(location: Location, columns: pa.Schema) -> str:
    """Of the table with this schema; an error where this Outrider cannot read its format."""
    metadata: dict[str, str] = {key.decode(): value.decode() for key, value in (columns.metadata or {}).items()}
    if schema.FORMAT_KEY not in metadata:
        raise location.foreign_error()
    if int(metadata[schema.FORMAT_KEY]) < schema.FORMAT:
        raise LibraryTooOld(
            f"the library at {location.address} has format {metadata[schema.FORMAT_KEY]}, from before the first release, and this Outrider "
            f"reads format {schema.FORMAT}: a search would miss records; ingest its files into a new folder (outrider ingest ... --library)"
        )
    if int(metadata[schema.FORMAT_KEY]) > schema.FORMAT:
        raise LibraryTooNew(
            f"the library at {location.address} has format {metadata[schema.FORMAT_KEY]}, this Outrider reads up to {schema.FORMAT}; "
            "update Outrider (pip install -U outrider; in a clone: git pull && make install) or name another library"
        )
    return metadata[schema.ID_KEY]


def build_rows(records: Mapping[str, Record], hashes: Mapping[str, str], columns: pa.Schema) -> pa.Table:
    """Rows of records by id, with the columns that the library has: an earlier Outrider created fewer."""
    import pyarrow as pa

    return pa.Table.from_pylist([schema.to_row(record, hashes[doc_id]) for doc_id, record in records.items()], schema=columns)


async def merge_rows(table: AsyncTable, rows: pa.Table) -> tuple[int, int]:
    """How many were new, and how many replaced others. Only under the lock."""
    merge = table.merge_insert("doc_id").when_matched_update_all().when_not_matched_insert_all()
    done = await merge.execute(rows)
    return done.num_inserted_rows, done.num_updated_rows


async def read_columns(table: AsyncTable, doc_ids: Sequence[str], columns: Sequence[str]) -> AsyncIterator[dict[str, Any]]:
    """A row for each id that the table holds, in no particular order."""
    for chunk in chunk_ids(dict.fromkeys(doc_ids)):
        query = table.query().where(in_list("doc_id", chunk)).select(list(columns)).limit(ALL_ROWS)
        for row in (await query.to_arrow()).to_pylist():
            yield row


async def read_content_hashes(table: AsyncTable, doc_ids: Sequence[str]) -> dict[str, str]:
    """Stored content hashes by id; ids without a row are missing."""
    rows = read_columns(table, doc_ids, ["doc_id", "content_hash"])
    return {row["doc_id"]: row["content_hash"] async for row in rows}


async def read_records(table: AsyncTable, doc_ids: Sequence[str]) -> list[Record]:
    """Whole records in the order of the ids; missing ones are left out."""
    rows = [row async for row in read_columns(table, doc_ids, FULL)]
    records = {record.doc_id: record for record in full_records({name: [row[name] for row in rows] for name in FULL})}
    return [records[doc_id] for doc_id in doc_ids if doc_id in records]


async def find_retracted(table: AsyncTable) -> tuple[str, ...]:
    """Ids of retracted and withdrawn records, in order. Only records with a word of a notice are parsed."""
    doc_ids: list[str] = []
    reader = await table.query().where(f"regexp_like(record, {literal(NOTICE_WORDS)})").select(BRIEF).limit(ALL_ROWS).to_batches()
    async for batch in reader:
        records = await asyncio.to_thread(brief_records, batch.to_pydict())
        doc_ids += [record.doc_id for record in records if is_retracted(list_notices(record))]
    return tuple(sorted(doc_ids))


async def find_languages(table: AsyncTable) -> tuple[str, ...]:
    """The different texts in the column of languages, in order."""
    rows = await table.query().where("language IS NOT NULL").select(["language"]).limit(ALL_ROWS).to_arrow()
    return tuple(sorted(rows["language"].unique().to_pylist()))


async def read_brief_records(table: AsyncTable, doc_ids: Sequence[str], where: Filter | None) -> list[Record]:
    """Records with a cut body and without edges, in the order of the ids; those that do not match the filter are left out."""
    records: dict[str, Record] = {}
    for chunk in chunk_ids(dict.fromkeys(doc_ids)):
        among = Compare("doc_id", "$in", tuple(chunk))
        condition = among if where is None else And((among, where))
        rows = await ask_table(table, partial(_read_brief, to_sql(condition)))
        records |= {record.doc_id: record for record in brief_records(rows.to_pydict())}
    return [records[doc_id] for doc_id in doc_ids if doc_id in records]


async def _read_brief(condition: str, table: AsyncTable) -> pa.Table:
    return await table.query().where(condition).select(BRIEF).limit(ALL_ROWS).to_arrow()


async def find_addresses(table: AsyncTable, where: Filter | None) -> pa.Table:
    """`doc_id` and `_rowid` of every matching record, sorted by id (code points): about 60 bytes a record."""
    query = table.query().select(["doc_id"]).with_row_id().limit(ALL_ROWS)
    if where is not None:
        query = query.where(to_sql(where))
    return (await query.to_arrow()).sort_by("doc_id")


async def read_addresses(table: AsyncTable, addresses: pa.Table) -> list[Record]:
    """The records at these addresses, in their order. `table` must stand at the version that gave them."""
    if not addresses.num_rows:
        return []
    rows = await table.take_row_ids(addresses["_rowid"].to_pylist()).select(FULL).to_arrow()
    records = {record.doc_id: record for record in full_records(rows.to_pydict())}
    return [records[doc_id] for doc_id in addresses["doc_id"].to_pylist()]


async def sample_records(table: AsyncTable, size: int, seed: int) -> list[Record]:
    """Whole records, spread evenly over the ids: one at a random place of each of `size` equal parts; all where they are fewer."""
    addresses = await find_addresses(table, None)
    size = min(size, addresses.num_rows)
    if size < 1:
        return []
    draw = random.Random(seed)  # noqa: S311 - a sample, no secret
    places = [int((part + draw.random()) * addresses.num_rows / size) for part in range(size)]
    return await read_addresses(table, addresses.take(places))


async def count_records(table: AsyncTable, where: Filter | None) -> int:
    """The number of records that match; of all without a filter."""
    count: int = await table.count_rows(None if where is None else to_sql(where))
    return count


def chunk_ids(doc_ids: Iterable[str]) -> Iterator[list[str]]:
    """As many as one condition names."""
    remaining = iter(doc_ids)
    return iter(lambda: list(islice(remaining, CHUNK)), [])

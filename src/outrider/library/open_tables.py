"""Opening of the tables of a library, and reading and writing of small metadata tables."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from outrider.library import maintenance as upkeep
from outrider.library import schema
from outrider.library.location import TABLE, Place
from outrider.library.text_search import ALL_ROWS
from outrider.state.errors import LibraryCorrupt, LibraryTooNew, LibraryTooOld

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.db import AsyncConnection
    from lancedb.table import AsyncTable


async def opened(connection: AsyncConnection, name: str = TABLE) -> AsyncTable | None:
    """A table of the library, None where it has none of that name."""
    try:
        return await connection.open_table(name)
    except ValueError as error:
        if "was not found" in str(error):
            return None
        raise


async def append_rows(connection: AsyncConnection, name: str, columns: pa.Schema, rows: Sequence[Mapping[str, Any]]) -> None:
    """Adds rows to a metadata table in one commit; the first rows create it."""
    import pyarrow as pa

    table = await connection.create_table(name, schema=columns, exist_ok=True)
    await table.add(pa.Table.from_pylist([*rows], schema=columns))
    await table.optimize(cleanup_older_than=upkeep.KEEP_BESIDE)


async def read_rows(connection: AsyncConnection, name: str) -> list[dict[str, Any]]:
    """All rows of a metadata table, in no order; none where the table does not exist."""
    table = await opened(connection, name)
    return [] if table is None else (await table.query().limit(ALL_ROWS).to_arrow()).to_pylist()


async def created(place: Place, connection: AsyncConnection, create: bool) -> AsyncTable:
    """A new table with its indexes, or the one that another process made meanwhile."""
    if not create:
        raise place.missing()
    async with place.changing():
        table = await opened(connection)
        if table is None and place.path is not None and await place.standing() == "library":
            raise LibraryCorrupt(f"the library at {place.shown} is damaged: its table has no readable version; restore it from a copy")
        if table is None:
            table = await _made(connection)
        await upkeep.ensure_indexes(table)
    return table


async def _made(connection: AsyncConnection) -> AsyncTable:
    try:
        return await connection.create_table(TABLE, schema=schema.arrow_schema(uuid.uuid4().hex))
    except ValueError as error:  # on object storage, where no lock keeps others out
        if "already exists" not in str(error):
            raise
        return await connection.open_table(TABLE)


def library_id(place: Place, found: pa.Schema) -> str:
    said: dict[str, str] = {key.decode(): value.decode() for key, value in (found.metadata or {}).items()}
    if schema.FORMAT_KEY not in said:
        raise place.foreign()
    if int(said[schema.FORMAT_KEY]) < schema.FORMAT:
        raise LibraryTooOld(
            f"the library at {place.shown} has format {said[schema.FORMAT_KEY]}, from before the first release; "
            "ingest its files into a new folder (outrider ingest ... --library)"
        )
    if int(said[schema.FORMAT_KEY]) > schema.FORMAT:
        raise LibraryTooNew(
            f"the library at {place.shown} has format {said[schema.FORMAT_KEY]}, this Outrider reads up to {schema.FORMAT}; "
            "update Outrider (pip install -U outrider) or name another library"
        )
    return said[schema.ID_KEY]

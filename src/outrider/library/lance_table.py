"""LanceDB's tables and connections with what a library adds to them.

They keep schemas and rows, their queries outlive their readers, and creation on object storage needs a lease.
LanceDB's asynchronous queries read the schema before they run, to see whether it has columns of blobs. The tables of a library have none,
and their columns never change. It imports LanceDB, so it is imported only with an open connection.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from lancedb.db import AsyncConnection
from lancedb.table import AsyncTable

from outrider.library import lease
from outrider.library.lance_query import let_outlive
from outrider.library.object_storage import MOST_ROWS_AT_ONCE
from outrider.library.schema import RANKED_INDEX

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.query import AsyncQuery, AsyncTakeQuery

    from outrider.library.copies.table_copies import TableCopies
    from outrider.library.copies.table_copy import TableCopy
    from outrider.library.object_storage import ObjectStorage

KEPT_ROWS = 8_192
"""Of a few kB each."""


class RowCache:
    """Values of the rows that were read last, by row id.

    A row id is an address, a place in a file that is never changed: an update writes the row to another place.
    """

    most = KEPT_ROWS

    def __init__(self) -> None:
        self._values: dict[str, OrderedDict[int, Any]] = defaultdict(OrderedDict)

    async def complete(self, table: AsyncTable, hits: pa.Table, columns: Sequence[str]) -> pa.Table | None:
        """At most `most` rows with these columns added; those not known are read. None where one is gone: it was just compacted."""
        row_ids = hits["_rowid"].to_pylist()
        for name in columns:
            known = self._values[name]
            if missing := [row_id for row_id in row_ids if row_id not in known]:
                try:
                    rows = await table.take_row_ids(missing).select([name]).with_row_id().to_arrow()
                except (RuntimeError, OSError, ValueError):
                    return None
                known.update(zip(rows["_rowid"].to_pylist(), rows[name].to_pylist(), strict=True))
            if any(row_id not in known for row_id in row_ids):
                return None
            hits = hits.append_column(name, [[known[row_id] for row_id in row_ids]])
            for row_id in row_ids:
                known.move_to_end(row_id)
            while len(known) > self.most:
                known.popitem(last=False)
        return hits


class LibraryTable(AsyncTable):
    """A handle of a library's table."""

    has_addresses: ClassVar[bool] = True
    """Whether a row id is an address, whose content never changes."""
    _kept_schema: pa.Schema | None = None
    storage: ObjectStorage | None = None
    """Of the table of records on object storage."""
    local_copy: TableCopy | None = None
    """Of a table on object storage, for reads that need not be those of a writer."""
    rows: RowCache | None = None
    """Of a table on object storage, for the rows that searches find."""

    def query(self) -> AsyncQuery:
        return let_outlive(super().query())

    def take_row_ids(self, row_ids: list[int]) -> AsyncTakeQuery:
        return let_outlive(super().take_row_ids(row_ids))

    async def warm_up(self) -> None:
        """Read the ranking index in a few requests: a search reads two or more for each of its words. A large one is read word by word."""
        if self.storage is not None and self.storage.warms_up:
            self.storage.warms_up = False
            if await self.count_rows() <= MOST_ROWS_AT_ONCE:
                with suppress(RuntimeError, OSError, ValueError):  # an earlier Outrider named it otherwise, or it is not built yet
                    await self.prewarm_index(RANKED_INDEX)

    async def schema(self) -> pa.Schema:
        if self._kept_schema is None:
            self._kept_schema = await super().schema()
        return self._kept_schema


def as_library_table(table: AsyncTable) -> AsyncTable:
    """The same handle as an instance of this class: a connection takes no class."""
    if not isinstance(table, LibraryTable):
        table.__class__ = LibraryTable
    return table


class RemoteConnection(AsyncConnection):
    """A connection to a library on object storage."""

    storage: ObjectStorage
    copies: TableCopies | None = None

    def find_copy(self, name: str) -> TableCopy | None:
        """Of a table, where tables are copied."""
        return None if self.copies is None else self.copies.find(name)

    async def create_table(self, *arguments: Any, **options: Any) -> AsyncTable:
        """Only under a lease: LanceDB 0.40 lets a process that saw no table write its own over one that another process has created."""
        lease.require_held(always=True)
        return await super().create_table(*arguments, **options)


def make_remote(connection: AsyncConnection, storage: ObjectStorage) -> AsyncConnection:
    """The same connection as an instance of this class: `connect_async` takes no class."""
    if not isinstance(connection, RemoteConnection):
        connection.__class__ = RemoteConnection
    connection.storage = storage  # type: ignore[attr-defined]
    return connection

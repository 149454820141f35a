"""LanceDB's tables and connections, with what a library needs besides: schemas that are read once, and creation under a lease.

LanceDB's asynchronous queries read the schema before they run, to see whether it has columns of blobs. The tables of a library have none,
and their columns never change. It imports LanceDB, so it is imported only with an open connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lancedb.db import AsyncConnection
from lancedb.table import AsyncTable

from outrider.library import lease

if TYPE_CHECKING:
    from weakref import WeakSet

    import pyarrow as pa


class LibraryTable(AsyncTable):
    """A handle of a library's table."""

    _kept_schema: pa.Schema | None = None

    async def schema(self) -> pa.Schema:
        if self._kept_schema is None:
            self._kept_schema = await super().schema()
        return self._kept_schema


def keep_schema(table: AsyncTable) -> AsyncTable:
    """The same handle as an instance of this class: a connection takes no class."""
    table.__class__ = LibraryTable
    return table


class RemoteConnection(AsyncConnection):
    """A connection to a library on object storage."""

    handles: WeakSet[AsyncTable]
    """See `ObjectStorage`."""

    async def create_table(self, *arguments: Any, **options: Any) -> AsyncTable:
        """Only under a lease: LanceDB 0.40 lets a process that saw no table write its own over one that another process has created."""
        lease.require_held(always=True)
        return await super().create_table(*arguments, **options)


def make_remote(connection: AsyncConnection, handles: WeakSet[AsyncTable]) -> AsyncConnection:
    """The same connection as an instance of this class: `connect_async` takes no class."""
    connection.__class__ = RemoteConnection
    connection.handles = handles  # type: ignore[attr-defined]
    return connection

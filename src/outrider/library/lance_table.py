"""A LanceDB table whose schema is read once.

LanceDB's asynchronous queries read the schema before they run, to see whether it has columns of blobs. The tables of a library have none,
and their columns never change. It imports LanceDB, so it is imported only with an open connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancedb.table import AsyncTable

if TYPE_CHECKING:
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

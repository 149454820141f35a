"""What an open library holds on to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outrider.library import edges
from outrider.library import open_tables as opening
from outrider.library.location import TABLE, Place
from outrider.library.vectors.store import Vectors
from outrider.state.errors import LibraryError

if TYPE_CHECKING:
    from lancedb.db import AsyncConnection
    from lancedb.table import AsyncTable


class Handles:
    """Place, connection and tables of one library."""

    def __init__(self, place: Place, connection: AsyncConnection, table: AsyncTable, library_id: str) -> None:
        self.uri = place.uri
        self.library_id = library_id
        self._place = place
        self._connection = connection
        self._table = table
        self._vectors = Vectors(place, connection)
        self._edges: AsyncTable | None = None

    @property
    def shown(self) -> str:
        """The address for messages, without a password."""
        return self._place.shown

    def close(self) -> None:
        self._table.close()  # type: ignore[no-untyped-call]
        self._vectors.close()
        if self._edges is not None:
            self._edges.close()  # type: ignore[no-untyped-call]
        self._connection.close()  # type: ignore[no-untyped-call]

    async def _graph(self) -> AsyncTable | None:
        """None where there is nothing to connect."""
        if self._edges is None:
            self._edges = await opening.opened(self._connection, edges.NAME)
        if self._edges is None and await self._table.count_rows():
            raise LibraryError(f"the library at {self._place.shown} has no graph yet; {edges.FIX}")
        return self._edges

    async def _pinned(self) -> AsyncTable:
        """A handle that stays at the current version."""
        table = await self._connection.open_table(TABLE)
        await table.checkout(await table.version())
        return table

"""Registry of the library's vector spaces: a small table where one row is current.

A search reads it each time, so that it sees a switch by another process. Switching over is one commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

from outrider.library.address_and_locks import Location
from outrider.library.filter_sql import in_list
from outrider.library.maintenance import KEEP_METADATA
from outrider.library.record_cache import TableState
from outrider.library.record_table import KeptTable, open_table
from outrider.library.schema import PRIMARY_KEY
from outrider.library.text_search import ALL_ROWS
from outrider.runtime.run_reads import read_once
from outrider.state.embedding import EmbeddingSpace

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.db import AsyncConnection
    from lancedb.table import AsyncTable

NAME = "spaces"
"""The table is created with the first space."""

State = Literal["current", "building", "retired"]


@dataclass(frozen=True, slots=True)
class StoredSpace:
    """One space that the library has vectors of. Retired ones wait to be dropped."""

    space: EmbeddingSpace
    state: State
    table: str
    """Never used twice, so that no handle mistakes a new table for an old one."""
    since: str
    """ISO 8601."""
    index: str = ""
    """Empty while every vector is compared."""
    indexed_rows: int = 0
    """Number of vectors when the index was built."""
    nprobes: int = 0
    recall: float | None = None
    """Of the index, top 10, measured on the library's own vectors after the build."""


class SpaceRegistry:
    """The table of spaces, read again only where it has changed."""

    def __init__(self, location: Location, connection: AsyncConnection) -> None:
        self._connection = connection
        self._kept = KeptTable(location, connection, NAME)
        self._cache: tuple[TableState, tuple[StoredSpace, ...]] | None = None

    def close(self) -> None:
        self._kept.close()

    async def all(self) -> tuple[StoredSpace, ...]:
        """By date and id. A run reads them once; a writer, under the lock, each time."""
        return await read_once(("spaces", id(self)), self._read)

    async def _read(self) -> tuple[StoredSpace, ...]:
        table = await self._open()
        if table is None:
            return ()
        state = await self._kept.find_state(table)
        if self._cache is None or self._cache[0] != state:
            rows = (await table.query().limit(ALL_ROWS).to_arrow()).to_pylist()
            spaces = []
            for row in rows:
                fields = {name: value for name, value in row.items() if name not in ("id", "space")}
                spaces.append(StoredSpace(space=EmbeddingSpace.model_validate_json(row["space"]), **fields))
            self._cache = (state, tuple(sorted(spaces, key=lambda stored: (stored.since, stored.space.id))))
        return self._cache[1]

    async def current(self) -> StoredSpace | None:
        """The oldest, should two writers without a lock have begun at once."""
        return next((stored for stored in await self.all() if stored.state == "current"), None)

    async def add(self, new: StoredSpace) -> StoredSpace:
        """The entry under this space's id afterwards: another process may have been first."""
        table = await self._connection.create_table(NAME, schema=_build_schema(), exist_ok=True)
        await table.merge_insert("id").when_not_matched_insert_all().execute(_build_rows([new]))
        return next(stored for stored in await self.all() if stored.space.id == new.space.id)

    async def put(self, *spaces: StoredSpace) -> None:
        """Write new states of known spaces, in one commit."""
        table = await self._open()
        assert table is not None  # noqa: S101 - a known space has a row
        await table.merge_insert("id").when_matched_update_all().execute(_build_rows(spaces))

    async def forget(self, stored: StoredSpace) -> None:
        """The row first: a table without a row is only waste, a row without its table would be an error."""
        table = await self._open()
        assert table is not None  # noqa: S101 - as above
        await table.delete(in_list("id", [stored.space.id]))
        if await open_table(self._connection, stored.table) is not None:
            await self._connection.drop_table(stored.table)

    async def compact(self) -> None:
        table = await self._open()
        if table is not None:
            await table.optimize(cleanup_older_than=KEEP_METADATA)

    async def _open(self) -> AsyncTable | None:
        return await self._kept.open()


def _build_schema() -> pa.Schema:
    import pyarrow as pa

    texts = [pa.field(name, pa.string(), nullable=False) for name in ("space", "state", "table", "since", "index")]
    return pa.schema(
        [
            pa.field("id", pa.string(), nullable=False, metadata=PRIMARY_KEY),
            *texts,
            pa.field("indexed_rows", pa.int64(), nullable=False),
            pa.field("nprobes", pa.int64(), nullable=False),
            pa.field("recall", pa.float64()),
        ]
    )


def _build_rows(spaces: Sequence[StoredSpace]) -> pa.Table:
    import pyarrow as pa

    rows = [asdict(stored) | {"id": stored.space.id, "space": stored.space.model_dump_json()} for stored in spaces]
    return pa.Table.from_pylist(rows, schema=_build_schema())

"""Which spaces the library has vectors of: a small table beside the records, where one row is current.

A search reads it each time, so that it sees a switch that another process made. Switching over is one commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

from outrider.library.filter_sql import any_of
from outrider.library.maintenance import KEEP_BESIDE
from outrider.library.open_tables import opened
from outrider.library.text_search import ALL_ROWS
from outrider.state.embedding import EmbeddingSpace

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.db import AsyncConnection
    from lancedb.table import AsyncTable

NAME = "spaces"
"""The table is made with the first space."""

State = Literal["current", "building", "retired"]


@dataclass(frozen=True, slots=True)
class Held:
    """One space that the library has vectors of. Retired ones wait to be dropped."""

    space: EmbeddingSpace
    state: State
    table: str
    """Never used twice, so that no handle mistakes a new table for the one it knew."""
    since: str
    """ISO 8601."""
    index: str = ""
    """Empty while every vector is compared."""
    indexed_rows: int = 0
    """How many there were when the index was built."""
    nprobes: int = 0
    recall: float | None = None
    """Of the index, top 10, measured on the library's own vectors after the build."""


class Registry:
    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self._table: AsyncTable | None = None
        self._read: tuple[int, tuple[Held, ...]] = (0, ())

    def close(self) -> None:
        if self._table is not None:
            self._table.close()  # type: ignore[no-untyped-call]

    async def all(self) -> tuple[Held, ...]:
        """By date and id."""
        table = await self._opened()
        if table is None:
            return ()
        version = int(await table.version())
        if self._read[0] != version:
            found = (await table.query().limit(ALL_ROWS).to_arrow()).to_pylist()
            self._read = (version, tuple(sorted(map(_held, found), key=lambda held: (held.since, held.space.id))))
        return self._read[1]

    async def current(self) -> Held | None:
        """The oldest, should two writers without a lock have begun at once."""
        return next((held for held in await self.all() if held.state == "current"), None)

    async def add(self, held: Held) -> Held:
        """What stands under its id afterwards: another process may have been first."""
        table = await self._connection.create_table(NAME, schema=schema(), exist_ok=True)
        await table.merge_insert("id").when_not_matched_insert_all().execute(_rows([held]))
        return next(other for other in await self.all() if other.space.id == held.space.id)

    async def put(self, *held: Held) -> None:
        """New states of spaces that are there, in one commit."""
        table = await self._opened()
        assert table is not None  # noqa: S101 - a space that is there has a row
        await table.merge_insert("id").when_matched_update_all().execute(_rows(held))

    async def forget(self, held: Held) -> None:
        """The row first: a table without a row is only waste, a row without its table would be an error."""
        table = await self._opened()
        assert table is not None  # noqa: S101 - as above
        await table.delete(any_of("id", [held.space.id]))
        if await opened(self._connection, held.table) is not None:
            await self._connection.drop_table(held.table)

    async def compact(self) -> None:
        table = await self._opened()
        if table is not None:
            await table.optimize(cleanup_older_than=KEEP_BESIDE)

    async def _opened(self) -> AsyncTable | None:
        if self._table is None:
            self._table = await opened(self._connection, NAME)
        return self._table


def schema() -> pa.Schema:
    import pyarrow as pa

    from outrider.library.schema import PRIMARY_KEY

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


def _rows(held: Sequence[Held]) -> pa.Table:
    import pyarrow as pa

    rows = [asdict(one) | {"id": one.space.id, "space": one.space.model_dump_json()} for one in held]
    return pa.Table.from_pylist(rows, schema=schema())


def _held(row: dict[str, object]) -> Held:
    said = {name: value for name, value in row.items() if name not in ("id", "space")}
    return Held(space=EmbeddingSpace.model_validate_json(str(row["space"])), **said)  # type: ignore[arg-type] # as `_rows` wrote it

"""What people decided about works, `merge` and `split`: a table of its own beside the records, which no decision changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from outrider.library.open_tables import append_rows, opened, read_rows
from outrider.state.decisions import Decision

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.db import AsyncConnection

NAME = "decisions"
"""The table is made by the first decision."""


def schema() -> pa.Schema:
    import pyarrow as pa

    fields = [pa.field("at", pa.string(), nullable=False), pa.field("number", pa.int64(), nullable=False)]
    return pa.schema([*fields, pa.field("decision", pa.string(), nullable=False)])


async def remember(connection: AsyncConnection, decisions: Sequence[Decision]) -> None:
    """Behind all that are there, in one commit."""
    table = await opened(connection, NAME)
    first = 0 if table is None else await table.count_rows()
    rows = [{"at": one.at, "number": number, "decision": one.model_dump_json()} for number, one in enumerate(decisions, start=first)]
    await append_rows(connection, NAME, schema(), rows)


async def every(connection: AsyncConnection) -> tuple[Decision, ...]:
    """From the first to the last."""
    rows = await read_rows(connection, NAME)
    return tuple(Decision.model_validate_json(row["decision"]) for row in sorted(rows, key=lambda row: (row["number"], row["at"])))

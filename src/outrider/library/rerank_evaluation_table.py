"""What probes found out about rerankers on this library: a table of its own; every probe adds its verdicts in one commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from outrider.library.open_tables import append_rows, read_rows
from outrider.state.reranking import Verdict, best_verdict

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.db import AsyncConnection

NAME = "verdicts"
"""The table is made by the first probe."""


def schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema([pa.field(name, pa.string(), nullable=False) for name in ("judged_at", "reranker", "verdict")])


async def remember(connection: AsyncConnection, verdicts: Sequence[Verdict]) -> None:
    rows = [{"judged_at": one.judged_at, "reranker": one.reranker, "verdict": one.model_dump_json()} for one in verdicts]
    await append_rows(connection, NAME, schema(), rows)


async def every(connection: AsyncConnection) -> tuple[Verdict, ...]:
    """Newest first; of one probe the best first."""
    rows = await read_rows(connection, NAME)
    found = sorted((Verdict.model_validate_json(row["verdict"]) for row in rows), key=best_verdict)
    return tuple(sorted(found, key=lambda one: one.judged_at, reverse=True))

"""Calibrations that a user made, kept in the library: a table of its own; of one engine and its weights the newest counts."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from outrider.retrieval.distil.calibration import Calibration, of_json
from outrider.retrieval.opening import opened
from outrider.retrieval.search import ALL_ROWS
from outrider.retrieval.upkeep import KEEP_BESIDE

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from lancedb.db import AsyncConnection

NAME = "calibrations"
"""The table is made by the first calibration."""


def schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema([pa.field(name, pa.string(), nullable=False) for name in ("fitted_at", "calibration")])


async def remember(connection: AsyncConnection, calibrations: Sequence[Calibration]) -> None:
    import pyarrow as pa

    table = await connection.create_table(NAME, schema=schema(), exist_ok=True)
    rows = [{"fitted_at": one.fitted_at, "calibration": json.dumps(asdict(one), ensure_ascii=False)} for one in calibrations]
    await table.add(pa.Table.from_pylist(rows, schema=schema()))
    await table.optimize(cleanup_older_than=KEEP_BESIDE)


async def newest(connection: AsyncConnection) -> tuple[Calibration, ...]:
    """One for each engine and its weights, by name. `BadRequest` where a newer Outrider wrote them."""
    table = await opened(connection, NAME)
    if table is None:
        return ()
    rows = (await table.query().limit(ALL_ROWS).to_arrow()).to_pylist()
    found = [of_json(row["calibration"], "the library's calibration") for row in sorted(rows, key=lambda row: str(row["fitted_at"]))]
    latest = {(one.engine, one.revision): one for one in found}
    return tuple(latest[key] for key in sorted(latest))

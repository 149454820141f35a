"""Calibrations that a user made, kept in the library: a table of its own; of one engine and its weights the newest counts."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from outrider.library.open_tables import append_rows, read_rows
from outrider.state.distilling import Calibration, parse_calibration

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
    rows = [{"fitted_at": one.fitted_at, "calibration": json.dumps(asdict(one), ensure_ascii=False)} for one in calibrations]
    await append_rows(connection, NAME, schema(), rows)


async def newest(connection: AsyncConnection) -> tuple[Calibration, ...]:
    """One for each engine and its weights, by name. `BadRequest` where a newer Outrider wrote them."""
    rows = await read_rows(connection, NAME)
    found = [
        parse_calibration(row["calibration"], "the library's calibration") for row in sorted(rows, key=lambda row: str(row["fitted_at"]))
    ]
    latest = {(one.engine, one.revision): one for one in found}
    return tuple(latest[key] for key in sorted(latest))

"""Counts of LanceDB calls."""

from __future__ import annotations

from pathlib import Path

import lancedb
import pyarrow as pa
from lancedb.table import AsyncTable

from bench.lance_calls import counted


async def test_queries_with_their_schemas_versions_counts_and_opens_are_counted(tmp_path: Path) -> None:
    connection = await lancedb.connect_async(str(tmp_path))
    table = await connection.create_table("rows", pa.table({"number": [1, 2, 3]}))
    version = AsyncTable.version
    with counted() as calls:
        assert (await table.query().where("number > 1").to_arrow()).num_rows == 2
        await table.version()
        await connection.open_table("rows")
    assert calls == {("query", "rows"): 1, ("schema", "rows"): 1, ("version", "rows"): 1, ("open_table", "rows"): 1}
    assert AsyncTable.version is version
    await table.count_rows()
    assert calls.total() == 4

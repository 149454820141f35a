"""Counts of LanceDB calls."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import lancedb
import pyarrow as pa
from lancedb.table import AsyncTable

from bench.lance_calls import counted
from bench.library import library_of
from bench.warm_search import MOST_CALLS
from outrider.graph.pipeline import build
from outrider.services import Services
from outrider.settings.load import load

if TYPE_CHECKING:
    from bench.data import Collection


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


async def test_a_warm_search_makes_few_calls(tiny: Collection, tmp_path: Path) -> None:
    (await library_of(tiny, tmp_path / "library")).close()
    services = Services(load({"library.uri": str(tmp_path / "library"), "sources.offline": True}).settings)
    graph = build(services)
    await graph.ainvoke({"query": "soil bacteria"})
    with counted() as calls:
        result = await graph.ainvoke({"query": "flutter of a wing"})
    assert [hit.doc_id for hit in result["hits"]][:2] == ["2", "3"]
    assert 0 < calls.total() <= MOST_CALLS["without vectors"]
    assert not {kind for kind, _ in calls} & {"open_table", "schema", "count_rows"}
    services.close()

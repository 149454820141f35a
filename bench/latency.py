"""A search through the whole graph against the raw LanceDB call with the same query, columns and number of rows, on SciFact."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from bench.data import Absent, collection
from bench.library import library_of
from bench.report import Cell, Report
from outrider import asearch
from outrider.graph.pipeline import build
from outrider.services import Services
from outrider.settings.load import load

QUERIES = 100
WARM_UP = 5
COLUMNS = ("what", "queries", "median ms", "p95 ms", "ratio to raw", "difference to raw ms")
Search = Callable[[str], Awaitable[Any]]


def run() -> Report:
    try:
        source = collection("scifact")
    except Absent as absent:
        return Report("latency", COLUMNS, (), (f"skipped: {absent}",))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "library"
        took_s = asyncio.run(_measured(source, path))
    raw = statistics.median(took_s["raw LanceDB call"])
    rows = tuple(_row(what, values, raw) for what, values in took_s.items())
    return Report("latency", COLUMNS, rows, (f"{len(source.documents):,} documents; the calls took turns, query by query.",))


async def _measured(source: Any, path: Path) -> dict[str, list[float]]:
    (await library_of(source, path)).close()
    services = Services(load({"library.uri": str(path)}).settings)
    graph = build(services)

    async def whole_graph(text: str) -> None:
        await graph.ainvoke({"query": text})

    async def focused(text: str) -> None:
        await graph.ainvoke({"query": text, "search_mode": "focused"})

    async def python_door(text: str) -> None:
        await asearch(text, services=services)

    ways: dict[str, Search] = {
        "raw LanceDB call": await _raw_call(path, services.settings.run.candidates),
        "whole graph": whole_graph,
        "whole graph, focused": focused,
        "asearch": python_door,
    }
    texts = list(source.queries.values())[: QUERIES + WARM_UP]
    took_s: dict[str, list[float]] = {what: [] for what in ways}
    for place, text in enumerate(texts):
        for what, call in ways.items():
            started = time.perf_counter()
            await call(text)
            if place >= WARM_UP:
                took_s[what].append(time.perf_counter() - started)
    return took_s


async def _raw_call(path: Path, limit: int) -> Search:
    """What the library asks LanceDB for one ranked list, without any of our code around it."""
    import lancedb
    from lancedb.query import MatchQuery

    table = await (await lancedb.connect_async(str(path))).open_table("records")

    async def call(text: str) -> None:
        await table.query().nearest_to_text(MatchQuery(text, "rank_text")).select(["doc_id", "_score", "record"]).limit(limit).to_arrow()

    return call


def _row(what: str, took_s: list[float], raw_s: float) -> tuple[Cell, ...]:
    middle = statistics.median(took_s)
    p95 = statistics.quantiles(took_s, n=20)[-1] if len(took_s) > 1 else middle
    return what, len(took_s), middle * 1000, p95 * 1000, middle / raw_s, (middle - raw_s) * 1000

"""The first request for a popular query after a server's start, with and without warming of popular queries.

Each start is a new process whose library's files are not in the page cache. Both load what every search needs, as a server does before it
is ready. One then warms the popular queries. The first popular query, the same again, and one that was not warmed are timed. The library
holds synthetic records of an open vocabulary; the vectors are drawn, so that no time of a model hides that of the library.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from bench.data import Absent, collection, corpus_file, thinned
from bench.growth import DIMENSION, fill, forget_pages, read_io
from bench.process import run_isolated
from bench.report import Cell, Report, progress
from bench.synthetic import Cloud

RECORDS = 30_000
STARTS = 5
POPULAR = 20
COLUMNS = ("start", "request", "median ms", "CPU ms", "reads", "MiB read")
STEPS = ("popular, first", "popular, again", "another query")

Timing = tuple[float, float, int, float]
"""Seconds, CPU seconds, reads, bytes."""


def run() -> Report:
    try:
        corpus_file("scifact")
    except Absent as absent:
        return Report("warm_queries", COLUMNS, (), (f"skipped: {absent}",))
    queries = list(thinned(collection("scifact"), POPULAR + STARTS).queries.values())
    timings: dict[str, list[list[Timing]]] = {"not warmed": [], "warmed": []}
    took = []
    with tempfile.TemporaryDirectory() as folder:
        run_isolated(fill, folder, RECORDS)
        for start in range(STARTS):
            for name, kept in timings.items():
                forget_pages(folder)
                measured, seconds = run_isolated(ask, folder, queries[:POPULAR], queries[POPULAR + start], start, name == "warmed")
                kept.append(measured)
                took += [seconds] if seconds else []
                progress(f"warm_queries: start {start + 1} of {STARTS}, {name}")
    rows = [_row(name, step, [start[at] for start in kept]) for name, kept in timings.items() for at, step in enumerate(STEPS)]
    ratios = [without[0][0] / after[0][0] for without, after in zip(timings["not warmed"], timings["warmed"], strict=True)]
    cpu = [without[0][1] / after[0][1] for without, after in zip(timings["not warmed"], timings["warmed"], strict=True)]
    return Report(
        "warm_queries",
        COLUMNS,
        tuple(rows),
        (
            f"{RECORDS:,} records, medians of {STARTS} starts each; {POPULAR} queries warmed in {median(took):.1f} s.",
            f"A popular query's first request takes {median(ratios):.2f} times as long without warming (CPU {median(cpu):.2f}).",
        ),
    )


def _row(name: str, step: str, timings: Sequence[Timing]) -> tuple[Cell, ...]:
    seconds, cpu, reads, size = (median(values) for values in zip(*timings, strict=True))
    return name, step, seconds * 1_000, cpu * 1_000, int(reads), size / 2**20


def ask(folder: str, popular: Sequence[str], other: str, start: int, warm: bool) -> tuple[list[Timing], float]:
    """The timings of `STEPS` after one start, and how long warming took. Runs in a process of its own."""
    return asyncio.run(_ask(folder, popular, other, start, warm=warm))


async def _ask(folder: str, popular: Sequence[str], other: str, start: int, *, warm: bool) -> tuple[list[Timing], float]:
    from outrider.graph.pipeline import build
    from outrider.interfaces.http.warm_up import warm_up
    from outrider.state.pipeline import RunContext
    from outrider.usecases.warm_queries import make_local_request, warm_queries

    with tempfile.TemporaryDirectory() as place:
        embedder: Any = Cloud(DIMENSION)
        services = await asyncio.to_thread(_make_services, folder, Path(place), embedder)
        graph = build(services, checkpointer=False)
        timings: list[Timing] = []
        try:
            await services.warm()
            await warm_up(services)
            took_s = (await warm_queries(services, popular)).seconds if warm else 0.0
            for text in (popular[start], popular[start], other):
                before, cpu, began = read_io(), time.process_time(), time.perf_counter()
                await graph.ainvoke(make_local_request(services.settings, text), context=RunContext())
                seconds, spent, after = time.perf_counter() - began, time.process_time() - cpu, read_io()
                timings.append((seconds, spent, after[1] - before[1], float(after[0] - before[0])))
            return timings, took_s
        finally:
            services.close()


def _make_services(folder: str, place: Path, embedder: Any) -> Any:
    from outrider.services import Services
    from outrider.settings.load import load

    values = {
        "library.uri": folder, "sources.offline": True, "planner.enabled": False, "cache.folder": str(place / "cache"),
        "distiller.engine": "lexical",  # the drawn vectors say nothing of sentences
    }  # fmt: skip
    return Services(load(values, environ={}, cwd=place, user_dir=place).settings, embedder=embedder)

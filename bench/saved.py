"""Saved protocols of 10,000 works: what a run costs beside the exact search alone, and the comparison of two runs.

A library of synthetic papers in the words of SciFact. Between the runs works are added, removed and changed: 1 in 100 each, and 1 in 100
gets another id. Processor time of this process, since other processes may use the machine. The search alone is the same code with its
ledger and manifest.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable
from contextlib import aclosing
from pathlib import Path
from typing import Any

from bench.data import Absent, collection
from bench.report import Cell, Report, progress
from bench.synthetic import Vocabulary
from outrider.library.library import Library
from outrider.saved_searches.store import SavedStore
from outrider.services import Services
from outrider.services.saved_queue import find_saved_store
from outrider.services.systematic import begin_run
from outrider.settings.load import load
from outrider.state.records import Identifiers, Paper
from outrider.state.saved import RunDifference
from outrider.usecases.run_saved import run_saved
from outrider.usecases.saved import add_saved, diff_runs

WORKS = 10_000
QUERY = "1900:2100[dp]"
COLUMNS = ("step", "CPU s", "wall s", "ratio to the search alone")
ROUNDS = 3
DOCUMENTS = 2_000
"""Of SciFact, whose words and lengths the papers have."""


def run() -> Report:
    try:
        documents = collection("scifact").documents[:DOCUMENTS]
    except Absent as absent:
        return Report("saved", COLUMNS, (), (f"skipped: {absent}",))
    vocabulary = Vocabulary.fitted(f"{document.title} {document.abstract}" for document in documents)
    papers = [
        paper.model_copy(
            update={
                "year": 1990 + number % 35,
                "venue": f"Journal {number % 50}",
                "authors": (f"Author{number % 997}, A", f"Writer{number % 1_009}, B"),
                "identifiers": Identifiers(doi=f"10.1000/{number}"),
            }
        )
        for number, paper in enumerate(vocabulary.papers(0, WORKS + WORKS // 100))
    ]
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(measure(Path(folder), papers))


async def measure(folder: Path, papers: list[Paper]) -> Report:
    settings = load(
        {
            "library.uri": str(folder / "library"), "systematic.folder": str(folder / "runs"), "saved.uri": str(folder / "saved.sqlite"),
            "sources.offline": True,
        },
        environ={}, cwd=folder, user_dir=folder,
    ).settings  # fmt: skip
    library = await Library.open(folder / "library", create=True)
    await library.upsert(papers[:WORKS])
    await library.optimize(force=True)
    services = Services(settings)
    store = find_saved_store(settings)
    await add_saved(services, "bench", {"query": QUERY, "sources": ["library"]}, kind="systematic")
    saved = await asyncio.to_thread(store.get, "bench")
    await search(services)  # imports and opens
    rows: list[list[Cell]] = []
    alone = min([await clock(search(services)) for _ in range(ROUNDS)])
    rows.append([f"the search alone, {WORKS:,} works", *alone[:2], 1.0])
    add(rows, "first run: search, and storing what it found", await clock(run_saved(services, store, saved)), alone[0])
    same = min([await clock(run_saved(services, store, saved)) for _ in range(ROUNDS)])
    add(rows, "run without a change: search, storing, comparison", same, alone[0])
    await change(library, papers)
    add(rows, "run after changes: search, storing, comparison", await clock(run_saved(services, store, saved)), alone[0])
    difference: RunDifference = await diff_runs(services, "bench")
    add(rows, "comparison of two stored runs", min([await clock(diff_runs(services, "bench")) for _ in range(ROUNDS)]), alone[0])
    library.close()
    counts = {name: difference.count(name) for name in ("new", "changed", "gone", "missing")}  # type: ignore[arg-type]
    size = describe_size(store, len(store.runs(saved)))
    return Report("saved", COLUMNS, tuple(tuple(row) for row in rows), (f"found: {counts}", size))


def describe_size(store: SavedStore, runs: int) -> str:
    return f"the store has {Path(store.path).stat().st_size / 2**20:.1f} MiB after {runs} runs"


async def change(library: Library, papers: list[Paper]) -> None:
    share = WORKS // 100
    renamed = [paper.model_copy(update={"doc_id": f"other-{paper.doc_id}", "venue": "Moved"}) for paper in papers[2 * share : 3 * share]]
    changed = [paper.model_copy(update={"venue": "Renamed Journal"}) for paper in papers[share : 2 * share]]
    await library.remove([paper.doc_id for paper in (*papers[:share], *papers[2 * share : 3 * share])])
    await library.upsert([*papers[WORKS:], *changed, *renamed])


async def search(services: Services) -> None:
    run = await begin_run(services, QUERY, ["library"])
    async with aclosing(run), aclosing(run.pages()) as pages:
        async for _ in pages:
            pass


async def clock(work: Awaitable[Any]) -> tuple[float, float]:
    cpu, wall = time.process_time(), time.perf_counter()
    await work
    return time.process_time() - cpu, time.perf_counter() - wall


def add(rows: list[list[Cell]], step: str, took: tuple[float, float], alone_s: float) -> None:
    progress(f"{step}: {took[0]:.2f} s")
    rows.append([step, *took, took[0] / alone_s])

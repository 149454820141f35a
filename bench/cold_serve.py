"""First searches of `outrider serve` after a cold start, with Chromium installed.

Each start is a new process. REST and LangServe are asked as soon as the port is open, before `/readyz`, and then in turn. The web source is
on, so Chromium starts beside the first searches; without a network it reaches nothing, and no search may fail for that.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from bench.report import Cell, Report, percentiles, progress
from outrider.library.library import Library
from outrider.sources.web.browser import unavailable_reason
from outrider.state.records import Paper

STARTS, TRIES = 10, 10
TOPICS = 50
COLUMNS = ("interface", "tries", "failures", "first of a start, median s", "slowest first, s", "later p50, ms", "later p95, ms")
BODIES: dict[str, tuple[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "REST": ("/api/search", lambda query: query),
    "LangServe invoke": ("/search/invoke", lambda query: {"input": query}),
}


def run() -> Report:
    took: dict[str, list[list[float]]] = {name: [] for name in BODIES}
    failures: dict[str, list[str]] = {name: [] for name in BODIES}
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_fill(Path(folder) / "library"))
        for number in range(1, STARTS + 1):
            progress(f"cold_serve: start {number} of {STARTS}")
            with _served(Path(folder)) as address:
                for name, times_s in asyncio.run(_ask(address, failures)).items():
                    took[name].append(times_s)
    rows = tuple(_row(name, took[name], failures[name]) for name in BODIES)
    reason = unavailable_reason()
    chromium = f"no Chromium was started: {reason}" if reason else "Chromium is installed and `web` is on"
    reasons = tuple(dict.fromkeys(f"{name}: {why}" for name, all_ in failures.items() for why in all_))
    return Report("cold_serve", COLUMNS, rows, (f"{STARTS} starts with {TRIES} tries of each interface; {chromium}.", *reasons))


def _row(name: str, starts: list[list[float]], failures: list[str]) -> tuple[Cell, ...]:
    first, later = [times_s[0] for times_s in starts], [one for times_s in starts for one in times_s[1:]]
    p50, p95 = percentiles(later)
    return name, sum(map(len, starts)), len(failures), statistics.median(first), max(first), 1_000 * p50, 1_000 * p95


async def _fill(folder: Path) -> None:
    """Each work has a topic of its own, so that the answer to another request is a failure."""
    library = await Library.open(folder, create=True)
    works = {f"w{n}": f"topic{n}" for n in range(TOPICS)}
    abstract = "Liver injury by drugs is rare. It is about"
    await library.upsert([Paper(doc_id=w, title=f"Liver injury {topic}", abstract=f"{abstract} {topic}.") for w, topic in works.items()])
    await library.optimize(force=True)
    library.close()


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    own = {"XDG_CONFIG_HOME": "config", "XDG_CACHE_HOME": "cache", "XDG_DATA_HOME": "data"}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OUTRIDER_") or name == "OUTRIDER_CHROMIUM"}
    process = subprocess.Popen(
        [sys.executable, "-m", "outrider", "serve", "--port", "0", "--library", str(folder / "library")],
        stderr=subprocess.PIPE, text=True, cwd=folder, env=environment | {name: str(folder / value) for name, value in own.items()},
    )  # fmt: skip
    assert process.stderr is not None
    try:
        yield "http://" + process.stderr.readline().partition("http://")[2].split()[0]
    finally:
        process.terminate()
        process.communicate()


async def _ask(address: str, failures: dict[str, list[str]]) -> dict[str, list[float]]:
    import httpx

    took: dict[str, list[float]] = {name: [] for name in BODIES}
    async with httpx.AsyncClient(base_url=address, timeout=120) as client:
        for number in range(TRIES):
            async with asyncio.TaskGroup() as group:
                for place, name in enumerate(BODIES):
                    group.create_task(_try(client, name, (number * len(BODIES) + place) % TOPICS, took[name], failures[name]))
    return took


async def _try(client: Any, name: str, topic: int, took: list[float], failures: list[str]) -> None:
    path, wrap = BODIES[name]
    began = time.perf_counter()
    async with _noting(failures):
        answer = await client.post(path, json=wrap({"query": f"liver injury topic{topic}", "top_k": 3}))
        answer.raise_for_status()
        response = answer.json().get("output") or answer.json()
        if response["failures"]:
            failures.append(str(response["failures"]))
        elif [hit["doc_id"] for hit in response["hits"]][:1] != [f"w{topic}"]:
            failures.append(f"another work is first: {[hit['doc_id'] for hit in response['hits']]}")
    took.append(time.perf_counter() - began)


@asynccontextmanager
async def _noting(failures: list[str]) -> AsyncIterator[None]:
    """A request that breaks off is a failure of the try, not of the benchmark."""
    import httpx

    try:
        yield
    except httpx.HTTPError as error:
        failures.append(f"{type(error).__name__}: {error}")

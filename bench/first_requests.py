"""The first requests to `outrider serve` after `/readyz` has answered 200, compared with the second ones.

Each start is a new process, and each of its queries is asked once. The interfaces take turns in being the first of a process. A ratio is
that of the first and the second request of one interface in one start; the CPU time is that of the server. The web source is off: its
browser starts beside the first searches (`cold_serve`).
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.data import Absent, collection
from bench.model import NAME, model_folder
from bench.report import Cell, Report, progress

if TYPE_CHECKING:
    import httpx

STARTS = 10
ASKED = 3
"""Requests to each interface in one start."""
RECORDS = 250
AT_MOST = 1.2
COLUMNS = (
    "library", "interface", "ready s", "first ms", "second ms", "third ms", "first to second", "CPU, first to second", "at most",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Served:
    name: str
    library: str
    offline: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """The requests to one interface in one start."""

    wall_s: tuple[float, ...]
    cpu_s: tuple[float, ...]


def run() -> Report:
    source = collection("scifact")
    queries = list(source.queries.values())
    cases, notes = [Served("by words, offline", "plain", True), Served("by words, services unreachable", "plain", False)], []
    rows: list[tuple[Cell, ...]] = []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "records.jsonl").write_text(
            "".join(f"{record.model_dump_json(exclude_none=True)}\n" for record in source.documents[:RECORDS]), encoding="utf-8"
        )
        _run(place, "ingest", "records.jsonl", "--offline", "-l", "plain", model="none")
        try:
            shutil.copytree(place / "plain", place / "embedded")
            _run(place, "library", "reindex", "-l", "embedded", model=model_folder())
            cases.insert(1, Served("with vectors, offline", "embedded", True))
        except Absent as absent:
            notes.append(f"with vectors skipped: {absent}")
        for case in cases:
            rows += _measure(place, case, queries)
    return Report("first_requests", COLUMNS, tuple(rows), (f"Medians of {STARTS} starts; {RECORDS} abstracts of SciFact, {NAME}.", *notes))


def _measure(place: Path, case: Served, queries: list[str]) -> list[tuple[Cell, ...]]:
    ready_s: list[float] = []
    asked: dict[str, list[Asked]] = {name: [] for name in ASK}
    for number in range(STARTS):
        progress(f"first_requests: {case.name}, start {number + 1} of {STARTS}")
        order = list(ASK)[number % len(ASK) :] + list(ASK)[: number % len(ASK)]
        with _served(place, case) as (client, process, took_s):
            ready_s.append(took_s)
            for turn, name in enumerate(order):
                walls, cpus = [], []
                for one in range(ASKED):
                    query = queries[(turn * ASKED + one) % len(queries)]
                    began, before = time.perf_counter(), _cpu_s(process)
                    ASK[name](client, {"query": query, "top_k": 5})
                    walls.append(time.perf_counter() - began)
                    cpus.append(_cpu_s(process) - before)
                asked[name].append(Asked(tuple(walls), tuple(cpus)))
    return [_make_row(case, name, ready_s, starts) for name, starts in asked.items()]


def _make_row(case: Served, name: str, ready_s: list[float], starts: list[Asked]) -> tuple[Cell, ...]:
    walls = [1_000 * statistics.median(start.wall_s[at] for start in starts) for at in range(ASKED)]
    ratio = statistics.median(start.wall_s[0] / start.wall_s[1] for start in starts)
    cpu = statistics.median(start.cpu_s[0] for start in starts) / statistics.median(start.cpu_s[1] for start in starts)
    return case.name, name, statistics.median(ready_s), *walls, ratio, cpu, AT_MOST


def _ask_rest(client: httpx.Client, query: dict[str, Any]) -> None:
    assert client.post("/api/search", json=query).raise_for_status().json()["hits"]


def _ask_as_the_page(client: httpx.Client, query: dict[str, Any]) -> None:
    run = client.post("/api/search", json=query, headers={"Prefer": "respond-async"}).raise_for_status()
    with client.stream("GET", f"{run.headers['location']}/events") as events:
        assert any(line == "event: response" for line in events.raise_for_status().iter_lines())


def _ask_langserve(client: httpx.Client, query: dict[str, Any]) -> None:
    assert client.post("/search/invoke", json={"input": query}).raise_for_status().json()["output"]["hits"]


ASK: dict[str, Callable[[httpx.Client, dict[str, Any]], None]] = {
    "REST": _ask_rest,
    "the page: numbered, with its events": _ask_as_the_page,
    "LangServe invoke": _ask_langserve,
}


def _run(place: Path, *arguments: str, model: str) -> None:
    environment = {**_make_environment(place), "OUTRIDER_EMBEDDING__MODEL_NAME": model}
    subprocess.run([sys.executable, "-m", "outrider", *arguments], cwd=place, env=environment, capture_output=True, check=True)


def _make_environment(place: Path) -> dict[str, str]:
    own = {name: str(place / name.lower()) for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")}
    return {name: value for name, value in os.environ.items() if not name.startswith("OUTRIDER_")} | own


@contextmanager
def _served(place: Path, case: Served) -> Iterator[tuple[httpx.Client, int, float]]:
    """A client, the process, and the seconds until `/readyz` was 200."""
    import httpx

    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "outrider", "serve", "--port", "0", "-l", case.library, *(["--offline"] if case.offline else [])],
        stderr=subprocess.PIPE, text=True, cwd=place, env=_make_environment(place) | {"OUTRIDER_SOURCES__WEB__ENABLED": "false"},
    )  # fmt: skip
    assert process.stderr is not None
    try:
        address = "http://" + process.stderr.readline().partition("http://")[2].split()[0]
        with httpx.Client(base_url=address, timeout=120) as client:
            while client.get("/readyz").status_code != 200:
                time.sleep(0.05)
            yield client, process.pid, time.perf_counter() - began
    finally:
        process.terminate()
        process.communicate()


def _cpu_s(process: int) -> float:
    """Of all threads of a process, in hundredths of a second."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

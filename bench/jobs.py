"""Latency of searches while background jobs run, compared with none, in turns over one server.

Jobs and searches compete for the processor, so it matters how many cores there are. A client searches again `PAUSE_S` after an answer: in
the pauses jobs run freely, during a search they make way. The works that they look up are counted, since jobs that never run would cost
nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bench.data import collection
from bench.job_load import WORKS
from bench.report import Cell, Report, percentiles, progress

if TYPE_CHECKING:
    import httpx
    from pydantic import JsonValue

    from outrider.jobs.job_table import JobTable

ROUNDS, SEARCHES = 6, 25
"""Each round has so many searches with jobs, and so many without."""
PAUSE_S = 0.2
RECORDS = 2_000
TARGETS = 500
"""Works of a job: more than a round can look up."""
P50_AT_MOST, P95_AT_MOST = 1.15, 1.3
COLUMNS = ("searches", "without p50 ms", "without p95 ms", "with p50 ms", "with p95 ms", "p50 ratio", "p95 ratio", "works meanwhile")


def run() -> Report:
    source = collection("scifact")
    queries = list(source.queries.values())
    without, beside, works = list[float](), list[float](), 0
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "records.jsonl").write_text(
            "".join(f"{record.model_dump_json(exclude_none=True)}\n" for record in source.documents[:RECORDS]), encoding="utf-8"
        )
        ingest = [sys.executable, "-m", "outrider", "ingest", "records.jsonl", "--offline", "-l", str(place / "library")]
        subprocess.run(ingest, cwd=place, env=_make_environment(place), capture_output=True, check=True)
        with _serve(place) as (client, table):
            _search(client, queries[:SEARCHES])  # warm
            for number in range(ROUNDS):
                progress(f"jobs: round {number + 1} of {ROUNDS}")
                batch = queries[number * SEARCHES :][:SEARCHES]
                turns = (False, True) if number % 2 else (True, False)
                for with_jobs in turns:
                    job = _start_job(table, number) if with_jobs else ""
                    (beside if with_jobs else without).extend(_search(client, batch))
                    works += _stop_job(client, table, job) if with_jobs else 0
    (p50, p95), (p50_with, p95_with) = percentiles(without), percentiles(beside)
    row: tuple[Cell, ...] = (len(without), p50, p95, p50_with, p95_with, p50_with / p50, p95_with / p95, works)
    notes = (
        f"Targets: p50 at most {P50_AT_MOST} times, p95 at most {P95_AT_MOST} times.",
        f"{RECORDS} abstracts of SciFact, by words; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores at the end.",
    )
    return Report("jobs", COLUMNS, (row,), notes)


def _search(client: httpx.Client, queries: list[str]) -> list[float]:
    """Milliseconds of each search."""
    times = []
    for query in queries:
        began = time.perf_counter()
        assert client.post("/api/search", json={"query": query, "top_k": 5}).raise_for_status().json()["hits"]
        times.append(1_000 * (time.perf_counter() - began))
        time.sleep(PAUSE_S)
    return times


def _start_job(table: JobTable, number: int) -> str:
    targets: list[JsonValue] = [f"doi:10.5555/w.{1 + (number * TARGETS + place) % WORKS}" for place in range(TARGETS)]
    request: dict[str, JsonValue] = {"targets": targets, "budget": {"calls": 100_000, "works": 100_000, "time_s": 10_000}}
    job = table.queue("citations", f"round {number}", "", request)
    while not table.get(job).progress:
        assert table.get(job).status in ("queued", "running")
        time.sleep(0.05)
    return job


def _stop_job(client: httpx.Client, table: JobTable, job: str) -> int:
    """The works that were looked up. Waits until the process has ended, which takes processor time, too."""
    client.post("/api/jobs/stop", json={"target": job}).raise_for_status()
    while table.is_worked():
        time.sleep(0.1)
    time.sleep(1.0)
    return int(table.get(job).progress.split()[2])


def _make_environment(place: Path) -> dict[str, str]:
    own = {name: str(place / name.lower()) for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")}
    own |= {"OUTRIDER_JOBS__URI": str(place / "jobs.sqlite"), "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return {name: value for name, value in os.environ.items() if not name.startswith("OUTRIDER_")} | own


@contextmanager
def _serve(place: Path) -> Iterator[tuple[httpx.Client, JobTable]]:
    import httpx

    from outrider.jobs.job_table import JobTable

    command = [sys.executable, "-m", "bench.job_load", "serve", str(place / "library")]
    environment = _make_environment(place) | {"PYTHONPATH": os.pathsep.join((str(Path.cwd()), *(path for path in sys.path if path)))}
    log = place / "server.log"  # not a pipe, which would be full after some hundred searches
    with log.open("w", encoding="utf-8") as stream:
        process = subprocess.Popen(command, stderr=stream, cwd=place, env=environment)
    try:
        while "http://" not in log.read_text(encoding="utf-8"):
            time.sleep(0.05)
        address = "http://" + log.read_text(encoding="utf-8").partition("http://")[2].split()[0]
        with httpx.Client(base_url=address, timeout=120) as client:
            while client.get("/readyz").status_code != 200:
                time.sleep(0.05)
            yield client, JobTable(str(place / "jobs.sqlite"))
    finally:
        process.terminate()
        process.wait()

"""Citation jobs that are killed: a chase of 50 works of CACM, two links deep, from four services on loopback.

Each service has its documented limits, on a clock that runs 50 times as fast, and refuses what exceeds them. One of eleven different
requests fails at first: 429 with Retry-After, 503, a truncated answer, a slow one that ends in a reset. `outrider jobs run` is killed
(SIGKILL) as the services have answered a given number of requests, and started again, ten times. Responses are not cached, so a repeated
request is paid again. The graph is compared with what the services report, and with that of a job that nothing disturbed.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.report import Cell, Report, progress

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue

    from outrider.state.jobs import Job
    from support.citation_world import StrictServices

SEEDS, DEPTH, KILLS = 50, 2, 10
BUDGET: Mapping[str, JsonValue] = {"calls": 100_000, "works": 100_000, "time_s": 100_000, "depth": DEPTH}
COLUMNS = (
    "", "kills", "works", "links", "as reported", "problems", "requests", "failed at first", "refused", "asked again",
    "longest before a kill", "s", "CPU s", "s at the real limits",
)  # fmt: skip


@dataclass(slots=True)
class Run:
    """One job from its first process to its end."""

    job: Job
    links: Mapping[tuple[str, str], tuple[str, ...]]
    problems: int
    services: StrictServices
    kills: int
    wall_s: float
    cpu_s: float


def run() -> Report:
    from support.citation_world import CitationWorld, load_cacm

    works = load_cacm()
    world = CitationWorld(works)
    linked = sorted({number for pair in world.list_links("openalex") for number in pair})
    seeds = random.Random(0).sample(linked, SEEDS)
    truth = world.truth(seeds, DEPTH)
    progress("citation_jobs: undisturbed")
    undisturbed = _chase(seeds, ())
    total = len(undisturbed.services.log)
    places = tuple(total * number // (KILLS + 1) + 1 for number in range(KILLS + 1))[1:]
    progress(f"citation_jobs: killed at {', '.join(map(str, places))} of {total} requests")
    killed = _chase(seeds, places)
    same = dict(killed.links) == dict(undisturbed.links)
    notes = (
        f"{len(works)} works of CACM; the graph of the killed job {'equals' if same else 'DIFFERS FROM'} that of the undisturbed one.",
        "Refused: too fast for the service's limits. Asked again: answered before. Problems: found by the library's check.",
        "Longest before a kill: requests between an answer that was lost and the kill; the steps of a work send up to 7 at once.",
        f"Load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores at the end.",
    )
    rows = tuple(_make_row(name, one, truth) for name, one in (("undisturbed", undisturbed), ("killed", killed)))
    return Report("citation_jobs", COLUMNS, rows, notes)


def _make_row(name: str, run: Run, truth: Mapping[tuple[str, str], tuple[str, ...]]) -> tuple[Cell, ...]:
    from support.citation_world import DOCUMENTED, SCALE

    services, report = run.services, (run.job.result or {})["report"]
    assert isinstance(report, dict)
    repeated, asked = services.find_repeated(), Counter(line.split(" ")[0] for line in services.log)
    again = sum(Counter(services.log)[line] - 1 for line in repeated)
    real_s = max(count / own["requests"] * own["per_s"] * SCALE for service, own in DOCUMENTED.items() for count in [asked[service]])
    links = sum(map(len, run.links.values()))
    found: tuple[Cell, ...] = (name, run.kills, int(str(report["works"])), links, "yes" if dict(run.links) == truth else "NO", run.problems)
    costs: tuple[Cell, ...] = (len(services.log), len(services.failed), sum(services.too_fast.values()), again)
    return (*found, *costs, max(repeated.values(), default=0), run.wall_s, run.cpu_s, real_s)


def _chase(seeds: list[int], places: tuple[int, ...]) -> Run:
    """Run one job to its end, over processes that are killed at these numbers of requests."""
    from outrider.jobs.job_table import JobTable
    from support.citation_worker import make_flags
    from support.citation_world import DOCUMENTED, FAULTS, CitationWorld, StrictServices, load_cacm
    from support.http_server import serving

    services = StrictServices(CitationWorld(load_cacm()), FAULTS)
    with tempfile.TemporaryDirectory() as folder, serving(services.handle) as server:
        table, library = JobTable(f"{folder}/jobs.sqlite"), f"{folder}/library"
        targets: list[JsonValue] = [services.world.by_number[seed].key for seed in seeds]
        number = table.queue("citations", "cacm", library, {"targets": targets, "budget": dict(BUDGET)})
        environment = _make_environment(make_flags(server.base_url, folder, DOCUMENTED), folder)
        began, cpu_before, kills = time.perf_counter(), _children_cpu_s(), 0
        for place in (*places, -1):
            services.kill_at = place
            services.starts.append(len(services.log))
            kills += _run_jobs(services, environment) == -signal.SIGKILL
        spent = time.perf_counter() - began, _children_cpu_s() - cpu_before
        job = table.get(number)
        assert job.status == "done", job.error
        links, problems = asyncio.run(_read_graph(library, [str(one) for one in targets]))
        return Run(job, links, problems, services, kills, *spent)


def _run_jobs(services: StrictServices, environment: Mapping[str, str]) -> int:
    process = subprocess.Popen([sys.executable, "-m", "outrider", "jobs", "run"], stderr=subprocess.DEVNULL, env=dict(environment))

    def kill() -> None:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)

    services.kill = kill
    return process.wait()


async def _read_graph(library: str, keys: list[str]) -> tuple[Mapping[tuple[str, str], tuple[str, ...]], int]:
    from outrider.library.citation_network import load_network
    from outrider.library.library import Library

    opened = await Library.open(library)
    try:
        return (await load_network(opened, keys, DEPTH)).links, len(await opened.check())
    finally:
        opened.close()


def _make_environment(flags: Mapping[str, Any], folder: str) -> dict[str, str]:
    from outrider.settings.environment import variable_name

    own = {name: f"{folder}/{name.lower()}" for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")}
    own |= {variable_name(name): str(value) for name, value in flags.items()} | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return {name: value for name, value in os.environ.items() if not name.startswith("OUTRIDER_")} | own


def _children_cpu_s() -> float:
    times = os.times()
    return times.children_user + times.children_system

"""Citation jobs from the queue to the library: the worker's process, the real handler, services with limits and faults."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from outrider.jobs.job_table import JobTable
from outrider.library.citation_network import load_network
from outrider.library.library import Library
from outrider.state.citations import CitationNetwork
from outrider.state.errors import TargetPaused
from support.citation_worker import make_flags
from support.citation_world import DOCUMENTED, CitationWorld, StrictServices, make_small_works
from support.http_server import Answer, as_bytes, cut, refusal, serving

pytestmark = pytest.mark.slow

FAULTS = (
    refusal(429, headers={"Retry-After": ".1"}),
    refusal(503),
    cut(as_bytes(b'{"data": [' + b" " * 400, "application/json")),
    Answer(after_s=0.2, reset=True),
)
MOST_AT_ONCE = 7
"""Requests of the steps of one work that run at once: one or two to each of four services."""


@dataclass
class WorkerProcess:
    """Forks that run all jobs of a table to their end."""

    process: subprocess.Popen[str]
    child: int = 0

    def start(self, flags: dict[str, Any]) -> None:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(flags) + "\n")
        self.process.stdin.flush()
        self.child = int(self.process.stdout.readline())

    def wait(self) -> int:
        """The exit code, negative where a signal ended it."""
        assert self.process.stdout
        return int(self.process.stdout.readline())

    def run(self, flags: dict[str, Any]) -> int:
        self.start(flags)
        return self.wait()

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.child, signal.SIGKILL)


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    tests = Path(__file__).parents[1]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("OUTRIDER_")}
    environ |= {"PYTHONPATH": f"{tests}{os.pathsep}{tests.parent / 'src'}", "OUTRIDER_CONFIG": ""}
    command = [sys.executable, "-um", "support.citation_worker"]
    folder = tmp_path_factory.mktemp("worker")
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ, cwd=folder)
    try:
        yield WorkerProcess(process)
    finally:
        process.communicate(timeout=30)


def queue(folder: Path, world: CitationWorld, *numbers: int, target: str = "otters", **budget: Any) -> tuple[JobTable, str]:
    table = JobTable(str(folder / "jobs.sqlite"))
    targets: list[Any] = [world.by_number[number].key for number in numbers]
    return table, table.queue("citations", target, str(folder / "library"), {"targets": targets, "budget": {"calls": 1_000, **budget}})


async def read_graph(folder: Path, world: CitationWorld, *numbers: int, depth: int = 2) -> CitationNetwork:
    """Of a library that its own check finds nothing wrong with."""
    library = await Library.open(folder / "library")
    try:
        assert await library.check() == ()
        return await load_network(library, [world.by_number[number].key for number in numbers], depth)
    finally:
        library.close()


def test_a_chase_killed_three_times_builds_the_same_graph_and_pays_twice_only_for_what_was_under_way(
    tmp_path: Path, worker: WorkerProcess
) -> None:
    world = CitationWorld(make_small_works(), 0.8, nameless=frozenset({3}))
    services = StrictServices(world, FAULTS, kill=worker.kill)
    table, number = queue(tmp_path, world, 1, 8, depth=2)
    with serving(services.handle) as server:
        flags = make_flags(server.base_url, str(tmp_path), DOCUMENTED)
        for kill_at in (1, 17, 45, -1):
            services.kill_at = kill_at
            services.starts.append(len(services.log))
            assert worker.run(flags) == (0 if kill_at < 0 else -signal.SIGKILL), kill_at
    job = table.get(number)
    assert (job.status, job.attempts, job.error) == ("done", 4, "")
    assert dict(asyncio.run(read_graph(tmp_path, world, 1, 8)).links) == world.truth([1, 8], 2)
    assert len(services.failed) >= 3, "some requests failed at first"
    assert not services.too_fast
    assert all(age <= MOST_AT_ONCE for age in services.find_repeated().values()), services.find_repeated()


@pytest.mark.parametrize("scope", ["all_jobs", "target_queue_only"])
def test_a_stop_ends_citation_jobs_or_lets_them_complete_and_leaves_a_sound_library(
    tmp_path: Path, worker: WorkerProcess, scope: Any
) -> None:
    """Stopped in the middle of the first of two jobs; another target's job completes, and a pause holds none of them."""
    world = CitationWorld(make_small_works())
    services = StrictServices(world, kill_at=20)
    table, first = queue(tmp_path, world, 1, depth=2)
    _, second = queue(tmp_path, world, 8, depth=1)
    _, other = queue(tmp_path, world, 12, depth=1, target="newts")
    stopped: list[str] = []
    services.kill = lambda: stopped.extend(job.id for job in (table.pause("otters"), table.stop("otters", scope))[1])
    with serving(services.handle) as server:
        assert worker.run(make_flags(server.base_url, str(tmp_path), DOCUMENTED)) == 0
    ends = "cancelled" if scope == "all_jobs" else "done"
    assert {job.id: job.status for job in table.list_jobs()} == {first: ends, second: ends, other: "done"}
    assert set(stopped) == ({first, second} if scope == "all_jobs" else set())
    with pytest.raises(TargetPaused):
        queue(tmp_path, world, 2)
    names = {f"openalex:{work.own.lower()}": work.key for work in world.works}  # of works whose identifiers were not looked up yet
    links = {
        (names.get(citing, citing), names.get(cited, cited)) for citing, cited in asyncio.run(read_graph(tmp_path, world, 1, 8, 12)).links
    }
    truth = {**world.truth([1], 2), **world.truth([8], 1), **world.truth([12], 1)}
    if scope == "target_queue_only":
        assert links == truth.keys()
    else:
        assert world.truth([12], 1).keys() < links < truth.keys(), "what was read before the stop stays"
        assert len(services.log) < 20 + MOST_AT_ONCE + 10, "nothing more was asked for the first, nothing for the second"


def test_a_job_that_continues_with_other_services_begins_again_and_completes(tmp_path: Path, worker: WorkerProcess) -> None:
    """Its kept answers are those of other requests, so they are of no use."""
    world = CitationWorld(make_small_works())
    services = StrictServices(world, kill=worker.kill, kill_at=20)
    table, number = queue(tmp_path, world, 1, depth=1)
    _, other = queue(tmp_path, world, 1, 2, 3, depth=1)
    table.stop(number, "all_jobs")
    with serving(services.handle) as server:
        flags = make_flags(server.base_url, str(tmp_path), DOCUMENTED)
        assert worker.run(flags) == -signal.SIGKILL
        assert worker.run({**flags, "sources.semantic_scholar.enabled": False}) == 0
    job = table.get(other)
    assert (job.status, job.error) == ("done", "")
    assert job.result
    links = asyncio.run(read_graph(tmp_path, world, 1, 2, 3, depth=1)).links
    assert links.keys() == world.truth([1, 2, 3], 1).keys()

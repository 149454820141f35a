"""Citation jobs from the queue to the library: the worker's process, the real handler, services with limits and faults."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from outrider.citations.build_graph import DirectSteps
from outrider.jobs.job_table import JobTable
from outrider.library.address_and_locks import LOCK
from outrider.library.citation_network import load_network
from outrider.library.library import Library
from outrider.services import Services
from outrider.services.citations import run_citation_job
from outrider.state.citations import CitationNetwork, GraphReport
from outrider.state.errors import LibraryMissing, TargetPaused
from support.citation_worker import make_flags
from support.citation_world import DOCUMENTED, FAULTS, CitationWorld, StrictServices, WorldWork, make_small_works
from support.http_server import Answer, Request, serving

pytestmark = pytest.mark.slow

UNLIMITED = {"requests": 10_000, "at_once": 50}
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


async def run_handler(world: CitationWorld, folder: Path, *numbers: int, at: int = -1, act: Callable[[], None] = int, **budget: Any) -> Any:
    """The handler in this process; `act` is called at one request."""
    targets = [world.by_number[number].key for number in numbers]

    def handle(request: Request) -> Answer:
        if sum(world.asked.values()) == at:
            act()
        return world.handle(request)

    with serving(handle) as server:
        services = Services.from_file(make_flags(server.base_url, str(folder), dict.fromkeys(DOCUMENTED, UNLIMITED)))
        try:
            return await run_citation_job(services, {"targets": targets, "budget": {"calls": 1_000, **budget}}, DirectSteps())
        finally:
            services.close()


@pytest.mark.parametrize("how", ["removed", "moved"])
async def test_a_library_that_is_gone_meanwhile_is_one_error_and_is_not_made_anew(tmp_path: Path, how: str) -> None:
    world, library = CitationWorld(make_small_works()), tmp_path / "library"

    def take_away() -> None:
        library.rename(tmp_path / "elsewhere")
        if how == "removed":
            shutil.rmtree(tmp_path / "elsewhere")

    with pytest.raises(LibraryMissing, match="no library at"):
        await run_handler(world, tmp_path, 1, 8, at=12, act=take_away, depth=2)
    assert not await asyncio.to_thread((library / "citation_works.lance").exists)
    assert sum(world.asked.values()) < 12 + 2 * MOST_AT_ONCE, "nothing is asked that cannot be written"


async def test_a_library_that_another_process_writes_is_waited_for(tmp_path: Path) -> None:
    world, lock = CitationWorld(make_small_works()), FileLock(tmp_path / "library" / LOCK, thread_local=False)

    def hold() -> None:
        lock.acquire()
        threading.Timer(0.5, lock.release).start()

    assert (await run_handler(world, tmp_path, 1, at=5, act=hold, depth=1))["failures"] == []
    assert (await read_graph(tmp_path, world, 1, depth=1)).links.keys() == world.truth([1], 1).keys()


async def test_hostile_titles_and_identifiers_stay_text(tmp_path: Path) -> None:
    titles = (
        "<script>alert(1)</script>",
        "\x1b[31mred\x07evil",
        "x" * 100_000,
        "'; DROP TABLE records; --",
        "",
        "\x00null",
        "a\tb\nc",
    )
    names = ("10.5555/w'1", "10.5555/w|2", "10.5555/w%_3", "10.5555/w;4", "10.5555/w<5>", "10.5555/w(6)", "10.5555/w&7?x=#8")
    works = [WorldWork(number, names[number - 1], title, cites=(1, number % 7 + 1)) for number, title in enumerate(titles, start=1)]
    world = CitationWorld(works, nameless=frozenset({3}))
    await run_handler(world, tmp_path, 1, depth=2)
    network = await read_graph(tmp_path, world, 1)
    assert network.links.keys() <= world.truth([1], 2).keys()
    assert len(network.works) == len(works)
    assert not [work.title for work in network.works.values() if re.search(r"[\x00-\x1f]", work.title)]


async def test_a_work_with_many_citations_is_read_as_far_as_the_budget_goes(tmp_path: Path) -> None:
    works = [WorldWork(1, "10.5555/w.1", "Rivers")]
    works += (WorldWork(number, f"10.5555/w.{number}", "", cites=(1,)) for number in range(2, 5_002))
    result = await run_handler(CitationWorld(works), tmp_path, 1, calls=100, works=500, depth=2)
    report = GraphReport.model_validate(result["report"])
    assert sum(use.calls for use in report.services) <= 100
    assert report.works == 500
    assert report.unknown_total == 0
    assert {"the budget of 100 calls", "the budget of 500 works"} <= {line.partition(":")[0] for line in report.cut}

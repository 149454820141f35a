"""The worker over real processes: killed anywhere, its jobs end as if undisturbed and pay no finished step again."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from outrider.jobs import worker as worker_module
from outrider.jobs.job_table import JobTable
from outrider.jobs.worker import Worker
from outrider.state.errors import JobError, RateLimited, SourceError
from outrider.state.jobs import JobSteps
from support.job_worker import STEPS

pytestmark = pytest.mark.slow

Handler = Callable[[dict[str, JsonValue], JobSteps], Awaitable[dict[str, JsonValue]]]
TOTAL = sum(10**number for number in range(STEPS))


@pytest.fixture(scope="module")
def killed_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    tests = Path(__file__).parents[1]
    environ = {**os.environ, "PYTHONPATH": f"{tests}{os.pathsep}{tests.parent / 'src'}"}
    folder = tmp_path_factory.mktemp("jobs")
    process = subprocess.Popen(
        [sys.executable, "-um", "support.job_worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ, cwd=folder
    )
    try:
        yield process
    finally:
        process.communicate(timeout=30)


def fork(process: subprocess.Popen[str], **case: Any) -> int:
    """Its exit code, negative where a signal ended it."""
    assert process.stdin
    assert process.stdout
    process.stdin.write(json.dumps(case) + "\n")
    process.stdin.flush()
    return int(process.stdout.readline())


PLACES = (("before", 0), ("within", 0), ("before", 2), ("within", 2), ("before", STEPS), ("ended", STEPS))


def test_a_job_killed_again_and_again_pays_only_what_was_under_way_twice(
    table: JobTable, tmp_path: Path, killed_process: subprocess.Popen[str]
) -> None:
    """Killed before and within steps, after the last one, and between its end in the table and in DBOS."""
    log = tmp_path / "paid"
    number = table.queue("citations", "liver", "/library", {"name": "a"})
    for place in PLACES:
        assert fork(killed_process, uri=table.uri, log=str(log), die=place) == -9, place
    ended = table.get(number)
    table.queue("citations", "kidney", "/library", {"name": "b"})
    assert fork(killed_process, uri=table.uri, log=str(log)) == 0
    job = table.get(number)
    assert job == ended, "it had ended in the table: DBOS starts it again, and it does nothing"
    assert (job.status, job.result, job.attempts, job.progress) == ("done", {"total": TOTAL}, len(PLACES), f"{STEPS} of {STEPS}")
    assert Counter(log.read_text().splitlines()) == {"a 0": 2, "a 1": 1, "a 2": 2, "a 3": 1, **{f"b {step}": 1 for step in range(STEPS)}}


def test_after_a_kill_of_several_jobs_all_end_and_fetches_go_first(tmp_path: Path, killed_process: subprocess.Popen[str]) -> None:
    table, log = JobTable(str(tmp_path / "jobs.sqlite")), tmp_path / "paid"
    names = [("citations", "c1"), ("citations", "c2"), ("fetch", "f1"), ("fetch", "f2"), ("fetch", "f3")]
    for kind, name in names:
        table.queue(kind, "liver", "/library", {"name": name})  # type: ignore[arg-type]
    assert fork(killed_process, uri=table.uri, log=str(log), die=("within", 1)) == -9
    assert fork(killed_process, uri=table.uri, log=str(log)) == 0
    assert {str(job.request["name"]): (job.status, job.result) for job in table.list_jobs()} == {
        name: ("done", {"total": TOTAL}) for _, name in names
    }
    paid = log.read_text().splitlines()
    assert set(paid) == {f"{name} {step}" for _, name in names for step in range(STEPS)}
    assert len(paid) - len(set(paid)) <= 2, "at most the steps of the two fetches that were under way"
    first = [line[0] for line in paid]
    assert first == sorted(first, reverse=True), "citations begin when no fetch is left, and one at a time"
    assert [line for line in paid if line.startswith("c")] == [f"c{job} {step}" for job in (1, 2) for step in range(STEPS)]


def run_here(table: JobTable, handler: Handler, **options: Any) -> Worker:
    """A worker in this process, whose handlers are all the same; `run` is to follow."""
    return Worker(table, lambda _: {"fetch": handler, "citations": handler}, **options)


@pytest.fixture(scope="module")
def prepared_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file in which DBOS has made its tables and queues, which takes it more than a second."""
    path = tmp_path_factory.mktemp("prepared") / "jobs.sqlite"
    table = JobTable(str(path))
    table.queue("fetch", "liver", "/library", {})
    asyncio.run(run_here(table, do_nothing).run())
    with table._connect() as connection:
        connection.execute("DELETE FROM outrider_jobs")
    return path


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TICK_S", "QUEUE_S"):
        monkeypatch.setattr(worker_module, name, 0.05)


@pytest.fixture
def jobs(tmp_path: Path, prepared_file: Path) -> JobTable:
    return JobTable(str(shutil.copy(prepared_file, tmp_path / "jobs.sqlite")))


@pytest.mark.parametrize("scope", ["all_jobs", "target_queue_only"])
async def test_a_stop_interrupts_running_jobs_or_lets_citations_complete(jobs: JobTable, scope: Any) -> None:
    begun: set[str] = set()
    ended: dict[str, str] = {}
    gate = asyncio.Event()

    async def wait(request: dict[str, JsonValue], steps: JobSteps) -> dict[str, JsonValue]:
        name = str(request["name"])
        begun.add(name)
        try:
            await steps.step("wait", lambda: asyncio.wait_for(gate.wait(), 30))
        except asyncio.CancelledError:
            ended[name] = "cancelled"
            raise
        ended[name] = "completed"
        return {}

    running = jobs.queue("citations", "liver", "/library", {"name": "running"})
    queued = jobs.queue("citations", "liver", "/library", {"name": "queued"})
    working = asyncio.create_task(run_here(jobs, wait).run())
    await until(lambda: "running" in begun)
    fetch = jobs.queue("fetch", "liver", "/library", {"name": "fetch"})
    await until(lambda: "fetch" in begun)
    jobs.stop("liver", scope)
    await until(lambda: "fetch" in ended)
    gate.set()
    assert await asyncio.wait_for(working, 30) == 2 + (scope == "target_queue_only")
    expected = "done" if scope == "target_queue_only" else "cancelled"
    assert [jobs.get(number).status for number in (running, queued, fetch)] == [expected, expected, "cancelled"]
    assert ended == {"fetch": "cancelled", "running": "completed" if expected == "done" else "cancelled"} | (
        {"queued": "completed"} if expected == "done" else {}
    )


async def test_an_interrupted_worker_leaves_its_jobs_to_the_next_and_a_second_one_is_refused(jobs: JobTable) -> None:
    paid: list[str] = []
    gate = asyncio.Event()

    async def handle(_: dict[str, JsonValue], steps: JobSteps) -> dict[str, JsonValue]:
        async def pay(name: str) -> JsonValue:
            paid.append(name)
            return name

        second = steps.step("second", lambda: asyncio.wait_for(gate.wait(), 30))
        await asyncio.gather(steps.step("first", lambda: pay("first")), second)
        return {}

    number = jobs.queue("citations", "liver", "/library", {})
    working = asyncio.create_task(run_here(jobs, handle).run(wait=True))
    await until(lambda: bool(paid))
    with pytest.raises(JobError, match="another process works the jobs"):
        await run_here(jobs, handle).run()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert jobs.get(number).status == "running"
    gate.set()
    assert await run_here(jobs, handle).run() == 1
    assert (jobs.get(number).status, jobs.get(number).attempts, paid) == ("done", 2, ["first"])


async def test_an_expected_error_of_a_step_keeps_its_kind_and_any_error_fails_only_its_job(
    jobs: JobTable, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[str] = []

    async def limit() -> JsonValue:
        calls.append("limit")
        raise RateLimited("the service is rate-limiting us")

    async def handle(request: dict[str, JsonValue], steps: JobSteps) -> dict[str, JsonValue]:
        try:
            await steps.step("limit", limit)
        except SourceError as error:
            if request["raises"] == "source":
                raise
            if request["raises"] == "bug":
                raise KeyError("a bug") from error
            return {"failed": f"{type(error).__name__}: {error}"}
        return {}

    for error in ("", "source", "bug"):
        jobs.queue("fetch", "liver", "/library", {"raises": error})
    with caplog.at_level(logging.CRITICAL, worker_module.__name__):
        await run_here(jobs, handle).run(limit=3)
    ends = {str(job.request["raises"]): (job.status, job.result, job.error) for job in jobs.list_jobs()}
    assert ends[""] == ("done", {"failed": "RateLimited: the service is rate-limiting us"}, "")
    assert ends["source"] == ("failed", None, "the service is rate-limiting us")
    assert ends["bug"][0] == "failed"
    assert "KeyError" in ends["bug"][2]
    assert calls == ["limit"] * 3


async def test_jobs_make_way_for_searches_and_a_limit_leaves_the_rest(jobs: JobTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "YIELD_S", 0.005)
    searching, paid = [True], list[str]()

    async def handle(_: dict[str, JsonValue], steps: JobSteps) -> dict[str, JsonValue]:
        async def pay() -> JsonValue:
            paid.append("during a search" if searching[0] else "after it")
            return None

        await steps.step("pay", pay)
        return {}

    for name in ("a", "b"):
        jobs.queue("citations", name, "/library", {})
    working = asyncio.create_task(run_here(jobs, handle, is_searching=lambda: searching[0]).run(limit=1))
    await until(lambda: any(job.status == "running" for job in jobs.list_jobs()))
    await asyncio.sleep(0.1)
    searching[0] = False
    assert await asyncio.wait_for(working, 30) == 1
    assert paid == ["after it"]
    assert {job.target: job.status for job in jobs.list_jobs()} == {"a": "done", "b": "queued"}
    assert await run_with_a_late_fetch(jobs) == 1, "a fetch that the limit keeps from beginning holds up nothing"
    searching[0] = True
    monkeypatch.setattr(worker_module, "LONGEST_YIELD_S", 0.01)
    await run_here(jobs, handle, is_searching=lambda: True).run()
    assert paid == ["after it", "during a search"], "under a load that never ends, jobs go on slowly"


async def run_with_a_late_fetch(jobs: JobTable) -> int:
    """Run the oldest job to its end, with a fetch job that is queued meanwhile."""

    async def handle(_: dict[str, JsonValue], steps: JobSteps) -> dict[str, JsonValue]:
        late = jobs.queue("fetch", "late", "/library", {})
        await asyncio.sleep(4 * worker_module.TICK_S)
        await steps.step("pay", lambda: asyncio.sleep(0))
        jobs.stop(late, "all_jobs")
        return {}

    jobs.queue("citations", "c", "/library", {})
    return await asyncio.wait_for(run_here(jobs, handle).run(limit=1), 30)


async def test_a_job_that_kills_its_process_each_time_ends_as_failed(jobs: JobTable) -> None:
    number = jobs.queue("fetch", "liver", "/library", {})
    for _ in range(worker_module.MOST_ATTEMPTS):
        jobs.start(number, 0)

    async def handle(_: dict[str, JsonValue], steps: JobSteps) -> dict[str, JsonValue]:
        raise AssertionError(f"it must not begin again: {steps}")

    await run_here(jobs, handle).run()
    assert (jobs.get(number).status, "never ended" in jobs.get(number).error) == ("failed", True)


async def test_what_dbos_cannot_read_is_one_error(tmp_path: Path) -> None:
    """The table is sound, and DBOS's own tables are of something else."""
    jobs = JobTable(str(tmp_path / "jobs.sqlite"))
    jobs.queue("fetch", "liver", "/library", {})
    with jobs._connect() as connection:
        connection.execute("CREATE TABLE workflow_status (other TEXT)")
    with pytest.raises(JobError, match=r"cannot be run.*jobs\.uri"):
        await run_here(jobs, do_nothing).run()


async def do_nothing(_: dict[str, JsonValue], __: JobSteps) -> dict[str, JsonValue]:
    return {}


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - of another thread or process
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("place", ["the start", "a step's answer", "the progress", "the end"])
async def test_jobs_that_cannot_be_written_end_the_run_and_go_on_with_the_next(
    jobs: JobTable, place: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The disk is full: one error, no traceback, nothing lost."""
    is_full = [True]
    from dbos._sys_db import SystemDatabase

    def fails(real: Callable[..., Any], error: Exception) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if is_full[0]:
                raise error
            return real(*arguments, **options)

        return call

    full = sqlite3.OperationalError("database or disk is full")
    refused = JobError(f"the jobs in {jobs.uri} cannot be read or written: database or disk is full")
    target, name, error = {
        "the start": (JobTable, "start", refused),
        "a step's answer": (SystemDatabase, "record_operation_result", full),
        "the progress": (JobTable, "report", refused),
        "the end": (JobTable, "finish", refused),
    }[place]
    monkeypatch.setattr(target, name, fails(getattr(target, name), error))

    async def handle(_: dict[str, JsonValue], steps: JobSteps) -> dict[str, JsonValue]:
        await steps.step("pay", lambda: asyncio.sleep(0, 5))
        await steps.report("half")
        return {"paid": 5}

    number = jobs.queue("citations", "liver", "/library", {})
    with pytest.raises(JobError, match="disk is full"):
        await asyncio.wait_for(run_here(jobs, handle).run(), 30)
    assert jobs.get(number).status == ("queued" if place == "the start" else "running")
    assert not caplog.text
    is_full[0] = False
    await asyncio.wait_for(run_here(jobs, handle).run(), 30)
    assert (jobs.get(number).status, jobs.get(number).result, jobs.get(number).error) == ("done", {"paid": 5}, "")


async def test_a_result_or_an_error_that_cannot_be_written_fails_only_its_job(jobs: JobTable, caplog: pytest.LogCaptureFixture) -> None:
    async def handle(request: dict[str, JsonValue], _: JobSteps) -> dict[str, JsonValue]:
        if request["fails"]:
            raise SourceError("a lone \udc80")
        return {"title": "a lone \udc80" if request["is_bad"] else "good"}

    for fails, is_bad in ((False, True), (True, False), (False, False)):
        jobs.queue("fetch", "liver", "/library", {"fails": fails, "is_bad": is_bad})
    with caplog.at_level(logging.CRITICAL, worker_module.__name__):
        assert await asyncio.wait_for(run_here(jobs, handle).run(), 30) == 3
    good, failing, bad = jobs.list_jobs()
    assert (good.status, good.result) == ("done", {"title": "good"})
    assert (failing.status, failing.error) == ("failed", "a lone ?")
    assert (bad.status, bad.result, "UnicodeEncodeError" in bad.error) == ("failed", None, True)

"""Worker processes: when they are used, what becomes of work when one ends, and that none outlives the process that it is for."""

from __future__ import annotations

import asyncio
import concurrent.futures
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from outrider.nodes.dedup.cluster import WORKER_MODULES
from outrider.runtime import workers as processes
from outrider.runtime.workers import NoWorker, Workers, count_cores
from support.worker_tasks import doubled, ending, failing, pid, ready, sleeping

PROGRAM = """
import asyncio
from outrider.runtime.workers import Workers
from support.worker_tasks import pid, ready, touch_and_sleep

async def main():
    workers = Workers()
    await workers.start(1, ["json"], lambda: True)
    await ready(workers)
    print((await workers.run(pid, b"")).decode(), flush=True)
    await asyncio.sleep(600)

if __name__ == "__main__":
    asyncio.run(main())
"""


async def test_work_is_done_elsewhere_and_its_own_errors_come_back(workers: Workers) -> None:
    await workers.start(1, ["json"], lambda: True)
    await ready(workers)
    assert await workers.run(doubled, b"ab") == b"abab"
    assert int(await workers.run(pid, b"")) != os.getpid()
    with pytest.raises(ValueError, match="why not"):
        await workers.run(failing, b"why not")


async def test_processes_are_started_in_a_thread_and_ended_where_the_caller_is_cancelled(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start takes up to 0.2 s, in which a server would answer nobody."""
    threads, start = [], processes._start_processes

    def note_thread(*arguments: Any) -> Any:
        threads.append(threading.current_thread())
        return start(*arguments)

    monkeypatch.setattr(processes, "_start_processes", note_thread)
    starting = asyncio.create_task(workers.start(1, [], lambda: True))
    async with asyncio.timeout(60):
        while not threads:  # noqa: ASYNC110 - a thread sets no event of this loop
            await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert threads != [threading.main_thread()]
    assert workers._pool is None
    async with asyncio.timeout(60):
        while multiprocessing.active_children():  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)


async def test_without_workers_none_is_wanted(workers: Workers) -> None:
    assert not workers.available()
    await workers.start(0, [], lambda: True)
    assert not workers.available()
    with pytest.raises(NoWorker):
        await workers.run(doubled, b"")


async def test_they_are_wanted_while_there_is_enough_else_to_do(workers: Workers) -> None:
    busy = True
    await workers.start(1, [], lambda: busy)
    await ready(workers)
    busy = False
    assert not workers.available()


async def test_a_worker_that_ends_is_reported_and_another_one_starts(
    workers: Workers, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    await workers.start(1, [], lambda: True)
    await ready(workers)
    end_file = tmp_path / "end"
    waiting = [asyncio.create_task(workers.run(ending, str(end_file).encode())) for _ in range(3)]
    await asyncio.sleep(0)  # all three are for the same worker
    end_file.touch()
    lost = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(one) for one in lost] == [NoWorker] * 3
    await ready(workers)
    assert await workers.run(doubled, b"ab") == b"abab"
    assert caplog.text.count("a worker process is lost") == 1


async def test_a_module_that_cannot_be_loaded_leaves_no_worker_wanted(workers: Workers) -> None:
    await workers.start(1, ["outrider.no_such_module"], lambda: True)
    async with asyncio.timeout(60):
        while not (workers._ready and workers._ready.done()):  # noqa: ASYNC110 - no event reports it
            await asyncio.sleep(0.01)
    assert not workers.available()
    with pytest.raises(NoWorker):
        await workers.run(doubled, b"")


async def test_an_interrupt_does_not_reach_a_worker_that_is_just_starting(workers: Workers) -> None:
    await workers.start(1, WORKER_MODULES, lambda: True)
    (worker,) = workers._pool._processes  # type: ignore[union-attr]
    for _ in range(20):
        os.kill(worker, signal.SIGINT)
        await asyncio.sleep(0.01)
    await ready(workers)
    assert int(await workers.run(pid, b"")) == worker


async def test_a_worker_that_is_stuck_is_given_up(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    await workers.start(1, [], lambda: True)
    await ready(workers)
    monkeypatch.setattr(processes, "LONGEST_S", 0.2)
    (worker,) = workers._pool._processes  # type: ignore[union-attr]
    os.kill(worker, signal.SIGSTOP)
    with pytest.raises(NoWorker, match="within"):
        await workers.run(doubled, b"")
    monkeypatch.undo()
    await ready(workers)
    assert await workers.run(doubled, b"ab") == b"abab"
    assert not _runs(worker)


async def test_who_waits_when_they_are_closed_does_the_work_without_delay(workers: Workers) -> None:
    await workers.start(1, [], lambda: True)
    await ready(workers)
    waiting = [asyncio.create_task(workers.run(sleeping, b"600")) for _ in range(5)]
    await asyncio.sleep(0.1)
    workers.close()
    async with asyncio.timeout(60):
        lost = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(one) for one in lost] == [NoWorker] * 5


def test_a_process_ends_while_its_worker_computes(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        PROGRAM.replace("await asyncio.sleep(600)", "await workers.run(touch_and_sleep, b'begun')"), encoding="utf-8"
    )
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "program.py")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environ,
        cwd=tmp_path,
    )
    assert process.stdout is not None
    worker = int(process.stdout.readline())
    ends_at = time.monotonic() + 60
    while not (tmp_path / "begun").exists() and time.monotonic() < ends_at:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    try:
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert not _runs(worker)


async def test_where_none_can_be_started_none_is_wanted(
    workers: Workers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def none(*_: object) -> None:
        raise OSError("no room")

    monkeypatch.setattr(concurrent.futures, "ProcessPoolExecutor", none)
    await workers.start(1, [], lambda: True)
    assert not workers.available()
    assert "no room" in caplog.text
    with pytest.raises(NoWorker):
        await workers.run(doubled, b"")


@pytest.mark.parametrize("ended_by", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_worker_ends_with_the_process_that_it_is_for(tmp_path: Path, ended_by: signal.Signals) -> None:
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    process = subprocess.Popen([sys.executable, str(tmp_path / "program.py")], stdout=subprocess.PIPE, text=True, env=environ)
    assert process.stdout is not None
    worker = int(process.stdout.readline())
    process.send_signal(ended_by)
    process.communicate(timeout=60)
    ends_at = time.monotonic() + 60
    while _runs(worker) and time.monotonic() < ends_at:
        time.sleep(0.02)
    assert not _runs(worker)


def _runs(process: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text(encoding="ascii")
    except OSError:
        return False


def test_there_is_a_core() -> None:
    assert 1 <= count_cores() <= (os.cpu_count() or 1)

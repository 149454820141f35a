from __future__ import annotations

import asyncio
import threading
import time
from contextvars import ContextVar

import pytest

from outrider.runtime.threads_and_loops import Abandoned, run_in_thread, stop_if_abandoned
from support.patience import BUSY_S


async def test_the_result_comes_back_and_the_context_goes_along() -> None:
    variable: ContextVar[str] = ContextVar("said")
    variable.set("here")
    assert await run_in_thread(variable.get) == "here"


def test_work_that_is_left_behind_does_not_hold_up_the_end_of_the_process() -> None:
    go_on = threading.Event()

    async def leave() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await run_in_thread(lambda: go_on.wait(600))

    started = time.monotonic()
    asyncio.run(leave())
    assert time.monotonic() - started < BUSY_S
    go_on.set()  # it ends after its loop has; nothing may be raised then


async def test_a_bug_is_not_hidden() -> None:
    def broken() -> None:
        raise KeyError("bug")

    with pytest.raises(KeyError, match="bug"):
        await run_in_thread(broken)


async def test_what_nobody_waits_for_is_not_taken_up() -> None:
    turn, done = threading.Lock(), []
    ended = threading.Semaphore(0)

    def work() -> None:
        try:
            with turn:
                stop_if_abandoned()
                done.append("worked")
        except Abandoned:
            done.append("gone")
        finally:
            ended.release()

    with turn:
        waiting = [asyncio.create_task(run_in_thread(work)) for _ in range(3)]
        await asyncio.sleep(0.05)
        waiting[0].cancel()
        waiting[2].cancel()
        await asyncio.wait([waiting[0], waiting[2]])
    assert await waiting[1] is None
    for _ in waiting:
        assert await asyncio.to_thread(ended.acquire, timeout=5)
    assert sorted(done) == ["gone", "gone", "worked"]


def test_anywhere_else_work_goes_on() -> None:
    stop_if_abandoned()

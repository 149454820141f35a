"""Threads, the background loop and their cancellation."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

import pytest

from outrider.runtime import threads_and_loops
from outrider.runtime.threads_and_loops import Abandoned, in_background, run_in_background, run_in_thread, run_isolated, stop_if_abandoned
from support.patience import BUSY_S


async def _name() -> str:
    await asyncio.sleep(0)
    return threading.current_thread().name


def test_work_runs_on_one_loop_of_its_own() -> None:
    assert run_in_background(_name()) == run_in_background(_name()) == "outrider-background"


def test_it_works_inside_a_running_loop() -> None:
    async def inside() -> str:
        return run_in_background(_name())

    assert asyncio.run(inside()) == "outrider-background"


def test_errors_come_back() -> None:
    async def fails() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        run_in_background(fails())


WHO: ContextVar[str] = ContextVar("who", default="nobody")


async def test_another_loop_waits_without_blocking_and_passes_its_context() -> None:
    WHO.set("caller")

    ticked = threading.Event()

    async def read_context() -> tuple[str, str]:
        while not ticked.is_set():  # noqa: ASYNC110 - set in another thread
            await asyncio.sleep(0.005)
        return WHO.get(), await _name()

    task = asyncio.create_task(in_background(read_context()))
    for _ in range(4):
        await asyncio.sleep(0.005)
    assert not task.done()
    ticked.set()
    assert await task == ("caller", "outrider-background")


async def test_errors_and_cancelling_reach_the_other_loop() -> None:
    ended = threading.Event()
    loop = asyncio.get_running_loop()

    async def fails() -> None:
        raise KeyError("x")

    async def waits() -> None:
        try:
            loop.call_soon_threadsafe(time_is_up.reschedule, loop.time())
            await asyncio.sleep(600)
        finally:
            ended.set()

    with pytest.raises(KeyError):
        await in_background(fails())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(None) as time_is_up:
            await in_background(waits())
    assert ended.is_set()  # before the caller continues


def test_on_its_own_loop_nothing_is_handed_over() -> None:
    async def inside() -> str:
        return await in_background(_name())

    assert run_in_background(inside()) == "outrider-background"


# --- cancelling --------------------------------------------------------------------------------------------------------------------------

Call = Callable[[Callable[[], Coroutine[Any, Any, Any]]], Coroutine[Any, Any, Any]]
CALLS: list[Call] = [lambda work: in_background(work()), lambda work: run_isolated("tested", work, 600.0)]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("way", ["cancel", "timeout"])
async def test_cancelled_work_completes_its_cleanup(call: Call, way: str) -> None:
    """Its `finally` may await: a lock is released, a page is written to its end. A scope of anyio would cancel each of these again."""
    steps: list[int] = []
    begun, ended = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    async def work() -> None:
        loop.call_soon_threadsafe(begun.set)
        try:
            await asyncio.sleep(600)
        finally:
            for step in range(3):
                await asyncio.sleep(0.01)
                steps.append(step)
            ended.set()

    task = asyncio.create_task(call(work))
    await begun.wait()
    if way == "cancel":
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(task, 0.01)
    assert await asyncio.to_thread(ended.wait, 60)
    assert steps == [0, 1, 2]


@pytest.mark.parametrize("call", CALLS)
async def test_work_that_was_cancelled_before_it_began_never_begins(call: Call) -> None:
    """Neither is it reported as never awaited."""
    started, free, done = threading.Event(), threading.Event(), threading.Event()
    began = []

    async def holding() -> None:
        started.set()
        free.wait(30)

    async def work() -> None:
        began.append("work")

    async def last() -> None:
        done.set()

    holder = asyncio.create_task(call(holding))
    assert await asyncio.to_thread(started.wait, 5)
    waiting = asyncio.create_task(call(work))
    await asyncio.sleep(0)
    waiting.cancel()
    threading.Timer(0.05, free.set).start()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.gather(holder, call(last))
    assert done.is_set()
    assert not began


async def test_work_that_cancels_itself_does_not_cancel_the_caller_of_an_isolated_loop() -> None:
    async def work() -> None:
        raise asyncio.CancelledError("mine")

    done = await run_isolated("tested", work, 5.0)
    assert repr(done.exception()) == "CancelledError('mine')"
    with pytest.raises(asyncio.CancelledError):
        await in_background(work())


def test_work_that_cancels_itself_is_an_ordinary_error_of_a_synchronous_call() -> None:
    async def work() -> None:
        raise asyncio.CancelledError

    with pytest.raises(Exception) as caught:
        run_in_background(work())
    assert type(caught.value).__name__ == "CancelledError"


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
async def test_no_error_ends_the_loop_for_its_other_callers(error: type[BaseException]) -> None:
    async def work() -> None:
        raise error("leaving")

    other = asyncio.create_task(in_background(asyncio.sleep(0.1, "other")))
    with pytest.raises(error):
        await in_background(work())
    with pytest.raises(error):
        run_in_background(work())
    assert isinstance((await run_isolated("tested", work, 5.0)).exception(), error)
    assert await other == "other"
    assert await in_background(_name()) == "outrider-background"
    assert (await run_isolated("tested", _name, 5.0)).result() == "outrider-tested"


async def test_an_isolated_loop_runs_in_the_callers_context() -> None:
    WHO.set("caller")

    async def who() -> str:
        await asyncio.sleep(0)
        return WHO.get()

    assert (await run_isolated("tested", who, 5.0)).result() == "caller"


def test_a_synchronous_caller_lends_its_context_too() -> None:
    token = WHO.set("caller")

    async def who() -> str:
        await asyncio.sleep(0)
        return WHO.get()

    try:
        assert run_in_background(who()) == "caller"
    finally:
        WHO.reset(token)


def test_a_callers_loop_may_end_before_its_work() -> None:
    ended = threading.Event()

    async def work() -> None:
        try:
            loop.call_soon_threadsafe(begun.set)
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            await asyncio.sleep(0.2)
            ended.set()
            raise

    loop = asyncio.new_event_loop()
    begun = asyncio.Event()
    task = loop.create_task(in_background(work()))
    loop.run_until_complete(begun.wait())
    task.cancel()
    loop.run_until_complete(asyncio.sleep(0.05))  # in the time that the caller gives the work to clean up
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)
    loop.close()
    assert ended.wait(60)


# --- the end of a process ----------------------------------------------------------------------------------------------------------------

PROGRAM = """
import asyncio, sys, threading, time
from outrider.runtime.threads_and_loops import in_background, run_in_background, run_isolated
from outrider.runtime.threads_and_loops import run_in_thread

async def waits():
    try:
        print("begun", flush=True)
        await asyncio.sleep(600)
    finally:
        print("cleaned up", flush=True)
        ended.set()

begun = threading.Event()
ended = threading.Event()

def block():
    print("begun", flush=True)
    begun.set()
    time.sleep(600)

async def blocks():
    block()

async def leaves(work):
    task = asyncio.ensure_future(work)
    while not begun.is_set():
        await asyncio.sleep(0.01)
    try:
        async with asyncio.timeout(0.05):
            await task
    except TimeoutError:
        print("left", flush=True)
"""


def _program(last: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", PROGRAM + last], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("when", ["before the start", "after it"])
def test_an_interrupt_between_the_start_and_the_wait_cancels_the_work(when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended = threading.Event(), threading.Event()
    start = threads_and_loops._Call.start

    async def work() -> None:
        begun.set()
        try:
            await asyncio.sleep(600)
        finally:
            ended.set()

    def interrupted(call: Any) -> None:
        if when == "after it":
            start(call)
            assert begun.wait(60)
        raise KeyboardInterrupt

    monkeypatch.setattr(threads_and_loops._Call, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_in_background(work())
    assert begun.is_set() == (when == "after it")
    assert ended.wait(60) if begun.is_set() else not ended.is_set()


@pytest.mark.parametrize(
    "last", ["run_in_background(waits())", "asyncio.run(in_background(waits()))", "asyncio.run(run_isolated('x', waits, 600.0))"]
)
def test_an_interrupt_cancels_the_work(last: str) -> None:
    process = _program(f"try:\n    {last}\nfinally:\n    ended.wait(60)")
    assert process.stdout
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=300)
    assert output == "cleaned up\n"
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert process.returncode == -signal.SIGINT


@pytest.mark.parametrize(
    "last",
    [
        "asyncio.run(leaves(run_isolated('x', blocks, 600.0)))",
        "asyncio.run(leaves(in_background(blocks())))",
        "asyncio.run(leaves(run_in_thread(block)))",
    ],
)
def test_the_end_of_a_process_does_not_wait_for_work_that_blocks(last: str) -> None:
    started = time.monotonic()
    process = _program(last)
    output, errors = process.communicate(timeout=300)
    assert (output, errors, process.returncode) == ("begun\nleft\n", "", 0)
    assert time.monotonic() - started < 300  # half of what the work blocks for


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


async def test_work_whose_caller_has_gone_is_not_started() -> None:
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
        assert await asyncio.to_thread(ended.acquire, timeout=60)
    assert sorted(done) == ["gone", "gone", "worked"]


def test_anywhere_else_work_continues() -> None:
    stop_if_abandoned()


def test_threads_that_ask_at_once_get_one_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    make = asyncio.new_event_loop

    def make_slowly() -> asyncio.AbstractEventLoop:
        time.sleep(0.05)
        return make()

    monkeypatch.setattr(asyncio, "new_event_loop", make_slowly)
    with ThreadPoolExecutor(4) as threads:
        loops = list(threads.map(threads_and_loops._loop, ["of a test"] * 4))
    assert len(set(loops)) == 1
    loops[0].call_soon_threadsafe(loops[0].stop)

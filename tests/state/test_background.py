from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar

import pytest

from outrider.state.background import in_background, run_in_background


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


async def test_another_loop_waits_without_being_held_up_and_lends_its_context() -> None:
    WHO.set("caller")

    async def told() -> tuple[str, str]:
        await asyncio.sleep(0.05)
        return WHO.get(), await _name()

    ticks = 0
    task = asyncio.create_task(in_background(told()))
    while not task.done():
        await asyncio.sleep(0.005)
        ticks += 1
    assert await task == ("caller", "outrider-background")
    assert ticks > 3


async def test_errors_and_cancelling_reach_the_other_loop() -> None:
    ended = threading.Event()

    async def fails() -> None:
        raise KeyError("x")

    async def waits() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    with pytest.raises(KeyError):
        await in_background(fails())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await in_background(waits())
    assert ended.is_set()  # before the caller goes on


def test_on_its_own_loop_nothing_is_handed_over() -> None:
    async def inside() -> str:
        return await in_background(_name())

    assert run_in_background(inside()) == "outrider-background"

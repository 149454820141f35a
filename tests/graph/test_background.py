from __future__ import annotations

import asyncio
import threading

import pytest

from outrider.graph.background import run_in_background


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

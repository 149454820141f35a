"""Batches that run several at a time; the servers are coroutines."""

from __future__ import annotations

import asyncio
import gc

import pytest

from outrider.models.servers.batches import BatchLimits, run_batches
from outrider.state.errors import ModelUnavailable


async def test_workers_that_fail_together_leave_no_error_behind() -> None:
    left: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: left.append(context))

    async def run(_: list[int]) -> None:
        await asyncio.sleep(0.01)
        raise ModelUnavailable("gone")

    with pytest.raises(ModelUnavailable):
        await run_batches([1] * 64, BatchLimits(8, 100), lambda: 4, run, lambda *_: None)
    gc.collect()
    await asyncio.sleep(0)
    assert left == []

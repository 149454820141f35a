"""The limit on calls under way."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.models.chat.client import ConcurrencyLimiter
from support.redis import redis_url
from support.skipping_loop import SkippingRedis, run

__all__ = ["redis_url"]


@given(st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=1, max_size=20))
def test_no_call_exceeds_its_limit_and_every_call_runs(callers: list[tuple[int, bool]]) -> None:
    """Whatever their limits, and whichever of them leave while waiting."""
    passed: list[int] = []

    async def run() -> None:
        limiter, now = ConcurrencyLimiter(), 0

        async def call(at: int, limit: int) -> None:
            nonlocal now
            async with limiter.slot(limit):
                assert now < limit
                now += 1
                try:
                    await asyncio.sleep(0)
                    await asyncio.sleep(0)
                finally:
                    now -= 1
                passed.append(at)

        tasks = [asyncio.create_task(call(at, limit)) for at, (limit, _) in enumerate(callers)]
        await asyncio.sleep(0)
        for task, (_, leaves) in zip(tasks, callers, strict=True):
            if leaves:
                task.cancel()
        async with asyncio.timeout(5):
            results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(one is None or isinstance(one, asyncio.CancelledError) for one in results), results
        async with asyncio.timeout(1), limiter.slot(1):
            pass

    asyncio.run(run())
    assert {at for at, (_, leaves) in enumerate(callers) if not leaves} <= set(passed)


def test_calls_run_in_the_order_of_arrival() -> None:
    order: list[int] = []

    async def run() -> None:
        limiter = ConcurrencyLimiter()

        async def call(at: int) -> None:
            async with limiter.slot(1):
                order.append(at)
                await asyncio.sleep(0)

        await asyncio.gather(*map(call, range(10)))

    asyncio.run(run())
    assert order == list(range(10))


def test_a_returning_call_queues_behind_those_that_wait() -> None:
    order: list[str] = []

    async def run() -> None:
        limiter = ConcurrencyLimiter()

        async def call(name: str) -> None:
            async with limiter.slot(1):
                order.append(name)

        async def twice() -> None:
            async with limiter.slot(1):
                await asyncio.sleep(0.01)
            await call("again")

        first = asyncio.create_task(twice())
        await asyncio.sleep(0)
        await asyncio.gather(first, call("a"), call("b"))

    asyncio.run(run())
    assert order == ["a", "b", "again"]


def test_a_slot_of_a_cancelled_call_goes_to_the_next() -> None:
    async def run() -> None:
        limiter = ConcurrencyLimiter()

        async def call() -> None:
            async with limiter.slot(1):
                pass

        async with limiter.slot(1):
            waiting = [asyncio.create_task(call()) for _ in range(3)]
            await asyncio.sleep(0)
        waiting[0].cancel()  # after its turn has come, before it runs
        async with asyncio.timeout(1):
            results = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(one) for one in results] == [asyncio.CancelledError, type(None), type(None)]

    asyncio.run(run())


def test_one_with_a_low_limit_is_not_overtaken_for_ever() -> None:
    """Who comes after them waits, whatever their own limit; where they leave, the next go on."""
    order: list[str] = []

    async def run(leaves: bool) -> None:
        limiter, order[:] = ConcurrencyLimiter(), []

        async def call(name: str, limit: int) -> None:
            async with limiter.slot(limit):
                order.append(name)
                await asyncio.sleep(0)

        async with limiter.slot(9):
            low = asyncio.create_task(call("low", 1))
            high = asyncio.create_task(call("high", 9))
            for _ in range(3):
                await asyncio.sleep(0)
            assert order == []
            if leaves:
                low.cancel()
                await asyncio.wait({high}, timeout=1)
                assert order == ["high"]
        await asyncio.gather(low, high, return_exceptions=True)

    asyncio.run(run(leaves=True))
    asyncio.run(run(leaves=False))
    assert order == ["low", "high"]


@pytest.mark.blocking
def test_calls_of_all_processes_that_share_a_server_are_counted(redis_url: str) -> None:
    """While the server is away, each process makes its share of the calls."""
    running = most = 0

    async def call(limiter: ConcurrencyLimiter) -> None:
        nonlocal running, most
        async with limiter.slot(3, 5.0):
            running += 1
            most = max(most, running)
            await asyncio.sleep(1.0)
            running -= 1

    async def call_all() -> tuple[int, int]:
        nonlocal most
        limiters, processes = [ConcurrencyLimiter() for _ in range(3)], [SkippingRedis(redis_url) for _ in range(3)]
        for limiter, process in zip(limiters, processes, strict=True):
            limiter.redis, process.processes = process, 3
        await asyncio.gather(*(call(limiter) for limiter in limiters * 4))
        with_server, most = most, 0
        for process in processes:
            process.lose()
        await asyncio.gather(*(call(limiter) for limiter in limiters * 4))
        return with_server, most

    assert run(call_all()) == (3, 3)

"""The limit on calls under way."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from outrider.llm.gate import Gate


@given(st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=1, max_size=20))
def test_nobody_passes_beyond_their_limit_and_everybody_passes(callers: list[tuple[int, bool]]) -> None:
    """Whatever their limits, and whoever leaves while waiting."""
    passed: list[int] = []

    async def run() -> None:
        made, now = Gate(), 0

        async def call(at: int, limit: int) -> None:
            nonlocal now
            async with made.passed(limit):
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
            found = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(one is None or isinstance(one, asyncio.CancelledError) for one in found), found
        async with asyncio.timeout(1), made.passed(1):
            pass

    asyncio.run(run())
    assert {at for at, (_, leaves) in enumerate(callers) if not leaves} <= set(passed)


def test_calls_pass_in_the_order_of_their_coming() -> None:
    order: list[int] = []

    async def run() -> None:
        made = Gate()

        async def call(at: int) -> None:
            async with made.passed(1):
                order.append(at)
                await asyncio.sleep(0)

        await asyncio.gather(*map(call, range(10)))

    asyncio.run(run())
    assert order == list(range(10))

"""What a run reads once."""

from __future__ import annotations

import asyncio

import pytest

from outrider.runtime.run_reads import Reads, read_afresh, read_once, share_reads


class Counter:
    """Counts its reads; a read takes a turn of the event loop."""

    def __init__(self) -> None:
        self.reads = 0

    async def read(self) -> int:
        self.reads += 1
        await asyncio.sleep(0)
        return self.reads


async def test_a_run_reads_once_and_the_next_run_reads_again() -> None:
    counter = Counter()
    for run in (1, 2):
        with share_reads({}):
            assert await asyncio.gather(*(read_once("key", counter.read) for _ in range(3))) == [run] * 3
            assert await read_once("key", counter.read) == run
    assert [await read_once("key", counter.read), await read_once("key", counter.read)] == [3, 4]


async def test_parts_of_one_run_share_its_reads_in_separate_contexts() -> None:
    counter, reads = Counter(), Reads()
    for _ in range(2):
        with share_reads(reads):
            assert await asyncio.create_task(read_once("key", counter.read)) == 1
    with share_reads(reads), share_reads():  # work inside a run belongs to it
        assert await read_once("key", counter.read) == 1


async def test_a_failed_or_cancelled_read_leaves_nothing_behind() -> None:
    counter = Counter()

    async def fail() -> int:
        await asyncio.sleep(0)
        raise ValueError

    with share_reads({}):
        first, second = asyncio.create_task(read_once("key", fail)), asyncio.create_task(read_once("key", counter.read))
        with pytest.raises(ValueError):
            await first
        assert await second == 1
        cancelled = asyncio.create_task(read_once("other", asyncio.Event().wait))
        await asyncio.sleep(0)
        waiting = asyncio.create_task(read_once("other", counter.read))
        await asyncio.sleep(0)
        cancelled.cancel()
        assert await waiting == 2


async def test_a_writer_reads_the_latest_and_its_run_reads_again_afterwards() -> None:
    counter = Counter()
    with share_reads({}):
        assert await read_once("key", counter.read) == 1
        with read_afresh():
            assert [await read_once("key", counter.read), await read_once("key", counter.read)] == [2, 3]
        assert [await read_once("key", counter.read), await read_once("key", counter.read)] == [4, 4]

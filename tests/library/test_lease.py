from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from itertools import groupby
from typing import Any

import pytest

from outrider.library import lease
from outrider.library.address_and_locks import LOCK, Location
from outrider.library.lance_errors import retry_conflicts
from outrider.library.lease import Lease, hold, require_held
from outrider.library.object_storage import ObjectStorage
from outrider.state.errors import LibraryBusy, LibraryError, LibraryReadOnly, MissingExtra
from support.http_server import Answer, serving

obstore = pytest.importorskip("obstore", reason="needs obstore: pip install 'outrider[object-storage]'")

BUSY = "others write"
NO_RETRY: Any = {"max_retries": 0, "retry_timeout": timedelta(seconds=1)}
MakeLease = Callable[[], Lease]


@pytest.fixture
def make_lease(monkeypatch: pytest.MonkeyPatch) -> MakeLease:
    """Each lease is that of another process; all are of one library."""
    from obstore.store import MemoryStore

    quick = {"POLL_S": 0.002, "SLOWEST_POLL_S": 0.004, "RENEW_S": 0.02, "RESERVED_S": 0.2, "EXPIRY_S": 0.3, "FENCE_S": 0.15}
    for name, seconds in quick.items():
        monkeypatch.setattr(lease, name, seconds)
    store = MemoryStore()
    return lambda: Lease(store, "writes", "s3://shelf/lib")


async def test_one_process_holds_it_at_a_time(make_lease: MakeLease) -> None:
    inside: list[int] = []

    async def write(number: int) -> int:
        async with hold(make_lease(), 10, BUSY, fences=True):
            inside.append(number)
            await asyncio.sleep(0.005)
            assert inside == [number]
            inside.remove(number)
        return number

    assert await asyncio.gather(*map(write, range(8))) == list(range(8))
    state = await make_lease().read()
    assert state is not None
    assert not state.holder


async def test_a_process_that_writes_again_and_again_lets_others_in(make_lease: MakeLease) -> None:
    turns: list[str] = []

    async def write(name: str, times: int) -> None:
        for _ in range(times):
            async with hold(make_lease(), 10, BUSY, fences=True):
                turns.append(name)
                await asyncio.sleep(0.01)

    await asyncio.gather(*(write(name, 10) for name in "abc"))
    in_a_row = [len(list(run)) for _, run in groupby(turns[6:-6])]
    assert max(in_a_row) <= 3, turns


async def test_those_who_come_do_not_keep_a_dead_process_alive(make_lease: MakeLease) -> None:
    await make_lease().acquire(1, BUSY)

    async def come_again_and_again() -> None:
        while True:
            with suppress(LibraryBusy):
                await make_lease().acquire(0.01, BUSY)

    coming = asyncio.create_task(come_again_and_again())
    async with asyncio.timeout(10 * lease.EXPIRY_S):
        await make_lease().acquire(5, BUSY)
    coming.cancel()


async def test_who_waits_too_long_is_told_and_others_are_not_held_up(make_lease: MakeLease) -> None:
    async with hold(make_lease(), 1, BUSY, fences=True):
        with pytest.raises(LibraryBusy, match=BUSY):
            async with hold(make_lease(), 0.02, BUSY, fences=True):
                raise AssertionError("two hold it")
        assert (state := await make_lease().read()) is not None
        assert state.queue == ()


async def test_a_live_holder_keeps_it_for_as_long_as_it_works(make_lease: MakeLease) -> None:
    async with hold(make_lease(), 1, BUSY, fences=True):
        with pytest.raises(LibraryBusy):
            await make_lease().acquire(3 * lease.EXPIRY_S, BUSY)
        require_held()


async def test_the_lease_of_a_dead_process_is_taken_over_and_the_wait_is_reported(
    make_lease: MakeLease, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lease, "REPORT_S", 0.05)
    await make_lease().acquire(1, BUSY)  # and never renews it
    with caplog.at_level(logging.WARNING):
        async with asyncio.timeout(5), hold(make_lease(), 5, BUSY, fences=True):
            require_held()
    assert "waiting for the library at s3://shelf/lib: process" in caplog.text
    assert "took over the lock of the library at s3://shelf/lib" in caplog.text


async def test_a_process_that_slept_writes_no_more(make_lease: MakeLease, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "RENEW_S", 100.0)  # as of a process that is stopped
    commits: list[str] = []

    async def commit(name: str) -> None:
        commits.append(name)

    async with hold(make_lease(), 1, BUSY, fences=True):
        await retry_conflicts(lambda: commit("in time"))
        await asyncio.sleep(lease.FENCE_S)
        with pytest.raises(LibraryBusy, match="could not renew its lock of the library at s3://shelf/lib"):
            await retry_conflicts(lambda: commit("too late"))
        async with asyncio.timeout(5), hold(other := make_lease(), 5, BUSY, fences=True):
            pass
        await other.acquire(1, BUSY)
    assert commits == ["in time"]
    state = await make_lease().read()
    assert state is not None
    assert state.holder, "the sleeper gave up what belongs to another process"


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="needs a clock of Linux")
async def test_time_in_which_the_machine_slept_counts(make_lease: MakeLease, monkeypatch: pytest.MonkeyPatch) -> None:
    """The monotonic clock of Linux stands still while a laptop is closed."""
    read = time.clock_gettime
    async with hold(make_lease(), 1, BUSY, fences=True):
        require_held()
        slept_s = {time.CLOCK_BOOTTIME: 3_600.0}
        monkeypatch.setattr(time, "clock_gettime", lambda clock: read(clock) + slept_s.get(clock, 0.0))
        with pytest.raises(LibraryBusy, match="could not renew its lock"):
            require_held()


@pytest.mark.parametrize("content", [b"", b"[]", b'{"holder": "x"}', b"\xff"])
async def test_an_object_that_is_no_lease_is_an_error(make_lease: MakeLease, content: bytes) -> None:
    own = make_lease()
    await own.store.put_async(f"{lease.FOLDER}/{own.name}", content)
    with pytest.raises(OSError, match=r"\.outrider-leases/writes at s3://shelf/lib is no lease"):
        await own.acquire(1, BUSY)


async def test_a_store_that_fails_is_one_line_of_the_log(make_lease: MakeLease, caplog: pytest.LogCaptureFixture) -> None:
    """`obstore` adds a dump of its own structures to each message."""
    own = make_lease()
    await own.acquire(1, BUSY)
    keys = {"access_key_id": "a", "secret_access_key": "b", "endpoint": "http://127.0.0.1:9"}
    own.store = obstore.store.S3Store("shelf", config=keys, client_options={"allow_http": True}, retry_config=NO_RETRY)
    with caplog.at_level(logging.WARNING):
        await own.release()
    assert "could not be released; it expires in" in caplog.text
    assert "the store cannot be reached" in caplog.text
    assert len(caplog.messages[-1].splitlines()) == 1


async def test_a_cancelled_wait_leaves_it_free(make_lease: MakeLease) -> None:
    async def write() -> None:
        async with hold(make_lease(), 5, BUSY, fences=True):
            await asyncio.sleep(10)

    for delay_s in (0.0, 0.0005, 0.01):
        task = asyncio.create_task(write())
        await asyncio.sleep(delay_s)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        state = await make_lease().read()
        assert state is None or not state.holder


async def test_a_renewal_that_fails_otherwise_leaves_it_free(make_lease: MakeLease, monkeypatch: pytest.MonkeyPatch) -> None:
    async def renew(self: Lease) -> None:
        raise ZeroDivisionError(self.name)

    monkeypatch.setattr(Lease, "renew", renew)
    with suppress(ZeroDivisionError):
        async with hold(make_lease(), 1, BUSY, fences=True):
            await asyncio.sleep(0.01)
    assert (state := await make_lease().read()) is not None
    assert not state.holder


async def test_a_writer_that_is_cancelled_while_it_gives_the_lease_up_is_cancelled(
    make_lease: MakeLease, monkeypatch: pytest.MonkeyPatch
) -> None:
    ending = asyncio.Event()

    async def renew(_: Lease) -> None:
        try:
            await asyncio.sleep(10)
        finally:
            ending.set()
            await asyncio.sleep(0.05)

    async def write() -> None:
        async with hold(make_lease(), 1, BUSY, fences=True):
            await asyncio.sleep(0.01)

    monkeypatch.setattr(Lease, "renew", renew)
    writing = asyncio.create_task(write())
    await ending.wait()
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    async with asyncio.timeout(5), hold(make_lease(), 1, BUSY, fences=True):
        pass


async def test_a_request_that_counted_though_its_answer_was_lost(make_lease: MakeLease, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client repeats what got no answer, and the second request is refused."""
    own, put = make_lease(), Lease._put
    lost = iter([True, False, True, False])

    async def put_without_answer(self: Lease, content: dict[str, Any], before: dict[str, str] | None) -> dict[str, str] | None:
        mark = await put(self, content, before)
        return None if next(lost, False) else mark

    monkeypatch.setattr(Lease, "_put", put_without_answer)
    await own.acquire(1, BUSY)
    own.require_held()
    await own.release()
    assert (state := await make_lease().read()) is not None
    assert not state.holder


async def test_one_reindexes_at_a_time_and_others_see_that_it_does(make_lease: MakeLease) -> None:
    storage = ObjectStorage("s3://shelf/lib", {})
    storage.__dict__["store"] = make_lease().store
    here, there = (Location("s3://shelf/lib", None, storage) for _ in range(2))
    assert not await there.is_reindexing()
    async with here.lock_reindex():
        assert await there.is_reindexing()
        with pytest.raises(LibraryBusy, match="s3://shelf/lib is being reindexed by another process"):
            async with there.lock_reindex():
                raise AssertionError("two hold it")
        async with asyncio.timeout(5), there.lock_writes():  # writes continue
            require_held(always=True)
    assert not await there.is_reindexing()


async def test_searching_needs_no_client_for_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search whose model is not the library's says whether a reindex is under way."""
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    location = Location("s3://shelf/lib", None, ObjectStorage("s3://shelf/lib", {}))
    assert not await location.is_reindexing()
    with pytest.raises(MissingExtra, match="writing to a library on object storage"):
        async with location.lock_writes():
            raise AssertionError("it holds nothing")


@pytest.mark.parametrize("options", [{"aws_nonsense": "1"}, {"allow_http": "true", "timeout": "often"}])
def test_refused_options_are_named_by_the_error(options: dict[str, str]) -> None:
    with pytest.raises(LibraryError, match="the options of the object store at s3://bucket/x are refused"):
        _ = ObjectStorage("s3://bucket/x", options).store


async def test_credentials_that_may_not_write_are_named_by_the_error() -> None:
    with serving(lambda _: Answer(status=403)) as server:
        options = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "aws_endpoint": server.base_url, "allow_http": "true"}
        location = Location("s3://bucket/x", None, ObjectStorage("s3://bucket/x", options))
        with pytest.raises(LibraryReadOnly, match="s3://bucket/x cannot be written by this user"):
            async with location._lock(LOCK, 1, BUSY):
                raise AssertionError("it holds nothing")

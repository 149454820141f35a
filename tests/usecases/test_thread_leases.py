"""Threads that several processes share: one at a time runs a thread, the next goes on where it died, and a stalled one writes nothing."""

from __future__ import annotations

import asyncio
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from outrider.services import Services
from outrider.services.thread_ledger import RunAnswers, ThreadLedger, find_place, name_process
from outrider.settings.model import Settings, SharedSettings, ThreadSettings
from outrider.state.errors import SearchError, ThreadBusy
from outrider.usecases.threads import Threads, collect_response, open_threads
from support.fakes import Shelf, no_reranker, paper
from support.postgres import postgres

__all__ = ["postgres"]
pytestmark = pytest.mark.slow
ELSEWHERE = "another host"


@pytest.fixture(params=["sqlite", "postgres"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "threads.sqlite") if request.param == "sqlite" else request.getfixturevalue("postgres")


@pytest.fixture
def thread() -> str:
    """A new name: the tests of this module share a database."""
    return f"one-{uuid.uuid4().hex[:8]}"


@asynccontextmanager
async def threads_of(uri: str, holder: str = "", place: str = "", lease_s: float = 60.0) -> AsyncIterator[Threads]:
    """Those that a process at `place` opened."""
    shelf = Shelf([paper("a", "Aspirin and the liver", abstract="Aspirin harms the liver.")])
    settings = Settings(threads=ThreadSettings(uri=uri), shared=SharedSettings(lease_s=lease_s))
    services = Services(settings, shelf=shelf, sources=(shelf,), reranker=no_reranker)
    async with open_threads(services) as threads:
        yield replace(threads, holder=holder or name_process(), place=place)


async def begin(threads: Threads, thread: str) -> Any:
    """A search whose first node has ended, and whose second one has begun."""
    parts = threads.search(thread, {"query": "aspirin"})
    async for kind, part in parts:
        if kind == "custom" and part == {"event": "started", "node": "scout"}:
            return parts
    raise AssertionError("the search has ended")


async def expire(threads: Threads) -> None:
    """What passes while a process is stalled."""
    await threads.store.ledger.database.execute("UPDATE outrider_leases SET until = 0")


async def test_a_stalled_process_loses_its_thread_and_writes_nothing_more(uri: str, thread: str) -> None:
    async with threads_of(uri) as here, threads_of(uri, "b:1", ELSEWHERE) as there:
        stalled = await begin(here, thread)
        with pytest.raises(ThreadBusy, match="under way"):
            await collect_response(there.resume(thread))
        await expire(here)
        answer = await collect_response(there.resume(thread))
        before = await there.runs(thread), await there.last(thread)
        with pytest.raises(SearchError, match="taken over"):
            async for _ in stalled:
                pass
        after = await there.runs(thread), await there.last(thread)
    assert [hit.doc_id for hit in answer.hits] == ["a"], answer
    assert before == after
    assert [(run.status, run.holder) for run in after[0]] == [("ended", "b:1")]


async def test_a_stalled_process_stops_before_it_pays_again(uri: str, thread: str) -> None:
    async with threads_of(uri) as here:
        ledger = here.store.ledger
        lease = await ledger.acquire(thread, "a:1", find_place())
        answers = RunAnswers(ledger, lease)
        await answers.keep_answer("r", "key", 0, "first")
        await expire(here)
        other = RunAnswers(ledger, await ledger.acquire(thread, "b:1", ELSEWHERE))
        with pytest.raises(ThreadBusy, match="taken over"):
            await answers.answer("r", "key", 1)
        await answers.keep_answer("r", "key", 1, "late")
        assert [await other.answer("r", "key", number) for number in (0, 1)] == ["first", None]
        assert not await ledger.renew(lease)


async def test_a_run_that_waits_for_its_next_part_ends_when_its_lease_was_taken(uri: str, thread: str) -> None:
    async with threads_of(uri, lease_s=1.0) as here, threads_of(uri, "b:1", ELSEWHERE) as there:
        shelf, gone = here.services.shelf, asyncio.Event()

        async def never_answer(_: object) -> Any:
            gone.set()
            await asyncio.Event().wait()

        shelf.search = never_answer  # type: ignore[method-assign]
        stuck = asyncio.create_task(collect_response(here.search(thread, {"query": "aspirin"})))
        await gone.wait()
        await asyncio.sleep(1.5)  # longer than the lease, which is renewed
        with pytest.raises(ThreadBusy, match="under way"):
            await collect_response(there.resume(thread))
        await expire(here)
        await there.store.ledger.acquire(thread, "b:1", ELSEWHERE)
        with pytest.raises(ThreadBusy, match="taken over"):
            await asyncio.wait_for(stuck, 60)


async def test_who_died_on_this_host_is_followed_at_once_and_on_another_when_its_lease_has_expired(uri: str, thread: str) -> None:
    dead = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
    await dead.wait()
    async with threads_of(uri, lease_s=1.0) as here:
        ledger = here.store.ledger
        await ledger.acquire(thread, f"a:{dead.pid}", find_place())
        with pytest.raises(ThreadBusy, match=f"under way in process a:{dead.pid}"):
            await ledger.acquire(thread, "b:1", ELSEWHERE)  # who cannot tell whether that process lives
        await ledger.acquire(thread, f"a:{dead.pid}", find_place())
        await asyncio.sleep(1.1)
        await ledger.acquire(thread, "b:1", ELSEWHERE)


async def test_runs_follow_each_other_whatever_the_clocks_of_their_hosts_show(
    uri: str, thread: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with threads_of(uri) as threads:
        await collect_response(threads.search(thread, {"query": "aspirin"}))
        monkeypatch.setattr("outrider.usecases.threads.time.time", lambda: 1.0)
        await collect_response(threads.search(thread, {"query": "aspirin liver"}))
        monkeypatch.undo()
        assert [run.query for run in await threads.runs(thread)] == ["aspirin", "aspirin liver"]


async def test_a_thread_that_is_used_again_while_others_expire_is_kept(uri: str, thread: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def list_earlier(*_: object) -> tuple[str, ...]:
        return (thread,)

    async with threads_of(uri) as threads:
        await collect_response(threads.search(thread, {"query": "aspirin"}))
        monkeypatch.setattr(ThreadLedger, "idle_threads", list_earlier)
        assert await threads.expire() == ()
        assert len(await threads.runs(thread)) == 1
        assert await threads.last(thread)

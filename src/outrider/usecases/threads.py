"""Searches on a thread: each step is kept, so that one that was killed goes on where it was, and the next knows those before it."""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from outrider.graph.pipeline import SearchGraph, build
from outrider.models.chat.journal import JOURNAL_KEY, Journal
from outrider.services.checkpoints import Store, opened
from outrider.services.thread_ledger import Run
from outrider.state.errors import BadRequest
from outrider.state.pipeline import RunContext
from outrider.state.request import SearchRequest, check_request
from outrider.state.response import SearchResponse

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.types import StreamMode

    from outrider.services import Services

DAY_S = 86_400.0
MOST_CHARS = 200
MODES: list[StreamMode] = ["custom", "updates", "values"]
_under_way: set[str] = set()
"""Threads that a run of this process goes on with."""

Part = tuple[str, Any]
"""What a run streams: `custom` events of nodes, `updates` of their fields, and the whole state as `values`."""


@dataclass(frozen=True, slots=True)
class Threads:
    """All threads of one store. Raises `ThreadError`, and `BadRequest` for a thread that is unknown, or that somebody goes on with."""

    services: Services
    store: Store
    expired: tuple[str, ...] = ()
    """What was deleted when the store was opened."""
    holder: str = field(default_factory=lambda: f"{socket.gethostname()}:{os.getpid()}")

    async def listed(self) -> tuple[Run, ...]:
        """The last run of each thread, most lately touched first."""
        last = {run.thread: run for run in await self.store.ledger.runs()}
        return tuple(sorted(last.values(), key=lambda run: (-run.touched, run.thread)))

    async def runs(self, thread: str) -> tuple[Run, ...]:
        """Oldest first; at least one."""
        found = await self.store.ledger.runs(thread)
        if not found:
            raise BadRequest(f"there is no thread {thread!r}; `outrider threads list` shows them")
        return found

    async def last(self, thread: str) -> SearchResponse | None:
        """As far as its last run came; None before its first node has ended."""
        with self.store.told():
            state = await build(self.services, self.store.saver).aget_state({"configurable": {"thread_id": thread}})
        return response_of(state.values) if "query" in state.values else None

    async def delete(self, thread: str) -> int:
        """How many runs it had."""
        count = len(await self.runs(thread))
        with self.store.told():
            await self.store.saver.adelete_thread(thread)
        await self.store.ledger.forget(thread)
        return count

    async def expire(self) -> tuple[str, ...]:
        """Deletes what nobody went on with for `threads.retention_days`."""
        before = time.time() - self.services.settings.threads.retention_days * DAY_S
        old = [thread for thread in await self.store.ledger.untouched(before) if thread not in _under_way]
        for thread in old:
            await self.delete(thread)
        return tuple(old)

    async def search(
        self, thread: str, asked: Mapping[str, Any] | SearchRequest, context: RunContext | None = None
    ) -> AsyncGenerator[Part]:
        """The next search of a thread, which is begun where there is none of that name."""
        request = check_request(asked)
        context = context or RunContext()
        self._refuse_taken(_named(thread), await self.store.ledger.runs(thread))
        now = time.time()
        said = request.model_dump_json(exclude_defaults=True), context.model_dump_json(exclude_none=True)
        run = Run(uuid.uuid4().hex, thread, str(request.query), *said, "begun", self.holder, now, now)
        await self.store.ledger.begin(run)
        async with aclosing(self._run(build(self.services, self.store.saver), run, request)) as parts:
            async for part in parts:
                yield part

    async def resume(self, thread: str) -> AsyncGenerator[Part]:
        """Goes on with the last run, at the time at which it was interrupted; of one that has ended, its end."""
        found = await self.runs(thread)
        run = found[-1]
        self._refuse_taken(thread, found)
        with self.store.told():
            before = await build(self.services, self.store.saver).aget_state({"configurable": {"thread_id": thread}})
        begun = (before.metadata or {}).get("run") == run.run
        if run.status == "ended" or (begun and not before.next):
            yield "values", before.values
            return
        await self.store.ledger.touch(run.run, "begun", self.holder, time.time())
        graph = build(self._as_of(before.values if begun else {}), self.store.saver)
        asked = None if begun else check_request(SearchRequest.model_validate_json(run.asked))
        async with aclosing(self._run(graph, replace(run, holder=self.holder), asked)) as parts:
            async for part in parts:
                yield part

    async def _run(self, graph: SearchGraph, run: Run, asked: SearchRequest | None) -> AsyncGenerator[Part]:
        config: RunnableConfig = {
            "configurable": {"thread_id": run.thread, JOURNAL_KEY: Journal(run.run, self.store.ledger)},
            "metadata": {"run": run.run},
        }
        context = RunContext.model_validate_json(run.context)
        _under_way.add(run.thread)
        status = "failed"
        try:
            with self.store.told():
                streamed: Any = graph.astream(asked, config, context=context, stream_mode=MODES, durability="sync")
                async with aclosing(streamed) as parts:
                    async for kind, part in parts:
                        yield kind, part
            status = "ended"
        finally:
            _under_way.discard(run.thread)
            await self.store.ledger.touch(run.run, "ended" if status == "ended" else "failed", self.holder, time.time())
        await self.store.ledger.thin(run.thread)

    def _as_of(self, values: Mapping[str, Any]) -> Services:
        """By a clock that goes on where the run was: its time is not over, and works are as old as they were."""
        if not values.get("started_at"):
            return self.services
        clock = self.services.clock
        gap_s = clock() - (values["started_at"] + values["execution_time_ms"] / 1_000)
        return self.services.at(lambda: clock() - gap_s)

    def _refuse_taken(self, thread: str, runs: tuple[Run, ...]) -> None:
        holder = runs[-1].holder if runs and runs[-1].status == "begun" else ""
        if thread in _under_way or (holder and holder != self.holder and _alive(holder)):
            raise BadRequest(f"thread {thread!r} is under way{f' in process {holder}' if holder else ''}; wait for it, or name another")


@asynccontextmanager
async def threads_of(services: Services) -> AsyncIterator[Threads]:
    """The threads of the settings; those that have expired are deleted."""
    async with opened(services.settings.threads) as store:
        expired = await Threads(services, store).expire()
        yield Threads(services, store, expired)


async def final(parts: AsyncIterator[Part]) -> SearchResponse:
    """The answer at the end of a run."""
    state: Mapping[str, Any] = {}
    async for kind, part in parts:
        state = part if kind == "values" else state
    return response_of(state)


def response_of(state: Mapping[str, Any]) -> SearchResponse:
    return SearchResponse.model_validate({name: value for name, value in state.items() if name in SearchResponse.model_fields})


def _named(thread: str) -> str:
    if not (0 < len(thread) <= MOST_CHARS and thread.isprintable() and thread == thread.strip()):
        raise BadRequest(f"a thread's name has 1 to {MOST_CHARS} printable characters, and no space at its ends")
    return thread


def _alive(holder: str) -> bool:
    """Whether that process is there; of other machines nobody knows, and they are believed to have ended."""
    host, _, process = holder.rpartition(":")
    if host != socket.gethostname() or not process.isdecimal():
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True

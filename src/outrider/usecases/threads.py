"""Searches on a thread, whose saved steps allow resuming and follow-up searches."""

from __future__ import annotations

import asyncio
import json
import logging
import shlex
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from langgraph.types import Command

from outrider.graph.pipeline import build
from outrider.models.chat.journal import JOURNAL_KEY, Journal
from outrider.nodes.review_plan import make_queries
from outrider.services import ModelUse
from outrider.services.checkpoints import CheckpointStore, open_store
from outrider.services.citation_queue import is_local_database
from outrider.services.thread_ledger import AFTER_LAST_S, Lease, RunAnswers, Status, ThreadRun, find_place, name_process
from outrider.state.checkpoints import PlanAnswer, Review, check_review_answer, parse_review, read_interrupt
from outrider.state.errors import BadRequest, NoSuchThread, NotWaiting, OtherLibrary, ThreadBusy, ThreadError
from outrider.state.pipeline import RunContext
from outrider.state.request import SearchRequest, check_request
from outrider.state.response import SearchResponse
from outrider.text.sanitize import OFFLINE, without_credentials

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.types import StateSnapshot, StreamMode

    from outrider.services import Services

DAY_S = 86_400.0
MAX_NAME_CHARS = 200
MODES: list[StreamMode] = ["custom", "updates", "values"]
RENEWALS = 3
"""Of a lease within its time: one may fail."""
POLL_S = 0.25
"""Between two looks whether the lease of another process has expired."""
log = logging.getLogger(__name__)

Part = tuple[str, Any]
"""A part of a run's stream: `custom` events of nodes, `updates` of their fields, the whole state as `values`, or, as the last part of a
run that now waits for a person, its `Review` as `waiting`.
"""


class KeptContext(RunContext):
    """What a run's row keeps besides the request: its own settings, and what a resumed run must respect. Old rows lack the latter."""

    offline: bool = False
    library: str = ""
    """The address of the library that it read, without a password; empty for none."""

    @classmethod
    def read(cls, run: ThreadRun) -> KeptContext:
        return cls.model_validate_json(run.context)


Begin = tuple[SearchRequest, RunContext, str]
"""What a search needs, and the number of its run."""


@dataclass(frozen=True, slots=True)
class Threads:
    """All threads of one store. Raises `ThreadError`, and `BadRequest` for an unknown thread or one with a run under way."""

    services: Services
    store: CheckpointStore
    expired: tuple[str, ...] = ()
    """Threads that were deleted when the store was opened."""
    holder: str = field(default_factory=name_process)
    place: str = ""
    """Where this process runs, if not here."""

    async def latest_runs(self) -> tuple[ThreadRun, ...]:
        """The last run of each thread, the most recently touched first."""
        last = {run.thread: run for run in await self.store.ledger.runs()}
        return tuple(sorted(last.values(), key=lambda run: (-run.touched, run.thread)))

    async def runs(self, thread: str) -> tuple[ThreadRun, ...]:
        """Runs of a thread, oldest first; at least one."""
        runs = await self.store.ledger.runs(thread)
        if not runs:
            raise NoSuchThread(f"there is no thread {thread!r}; `outrider threads list` shows them")
        return runs

    async def last(self, thread: str) -> SearchResponse | None:
        """The answer as far as the last run came; None before its first node has ended."""
        await self.services.prepare()
        state = await self._read_state(thread)
        return make_response(state.values, find_review(state, thread)) if "query" in state.values else None

    async def check_answer(self, thread: str, answer: object) -> dict[str, Any]:
        """An answer to what waits, complete and checked as the run checks it. Raises `BadRequest`, and `NotWaiting` if nothing waits."""
        run = (await self.runs(thread))[-1]
        checked = check_state_answer(run, await self._read_state(thread), answer)
        await self._require_library(run)
        return checked

    async def find_waiting(self, run_id: str) -> Review | None:
        """What waits under the number of a run; None for a run that does not wait, or was followed by another on its thread."""
        run = await self.store.ledger.run(run_id)
        if run is None or run.status != "waiting" or (await self.runs(run.thread))[-1].run != run_id:
            return None
        return find_review(await self._read_state(run.thread), run.thread)

    async def abandon(self, thread: str) -> None:
        """Wait for nobody any more: the last run counts as interrupted, and can be resumed up to the same place."""
        async with self._lease(thread) as lease:
            run = (await self.runs(thread))[-1]
            if run.status == "waiting":
                await self.store.ledger.touch(run.run, "failed", self.holder, time.time(), lease)

    async def _read_state(self, thread: str) -> StateSnapshot:
        with self.store.raise_thread_errors():
            return await build(self.services, self.store.saver).aget_state({"configurable": {"thread_id": thread}})

    async def delete(self, thread: str) -> int:
        """Delete a thread and return the number of its runs."""
        async with self._lease(thread):
            runs = await self.runs(thread)
            await self._delete(thread)
        return len(runs)

    async def expire(self) -> tuple[str, ...]:
        """Delete threads without a run for `threads.retention_days`."""
        before = time.time() - self.services.settings.threads.retention_days * DAY_S
        expired = []
        for thread in await self.store.ledger.idle_threads(before):
            with suppress(ThreadBusy, NoSuchThread):  # another process uses it, or deletes it
                async with self._lease(thread):
                    if max(run.touched for run in await self.runs(thread)) < before:  # or it was used meanwhile
                        await self._delete(thread)
                        expired.append(thread)
        return tuple(expired)

    async def _delete(self, thread: str) -> None:
        with self.store.raise_thread_errors():
            await self.store.saver.adelete_thread(thread)
        await self.store.ledger.forget(thread)

    async def search(
        self, thread: str, request: Mapping[str, Any] | SearchRequest, context: RunContext | None = None, run_id: str = ""
    ) -> AsyncGenerator[Part]:
        """Run the next search of a thread, which is created where it is missing. `run_id` is new, or empty for one of ours."""
        search_request = check_request(request)
        await self.services.prepare()
        context = context or RunContext()
        if not (0 < len(thread) <= MAX_NAME_CHARS and thread.isprintable() and thread == thread.strip()):
            raise BadRequest(f"a thread's name has 1 to {MAX_NAME_CHARS} printable characters, and no space at its ends")
        async with self._lease(thread) as lease, aclosing(self._begin(thread, search_request, context, run_id, lease)) as parts:
            async for part in parts:
                yield part

    async def _begin(
        self, thread: str, search_request: SearchRequest, context: RunContext, run_id: str, lease: Lease
    ) -> AsyncGenerator[Part]:
        runs = await self.store.ledger.runs(thread)
        now = max(time.time(), *(run.began + AFTER_LAST_S for run in runs[-1:]), 0.0)
        offline, library = self.services.settings.sources.offline, await self.services.find_library_address()
        kept = KeptContext(**dict(context), offline=offline, library=library)
        texts = search_request.model_dump_json(exclude_defaults=True), kept.model_dump_json(exclude_defaults=True)
        run = ThreadRun(run_id or uuid.uuid4().hex, thread, str(search_request.query), *texts, "begun", self.holder, now, now)
        await self.store.ledger.begin(run, lease)
        async with aclosing(self._run(self.services, run, search_request, lease)) as parts:
            async for part in parts:
                yield part

    async def take_over(self, thread: str, begin: Begin | None, answer: tuple[Review, object] | None) -> AsyncGenerator[Part]:
        """Go on with the run of a process that ended: begin it where that did not, or pass on the answer to what waited where it did not.

        Waits for the end of that process's lease.
        """
        async with AsyncExitStack() as stack:
            until = time.monotonic() + 2 * self.store.ledger.lease_s
            while True:
                try:
                    lease = await stack.enter_async_context(self._lease(thread))
                    break
                except ThreadBusy:
                    if time.monotonic() > until:
                        raise
                await asyncio.sleep(POLL_S)
            runs = await self.store.ledger.runs(thread)
            if begin and begin[2] not in [run.run for run in runs]:
                await self.services.prepare()
                parts = self._begin(thread, *begin, lease)
            else:
                resumption = None
                if answer and find_review(await self._read_state(thread), "") == answer[0].model_copy(update={"thread": ""}):
                    await self.store.ledger.touch(runs[-1].run, "waiting", self.holder, time.time(), lease)
                    resumption = answer[1]
                parts = self._resume(thread, resumption, lease)
            async for part in await stack.enter_async_context(aclosing(parts)):
                yield part

    async def resume(self, thread: str, answer: object = None) -> AsyncGenerator[Part]:
        """Resume the last run at the time of its interruption; a run that has ended gives its last state.

        A run that waits for a person goes on with `answer`; without one it gives what waits. A wrong answer raises `BadRequest`, and the
        run still waits. A run that was begun offline stays so. Raises `OtherLibrary` before anything is changed.
        """
        async with self._lease(thread) as lease, aclosing(self._resume(thread, answer, lease)) as parts:
            async for part in parts:
                yield part

    async def _resume(self, thread: str, answer: object, lease: Lease) -> AsyncGenerator[Part]:
        run = (await self.runs(thread))[-1]
        await self.services.prepare()
        before = await self._read_state(thread)
        resumption: Command[Any] | None = None if answer is None else Command(resume=check_state_answer(run, before, answer))
        has_state = (before.metadata or {}).get("run") == run.run
        if run.status == "ended" or (has_state and not before.tasks):  # `next` leaves out a node that has written and is not yet saved
            yield "values", before.values
            return
        if run.status == "waiting" and resumption is None and (review := find_review(before, thread)):
            yield "values", before.values
            yield "waiting", review
            return
        await self._require_library(run)
        await self.store.ledger.touch(run.run, "begun", self.holder, time.time(), lease)
        request, state = check_request(SearchRequest.model_validate_json(run.asked)), before.values if has_state else {}
        async with self._find_services(run) as opened:
            await opened.warm(ModelUse.of_request(request))  # it may start at a later node, and at the time of the interruption
            services = opened
            if state.get("started_at"):
                # a clock that continues where the run stopped: its time limit has not passed, and works are as old as they were
                gap_s = opened.clock() - (state["started_at"] + state["execution_time_ms"] / 1_000)
                services = opened.at(lambda: opened.clock() - gap_s)
            again = self._run(services, replace(run, holder=self.holder), resumption if has_state else request, lease)
            async with aclosing(again) as parts:
                async for part in parts:
                    yield part

    async def _require_library(self, run: ThreadRun) -> None:
        """Raise `OtherLibrary` where the run read another library than that of the services."""
        library, ours = KeptContext.read(run).library, await self.services.find_library_address()
        if library not in ("", ours):
            raise OtherLibrary(
                f"the last search of thread {run.thread!r} read the library {library}, not {ours or 'none'}; name it with "
                f"--library {shlex.quote(library)}, or in Python with library="
            )

    @asynccontextmanager
    async def _find_services(self, run: ThreadRun) -> AsyncIterator[Services]:
        """Those of this process; others for a run that contacts nothing but this machine, where these may."""
        if self.services.settings.sources.offline or not KeptContext.read(run).offline:
            yield self.services
            return
        services = await asyncio.to_thread(self.services.go_offline)
        try:
            await services.prepare()
            yield services
        finally:
            services.close()

    async def _run(
        self, services: Services, run: ThreadRun, request: SearchRequest | Command[Any] | None, lease: Lease
    ) -> AsyncGenerator[Part]:
        graph = build(services, self.store.make_fenced_saver(lease))
        config: RunnableConfig = {
            "configurable": {"thread_id": run.thread, JOURNAL_KEY: Journal(run.run, RunAnswers(self.store.ledger, lease))},
            "metadata": {"run": run.run},
        }
        context = RunContext(**KeptContext.read(run).model_dump(include=set(RunContext.model_fields)))
        has_ended, review = False, None
        try:
            with self.store.raise_thread_errors():
                stream: Any = graph.astream(request, config, context=context, stream_mode=MODES, durability="sync")
                async with aclosing(self._stop_when_lost(stream, lease)) as parts:
                    async for kind, part in parts:
                        if kind == "updates" and (waiting := read_interrupt(part)):
                            review = waiting.model_copy(update={"thread": run.thread})
                        else:
                            yield kind, part
            has_ended = True
        finally:
            status: Status = "failed" if not has_ended else "waiting" if review else "ended"
            await self.store.ledger.touch(run.run, status, self.holder, time.time(), lease)
        await self.store.ledger.thin(lease)
        if review:
            yield "waiting", review

    @asynccontextmanager
    async def _lease(self, thread: str) -> AsyncIterator[Lease]:
        """One run or deletion of a thread at a time, in all processes that share the store."""
        place = self.place or await asyncio.to_thread(find_place)
        lease = await self.store.ledger.acquire(thread, self.holder, place)
        try:
            yield lease
        finally:
            with suppress(ThreadError):  # it expires
                await self.store.ledger.release(lease)

    async def _stop_when_lost(self, parts: AsyncGenerator[Part], lease: Lease) -> AsyncGenerator[Part]:
        """The parts, until another process has taken the lease; it is renewed as long as they come. Raises `ThreadBusy`."""
        limit, is_lost = asyncio.timeout(None), False

        async def renew() -> None:
            nonlocal is_lost
            while not is_lost:
                await asyncio.sleep(self.store.ledger.lease_s / RENEWALS)
                try:
                    is_lost = not await self.store.ledger.renew(lease)
                except ThreadError as error:  # a run that must write will fail; another may end first
                    log.warning("the lease of a thread could not be renewed: %s", error)
            with suppress(RuntimeError):  # nobody waits for a part at this moment
                limit.reschedule(asyncio.get_running_loop().time())

        renewing = asyncio.create_task(renew())
        try:
            async with aclosing(parts):
                while not is_lost:
                    limit = asyncio.timeout(None)
                    async with limit:
                        part = await anext(parts, None)
                    if part is None:
                        return
                    yield part
            raise lease.make_error()
        except TimeoutError:
            if not is_lost:
                raise
            raise lease.make_error() from None
        finally:
            renewing.cancel()


def make_thread_name() -> str:
    """A name for a search that must be saved and was given none."""
    return f"search-{uuid.uuid4().hex[:8]}"


@asynccontextmanager
async def open_threads(services: Services) -> AsyncIterator[Threads]:
    """The threads of the settings; expired ones are deleted."""
    uri = services.settings.threads.uri
    if services.settings.sources.offline and "://" in uri and not is_local_database(uri):
        raise ThreadError(f"threads.uri is {without_credentials(uri)}, {OFFLINE}; use a file")
    async with open_store(services.settings.threads, services.settings.shared.lease_s) as store:
        expired = await Threads(services, store).expire()
        yield Threads(services, store, expired)


async def find_client_target(services: Services, target: str, owner: str | None) -> str:
    """A client's target of citation chasing as it is stored: `label:NAME`, or a thread of the key's owner; all threads if that is None.

    Never a file: a client may not read this machine. Raises `NoSuchThread`.
    """
    if target.startswith("label:"):
        return target
    name = f"{owner}/{target}" if owner else target
    first, slash, _ = name.partition("/")
    if owner == "" and slash and first in services.settings.serve.api_keys:
        raise NoSuchThread(f"there is no thread {target!r}")
    async with open_threads(services) as threads:
        await threads.runs(name)
    return name


async def collect_response(parts: AsyncIterator[Part]) -> SearchResponse:
    """The answer at the end of a run, or as far as it came with what it waits for."""
    state: Mapping[str, Any] = {}
    review: Review | None = None
    async for kind, part in parts:
        state = part if kind == "values" else state
        review = part if kind == "waiting" else review
    return make_response(state, review)


def find_review(state: StateSnapshot, thread: str) -> Review | None:
    """What waits for a person in a thread's state."""
    if not state.interrupts:
        return None
    return parse_review(state.interrupts[0].value).model_copy(update={"thread": thread})


def check_state_answer(run: ThreadRun, state: StateSnapshot, answer: object) -> dict[str, Any]:
    """An answer to what waits in a thread's state, complete and checked. Raises `BadRequest`, and `NotWaiting` if nothing waits."""
    review = find_review(state, run.thread) if run.status == "waiting" else None
    if review is None:
        raise NotWaiting(f"thread {run.thread!r} waits for no answer; `outrider threads list` shows which do")
    checked = check_review_answer(review, answer)
    if isinstance(checked, PlanAnswer) and checked.queries:
        tuple(make_queries(checked.queries, state.values["strategy"]))
    return checked.model_dump(mode="json", exclude_none=True)


def make_response(state: Mapping[str, Any], review: Review | None = None) -> SearchResponse:
    """The response from the fields of a state, also one before the scout, whose `sources` are the requested names."""
    fields = {name: value for name, value in state.items() if name in SearchResponse.model_fields}
    return SearchResponse.model_validate(
        {
            **fields,
            "sources": tuple(row for row in fields.get("sources") or () if not isinstance(row, str)),
            "waiting": review or state.get("waiting"),
        }
    )


def describe_run(run: ThreadRun) -> dict[str, Any]:
    """A run for programs: `thread`, `query`, `asked` (the request), `state`, and the times `began` and `touched` (ISO 8601, UTC)."""
    row = {"thread": run.thread, "query": run.query, "asked": json.loads(run.asked), "state": run.status}
    return row | {"began": format_time(run.began), "touched": format_time(run.touched)}


def format_time(at: float) -> str:
    """Seconds since the epoch as ISO 8601."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")

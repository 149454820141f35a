"""Searches of the server: the registry of numbered runs."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from outrider.interfaces.http.problems import Refusal, make_problem, refuse_field, refuse_full_disk, refuse_unsearched, translate_error
from outrider.interfaces.http.run_store import PATIENCE_S, RETRY_S, SCAN, STOP, Order, RunStore, Saved, StoreAway
from outrider.interfaces.http.search_events import PARTIAL_HITS, Event, EventWriter, make_event
from outrider.interfaces.http.search_run import RemoteRun, Run, Sharing, make_fields, refuse_away
from outrider.runtime.spans import RUN, run_named
from outrider.runtime.threads_and_loops import is_cancelled
from outrider.services.checkpoints import store_exists
from outrider.state.analysis import Analysis
from outrider.state.comparison import Comparison
from outrider.state.errors import NotWaiting, SearchError, is_disk_full
from outrider.state.pipeline import RunContext
from outrider.state.request import SearchRequest
from outrider.state.response import SearchResponse
from outrider.usecases.threads import Part

if TYPE_CHECKING:
    from starlette.requests import Request

    from outrider.interfaces.http.graph_runner import GraphRunner
    from outrider.interfaces.http.monitoring import Metrics
    from outrider.interfaces.http.request_limits import Admission
    from outrider.state.analysis import AnalyzeRequest
    from outrider.state.comparison import CompareRequest

MAX_KEPT_CHARS = 64 * 2**20
"""Of all answers together that are kept; the newest is kept whatever its size."""
Answers = type[SearchResponse | Analysis | Comparison]
INTERNAL = Refusal(500, "internal", "an error of this server; its log has details under this search's number")
MAX_TAKEOVERS = 2
GIVEN_UP = Refusal(500, "given-up", f"{MAX_TAKEOVERS + 1} processes of this server ended while they ran this search, which is run no more")
SIGNS = 3
"""Signs of life of a process within the time of its lease: one may be late."""
HEADER = "x-thread-id"
THREAD_NAME = re.compile(r"[A-Za-z0-9._:-]{1,128}\Z")

log = logging.getLogger(__name__)


@dataclass(slots=True)
class RunRegistry:
    """All searches of the REST interface: running ones, and for a while ended ones.

    With a `store` these are the searches of all processes of the server; those of this one are here until the store has their end.
    """

    runner: GraphRunner
    admission: Admission
    metrics: Metrics
    keep: int
    keep_s: float
    clock: Callable[[], float] = time.monotonic
    store: RunStore | None = None
    _runs: dict[str, Run] = field(default_factory=dict)
    _claiming: set[str] = field(default_factory=set)
    _scan: asyncio.Event = field(default_factory=asyncio.Event)
    _is_away: bool = False
    _signs_count_from: float = 0.0
    """From this time on the others have had the time of a lease to give a sign of life, by the clock of the loop."""

    async def search(self, request: SearchRequest, context: RunContext, owner: str, *, thread: str = "", has_events: bool = False) -> Run:
        """Begin a search, or raise `Refusal` if the queue is full. It can be looked up by its number; with `has_events` also followed."""
        run_id, place = find_run_id(), self._admit()
        if not thread and self.runner.services.settings.checkpoints.list_points(request):
            thread = f"{owner}/search-{run_id}" if owner else f"search-{run_id}"  # what waits for a person is saved
        parts = self.runner.search(request, context, thread, {"run_id": run_id})
        run = Run(str(run_id), owner, EventWriter(min(PARTIAL_HITS, request.top_k)) if has_events else None, thread)
        order = Order("search", request.model_dump_json(exclude_defaults=True), context.model_dump_json(exclude_none=True))
        return await self._start(run, place, parts, SearchResponse, order)

    async def resume(self, thread: str, owner: str, *, has_events: bool = False) -> Run:
        """Continue the last search of a thread; otherwise as `search`."""
        place = self._admit()
        run = Run(str(find_run_id()), owner, EventWriter() if has_events else None, thread)
        return await self._start(run, place, self.runner.resume(thread), SearchResponse, Order("resume"))

    async def answer(self, run: Run, answer: object, *, has_events: bool = False) -> Run:
        """Let a search that waits for a person go on. Raises `BadRequest` for a wrong answer, and it still waits, and `NotWaiting`."""
        checked = await (await self.runner.threads()).check_answer(run.thread, answer) if run.review else None
        if run.review is None or checked is None:  # also where two answers came at once
            raise NotWaiting(f"search {run.run_id} waits for no answer")
        order = Order("answer", review=run.review.model_dump_json(), answer=json.dumps(checked))
        place = self._admit()
        if isinstance(run, RemoteRun):
            try:
                run = await self._claim_waiting(run, order)
            except BaseException:
                place.close()
                raise
        run.review, run.ended_at, run.status, run.seen = None, None, "waiting", len(run.events)
        if has_events and run.writer is None:
            run.writer = EventWriter()
        return await self._start(run, place, self.runner.resume(run.thread, checked), SearchResponse, order)

    async def find(self, run_id: str, owner: str) -> Run:
        """A run by its number, also one that waits for a person after a restart. Raises `Refusal` (404), also for one of another owner."""
        self._forget()
        run = self._runs.get(run_id) or await self._load(run_id)
        if run is not None and run.owner == owner:
            return run
        has_threads = run is None and await asyncio.to_thread(store_exists, self.runner.services.settings.threads)
        review = await (await self.runner.threads()).find_waiting(run_id) if has_threads else None
        if review is None or self.runner.split_owner(review.thread)[0] != owner:
            raise Refusal(404, "no-such-search", "no such search, or its answer is no longer stored")
        waiting = self._runs.setdefault(run_id, Run(run_id, owner, EventWriter(), review.thread, ended_at=self.clock()))
        if not waiting.events:
            waiting.review = review.model_copy(update={"thread": self.runner.split_owner(review.thread)[1]})
            waiting.record(Event("waiting", waiting.review.model_dump_json()))
            if self.store:
                self._share(waiting, Sharing(self.store, None))
                await waiting.wait()
        return await self._load(run_id) or waiting

    async def stop(self, run: Run) -> None:
        """Stop a search; one that waits for a person waits no more, and its thread can be resumed."""
        if run.review is None:
            run.cancel()
            if isinstance(run, RemoteRun):
                with refuse_away():
                    await run.store.cancel(run.run_id)
            return
        await (await self.runner.threads()).abandon(run.thread)
        if isinstance(run, RemoteRun):
            run = await self._claim_waiting(run, Order("resume"))
            self._finish(run, ExitStack())
            await run.wait()
        else:
            run.review, run.status = None, "cancelled"
            run.record(make_event("cancelled", {}))

    async def analyze(self, request: AnalyzeRequest, context: RunContext, owner: str) -> Run:
        """Begin an analysis."""
        place, run_id = self._admit(), find_run_id()
        return await self._start(Run(str(run_id), owner), place, self.runner.analyze(request, context, {"run_id": run_id}), Analysis)

    async def compare(self, request: CompareRequest, context: RunContext, owner: str) -> Run:
        """Begin a comparison, which counts as one search."""
        place = self._admit()
        return await self._start(Run(str(find_run_id()), owner), place, self.runner.compare(request, context), Comparison)

    def _admit(self) -> ExitStack:
        """A place in the queue, which the end of the run gives back. Raises `Refusal`."""
        place = ExitStack()
        place.enter_context(self.admission.admit())
        return place

    async def _start(self, run: Run, place: ExitStack, parts: AsyncIterator[Part], answers: Answers, order: Order | None = None) -> Run:
        """A run with an order can be looked up; one with followers is shared from its beginning on, others when they have ended.

        Raises `Refusal` for one with followers while other processes cannot learn of it.
        """
        if order is not None and self.store and run.sharing is None:
            sharing = Sharing(self.store, order if run.writer else None)
            self._share(run, sharing)
            try:
                if run.writer:  # other processes know it before a client knows its number
                    with refuse_away():
                        await self.store.save(run.run_id, sharing.token, 0, make_fields(run, sharing), ())
            except BaseException:
                sharing.lose()
                self._runs.pop(run.run_id, None)
                place.close()
                raise
        run.task = asyncio.create_task(self._run(run, parts, answers), name=f"search {run.run_id}")
        run.task.add_done_callback(lambda _: self._finish(run, place))
        if order is not None:
            self._runs[run.run_id] = run
        return run

    async def drain(self, within_s: float) -> int:
        """Wait for running searches; other processes go on with the rest of those that they know, and the others are cancelled.

        Returns how many had not ended.
        """
        running = {run.task: run for run in self._runs.values() if run.task is not None and not run.task.done()}
        late = (await asyncio.wait(running, timeout=within_s))[1] if running else set()
        moving = [(run.run_id, run.sharing) for task in late if (run := running[task]).sharing and run.sharing.order]
        for _, sharing in moving:
            sharing.lose()
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)
        await asyncio.gather(*(self._hand_over(run_id, sharing) for run_id, sharing in moving))
        sharing_tasks = {run.sharing.task for run in self._runs.values() if run.sharing and run.sharing.task}
        if sharing_tasks:
            for task in (await asyncio.wait(sharing_tasks, timeout=PATIENCE_S))[1]:
                task.cancel()
        return len(late)

    @staticmethod
    async def _hand_over(run_id: str, sharing: Sharing) -> None:
        with suppress(StoreAway):  # another process goes on with it when this one gives no more signs of life
            await sharing.store.hand_over(run_id, sharing.token)

    async def _run(self, run: Run, parts: AsyncIterator[Part], answers: Answers) -> None:
        began, outcome = time.perf_counter(), "failed"
        state: dict[str, Any] = {}
        try:
            if self.admission.running >= self.admission.at_once:
                run.record(make_event("queued", {"position": self.admission.waiting}))
            async with self.admission.slot(patient=bool(run.sharing and run.sharing.takeovers)):
                run.status, began = "running", time.perf_counter()
                async for kind, part in parts:
                    if kind == "values":
                        state.update(part)
                    elif kind == "waiting":
                        run.review = part
                    elif run.writer:
                        for event in run.writer.make_events((kind, part)):
                            run.record(event)
            if run.review is not None:
                outcome = "waiting"
                return
            run.refusal, outcome = refuse_unsearched(state), "failed"
            if run.refusal is None:
                answer = answers.model_validate({name: value for name, value in state.items() if name in answers.model_fields})
                run.answer, outcome = answer.model_dump_json(), "done"
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        except Refusal as refusal:
            outcome, run.refusal = "refused", refusal
        except SearchError as error:
            run.refusal = translate_error(error)
        except Exception as error:  # a bug: the log has all details, the client learns only that there was one
            log.exception("search %s failed", run.run_id)
            run.refusal = refuse_full_disk() if is_disk_full(error) else INTERNAL
        finally:
            self.metrics.count_search("rest", outcome, time.perf_counter() - began, state)

    def _finish(self, run: Run, place: ExitStack) -> None:
        place.close()
        if run.sharing and run.sharing.is_lost:
            return
        run.ended_at = self.clock()
        if run.answer:
            run.status = "done"
            run.record(Event("response", run.answer))
        elif run.refusal is not None:
            run.status = "failed"
            problem = make_problem(run.refusal, run.run_id).model_dump(mode="json", exclude_defaults=True)
            run.problem = json.dumps(problem)
            run.record(make_event("problem", problem))
        elif run.review is not None:
            run.status = "waiting"
            run.record(Event("waiting", run.review.model_dump_json()))
        else:
            run.status = "cancelled"
            run.record(make_event("cancelled", {}))
        self._forget()

    def _forget(self) -> None:
        """Delete answers that are too old, and the oldest if there are too many."""
        ended = sorted(((run.ended_at, run.run_id) for run in self._runs.values() if run.ended_at is not None), reverse=True)
        now, chars = self.clock(), 0
        for position, (ended_at, run_id) in enumerate(ended):
            chars += len(self._runs[run_id].answer)
            if position >= self.keep or now - ended_at > self.keep_s or (position and chars > MAX_KEPT_CHARS):
                del self._runs[run_id]

    # With other processes

    def _share(self, run: Run, sharing: Sharing) -> None:
        """Begin to write the run's events, or its end alone, to the store."""
        run.sharing = sharing
        self._runs[run.run_id] = run
        sharing.task = asyncio.create_task(self._keep_shared(run, sharing))

    async def _keep_shared(self, run: Run, sharing: Sharing) -> None:
        while not sharing.is_lost:
            sharing.news.clear()
            has_ended, events = run.ended_at is not None, run.events[sharing.stored :]
            if has_ended or (sharing.order and events):
                size = len(run.answer) if has_ended else None
                try:
                    saved = await sharing.store.save(
                        run.run_id, sharing.token, sharing.stored, make_fields(run, sharing), events, size=size
                    )
                except StoreAway as error:
                    self._note_away(error)
                    self._show(run, sharing, len(run.events))
                    if has_ended:
                        sharing.end_tried.set()
                    await asyncio.sleep(RETRY_S)
                    if has_ended and self._runs.get(run.run_id) is not run:
                        return  # too old
                    continue
                if saved is Saved.LOST:
                    self._lose(run, sharing)
                    return
                sharing.stored = 0 if saved is Saved.MISSING else sharing.stored + len(events)
                self._show(run, sharing, sharing.stored)
                if saved is Saved.MISSING:
                    continue
                if has_ended:
                    sharing.end_tried.set()
                    if self._runs.get(run.run_id) is run:
                        del self._runs[run.run_id]
                    return
            await sharing.news.wait()

    @staticmethod
    def _show(run: Run, sharing: Sharing, count: int) -> None:
        sharing.shown = max(sharing.shown, count)
        run.wake()

    def _lose(self, run: Run, sharing: Sharing) -> None:
        """Another process runs it: this one was stalled, or Redis was away for too long."""
        log.warning("search %s goes on in another process", run.run_id)
        sharing.lose()
        run.cancel()
        run.wake()
        if self._runs.get(run.run_id) is run:
            del self._runs[run.run_id]

    async def _load(self, run_id: str) -> RemoteRun | None:
        """A run that the store knows. Raises `Refusal` while that is away: nobody can say that there is no such run."""
        if self.store is None:
            return None
        with refuse_away():
            fields = await self.store.load(run_id)
        return None if fields is None else RemoteRun.read(self.store, run_id, fields)

    async def _claim_waiting(self, run: RemoteRun, order: Order) -> Run:
        """The run as one of this process. Raises `NotWaiting`."""
        sharing = Sharing(run.store, order)
        self._claiming.add(run.run_id)
        try:
            with refuse_away():
                if not await run.store.claim_waiting(run.run_id, sharing.token, order.write()):
                    raise NotWaiting(f"search {run.run_id} waits for no answer")
                return await self._adopt(run, sharing)
        finally:
            self._claiming.discard(run.run_id)

    async def _adopt(self, run: RemoteRun, sharing: Sharing) -> Run:
        """A run of this process with the events so far of another one."""
        found = await run.store.read_events(run.run_id, 0)
        events = found[0] if found else []
        sharing.stored = sharing.shown = len(events)
        own = Run(run.run_id, run.owner, run.writer, run.thread, seen=run.seen, events=events)
        self._share(own, sharing)
        return own

    async def tend(self) -> None:
        """Give signs of life, and go on with searches of processes that give none. Runs until it is cancelled."""
        store = self.store
        if store is None:
            return
        listening = asyncio.create_task(self._listen(store))
        self._expect_signs(store)
        try:
            while not is_cancelled():  # the client library may swallow a cancellation
                self._scan.clear()
                try:
                    await self._check_own(store)
                    if not self.admission.stopping:
                        await self._take_over_orphans(store)
                    self._note_away(None)
                except StoreAway as error:
                    self._note_away(error)
                    self._expect_signs(store)
                except Exception:  # a bug must not end the signs of life, or others would take over what runs here
                    log.exception("searches of other processes could not be looked after")
                with suppress(TimeoutError):
                    async with asyncio.timeout(store.lease_s / SIGNS):
                        await self._scan.wait()
        finally:
            listening.cancel()
            await asyncio.wait({listening})

    def _expect_signs(self, store: RunStore) -> None:
        """Where Redis was away for all, their signs have expired, and the first that reaches it again would take over what runs."""
        self._signs_count_from = asyncio.get_running_loop().time() + store.lease_s

    async def _listen(self, store: RunStore) -> None:
        async for text in store.listen():
            if text == SCAN:
                self._scan.set()
            elif run := self._runs.get(text.removeprefix(STOP)):
                run.cancel()

    async def _check_own(self, store: RunStore) -> None:
        """Stop runs that somebody wants stopped, or that another process has taken over."""
        own = {run_id: run for run_id, run in self._runs.items() if run.sharing and run.sharing.order and run.ended_at is None}
        for run_id, (token, should_stop) in (await store.give_sign(own)).items():
            sharing = own[run_id].sharing
            if sharing and token not in ("", sharing.token):
                self._lose(own[run_id], sharing)
            elif sharing and not token:
                sharing.stored = 0  # Redis has lost it
                sharing.news.set()
            if should_stop:
                own[run_id].cancel()

    async def _take_over_orphans(self, store: RunStore) -> None:
        for run_id, process in await store.find_orphans():
            if run_id in self._runs or run_id in self._claiming:
                continue
            if process == store.process:  # its client was gone before it had begun
                await store.hand_over(run_id, (await store.load(run_id) or {}).get("token", ""))
                continue
            if process and asyncio.get_running_loop().time() < self._signs_count_from:
                continue
            try:
                place = self._admit()
            except Refusal:
                return  # another process has room, or this one later
            with place:
                sharing = Sharing(store, None)
                self._claiming.add(run_id)
                try:
                    if await store.claim_orphan(run_id, process, sharing.token):
                        await self._take_over(store, run_id, sharing, place)
                finally:
                    self._claiming.discard(run_id)

    async def _take_over(self, store: RunStore, run_id: str, sharing: Sharing, place: ExitStack) -> None:
        fields = await store.load(run_id)
        if fields is None:
            return
        should_stop = bool(fields.get("cancel"))
        run = await self._adopt(RemoteRun(run_id, fields.get("owner", ""), EventWriter(), store=store), sharing)
        log.warning("search %s is taken over from a process that ended", run_id)
        try:
            known = RemoteRun.read(store, run_id, fields)
            run.writer, run.thread, run.seen = known.writer, known.thread, known.seen
            sharing.takeovers, order = int(fields.get("takeovers") or 0), Order.read(fields["order"])
            parts = self._continue(run, order)
        except (ValueError, TypeError, KeyError):  # of another version: it would fail each process
            log.exception("search %s cannot be taken over", run_id)
            run.refusal = INTERNAL
        else:
            run.refusal = GIVEN_UP if sharing.takeovers > MAX_TAKEOVERS and not should_stop else None
        if run.refusal or should_stop:
            self._finish(run, ExitStack())
            return
        sharing.order = order
        run.record(make_event("taken_over", {"takeovers": sharing.takeovers}))
        with run_named(run_id):  # in the log
            await self._start(run, place.pop_all(), parts, SearchResponse, order)

    def _continue(self, run: Run, order: Order) -> AsyncIterator[Part]:
        """The parts of a run that another process began: on a thread from its last checkpoint on, otherwise from its beginning on."""
        if order.kind != "search":
            return self.runner.take_over(run.thread, None, order)
        request, context = SearchRequest.model_validate_json(order.request), RunContext.model_validate_json(order.context)
        run.writer = EventWriter(min(PARTIAL_HITS, request.top_k))
        if run.thread:
            return self.runner.take_over(run.thread, (request, context, run.run_id), order)
        return self.runner.search(request, context, "", {"run_id": UUID(run.run_id)})

    def _note_away(self, error: StoreAway | None) -> None:
        """One line of the log for each time."""
        if error and not self._is_away:
            log.warning("shared.redis_url is away: running searches go on, new asynchronous ones are refused: %s", error)
        elif self._is_away and not error:
            log.warning("shared.redis_url is back")
        self._is_away = error is not None


def find_run_id() -> UUID:
    """The number of the request, for the search that it starts: all lines of the log have one number. A new one outside of a request."""
    try:
        return UUID(RUN.get())
    except ValueError:
        return uuid4()


def read_thread(request: Request, thread_id: object = None) -> str:
    """The thread of a request, from its body (`thread_id`) or `X-Thread-Id`; empty for none.

    With a key it belongs to the owner: the same name used by another owner is another thread. Raises `Refusal` for an invalid name.
    """
    name = thread_id if thread_id is not None else request.headers.get(HEADER)
    if name is None:
        return ""
    if not isinstance(name, str) or not THREAD_NAME.match(name):
        raise refuse_field("thread_id", "takes up to 128 letters, digits, dots, colons, - and _")
    owner = request.scope["state"].get("owner", "")
    return f"{owner}/{name}" if owner else name

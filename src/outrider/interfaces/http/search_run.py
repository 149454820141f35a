"""One search of the server, as this process runs it or as Redis knows it."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from outrider.interfaces.http.problems import Refusal
from outrider.interfaces.http.run_store import PATIENCE_S, Order, RunStore, StoreAway
from outrider.interfaces.http.search_events import LAST, Event, EventWriter
from outrider.state.checkpoints import parse_review

if TYPE_CHECKING:
    from outrider.state.checkpoints import Review

Status = Literal["waiting", "running", "done", "failed", "cancelled"]


@dataclass(slots=True, eq=False)
class Run:
    """One search. It continues if no client waits for it or follows it any more."""

    run_id: str
    owner: str
    writer: EventWriter | None = None
    """Of all events, for followers; without one only the last event is kept."""
    thread: str = ""
    """Its stored name."""
    review: Review | None = None
    """What waits for a person."""
    seen: int = 0
    """Events before the last answer of a person."""
    status: Status = "waiting"
    """`waiting` for a free slot, or with a `review` for a person: clients know no other words."""
    events: list[Event] = field(default_factory=list)
    answer: str = ""
    """A `SearchResponse` or `Analysis` as JSON; empty unless the run succeeded."""
    refusal: Refusal | None = None
    problem: str = ""
    """A problem document as JSON, if it failed."""
    ended_at: float | None = None
    """By the clock of the registry."""
    sharing: Sharing | None = None
    """With the other processes of the server."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    def record(self, event: Event) -> None:
        if self.writer or event.name in LAST:
            self.events.append(event)
            self.wake()
            if self.sharing:
                self.sharing.news.set()

    def wake(self) -> None:
        """Let followers look again."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def follow(self, after: int = 0) -> AsyncGenerator[tuple[int, Event], None]:
        """Each event with its number, from 1, starting after `after`; ends after the last event."""
        number = after
        while True:
            changed = self._changed
            if self.sharing and self.sharing.is_lost:  # its events go on at another process
                async with aclosing(self.sharing.store.follow(self.run_id, number)) as events:
                    async for numbered in events:
                        yield numbered
                return
            shown = self.sharing.shown if self.sharing else len(self.events)
            for event in self.events[number:shown]:
                number += 1
                yield number, event
            if number >= shown:
                if self.ended_at is not None and shown >= len(self.events):
                    return
                await changed.wait()

    async def wait(self) -> None:
        """Wait for the end, and until other processes know it; a waiter that is cancelled stops nothing."""
        if self.task is not None:
            await asyncio.wait({self.task})
        if self.sharing is not None and not self.sharing.is_lost:
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE_S):
                    await self.sharing.end_tried.wait()

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()

    @property
    def event_count(self) -> int:
        return len(self.events)


@dataclass(slots=True, eq=False)
class Sharing:
    """How far the other processes of the server know a run of this one.

    Followers see an event when Redis has it: were it lost with this process, another one would give its number to another event.
    """

    store: RunStore
    order: Order | None
    """None for a run whose client waits: only its end is shared."""
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    takeovers: int = 0
    stored: int = 0
    """Events that Redis has."""
    shown: int = 0
    """Events that followers may see: more than Redis has while that is away."""
    is_lost: bool = False
    """Another process runs it."""
    news: asyncio.Event = field(default_factory=asyncio.Event)
    end_tried: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    def lose(self) -> None:
        """From now on another process runs it."""
        self.is_lost = True
        self.news.set()
        self.end_tried.set()


@dataclass(slots=True, eq=False)
class RemoteRun(Run):
    """A run that Redis knows: one of another process, or one that has ended."""

    store: RunStore = field(kw_only=True)
    count: int = 0
    """Of its events."""

    @classmethod
    def read(cls, store: RunStore, run_id: str, fields: Mapping[str, str]) -> RemoteRun:
        """The run from the fields that Redis has."""
        writer = EventWriter() if fields.get("has_events") else None
        run = cls(run_id, fields["owner"], writer, fields.get("thread", ""), store=store)
        run.fill(fields)
        return run

    @property
    def event_count(self) -> int:
        return self.count

    async def follow(self, after: int = 0) -> AsyncGenerator[tuple[int, Event], None]:
        async with aclosing(self.store.follow(self.run_id, after)) as events:
            async for numbered in events:
                yield numbered

    async def wait(self) -> None:
        if self.ended_at is None:
            async for _ in self.follow(self.count):
                pass
            with refuse_away():
                self.fill(await self.store.load(self.run_id) or {"status": "cancelled", "ended": "1"})

    def fill(self, fields: Mapping[str, str]) -> None:
        """Set the state that may have changed."""
        self.status, self.answer, self.problem = _check_status(fields["status"]), fields.get("answer", ""), fields.get("problem", "")
        self.seen, self.count = int(fields.get("seen") or 0), int(fields.get("events") or 0)
        self.review = parse_review(json.loads(fields["review"])) if fields.get("review") else None
        self.refusal = Refusal(*json.loads(fields["refusal"])) if fields.get("refusal") else None
        self.ended_at = 0.0 if fields.get("ended") else None


def make_fields(run: Run, sharing: Sharing) -> dict[str, str]:
    """The state of a run as Redis has it."""
    fields = {
        "owner": run.owner,
        "thread": run.thread,
        "status": run.status,
        "seen": str(run.seen),
        "review": run.review.model_dump_json() if run.review and run.ended_at is not None else "",
        "has_events": "1" if run.writer else "",
    }
    if sharing.order and not sharing.stored:
        fields["order"] = sharing.order.write()
    if run.answer:
        fields["answer"] = run.answer
    if run.refusal:
        refusal = run.refusal
        fields |= {"problem": run.problem, "refusal": json.dumps([refusal.status, refusal.kind, refusal.detail, dict(refusal.headers)])}
    return fields


@contextmanager
def refuse_away() -> Iterator[None]:
    """Raise `Refusal` while the state of all processes cannot be read or written."""
    try:
        yield
    except StoreAway:
        raise Refusal(
            503, "shared-state-away", "this server cannot reach what its processes share; ask again", {"Retry-After": "5"}
        ) from None


def _check_status(text: str) -> Status:
    """Raises `ValueError`."""
    statuses: tuple[Status, ...] = get_args(Status)
    return statuses[statuses.index(text)]

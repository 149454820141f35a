"""A reader in a thread of its own, feeding the event loop: groups of bounded size, few of them waiting.

The thread is a daemon and is left behind when the consumer goes away: an interrupted run does not wait for a long PDF.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass

from outrider.ingest.naming import Named, Outcome
from outrider.state.errors import UnreadableFile
from outrider.state.records import Record
from outrider.state.threads import call_on

WAITING = 2
"""Groups that may wait to be taken: one being stored while the next is read."""
OVERHEAD_BYTES = 500


@dataclass(frozen=True, slots=True)
class Bounds:
    """A group is full at so many records or bytes, whichever comes first; one record may be larger."""

    records: int
    bytes: int


async def fed(outcomes: Callable[[], Iterable[Outcome]], bounds: Bounds) -> AsyncIterator[list[Outcome]]:
    """What `outcomes` yields, in groups; raises what it raises, after the groups before."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Queue[list[Outcome] | BaseException | None] = asyncio.Queue()
    room = threading.Semaphore(WAITING)
    left = threading.Event()

    def offer(item: list[Outcome] | BaseException | None) -> None:
        call_on(loop, ready.put_nowait, item)

    def work() -> None:
        try:
            for group in grouped(outcomes(), bounds):
                room.acquire()
                if left.is_set():
                    return
                offer(group)
            offer(None)
        except BaseException as problem:  # noqa: BLE001 - handed to the consumer, who raises it
            offer(problem)

    threading.Thread(target=work, name="outrider-reader", daemon=True).start()
    try:
        while (item := await ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
            room.release()
    finally:
        left.set()
        room.release()


def grouped(outcomes: Iterable[Outcome], bounds: Bounds) -> Iterator[list[Outcome]]:
    """Groups within bounds; what was read before a file breaks off is still given out."""
    group: list[Outcome] = []
    size = 0
    try:
        for outcome in outcomes:
            group.append(outcome)
            size += weight(outcome.record) if isinstance(outcome, Named) else OVERHEAD_BYTES
            if len(group) >= bounds.records or size >= bounds.bytes:
                yield group
                group, size = [], 0
    except (UnreadableFile, OSError):
        if group:
            yield group
        raise
    if group:
        yield group


def weight(record: Record) -> int:
    """Roughly the bytes that a record takes, without encoding it."""
    lists = (record.authors, record.tags)
    return (
        OVERHEAD_BYTES
        + sum(map(len, (record.title, record.description, record.abstract, record.text)))
        + sum(len(word) + 50 for words in lists for word in words)
        + 100 * len(record.edges)
        + len(str(record.metadata))
    )

"""Reading of files in a thread, in groups of bounded size.

The reader is at most two groups ahead. Its thread is a daemon and is abandoned when the consumer stops, so that an interrupted run does
not wait for a long PDF.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from dataclasses import dataclass

from outrider.ingest.entry import OVERHEAD_BYTES, estimate_bytes
from outrider.ingest.record_ids import NamedRecord, Outcome
from outrider.runtime.threads_and_loops import call_on
from outrider.state.errors import UnreadableFile

READ_AHEAD = 2
"""Groups: the next is read while one is stored."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """A group is full at this many records or bytes, whichever comes first. One record may be larger."""

    records: int
    bytes: int


async def read_groups(outcomes: Callable[[], Iterable[Outcome]], bounds: Bounds) -> AsyncGenerator[list[Outcome]]:
    """The results of `outcomes`, in groups. Its exceptions are raised after the groups before them."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Queue[list[Outcome] | BaseException | None] = asyncio.Queue()
    free = threading.Semaphore(READ_AHEAD)
    abandoned = threading.Event()

    def read() -> None:
        try:
            for group in group_outcomes(outcomes(), bounds):
                free.acquire()
                if abandoned.is_set():
                    return
                call_on(loop, ready.put_nowait, group)
            call_on(loop, ready.put_nowait, None)
        except BaseException as error:  # noqa: BLE001 - raised again by the consumer
            call_on(loop, ready.put_nowait, error)

    threading.Thread(target=read, name="outrider-reader", daemon=True).start()
    try:
        while (item := await ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
            free.release()
    finally:
        abandoned.set()
        free.release()  # the thread may wait for room


def group_outcomes(outcomes: Iterable[Outcome], bounds: Bounds) -> Iterator[list[Outcome]]:
    """Split outcomes into groups within bounds. Outcomes read before a file breaks off are still yielded."""
    group: list[Outcome] = []
    size = 0
    try:
        for outcome in outcomes:
            group.append(outcome)
            size += estimate_bytes(outcome.record) if isinstance(outcome, NamedRecord) else OVERHEAD_BYTES
            if len(group) >= bounds.records or size >= bounds.bytes:
                yield group
                group, size = [], 0
    except (UnreadableFile, OSError):
        if group:
            yield group
        raise
    if group:
        yield group

"""What searches found is kept in the library beside them: in a thread, over a handle of its own, so that no answer waits for a slow disk.

The thread outlives the answer; at the end of a process Python waits for it, for `MOST_S` and the tending at most.
"""

from __future__ import annotations

import asyncio
import concurrent.futures.thread  # noqa: F401 - it sets an end to its threads, too, which ours has to come before
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from outrider.services.tending import tend
from outrider.state.errors import LibraryBusy, SearchError
from outrider.state.records import Record
from outrider.state.threads import before_exit, complete, wait_for_future

if TYPE_CHECKING:
    from outrider.retrieval.store import Library

WAIT_S = 5.0
"""For another process that writes: its search keeps in less; an ingestion, which takes minutes, goes before."""
MOST_S = 30.0
"""For all of it, the turn of other searches included."""
SOON_S = 1.0
"""A wait that needs no word."""
NAME = "outrider-keeping"
_keeping = threading.Lock()
"""One at a time in a process."""

log = logging.getLogger(__name__)

Renewed = Callable[[Record, Record | None], Record]
Counts = tuple[int, int]


@dataclass(frozen=True, slots=True)
class KeptBeside:
    """The pipeline's `Keeper`."""

    opened: Callable[[], Awaitable[Library]]
    """A handle of the library of the settings, which is made where there is none."""

    async def keep(self, records: Sequence[Record], renewed: Renewed) -> Counts:
        future: Future[Counts] = Future()
        threading.Thread(target=self._run, args=(records, renewed, future), name=NAME).start()
        try:
            await wait_for_future(future)
        except BaseException:
            future.add_done_callback(partial(_log_failure, len(records)))
            raise
        return future.result()

    def _run(self, records: Sequence[Record], renewed: Renewed, future: Future[Counts]) -> None:
        complete(future, partial(self._in_turn, records, renewed))
        if future.exception() is None:
            asyncio.run(tend(self.opened))

    def _in_turn(self, records: Sequence[Record], renewed: Renewed) -> Counts:
        until = time.monotonic() + MOST_S
        too_long = LibraryBusy(f"it takes more than {MOST_S:g} s")
        if not _keeping.acquire(timeout=MOST_S):
            raise too_long
        try:
            return asyncio.run(self._kept(records, renewed, until - time.monotonic()))
        except TimeoutError:
            raise too_long from None
        finally:
            _keeping.release()

    async def _kept(self, records: Sequence[Record], renewed: Renewed, within_s: float) -> Counts:
        async with asyncio.timeout(within_s):
            library = await self.opened()
            try:
                return await _written(library, records, renewed)
            finally:
                library.close()


def settled() -> None:
    """Waits for what is being kept."""
    for thread in threading.enumerate():
        if thread.name == NAME:
            thread.join(SOON_S)
            if thread.is_alive():
                log.warning("what this search found is still being kept in the library; it is waited for, %.3g s at most", MOST_S + MOST_S)
                thread.join(MOST_S + MOST_S)


before_exit(settled)


def _log_failure(count: int, future: Future[Counts]) -> None:
    """For a caller that has gone: its answer has said that they are being kept."""
    error = future.exception()
    if isinstance(error, SearchError):
        log.warning("%d works that a search found were not kept: %s", count, error)
    elif error:
        log.error("%d works that a search found were not kept", count, exc_info=error)


async def _written(library: Library, records: Sequence[Record], renewed: Renewed) -> Counts:
    """What the library says already is not written, and nobody waited for."""
    known = {record.doc_id: record for record in await library.fetch([record.doc_id for record in records])}
    whole = [renewed(record, known.get(record.doc_id)) for record in records]
    writing = [record for record in whole if record is not known.get(record.doc_id)]
    if writing:
        await library.upsert(writing, WAIT_S)
    changed = sum(record.doc_id in known for record in writing)
    return len(writing) - changed, changed

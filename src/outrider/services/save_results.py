"""Saving of search results to the library, and the maintenance that follows.

It runs in a thread over a library handle of its own, so that no answer waits for a slow disk. The thread may outlive the answer: at its end
the process waits for it. Maintenance adds new records to the indexes; without it every search would scan them.
"""

from __future__ import annotations

import asyncio
import concurrent.futures.thread  # noqa: F401 - registers its hook before exit; ours must come after and is then called first
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from outrider.runtime.threads_and_loops import before_exit, complete, wait_for_future
from outrider.state.errors import LibraryBusy, LibraryError, SearchError
from outrider.state.records import Record

if TYPE_CHECKING:
    from outrider.library.library import Library

WAIT_S = 5.0
"""Limit on the wait for another process that writes. Its search saves in less; an ingestion takes minutes and goes first."""
LIMIT_S = 30.0
"""Limit on the whole save, the wait for other searches included."""
QUIET_S = 1.0
"""A shorter wait at the end of the process is not reported."""
THREAD = "outrider-saving"
MAINTENANCE_WAIT_S = 1.0
"""Limit on the wait for another process that writes: an ingestion maintains the library itself."""
MAINTENANCE_S = 60.0

_one_at_a_time = threading.Lock()
_maintenance = threading.Lock()
"""One maintenance at a time in a process."""
log = logging.getLogger(__name__)

Renew = Callable[[Record, Record | None], Record]
Counts = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ResultSaver:
    """The pipeline's `ResultStore`."""

    open_library: Callable[[], Awaitable[Library]]
    """Opens the library of the settings, and creates a missing one."""
    prepare: Callable[[Library, Sequence[Record]], Awaitable[None]] | None = None
    """What is done with changed records before they are written, such as embedding them."""

    async def keep(self, records: Sequence[Record], renew: Renew) -> Counts:
        future: Future[Counts] = Future()

        def run() -> None:
            complete(future, partial(self._save_in_turn, records, renew))
            if future.exception() is None:
                asyncio.run(maintain_library(self.open_library))

        threading.Thread(target=run, name=THREAD).start()
        try:
            await wait_for_future(future)
        except BaseException:  # the caller has returned, and its answer reports that the records are being saved
            future.add_done_callback(partial(_log_failure, len(records)))
            raise
        return future.result()

    def _save_in_turn(self, records: Sequence[Record], renew: Renew) -> Counts:
        until = time.monotonic() + LIMIT_S
        too_long = LibraryBusy(f"it takes more than {LIMIT_S:g} s")
        if not _one_at_a_time.acquire(timeout=LIMIT_S):
            raise too_long
        try:
            return asyncio.run(self._save(records, renew, until - time.monotonic()))
        except TimeoutError:
            raise too_long from None
        finally:
            _one_at_a_time.release()

    async def _save(self, records: Sequence[Record], renew: Renew, within_s: float) -> Counts:
        """Write the records that differ from those of the library; if none does, take no lock."""
        async with asyncio.timeout(within_s):
            library = await self.open_library()
            try:
                known, changes = await _find_changes(library, records, renew)
                if changes and self.prepare is not None:
                    await self.prepare(library, changes)
                    # that takes seconds, in which others may write: their records are not overwritten by what was read before
                    known, changes = await _find_changes(library, records, renew)
                if changes:
                    await library.upsert(changes, WAIT_S)
            finally:
                library.close()
        updates = sum(record.doc_id in known for record in changes)
        return len(changes) - updates, updates


async def _find_changes(library: Library, records: Sequence[Record], renew: Renew) -> tuple[dict[str, Record], list[Record]]:
    """The records as they are stored now, and those that differ."""
    known = {record.doc_id: record for record in await library.fetch([record.doc_id for record in records])}
    renewed = [renew(record, known.get(record.doc_id)) for record in records]
    return known, [record for record in renewed if record is not known.get(record.doc_id)]


async def maintain_library(open_library: Callable[[], Awaitable[Library]]) -> None:
    """Optimize the library if it is due and no other thread of this process does."""
    if not _maintenance.acquire(blocking=False):
        return
    try:
        async with asyncio.timeout(MAINTENANCE_S):
            library = await open_library()
            try:
                if await library.due():
                    await library.optimize(wait_s=MAINTENANCE_WAIT_S)
            finally:
                library.close()
    except (LibraryError, TimeoutError) as error:
        log.info("the library was not optimized: %s", str(error) or f"it takes more than {MAINTENANCE_S:g} s")
    finally:
        _maintenance.release()


def wait_for_saves() -> None:
    """Wait for saves under way."""
    for thread in threading.enumerate():
        if thread.name == THREAD:
            thread.join(QUIET_S)
            if thread.is_alive():
                log.warning("the results of this search are still being saved to the library; waiting %.3g s at most", LIMIT_S + LIMIT_S)
                thread.join(LIMIT_S + LIMIT_S)


before_exit(wait_for_saves)


def _log_failure(count: int, future: Future[Counts]) -> None:
    error = future.exception()
    if isinstance(error, SearchError):
        log.warning("%d works of a search were not saved to the library: %s", count, error)
    elif error:
        log.error("%d works of a search were not saved to the library", count, exc_info=error)

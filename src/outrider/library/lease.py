"""Leases: locks of a library on object storage, which hold across machines.

A lease is one small object, and every change of it is conditional: created only where there is none (`If-None-Match`), replaced only
where its entity tag is the one that was read (`If-Match`), or what Google Cloud and Azure have instead. It names its holder; a free one
names none. The holder renews it. Whoever waits for it takes it over once it was unchanged for `EXPIRY_S` by the waiting process's own
clock, so that the clocks of machines need not agree.

A process that slept for longer than that may wake up and believe that it still holds its lease. So a holder that could not renew it for
`FENCE_S` begins no further write (`require_held`), which is before another can take it over. A request that is under way by then is what
LanceDB's commit protocol and the primary keys are for: no commit is lost, no record is doubled.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import socket
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from outrider.library.store_errors import explain_store, read_first_line
from outrider.runtime.threads_and_loops import finish
from outrider.state.errors import LibraryBusy

if TYPE_CHECKING:
    from obstore.store import ObjectStore

log = logging.getLogger(__name__)

FOLDER = ".outrider-leases"
EXPIRY_S = 60.0
FENCE_S = 40.0
RENEW_S = 10.0
POLL_S = 0.1
SLOWEST_POLL_S = 1.5
RESERVED_S = 3.0
"""Of a free lease, for the first in the queue: it looks more often than that."""
LEAVING_TRIES = 5
REPORT_S = 5.0
"""Of waiting, until it is reported; then each time that it has doubled."""


class LeaseState(NamedTuple):
    """What the object holds."""

    mark: dict[str, str]
    """Entity tag and version, where the service has them: what a conditional request names."""
    holder: str
    """Empty for a free lease."""
    place: str
    """Process and machine of the holder, for messages."""
    beat: str
    """Another one each time that the holder writes the object; those who wait leave it as it is."""
    queue: tuple[str, ...]
    """Who waits, in the order of coming. Without it a process that writes again and again would shut others out."""
    changed_at: datetime


@dataclass(slots=True)
class Lease:
    """One holding of a lease, from `acquire` to `release`. Raises `OSError` where the store fails."""

    store: ObjectStore
    name: str
    address: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of the store: credentials among them are hidden where it echoes them."""
    _holder: str = field(default_factory=lambda: uuid.uuid4().hex)
    _state: LeaseState | None = None
    """As this holder wrote it last; None if it does not hold the lease."""
    _renewed: float = 0.0
    """By `_read_clock`."""

    def require_held(self) -> None:
        """`LibraryBusy` where another process may have taken it over."""
        if self._state is None or _read_clock() - self._renewed >= FENCE_S:
            raise LibraryBusy(
                f"this process could not renew its lock of the library at {self.address} for {FENCE_S:.0f} s, so another one may write; "
                "what it has committed stays; run the command again"
            )

    async def acquire(self, wait_s: float, busy: str) -> None:
        """Wait until it is free, or its holder has not renewed it for `EXPIRY_S`. `LibraryBusy` with the text after `wait_s`."""
        try:
            await self._wait(wait_s, busy)
        except BaseException:
            await asyncio.shield(self._leave_queue())
            raise

    async def _wait(self, wait_s: float, busy: str) -> None:
        began = since = time.monotonic()
        beat, report_s = "", REPORT_S
        while True:
            state = await self.read()
            now = time.monotonic()
            if state is not None and state.beat != beat:
                beat, since = state.beat, now
            if await finish(self._try(state, now - since)):
                return
            if now - began >= wait_s:
                raise LibraryBusy(busy)
            if state is not None and now - began >= report_s:
                report_s *= 2
                log.warning("waiting for the library at %s: %s is writing (%.0f s so far)", self.address, state.place, now - began)
            place = state.queue.index(self._holder) if state is not None and self._holder in state.queue else 1
            await asyncio.sleep(min(POLL_S * (1 + 4 * place), SLOWEST_POLL_S) * random.uniform(0.5, 1.5))  # noqa: S311 - spreads those who wait

    async def _try(self, state: LeaseState | None, unchanged_s: float) -> bool:
        """Take the lease if that is allowed now, else queue for it. A first one in the queue that does not come loses its place."""
        if state is None:
            return await self._write(self._holder, None)
        is_first = state.queue[:1] in ((), (self._holder,))
        if not state.holder and (is_first or unchanged_s > RESERVED_S):
            return await self._write(self._holder, state)
        if state.holder and unchanged_s > EXPIRY_S:
            if taken := await self._write(self._holder, state):
                log.warning("took over the lock of the library at %s: %s has not renewed it", self.address, state.place)
            return taken
        if self._holder not in state.queue:
            await self._put({**_write_content(state), "queue": [*state.queue, self._holder]}, state.mark)
        return False

    async def _leave_queue(self) -> None:
        """One that stays there costs the next one `RESERVED_S`."""
        with suppress(OSError):
            for _ in range(LEAVING_TRIES):
                state = await self.read()
                if state is None or self._holder not in state.queue:
                    return
                queue = [one for one in state.queue if one != self._holder]
                if await self._put({**_write_content(state), "queue": queue}, state.mark) is not None:
                    return

    async def renew(self) -> None:
        """Until it is cancelled, or the lease is lost. A failed request is repeated."""
        while self._state is not None:
            await asyncio.sleep(RENEW_S)
            try:
                if not await self._write(self._holder, self._state):
                    self._state = None
            except OSError as error:
                log.warning("the lock of the library at %s could not be renewed: %s", self.address, self._explain(error))

    async def release(self) -> None:
        """Give it up, unless it was taken over. One that cannot be given up expires."""
        state, self._state = self._state, None
        if state is not None:
            try:
                await self._write("", state)
            except OSError as error:
                problem = "could not be released; it expires in"
                log.warning("the lock of the library at %s %s %.0f s: %s", self.address, problem, EXPIRY_S, self._explain(error))

    async def _write(self, holder: str, state: LeaseState | None) -> bool:
        """Replace a state, None for no object, by one with this holder; False where another holder was first.

        Again if only the queue has changed, or if a request counted whose answer came too late: its client has repeated it.
        """
        while True:
            began = _read_clock()
            queue = () if state is None else state.queue
            if self._holder in queue:  # what stands before it did not come
                queue = queue[queue.index(self._holder) + 1 :]
            elif holder and state is not None and not state.holder:
                queue = queue[1:]
            place = f"process {os.getpid()} on {socket.gethostname()}"
            new = LeaseState({}, holder, place, uuid.uuid4().hex, queue, datetime.now(UTC))
            mark = await self._put(_write_content(new), None if state is None else state.mark)
            if mark is not None:
                if holder:
                    self._state, self._renewed = new._replace(mark=mark), began
                return True
            state = await self.read()
            if state is None or state.holder != self._holder:
                return False

    async def read(self) -> LeaseState | None:
        """None where it was never taken."""
        from obstore.exceptions import BaseError

        try:
            response = await self.store.get_async(f"{FOLDER}/{self.name}")
            content = json.loads(bytes(await response.bytes_async()))
            fields = content["holder"], content["place"], content["beat"], tuple(content["queue"])
        except FileNotFoundError:
            return None
        except BaseError as error:
            raise OSError(str(error)) from error
        except (ValueError, KeyError, TypeError) as error:
            raise OSError(f"{FOLDER}/{self.name} at {self.address} is no lease; delete it while nobody writes") from error
        return LeaseState(_read_mark(response.meta), *fields, response.meta["last_modified"])

    async def _put(self, content: dict[str, Any], before: dict[str, str] | None) -> dict[str, str] | None:
        """The mark of the new state; None where the state before is not the one with this mark, or where there is one against None."""
        from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

        body = json.dumps(content).encode()  # no two contents are equal, so no two entity tags are
        mode: Any = "create" if before is None else before
        try:
            return _read_mark(await self.store.put_async(f"{FOLDER}/{self.name}", body, mode=mode))
        except (AlreadyExistsError, PreconditionError):  # a service answers with either
            return None
        except BaseError as error:
            raise OSError(str(error)) from error

    def _explain(self, error: OSError) -> str:
        return explain_store(str(error)) or read_first_line(error, self.options)


def _write_content(state: LeaseState) -> dict[str, Any]:
    return {"holder": state.holder, "place": state.place, "beat": state.beat, "queue": state.queue}


def _read_mark(meta: Any) -> dict[str, str]:
    return {name: str(meta[name]) for name in ("e_tag", "version") if meta[name]}


def _read_clock() -> float:
    """Seconds, also those in which the machine slept: the monotonic clock of Linux leaves them out, and others may write meanwhile."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


_current: ContextVar[Lease | None] = ContextVar("lease", default=None)


def require_held(*, always: bool = False) -> None:
    """Call it before each commit. `LibraryBusy` where this context had a lease on writes and may have lost it; a folder has none."""
    if (lease := _current.get()) is not None:
        lease.require_held()
    elif always:
        raise AssertionError("nothing may be written here without the lock of writes")


@asynccontextmanager
async def hold(lease: Lease, wait_s: float, busy: str, *, fences: bool) -> AsyncIterator[None]:
    """Work inside has the lease; with `fences`, `require_held` asks for it."""
    renewing: asyncio.Task[None] | None = None
    before = None
    try:
        await lease.acquire(wait_s, busy)
        renewing = asyncio.create_task(lease.renew())
        before = _current.set(lease) if fences else None
        yield
    finally:
        if before is not None:
            _current.reset(before)
        await asyncio.shield(_end(lease, renewing))


async def _end(lease: Lease, renewing: asyncio.Task[None] | None) -> None:
    if renewing is not None:
        renewing.cancel()
        await asyncio.wait({renewing})
    await lease.release()

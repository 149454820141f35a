"""Replicas of one served model: choice, checks, limits, and pauses after failures.

A replica is checked before its first request and after each failure; a check asks it a small question and compares the answer with those
of the others, so that a server with another model never answers for this one. A busy server (429, 503) is left alone for as long as it
asks for, and gets fewer requests at a time (additive increase, multiplicative decrease). A failed request goes to another replica.

All methods run on the background loop, so that they need no lock.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from outrider.models.servers.health import ServerReport, choose_patience_s, smooth
from outrider.models.servers.transport import ServerBusy, ServerFailed, ServerSettings, TooLarge
from outrider.state.errors import ModelError, ModelUnavailable

log = logging.getLogger(__name__)

Result = TypeVar("Result")

TRIES = 3
"""Attempts of one request before it fails, or one a replica if there are more; documents may be refused as often as servers are busy."""
BUSY_PAUSE_S, BUSY_PAUSES = 0.05, 4
"""First pause before a busy server that names no longer one, and how often it doubles: 0.8 s at most."""
FAILED_PAUSE_S, FAILED_PAUSES = 0.25, 8
"""First pause before a failed replica is checked again, and how often it doubles: a minute at most."""
WRONG_PAUSE_S = 60.0
"""Pause before a replica with another model, or one that rejects the key, is checked again."""
CHECK_S = 10.0
"""Time limit of a check while other replicas work."""
ORDER_S = 2.0
"""How long the first check of a replica waits for those before it: the first one in the settings decides which model is the right one."""
PATIENCE_S = 2.0
"""A replica that takes longer than this, and many times longer than the others (`SLOW_FACTOR`), is left out as a failed one is."""
BESIDE_URGENT, URGENT_S = 2, 5.0
"""Requests that a replica gets at a time of others than urgent ones, so long after an urgent one: one is computed, one waits."""


@dataclass(slots=True, eq=False)
class Replica:
    """One server, and what is known of it."""

    address: str
    name: str
    limit: float
    """Concurrent requests that it gets now."""
    running: int = 0
    ready: bool = False
    """Whether its check has succeeded since it last failed."""
    check: asyncio.Task[None] | None = None
    closed_until: float = 0.0
    is_wrong: bool = False
    """Whether time alone will not mend it: another model, a rejected key."""
    error: ModelError | None = None
    """Why it gave no answer the last time."""
    failures: int = 0
    refusals: int = 0
    """In a row, both."""
    usual_s: dict[bool, float] = field(default_factory=dict)
    """Smoothed response time, of urgent requests and of others."""


@dataclass(slots=True)
class _PendingRequest:
    """One request on its way to an answer."""

    urgent: bool
    started: float
    until: float | None
    rounds: int = 0
    """Times that no replica could be used at all, each after a pause."""
    round_until: float = 0.0
    attempts: int = 0
    was_forced: bool = False


class _OutOfTime(Exception):
    """A request ended because its caller's time was over, before its server had as much as it may need."""


class ReplicaPool:
    """The replicas of one model. `check` raises what a request would."""

    def __init__(self, settings: ServerSettings, addresses: Sequence[str], check: Callable[[Replica], Awaitable[None]]) -> None:
        self._settings = settings
        self._check = check
        self.replicas = tuple(Replica(address, settings.name(address), settings.concurrency) for address in addresses)
        self._last_success = 0.0
        self._last_urgent = -math.inf
        self._change: asyncio.Future[None] | None = None
        self._bug: Exception | None = None
        """An error of a check that no server causes."""

    @property
    def name(self) -> str:
        """The model and its addresses."""
        addresses = [self.replicas[0].name, *(one.name.removeprefix(f"{self._settings.model} at ") for one in self.replicas[1:])]
        return ", ".join(addresses)

    @property
    def slots(self) -> int:
        """Requests that may run at a time on the replicas that answer; at first on one."""
        return self._settings.concurrency * max(1, sum(one.ready for one in self.replicas))

    async def wait_ready(self, until: float | None = None) -> None:
        """Until one replica is ready, so that formats and limits are known. Raises `ModelError` if none will be."""
        replica = await self._acquire(_PendingRequest(urgent=False, started=time.monotonic(), until=until))
        replica.running -= 1
        self._notify()

    async def report(self, within_s: float) -> tuple[ServerReport, ...]:
        """The state of each replica, after the checks that are due."""
        self._start_checks(time.monotonic())
        if checks := [one.check for one in self.replicas if one.check]:
            await asyncio.wait(checks, timeout=within_s)
        unknown = f"{{}} did not answer within {within_s:g} s"
        return tuple(
            ServerReport(one.name, "" if one.ready else str(one.error) if one.error else unknown.format(one.name)) for one in self.replicas
        )

    async def send(self, ask: Callable[[Replica], Awaitable[Result]], *, urgent: bool = False, until: float | None = None) -> Result:
        """The answer of one replica to `ask`, which raises `ServerBusy`, `ServerFailed` or, for a wrong replica, `ModelError`.

        An urgent request goes before others and is not repeated for long. Others wait for busy servers: until `until`, by default as long
        as one of them has answered something within the time limit of a request. What else `ask` raises passes.
        """
        pending = _PendingRequest(urgent, time.monotonic(), until)
        while True:
            replica = await self._acquire(pending)
            try:
                return await self._ask(replica, ask, pending)
            except ServerBusy as busy:
                self._record_busy(replica, busy)
                pending.attempts += urgent
                last: ModelError = busy.error
            except _OutOfTime:
                raise self._explain() from None
            except ServerFailed as failed:
                self._record_failure(replica, failed, counts=replica.ready)
                pending.attempts += 1
                last = failed.error
            except ModelError as error:
                self._record_wrong(replica, error)
                last = error
            finally:
                replica.running -= 1
                self._notify()
            if pending.attempts >= max(TRIES, len(self.replicas)):
                raise last

    async def _ask(self, replica: Replica, ask: Callable[[Replica], Awaitable[Result]], pending: _PendingRequest) -> Result:
        started, urgent = time.monotonic(), pending.urgent
        others_s = [one.usual_s.get(urgent, 0.0) for one in self.replicas if one is not replica and one.ready]
        patience_s = choose_patience_s(others_s, PATIENCE_S, self._settings.timeout_s)
        limit_s = patience_s if pending.until is None else max(0.001, min(patience_s, pending.until - started))
        try:
            result = await self._within(replica, limit_s, ask(replica))
        except ServerFailed as failed:
            if failed.timed_out:
                usual_s = replica.usual_s.get(urgent, 0.0)
                # else long texts after short ones would take too long at every server, and at each attempt
                replica.usual_s[urgent] = max(usual_s, limit_s)
                if limit_s < min(patience_s / 2, max(PATIENCE_S, 2 * usual_s)):
                    raise _OutOfTime from None
            raise
        self._record_success(replica, time.monotonic() - started, urgent=urgent)
        return result

    async def _within(self, replica: Replica, limit_s: float, answer: Awaitable[Result]) -> Result:
        limit = asyncio.timeout(limit_s)
        try:
            async with limit:
                return await answer
        except TimeoutError:
            if not limit.expired():
                raise
            section = self._settings.section
            why = f"{replica.name} did not answer within {limit_s:.3g} s; look at the server or raise {section}.timeout_s"
            raise ServerFailed(ModelUnavailable(why), timed_out=True) from None

    async def _acquire(self, pending: _PendingRequest) -> Replica:
        """A replica with room for the request. Raises `ModelError` if there will be none in time."""
        while True:
            if self._bug:
                bug, self._bug = self._bug, None
                raise bug
            now = time.monotonic()
            if not pending.was_forced and not any(one.ready for one in self.replicas):
                for one in self.replicas:  # the user may have mended it since the last request
                    one.closed_until, one.is_wrong = (one.closed_until if one.refusals else 0.0), False
            pending.was_forced = True
            self._start_checks(now)
            if (pending.until is None or now < pending.until) and (replica := self._choose(now, urgent=pending.urgent)):
                replica.running += 1
                return replica
            until = max(pending.started, self._last_success) + self._settings.timeout_s if pending.until is None else pending.until
            opening = min((one.closed_until for one in self.replicas if one.closed_until > now), default=until)
            if not any(one.ready or one.check for one in self.replicas) and now >= pending.round_until:
                pending.rounds += 1
                pending.round_until = opening
                if pending.rounds >= TRIES or all(one.is_wrong for one in self.replicas):
                    raise self._explain()
            is_late = opening >= until and not any(one.check or one.running for one in self.replicas)
            if now >= until or is_late:
                raise self._explain()
            await self._wait(min(opening, until) - now)

    def _choose(self, now: float, *, urgent: bool) -> Replica | None:
        """The ready replica with the largest share of free places. An urgent request may take one place more, and others then leave places:
        a server computes first what it has got first.
        """
        if urgent:
            self._last_urgent = now
        places = BESIDE_URGENT if not urgent and now - self._last_urgent < URGENT_S else self._settings.concurrency
        free = [
            one for one in self.replicas if one.ready and one.closed_until <= now and one.running < min(int(one.limit), places) + urgent
        ]
        return min(free, key=lambda one: (one.running / one.limit, one.usual_s.get(urgent, 0.0)), default=None)

    def _start_checks(self, now: float) -> None:
        earlier: list[asyncio.Task[None]] = []
        for one in self.replicas:
            if not one.ready and one.check is None and one.closed_until <= now:
                one.check = asyncio.create_task(self._run_check(one, tuple(earlier)))
            if one.check:
                earlier.append(one.check)

    async def _run_check(self, replica: Replica, earlier: Sequence[asyncio.Task[None]]) -> None:
        try:
            if earlier and not self._last_success:
                await asyncio.wait(earlier, timeout=ORDER_S)
            limit_s = self._settings.timeout_s
            if any(one.ready for one in self.replicas):
                limit_s = min(limit_s, CHECK_S)
            await self._within(replica, limit_s, self._check(replica))
        except ServerBusy as busy:
            self._record_busy(replica, busy)
        except ServerFailed as failed:
            self._record_failure(replica, failed, counts=True)
        except ModelError as error:
            self._record_wrong(replica, error)
        except TooLarge as error:  # for a small question, which time does not mend
            self._record_wrong(replica, ModelUnavailable(str(error)))
        except Exception as error:  # noqa: BLE001 - raised again where a request waits, which would wait for ever
            self._bug = error
        else:
            if replica.error and len(self.replicas) > 1:
                log.info("%s is used again", replica.name)
            replica.ready, replica.error, replica.is_wrong = True, None, False
            replica.refusals = 0  # not its failures: a server may pass every check and fail every request
            self._last_success = time.monotonic()
        finally:
            replica.check = None
            self._notify()

    def _record_success(self, replica: Replica, took_s: float, *, urgent: bool) -> None:
        replica.failures, replica.refusals, replica.error = 0, 0, None
        replica.limit = min(self._settings.concurrency, replica.limit + 1 / replica.limit)
        replica.usual_s[urgent] = smooth(replica.usual_s.get(urgent, 0.0), took_s)
        self._last_success = time.monotonic()

    def _record_busy(self, replica: Replica, busy: ServerBusy) -> None:
        now = time.monotonic()
        replica.error = busy.error
        if replica.closed_until <= now:  # the requests that were under way with the first refused one are no news
            replica.limit = max(1.0, replica.limit / 2)
            replica.refusals += 1
        own_s = BUSY_PAUSE_S * 2 ** min(replica.refusals - 1, BUSY_PAUSES)  # a server may ask for no pause, and refuse again and again
        replica.closed_until = max(replica.closed_until, now + max(own_s, busy.pause_s or 0.0))

    def _record_failure(self, replica: Replica, failed: ServerFailed, *, counts: bool) -> None:
        """Only one of the requests that a dead server leaves without an answer counts."""
        if replica.ready and len(self.replicas) > 1:
            log.warning("%s; its requests go to the other servers", failed.error)
        replica.error = failed.error
        if counts:
            replica.failures += 1
            replica.limit = max(1.0, replica.limit / 2) if failed.timed_out else replica.limit
            replica.closed_until = time.monotonic() + FAILED_PAUSE_S * 2 ** min(replica.failures - 1, FAILED_PAUSES)
        replica.ready = False

    def _record_wrong(self, replica: Replica, error: ModelError) -> None:
        if len(self.replicas) > 1 and not replica.is_wrong:
            log.warning("%s; this server is left out", error)
        replica.error, replica.is_wrong, replica.ready = error, True, False
        replica.closed_until = time.monotonic() + WRONG_PAUSE_S

    def _explain(self) -> ModelError:
        """Why there is no answer: the one server's error, or those of all."""
        errors = [one.error for one in self.replicas if one.error]
        if len(self.replicas) == 1 and errors:
            return errors[0].with_traceback(None)
        if not errors:
            return ModelUnavailable(
                f"{self.name} did not answer within {self._settings.timeout_s:g} s ({self._settings.section}.timeout_s)"
            )
        return ModelUnavailable(
            f"none of the {len(self.replicas)} servers of {self._settings.model} can be used: {'; '.join(map(str, errors))}"
        )

    def _notify(self) -> None:
        if self._change and not self._change.done():
            self._change.set_result(None)

    async def _wait(self, seconds: float) -> None:
        """Until a place may have become free, at most so long."""
        if self._change is None or self._change.done():
            self._change = asyncio.get_running_loop().create_future()
        await asyncio.wait({self._change}, timeout=max(0.0, seconds))

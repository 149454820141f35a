"""Permits of a limit that several processes share in Redis, in the order of requests

Each process has one task for each limit, which reports what became of its permits and gets those whose turn has come
(`shared_permits.lua`). Reports wait for nobody: if one is lost, the slot is free again when its lease ends. The lease of a permit covers
the longest time that its request can take, so the limit also holds where a process dies.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from outrider.runtime.shared_redis import SHARE_AFTER_S, RedisAway, SharedRedis

GRANT_S = 1.0
"""How long a granted permit may wait for its process, which may be busy."""
POLL_S = 0.05
"""Longest pause between two looks at a queue where a slot may become free at any moment, by another process' response ..."""
LONG_POLL_S = 0.25
"""... and where the earliest moment is known."""
SHORTEST_POLL_S = 0.001
LATE_S = 0.02
"""A process that looks later than it meant to loses the slot to the next in the queue ..."""
OWNER_S = 2.0
"""... and after this time its places too: it is dead, or too busy to use them."""
FORGET_S = 3_600.0
"""Failures of a service are forgotten after this time without any request."""
REMEMBERED_S = 60.0
"""Requests of this last time may be unknown to a server that has started without its data."""
SCRIPT = Path(__file__).with_name("shared_permits.lua").read_text(encoding="utf-8")
UNLIMITED = 10**9
UNUSED = 0
"""Instead of the time when a slot is free again: at once."""


@dataclass(frozen=True, slots=True)
class SharedLimits:
    """`most` requests arrive in any `per_s` seconds, each within `transit_s` of its sending, and `at_once` are under way."""

    at_once: int
    most: int = UNLIMITED
    per_s: float = 0.0
    transit_s: float = 0.0
    failures: int = UNLIMITED
    """Failures in a row of all processes, after which nothing is sent ..."""
    pause_s: float = 0.0
    """... for this time; then a single request of all processes tests the service."""


class Refused(Exception):
    """No permit in time. `wait_s` is the least wait until the next one."""

    def __init__(self, why: Literal["limit", "pause", "circuit", "settling"], wait_s: float, outlook: Outlook) -> None:
        self.why, self.wait_s, self.outlook = why, wait_s, outlook


@dataclass(frozen=True, slots=True)
class Outlook:
    """The state of a limit."""

    available: int
    """Permits that nobody has or waits for."""
    wait_s: float
    """Least wait of a new request."""
    closed_s: float = 0.0
    """For so long the service wants no request."""
    settling_s: float = 0.0
    """For so long the server of the limits may not know all requests of the last period: it was away, or has lost them."""
    circuit_s: float = 0.0
    """For so long the service is skipped because it failed."""
    failures: int = 0
    kind: str = ""
    """Class of the last failure ..."""
    text: str = ""
    """... and its message."""


@dataclass(slots=True, eq=False)
class _Ticket:
    """A request that waits for its permit."""

    name: str
    until: float
    hold_s: float
    turn: asyncio.Future[float]
    """The time before the exchange that granted the permit."""


@dataclass(slots=True, eq=False)
class SharedPermit:
    """The right to send one request. Its slot is free a period after its arrival."""

    permits: SharedPermits = field(repr=False)
    name: str
    sent_s: float | None = None
    """By the loop's clock, like all times here."""
    _report: asyncio.TimerHandle | None = None

    def mark_sent(self) -> None:
        """The request leaves this process; twice if the first connection was dead. A quick response is reported with its end only."""
        loop = asyncio.get_running_loop()
        is_reported = self._report is not None and self._report.when() <= loop.time()
        if self._report:
            self._report.cancel()
        self.sent_s = loop.time()
        free_s = self.sent_s + self.permits.limits.transit_s + self.permits.limits.per_s
        delay_s = 0.0 if is_reported else self.permits.limits.transit_s
        self._report = loop.call_later(delay_s, self.permits.report, "sent", self.name, free_s)

    def end(self, *, has_response: bool, unused: bool = False) -> None:
        """The request is over. `unused` if nothing was sent, so that the slot is free at once."""
        if self._report:
            self._report.cancel()
        now, transit_s = asyncio.get_running_loop().time(), self.permits.limits.transit_s
        arrival_s = now if self.sent_s is None else self.sent_s + transit_s
        if has_response:
            arrival_s = min(arrival_s, now)
        elif self.sent_s is None:
            arrival_s = now + transit_s  # it may be on its way without our notice
        self.permits.report("ended", self.name, UNUSED if unused else arrival_s + self.permits.limits.per_s)


class SharedPermits:
    """The permits of one limit. Used on the background loop only."""

    def __init__(self, redis: SharedRedis, name: str, limits: SharedLimits) -> None:
        self.redis, self.limits = redis, limits
        self._keys = [f"outrider:{{{name}}}:{part}" for part in ("window", "starts", "running", "queue", "owners", "state")]
        self._reports: list[tuple[str | float, ...]] = []
        self._waiting: dict[str, _Ticket] = {}
        self._longest_hold_s = 0.0
        """Longest time between a permit and the end of its request, so far."""
        self._numbers = itertools.count()
        self._wake, self._turn = asyncio.Event(), asyncio.Lock()
        self._exchange: asyncio.Task[None] | None = None

    @property
    def share_after_s(self) -> float:
        """Without the server, no permit that it had granted counts any more after this time."""
        return max(SHARE_AFTER_S, self._longest_hold_s + GRANT_S + self.limits.transit_s + self.limits.per_s)

    async def acquire(self, within_s: float, hold_s: float) -> SharedPermit:
        """Wait for a permit, in the order of all processes. Its request ends within `hold_s`.

        Raises `Refused` as soon as it is clear that this takes too long, `TimeoutError` when it did, `RedisAway`.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + within_s
        self._longest_hold_s = max(self._longest_hold_s, hold_s)
        while True:
            ticket = _Ticket(f"{self.redis.process}:{next(self._numbers)}", until, hold_s + GRANT_S, loop.create_future())
            self._waiting[ticket.name] = ticket
            self._start_exchange()
            try:
                async with asyncio.timeout_at(max(until, loop.time() + POLL_S)):  # there is time for one look
                    granted_s = await ticket.turn
            except BaseException:
                self._leave(ticket)
                raise
            permit = SharedPermit(self, ticket.name)
            if loop.time() - granted_s <= GRANT_S:
                return permit
            permit.end(has_response=False, unused=True)  # this process was too busy; its lease would not cover the request

    async def outlook(self) -> Outlook:
        """The state of the limit now. Raises `RedisAway`."""
        return _read_outlook(await self._run(()))

    def report(self, what: str, *values: str | float) -> None:
        """Tell the other processes, soon, what happened to a permit or to the service. A `float` is a time of the loop's clock."""
        self._reports.append((what, *values))
        self._start_exchange()

    def close(self, until_s: float) -> None:
        """Send nothing before this time of the loop's clock."""
        self.report("closed", until_s)

    def restore(self, started_s: float) -> None:
        """Count a request that was started while the server was away."""
        arrival_s = started_s + self._longest_hold_s + self.limits.transit_s
        self.report("ended", f"{self.redis.process}:{next(self._numbers)}", arrival_s + self.limits.per_s)

    def _settling_s(self) -> float:
        limits = self.limits
        return self.redis.settling_s(min(limits.per_s + limits.transit_s, REMEMBERED_S), self.share_after_s) if limits.per_s else 0.0

    def _leave(self, ticket: _Ticket) -> None:
        """Give back the place in the queue, or the permit that came at the same moment."""
        self._waiting.pop(ticket.name, None)
        if ticket.turn.done() and not ticket.turn.cancelled() and ticket.turn.exception() is None:
            self.report("ended", ticket.name, UNUSED)
        else:
            self.report("left", ticket.name)
        ticket.turn.cancel()

    def _start_exchange(self) -> None:
        self._wake.set()
        if self._exchange is None or self._exchange.done():
            self._exchange = asyncio.get_running_loop().create_task(self._exchange_all())

    async def _exchange_all(self) -> None:
        """Until there is nothing to report and nobody waits."""
        loop = asyncio.get_running_loop()
        while self._reports or self._waiting:
            await asyncio.sleep(0)  # what happens at the same moment goes into one exchange
            self._wake.clear()
            tickets, begun_s = tuple(self._waiting.values()), loop.time()
            try:
                reply = await self._run(tickets)
            except RedisAway as away:
                for ticket in self._waiting.values():
                    if not ticket.turn.done():
                        ticket.turn.set_exception(RedisAway(str(away)))
                self._waiting.clear()
                continue  # reports are lost, which leases allow for
            self._settle_tickets(tickets, reply, begun_s)
            if self._waiting and not self._reports:
                with suppress(TimeoutError):
                    async with asyncio.timeout(max(reply["pause_s"], SHORTEST_POLL_S)):
                        await self._wake.wait()

    def _settle_tickets(self, tickets: tuple[_Ticket, ...], reply: Mapping[str, Any], begun_s: float) -> None:
        """Pass on the permits, and refuse tickets whose wait is too long."""
        outlook, granted, waits = _read_outlook(reply), set(reply["granted"]), dict(reply["waits"])
        now = asyncio.get_running_loop().time()
        for ticket in tickets:
            if ticket.name in granted:
                if self._waiting.pop(ticket.name, None) is None or ticket.turn.done():  # it left during the exchange
                    self.report("ended", ticket.name, UNUSED)
                else:
                    ticket.turn.set_result(begun_s)
            elif not ticket.turn.done() and (refusal := _refuse(outlook, waits.get(ticket.name, 0.0), ticket.until - now)):
                ticket.turn.set_exception(refusal)

    async def _run(self, tickets: tuple[_Ticket, ...]) -> Mapping[str, Any]:
        """One exchange, with all reports so far. One at a time: a success must not overtake a failure."""
        async with self._turn:
            reports, self._reports = self._reports, []
            await self.redis.prepare()
            known, message = self._describe(reports, tickets)
            reply: Mapping[str, Any] = json.loads(await self.redis.run(SCRIPT, self._keys, [json.dumps(known), json.dumps(message)]))
            return reply

    def _describe(
        self, reports: list[tuple[str | float, ...]], tickets: tuple[_Ticket, ...]
    ) -> tuple[Mapping[str, float], Mapping[str, Any]]:
        limits, now = self.limits, asyncio.get_running_loop().time()
        known = {
            "most": limits.most,
            "per_s": limits.per_s,
            "at_once": limits.at_once,
            "transit_s": limits.transit_s,
            "failures": limits.failures,
            "pause_s": limits.pause_s,
            "owner_s": OWNER_S,
            "poll_s": POLL_S,
            "long_poll_s": LONG_POLL_S,
            "late_s": LATE_S,
            "longest_hold_s": max((ticket.hold_s for ticket in tickets), default=0.0) + REMEMBERED_S,
            "forget_s": FORGET_S,
            "settling_s": self._settling_s(),
        }
        message = {
            "process": self.redis.process,
            "reports": [[value - now if isinstance(value, float) else value for value in report] for report in reports],
            "tickets": [(ticket.name, ticket.hold_s) for ticket in tickets],
        }
        return known, message


def _refuse(outlook: Outlook, wait_s: float, left_s: float) -> Refused | None:
    """Why a ticket that waits `left_s` longer gets no permit; None if it may get one."""
    if outlook.circuit_s:
        return Refused("circuit", outlook.circuit_s, outlook)
    if outlook.closed_s > max(left_s, 0.0):
        return Refused("pause", outlook.closed_s, outlook)
    if outlook.settling_s > max(left_s, 0.0):
        return Refused("settling", outlook.settling_s, outlook)
    return Refused("limit", wait_s, outlook) if wait_s > max(left_s, 0.0) else None


def _read_outlook(reply: Mapping[str, Any]) -> Outlook:
    return Outlook(
        int(reply["available"]),
        reply["wait_s"],
        reply["closed_s"],
        reply["settling_s"],
        reply["circuit_s"],
        int(reply["failures"]),
        str(reply["kind"]),
        str(reply["text"]),
    )

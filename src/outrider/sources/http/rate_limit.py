"""Rate limits of services in one process: sliding window, requested pauses, circuit breaker

Used on the background loop only (`Caller` ensures it), so that one limit holds for all searches of the process, whatever their loops.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from math import isfinite
from typing import NamedTuple

from outrider.sources.http.service import Service
from outrider.sources.http.transport import Unreachable
from outrider.state.errors import RateLimited, SourceError, SourceUnavailable
from outrider.text.http_date import parse_http_date

LONGEST_S = 86_400.0
"""Upper bound of a pause: no service has a budget for more than a day, and a wrong header must not close it for ever."""
EPOCH_FROM = 1e9
"""A larger number is a time in seconds since the epoch; a smaller one is the number of seconds left."""
TRANSIT_S = 0.25
"""Time that a request may need to arrive: name lookup, connection, transfer."""
FAILURES = 5
"""Consecutive failures that open the circuit ..."""
PAUSE_S = 30.0
"""... for this time; then a single request tests the service."""


def parse_retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds to wait by Retry-After, a number or a date (RFC 9110 §10.2.3); None if it is missing or unreadable."""
    value = headers.get("retry-after", "").strip()
    if (seconds := _parse_number(value)) is not None:
        return min(LONGEST_S, seconds) if seconds >= 0 else None
    date_s = parse_http_date(value)
    return None if date_s is None else min(LONGEST_S, max(0.0, date_s - now))


def parse_budget_reset(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds until a used-up budget is renewed; None if requests are left or the headers do not say.

    `x-ratelimit-reset` is a time at GitHub ("Rate limits for the REST API") and the seconds left at OpenAlex ("Rate limits").
    """
    remaining, reset = (_parse_number(headers.get(f"x-ratelimit-{name}", "")) for name in ("remaining", "reset"))
    if remaining is None or remaining > 0 or reset is None:
        return None
    return min(LONGEST_S, max(0.0, reset - now if reset > EPOCH_FROM else reset))


def _parse_number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None


class SlidingWindow:
    """At most `most` requests arrive in any `per_s` seconds.

    A slot is free again `per_s` after its request was answered, or after it was sent plus `TRANSIT_S` if the response takes longer.
    A request that was never sent counts until its permit ends: without a network, no search waits for the slot of a failed connection.

    A leaky bucket such as aiolimiter's allows a burst and refills at once: of 10 a minute, 19 in the first, which GitHub refuses.
    """

    def __init__(self, most: int, per_s: float) -> None:
        self.most, self.per_s = most, per_s
        self._slots = asyncio.Semaphore(most)  # first come, first served
        self.starts: deque[float] = deque(maxlen=most)
        """When the last requests started, by the loop's clock."""
        self._ahead = 0

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[Permit]:
        """Wait for a slot; one that is released before the request starts is free at once."""
        self._ahead += 1
        try:
            await self._slots.acquire()
        except BaseException:
            self._ahead -= 1
            raise
        permit, has_response = Permit(self, asyncio.get_running_loop()), False
        try:
            yield permit
            has_response = True
        except Unreachable:
            permit.take_back()
            raise
        finally:
            permit.finish(has_response=has_response)

    def record_start(self, at_s: float) -> None:
        self._ahead -= 1
        self.starts.append(at_s)

    def take_back(self, at_s: float) -> None:
        """Undo `record_start`."""
        self._ahead += 1
        with suppress(ValueError):  # as many others started meanwhile
            self.starts.remove(at_s)

    def release(self, *, unused: bool = False) -> None:
        """Free a slot; `unused` if no request started."""
        self._ahead -= unused
        self._slots.release()

    def available(self) -> int:
        """Slots that are neither in use nor reserved by waiting requests."""
        expired_s = asyncio.get_running_loop().time() - self.per_s
        return max(0, self.most - self._ahead - sum(at > expired_s for at in self.starts))

    def wait_s(self) -> float:
        """Minimum wait of a new request, unless a request before it is cancelled."""
        periods, position = 1, len(self.starts) + self._ahead - self.most  # the request whose slot becomes ours
        while position >= len(self.starts):
            periods, position = periods + 1, position - self.most
        now = asyncio.get_running_loop().time()
        first_s = max(0.0, self.starts[position] + self.per_s - now) if position >= 0 else 0.0
        return first_s + (periods - 1) * self.per_s


@dataclass(slots=True)
class Permit:
    """The right to send one request, and the time when its slot is free again."""

    window: SlidingWindow
    loop: asyncio.AbstractEventLoop
    started_s: float | None = None
    """By the loop's clock."""
    _release: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """The request is about to be sent; it counts from here on."""
        self.started_s = self.loop.time()
        self.window.record_start(self.started_s)

    def take_back(self) -> None:
        """No connection was made, so nothing was sent and the slot is free at once; unless an earlier connection sent it and was dead."""
        if self.started_s is not None and self._release is None:
            self.window.take_back(self.started_s)
            self.started_s = None

    def mark_sent(self) -> None:
        """The request leaves this process: on a busy machine later than its start, and twice if the first connection was dead."""
        self._release_after(TRANSIT_S)

    def finish(self, *, has_response: bool) -> None:
        """Free the slot after the period. An unanswered request that was not marked as sent may still arrive, so `TRANSIT_S` is added."""
        if self.started_s is None:
            self.window.release(unused=True)
        elif self._release is None or (has_response and self._release.when() > self.loop.time() + self.window.per_s):
            self._release_after(0.0 if has_response else TRANSIT_S)

    def _release_after(self, transit_s: float) -> None:
        if self._release:
            self._release.cancel()
        self._release = self.loop.call_later(transit_s + self.window.per_s, self.window.release)


class LimitOutlook(NamedTuple):
    """What a limit leaves now."""

    available: int
    """Requests that may be sent at once."""
    wait_s: float
    """Least wait of a new request."""


@dataclass(slots=True, eq=False)
class RateLimiter:
    """Decides when the next request to one service may be sent."""

    window: SlidingWindow
    connections: asyncio.Semaphore
    """One for each request under way at a time."""
    now: Callable[[], float] = time.time
    closed_until: float = 0.0
    """As the service requested, in seconds since the epoch."""
    _failures: int = 0
    _failed_at: float = 0.0
    _last_error: SourceError | None = field(default=None, repr=False)
    _is_testing: bool = False

    @asynccontextmanager
    async def acquire(self, service: Service, within_s: float) -> AsyncIterator[Callable[[], None]]:
        """Wait until a request may be sent; yields the callback for when it is sent.

        Raises `RateLimited` as soon as it is clear that this takes longer than `within_s`, `SourceUnavailable` while the circuit is open.
        """
        until = self.now() + within_s
        self._remaining_pause_s(service, until)
        wait_s = self.window.wait_s()
        if wait_s > 0 and self.now() + wait_s > until:
            raise used_up_error(service, wait_s, self.now())
        try:
            async with asyncio.timeout(max(within_s, 0.0)) as limit, self.window.acquire() as permit, self.connections:
                while (pause_s := self._remaining_pause_s(service, until)) > 0:  # noqa: ASYNC110 - it may be closed again meanwhile
                    await asyncio.sleep(pause_s)
                limit.reschedule(None)
                with self._test_request():
                    permit.start()
                    yield permit.mark_sent
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise overtaken_error(service, within_s, self.now() + self.window.per_s) from error

    async def outlook(self) -> LimitOutlook:
        """The state of the limit now."""
        return LimitOutlook(self.window.available(), max(self.window.wait_s(), self.closed_until - self.now()))

    def close(self, until: float) -> None:
        """Send nothing before that time, in seconds since the epoch."""
        self.closed_until = max(self.closed_until, until)

    def record_failure(self, error: SourceError) -> None:
        self._failures, self._failed_at, self._last_error = self._failures + 1, self.now(), error

    def record_success(self) -> None:
        """The service responded, whatever the response."""
        self._failures = 0

    def _remaining_pause_s(self, service: Service, until: float) -> float:
        """Seconds for which the service is closed. Raises if that is longer than until then, or if the circuit is open."""
        if self.circuit_open:
            left_s = max(1.0, PAUSE_S - (self.now() - self._failed_at))
            is_limit = isinstance(self._last_error, RateLimited)
            raise circuit_error(service, self._failures, left_s, self.now(), str(self._last_error), is_limit=is_limit)
        left_s = self.closed_until - self.now()
        if left_s > 0 and self.closed_until > until:
            raise pause_error(service, left_s, self.now())
        return left_s

    @property
    def circuit_open(self) -> bool:
        """Whether the service failed too often in a row and no request tests it now."""
        return self._failures >= FAILURES and (self.now() - self._failed_at < PAUSE_S or self._is_testing)

    @contextmanager
    def _test_request(self) -> Iterator[None]:
        """After the pause a single request tests the service; no other is sent until it ends."""
        is_test = self._failures >= FAILURES
        self._is_testing |= is_test
        try:
            yield
        finally:
            self._is_testing &= not is_test


def used_up_error(service: Service, wait_s: float, now: float) -> RateLimited:
    """The limit leaves no request in time."""
    limit_text = f"{service.requests:g} requests in {service.per_s:g} s"
    return RateLimited(f"{service.name}: its limit of {limit_text} is used up; retry in {wait_s:,.1f} s", now + wait_s)


def overtaken_error(service: Service, within_s: float, retry_at: float) -> RateLimited:
    """Others used the limit while a request waited."""
    return RateLimited(f"{service.name}: other requests came first, and {max(within_s, 0.0):.3g} s were over; retry later", retry_at)


def pause_error(service: Service, wait_s: float, now: float) -> RateLimited:
    """The service has asked for a pause."""
    return RateLimited(f"{service.name} is rate-limiting us; retry in {wait_s:,.0f} s", now + wait_s)


def circuit_error(service: Service, failures: int, wait_s: float, now: float, last: str, *, is_limit: bool) -> SourceError:
    """The circuit is open; `is_limit` if the last failure was one of the service's own limit."""
    kind = RateLimited if is_limit else SourceUnavailable
    message = f"{service.name} failed {failures} times in a row and is skipped; retry in {wait_s:.0f} s. Last failure: {last}"
    return kind(message, now + wait_s)


_limiters: dict[tuple[str, str, float, float, int], RateLimiter] = {}


def get_rate_limiter(service: Service) -> RateLimiter:
    """The process's limiter for this service under these limits."""
    key = service.name, service.base_url, service.requests, service.per_s, service.at_once
    if key not in _limiters:
        most, per_s = window_size(service)
        _limiters[key] = RateLimiter(SlidingWindow(most, per_s), asyncio.Semaphore(service.at_once))
    return _limiters[key]


def window_size(service: Service) -> tuple[int, float]:
    """Requests and seconds of the window; less than one request a period is one in a longer one."""
    return (int(service.requests), service.per_s) if service.requests >= 1 else (1, service.per_s / service.requests)

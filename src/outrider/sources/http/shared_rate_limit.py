"""Rate limits, pauses and failures of services that several processes share in Redis

While the server of the limits is away, each process uses its share of a limit, rounded down; a limit that is too small to be divided is
refused. The share opens when no request that the server had permitted can still count. So the sum stays within the limit.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256

from outrider.runtime.shared_permits import SHORTEST_POLL_S, Refused, SharedLimits, SharedPermit, SharedPermits
from outrider.runtime.shared_redis import RETRY_S, SETTING, RedisAway, SharedRedis
from outrider.sources.http.rate_limit import (
    FAILURES,
    PAUSE_S,
    TRANSIT_S,
    LimitOutlook,
    RateLimiter,
    SlidingWindow,
    circuit_error,
    overtaken_error,
    pause_error,
    used_up_error,
    window_size,
)
from outrider.sources.http.service import Service
from outrider.sources.http.transport import Unreachable
from outrider.state.errors import RateLimited, SourceError, SourceUnavailable

MOST_SHOWN = 500
"""Characters of a service's last failure that other processes show."""


@dataclass(slots=True, eq=False)
class SharedRateLimiter:
    """Decides when the next request of any process to one service may be sent. Used like a `RateLimiter`."""

    permits: SharedPermits
    now: Callable[[], float] = time.time
    _share: RateLimiter | None = field(default=None, repr=False)
    """This process' share of the limit, since the server is away."""
    _closed_until: float = 0.0
    """The service wants no request before this time, as far as this process knows; the server may forget it."""

    def __post_init__(self) -> None:
        self.permits.redis.on_return.append(self._end_share)

    @asynccontextmanager
    async def acquire(self, service: Service, within_s: float) -> AsyncIterator[Callable[[], None]]:
        """Wait until a request may be sent; yields the callback for when it is sent. Raises as `RateLimiter.acquire` does."""
        until, permit, share = self._clock() + within_s, None, None
        while permit is None and share is None:
            try:
                permit = await self._wait_for_permit(service, until - self._clock())
            except RedisAway:
                share = await self._wait_for_share(service, until)
        if permit is None:
            assert share is not None  # noqa: S101 - the loop has ended
            async with share.acquire(service, until - self._clock()) as mark_sent:
                yield mark_sent
            return
        has_response = unused = False
        try:
            yield permit.mark_sent
            has_response = True
        except Unreachable:
            unused = permit.sent_s is None
            raise
        finally:
            permit.end(has_response=has_response, unused=unused)

    async def outlook(self) -> LimitOutlook:
        """The state of the limit now."""
        try:
            outlook = await self.permits.outlook()
        except RedisAway:
            return await self._share.outlook() if self._share else LimitOutlook(0, self._time_to_share_s())
        return LimitOutlook(outlook.available, max(outlook.wait_s, outlook.closed_s, outlook.settling_s))

    def close(self, until: float) -> None:
        """Send nothing before that time, in seconds since the epoch."""
        self._closed_until = max(self._closed_until, until)
        if self._share:
            self._share.close(until)
        if until > self.now():
            self.permits.close(self._clock() + until - self.now())

    def record_failure(self, error: SourceError) -> None:
        if self._share:
            self._share.record_failure(error)
        kind = RateLimited if isinstance(error, RateLimited) else SourceUnavailable
        self.permits.report("failed", kind.__name__, str(error)[:MOST_SHOWN])

    def record_success(self) -> None:
        """The service responded, whatever the response."""
        if self._share:
            self._share.record_success()
        self.permits.report("succeeded")

    async def _wait_for_permit(self, service: Service, within_s: float) -> SharedPermit:
        try:
            return await self.permits.acquire(within_s, service.timeout_s)
        except Refused as refusal:
            raise self._explain(refusal, service) from None
        except TimeoutError as error:
            raise overtaken_error(service, within_s, self.now() + self.permits.limits.per_s) from error

    def _explain(self, refusal: Refused, service: Service) -> SourceError:
        wait_s, now, outlook = refusal.wait_s, self.now(), refusal.outlook
        if refusal.why == "limit":
            return used_up_error(service, wait_s, now)
        if refusal.why == "pause":
            self._closed_until = max(self._closed_until, now + wait_s)
            return pause_error(service, wait_s, now)
        if refusal.why == "settling":
            reason = f"the Redis server of {SETTING} has just started or was away, and may not know the last requests"
            return RateLimited(f"{service.name} is not asked yet: {reason}; retry in {wait_s:,.1f} s", now + wait_s)
        is_limit = outlook.kind == RateLimited.__name__
        return circuit_error(service, outlook.failures, wait_s, now, outlook.text, is_limit=is_limit)

    async def _wait_for_share(self, service: Service, until: float) -> RateLimiter | None:
        """The share of this process, as soon as it may be used; None if the server is back."""
        redis, limits = self.permits.redis, self.permits.limits
        while redis.fault:
            processes = redis.processes if redis.is_counted else 0
            most, at_once = (limits.most // processes, limits.at_once // processes) if processes else (0, 0)
            wait_s = self._time_to_share_s()
            if not most or not at_once:
                number = f"too small for a share for each of {processes} processes" if processes else "not known to this process"
                raise RateLimited(
                    f"{service.name} is not asked: the Redis server of {SETTING}, which holds its limit, is unavailable, and what other "
                    f"processes leave of it is {number}; retry later",
                    self.now() + RETRY_S,
                )
            if self._clock() + wait_s > until and wait_s > 0:
                raise RateLimited(
                    f"{service.name} is not asked yet: the Redis server of {SETTING}, which holds its limit, is unavailable; this process "
                    f"uses a share of the limit in {wait_s:,.1f} s",
                    self.now() + wait_s,
                )
            if wait_s <= 0:
                if self._share is None:
                    self._share = RateLimiter(SlidingWindow(most, limits.per_s), asyncio.Semaphore(at_once), self.now)
                    self._share.close(self._closed_until)
                return self._share
            await asyncio.sleep(min(max(wait_s, SHORTEST_POLL_S), RETRY_S))
        return None

    def _time_to_share_s(self) -> float:
        since = self.permits.redis.away_since
        return 0.0 if since is None else max(0.0, self.permits.share_after_s - (self._clock() - since))

    def _end_share(self) -> None:
        """The server is back: it learns what this process did meanwhile."""
        share, self._share = self._share, None
        for started in share.window.starts if share else ():
            self.permits.restore(started)
        self.close(self._closed_until)

    @staticmethod
    def _clock() -> float:
        return asyncio.get_running_loop().time()


_limiters: dict[tuple[str, str], SharedRateLimiter] = {}


def get_shared_rate_limiter(service: Service, redis: SharedRedis) -> SharedRateLimiter:
    """The limiter for this service under these limits. Processes with other limits for the service do not share it."""
    limits = f"{service.base_url} {service.requests} {service.per_s} {service.at_once}"
    name = f"limit:{service.name}:{sha256(limits.encode()).hexdigest()[:12]}"  # the address may hold a password
    key = redis.process, name
    if key not in _limiters:
        most, per_s = window_size(service)
        shared = SharedLimits(service.at_once, most, per_s, TRANSIT_S, FAILURES, PAUSE_S)
        _limiters[key] = SharedRateLimiter(SharedPermits(redis, name, shared))
    return _limiters[key]

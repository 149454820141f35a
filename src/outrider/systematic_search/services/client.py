"""Uncached requests to a service, with a wait when the service asks for one."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from outrider.sources.http.client import Caller, Params
from outrider.sources.http.service import Reply, Service
from outrider.state.errors import RateLimited, SourceTimeout, SourceUnavailable

WITHIN_S = 60.0
"""Time limit of one request, with its turn and its tries: `Caller` handles shorter waits."""
PATIENCE_S = 600.0
"""Total wait for a service that says when it takes requests again; with a longer wait the run ends and can be resumed."""
PAUSES_S = (5.0, 10.0, 20.0, 40.0)
"""For a rate limit without a time: Semantic Scholar's pool of users without a key."""
LONG_S = 5.0
"""Longer waits are reported."""
OK = frozenset({200})

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServiceClient:
    """Requests to one service. `caller` keeps no answers. Raises `SourceError`."""

    caller: Caller
    service: Service
    report: Callable[[str], None] = log.warning
    """Gets a message for every wait that is longer than `LONG_S`."""
    patience_s: float = PATIENCE_S
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.time

    async def get(self, path: str, params: Params, headers: Mapping[str, str] | None = None, accept: frozenset[int] = OK) -> Reply:
        """The answer to a GET request; statuses in `accept` are no error."""
        return await self._wait_and_retry(
            lambda: self.caller.get(self.service, path, params, within_s=WITHIN_S, headers=headers, accept=accept, fresh_s=0.0)
        )

    async def post_form(self, path: str, fields: Params, accept: frozenset[int] = OK) -> Reply:
        """The answer to a POST request with form fields; statuses in `accept` are no error."""
        return await self._wait_and_retry(
            lambda: self.caller.post_form(self.service, path, fields, within_s=WITHIN_S, accept=accept, fresh_s=0.0)
        )

    async def _wait_and_retry(self, send: Callable[[], Awaitable[Reply]]) -> Reply:
        pauses, waited_s = iter(PAUSES_S), 0.0
        while True:
            try:
                reply = await send()
            except (RateLimited, SourceUnavailable, SourceTimeout) as error:
                pause_s = next(pauses, None)
                if error.retry_at is not None:
                    pause_s = max(1.0, error.retry_at - self.clock())
                elif not isinstance(error, RateLimited):
                    raise
                if pause_s is None or waited_s + pause_s > self.patience_s:
                    raise
                if pause_s > LONG_S:
                    self.report(f"{self.service.name} is rate-limiting us; retry in {pause_s:,.0f} s")
                await self.sleep(pause_s)
                waited_s += pause_s
                continue
            if reply.stale and reply.why:
                raise reply.why
            return reply

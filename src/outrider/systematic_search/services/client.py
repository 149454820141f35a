"""Asking a service many times in a row: its answers of now and nothing older, and its wish to be left alone waited for, which is told."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from outrider.sources.http.client import Caller, Params
from outrider.sources.http.service import Reply, Service
from outrider.state.errors import RateLimited, SourceError, SourceTimeout, SourceUnavailable

WITHIN_S = 60.0
"""Of one question, its turn and its tries included: shorter waits are the caller's."""
PATIENCE_S = 600.0
"""As long is waited for a service that says when it may be asked again; for one that says a longer time the run is gone on with then."""
PAUSES_S = (5.0, 10.0, 20.0, 40.0)
"""For one that is asked too often and does not say until when: Semantic Scholar's pool for everybody."""
LONG_S = 5.0
OK = frozenset({200})

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Asker:
    """`caller` keeps no answers. Raises `SourceError`."""

    caller: Caller
    service: Service
    say: Callable[[str], None] = log.warning
    """Told of every wait that is longer than `LONG_S`."""
    patience_s: float = PATIENCE_S
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.time

    async def get(self, path: str, params: Params, headers: Mapping[str, str] | None = None, accept: frozenset[int] = OK) -> Reply:
        return await self._patient(
            lambda: self.caller.get(self.service, path, params, within_s=WITHIN_S, headers=headers, accept=accept, fresh_s=0.0)
        )

    async def post_form(self, path: str, fields: Params, accept: frozenset[int] = OK) -> Reply:
        return await self._patient(lambda: self.caller.post_form(self.service, path, fields, within_s=WITHIN_S, accept=accept, fresh_s=0.0))

    async def _patient(self, ask: Callable[[], Awaitable[Reply]]) -> Reply:
        pauses, waited_s = iter(PAUSES_S), 0.0
        while True:
            try:
                reply = await ask()
            except (RateLimited, SourceUnavailable, SourceTimeout) as error:
                wait_s = self._wait_s(error, next(pauses, None))
                if wait_s is None or waited_s + wait_s > self.patience_s:
                    raise
                if wait_s > LONG_S:
                    self.say(f"{self.service.name} wants to be left alone; going on in {wait_s:,.0f} s")
                await self.sleep(wait_s)
                waited_s += wait_s
                continue
            if reply.stale and reply.why:
                raise reply.why
            return reply

    def _wait_s(self, error: SourceError, pause_s: float | None) -> float | None:
        if error.retry_at is not None:
            return max(1.0, error.retry_at - self.clock())
        return pause_s if isinstance(error, RateLimited) else None

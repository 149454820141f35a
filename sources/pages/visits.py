"""When a host that is not an API may be asked next: never two requests closer than a gap, and not at all while it has asked for a pause.

Used on the background loop only.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from outrider.state.errors import RateLimited

MOST_HOSTS = 10_000
"""That are remembered; those asked longest ago are forgotten."""


@dataclass(slots=True)
class _Host:
    next_s: float = 0.0
    """By `time.monotonic`."""
    closed_until: float = 0.0
    why: str = ""


@dataclass(slots=True)
class Visits:
    clock: Callable[[], float] = time.time
    _hosts: OrderedDict[str, _Host] = field(default_factory=OrderedDict)

    async def turn(self, host: str, gap_s: float, until_s: float) -> None:
        """Waits until the host may be asked. `RateLimited` where that is not before `until_s` (`time.monotonic`)."""
        known = self._host(host)
        if self.clock() < known.closed_until:
            raise RateLimited(f"{host} is left alone: {known.why}", known.closed_until)
        now_s = time.monotonic()
        at_s = max(now_s, known.next_s)
        if at_s >= until_s:
            raise RateLimited(f"{host} is asked once in {gap_s:g} s; no turn came in time", self.clock() + at_s - now_s)
        known.next_s = at_s + gap_s
        await asyncio.sleep(at_s - now_s)

    def close(self, host: str, until: float, why: str) -> None:
        """Nobody asks before this time, in seconds since the epoch."""
        known = self._host(host)
        known.closed_until, known.why = max(known.closed_until, until), why

    def _host(self, host: str) -> _Host:
        if host not in self._hosts and len(self._hosts) >= MOST_HOSTS:
            self._hosts.popitem(last=False)
        self._hosts.setdefault(host, _Host())
        self._hosts.move_to_end(host)
        return self._hosts[host]

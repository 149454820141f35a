"""A browser that opens its tabs in the running Chromium of another one, since each start takes seconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from outrider.sources.http.ssrf_guard import Guard
from outrider.sources.web.browser import Chromium

if TYPE_CHECKING:
    from playwright.async_api import Browser as Running


@dataclass(slots=True)
class SharedChromium(Chromium):
    """Its guard, its tabs and their proxies are its own. Closing it leaves the owner's Chromium running."""

    owner: Chromium = field(kw_only=True)

    async def _start(self) -> Running:
        self._running = await self.owner._start()
        return self._running

    async def _close(self) -> None:
        self._running = None


def chromium_owner() -> Chromium:
    """What `SharedChromium` shares; the caller closes it."""
    return Chromium(Guard())

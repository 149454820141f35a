"""Chromium, through Playwright: started at first use, at most so many tabs, closed when nobody has used it for a while.

Each page gets a context of its own (no cookies stay) and a network of its own, a `Gate`. It says what it is: nothing here disguises
it. Playwright is an extra; Chromium is the one that is installed (`OUTRIDER_CHROMIUM`, else on the path, else Playwright's own).
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from outrider.sources.browser_gate import Gate
from outrider.sources.calls.guard import Guard
from outrider.state.addresses import told
from outrider.state.background import in_background
from outrider.state.errors import Forbidden, Malformed, MissingExtra, RateLimited, SourceTimeout, SourceUnavailable

if TYPE_CHECKING:
    from playwright.async_api import Browser as Running
    from playwright.async_api import BrowserContext, Page, Playwright, Route

FEATURE = "web search in a browser"
VARIABLE = "OUTRIDER_CHROMIUM"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
OWN = ("chromium-*/chrome-*/chrome", "chromium-*/chrome-*/chrome.exe", "chromium-*/chrome-*/*.app/Contents/MacOS/*")
"""Where `playwright install chromium` puts it, within the folder of its browsers."""
HEAVY = frozenset({"image", "media", "font"})
"""What a page is read without."""
IDLE_S = 60.0
CLOSING_S = 5.0
MOST_CHARS = 5 * 2**20
SETTLED_S = 2.0
"""How long a page may go on changing after it came, where nothing tells when it is ready."""
NOWHERE = "socks5://127.0.0.1:9"
"""The browser's own network, for its updates and the like: the discard port."""
LOOPBACK_TOO = "<-loopback>"
"""Without it Chromium asks loopback past every proxy. Playwright adds it unless an environment variable of its own tells it not to."""
FLAGS = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-quic",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",  # else a page reaches addresses without any proxy
    "--no-first-run",
)


class Opened(NamedTuple):
    url: str
    """After redirects."""
    status: int
    html: str
    refused: tuple[str, ...] = ()
    """Hosts that it was not let through to."""


def found_chromium() -> Path | None:
    """The browser that would be started."""
    if named := os.environ.get(VARIABLE, "").strip():
        return Path(named)
    on_path = next(filter(None, map(shutil.which, NAMES)), None)
    if on_path:
        return Path(on_path)
    folders = (
        os.environ.get("PLAYWRIGHT_BROWSERS_PATH", ""),
        "~/.cache/ms-playwright",
        "~/Library/Caches/ms-playwright",
        "~/AppData/Local/ms-playwright",
    )
    own = (
        path for folder in folders if folder for pattern in OWN for path in sorted(Path(folder).expanduser().glob(pattern), reverse=True)
    )
    return next((path for path in own if path.is_file()), None)


def why_off() -> str:
    """Why no browser can be started here; empty where one can."""
    if not (find_spec("playwright") and find_spec("cssselect")):
        return str(MissingExtra(FEATURE, "browser"))
    chromium = found_chromium()
    if chromium is None:
        return f"no Chromium was found; install one, or name it in {VARIABLE}"
    return "" if shutil.which(chromium) else f"{VARIABLE} names {chromium}, which cannot be run"


@dataclass(slots=True)
class _Tab:
    """What one page takes."""

    gate: Gate
    context: BrowserContext | None = None


@dataclass(slots=True)
class Chromium:
    """Opens pages. Runs on the background loop; raises `SourceError`, and `MissingExtra` without Playwright."""

    guard: Guard
    tabs: int = 2
    """At a time; who comes later waits."""
    _places: asyncio.Semaphore = field(init=False)
    _starting: asyncio.Lock = field(default_factory=asyncio.Lock)
    _playwright: Playwright | None = None
    _running: Running | None = None
    _in_use: int = 0
    _leaving: asyncio.TimerHandle | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._places = asyncio.Semaphore(self.tabs)

    async def opened(self, url: str, within_s: float, hosts: frozenset[str] | None = None, ready: str = "") -> Opened:
        """A page once `ready` (a CSS selector) is there, or as it is when it has settled or time is up.

        With `hosts`, nothing that the page wants of any other host is asked, redirects included.
        """
        return await in_background(self._bounded(url, within_s, hosts, ready))

    async def rendered(self, url: str, within_s: float) -> tuple[str, str]:
        """A page of any public host: where it ended, and its HTML."""
        opened = await self.opened(url, within_s)
        if opened.status >= 400:
            raise SourceUnavailable(f"{url} answered {opened.status} to a browser")
        return opened.url, opened.html

    async def close(self) -> None:
        await in_background(self._closed())

    async def _bounded(self, url: str, within_s: float, hosts: frozenset[str] | None, ready: str) -> Opened:
        self.guard.target(url)
        until = time.monotonic() + within_s
        try:
            async with asyncio.timeout(max(within_s, 0.0)):
                await self._places.acquire()
        except TimeoutError as error:
            raise RateLimited(f"all {self.tabs} tabs of the browser were taken for {within_s:.3g} s") from error
        self._in_use += 1
        tab = _Tab(Gate(self.guard, hosts))
        try:
            return await self._translated(self._opened(tab, url, until, ready), url, until, within_s)
        finally:
            self._beside(self._tidied(tab))

    async def _translated(self, work: Coroutine[Any, Any, Opened], url: str, until: float, within_s: float) -> Opened:
        """Playwright's errors as ours."""
        try:
            from playwright.async_api import Error
            from playwright.async_api import TimeoutError as Late
        except ModuleNotFoundError as error:
            work.close()
            raise MissingExtra(FEATURE, "browser") from error
        late = f"{url} did not come within {max(within_s, 0.0):.3g} s in a browser"
        try:
            async with asyncio.timeout(max(until - time.monotonic(), 0.0)):
                return await work
        except (TimeoutError, Late) as error:
            raise SourceTimeout(late) from error
        except Error as error:
            raise SourceUnavailable(f"{url} could not be opened in a browser: {told(error, '')}") from error

    async def _opened(self, tab: _Tab, url: str, until: float, ready: str) -> Opened:
        from playwright.async_api import Error

        running, gate = await self._started(), await tab.gate.__aenter__()
        tab.context = context = await running.new_context(
            proxy={"server": gate.address, "bypass": LOOPBACK_TOO}, service_workers="block", accept_downloads=False, locale="en-US"
        )
        await context.route("**/*", lambda route: _let(route, gate.hosts))
        page = await context.new_page()
        try:
            answer = await page.goto(url, wait_until="domcontentloaded", timeout=_left_ms(until))
        except Error:
            if gate.refused:
                raise Forbidden(f"{url} leads to {gate.refused[0]}, which may not be asked") from None
            if gate.unreached:
                raise SourceUnavailable(gate.unreached[0]) from None
            raise
        await _settled(page, ready, until)
        html = await page.content()
        if len(html) > MOST_CHARS:
            raise Malformed(f"{url} is larger than {MOST_CHARS:,} characters")
        return Opened(page.url, answer.status if answer else 200, html, tuple(dict.fromkeys(gate.refused)))

    async def _tidied(self, tab: _Tab) -> None:
        """Nobody waits for this: a page that is still loading can hold up its end. The tab is free afterwards."""
        try:
            await tab.gate.close()
            if tab.context:
                await _ended(tab.context)
        finally:
            self._in_use -= 1
            self._places.release()
            self._leave_later()

    async def _started(self) -> Running:
        async with self._starting:
            if self._leaving:
                self._leaving.cancel()
            if self._running and self._running.is_connected():
                return self._running
            await self._close()
            if why := why_off():
                raise SourceUnavailable(why)
            from playwright.async_api import async_playwright

            self._playwright = await async_playwright().start()
            self._running = await self._playwright.chromium.launch(
                executable_path=found_chromium(),
                chromium_sandbox=not _is_root(),
                proxy={"server": NOWHERE, "bypass": LOOPBACK_TOO},
                args=list(FLAGS),
            )
            return self._running

    def _leave_later(self) -> None:
        if not self._in_use:
            self._leaving = asyncio.get_running_loop().call_later(IDLE_S, self._leave)

    def _leave(self) -> None:
        self._beside(self._left_alone())

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _left_alone(self) -> None:
        async with self._starting:
            if not self._in_use:
                await self._close()

    async def _closed(self) -> None:
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._close()

    async def _close(self) -> None:
        running, playwright, self._running, self._playwright = self._running, self._playwright, None, None
        if self._leaving:
            self._leaving.cancel()
        if playwright is None:
            return
        from playwright.async_api import Error

        with suppress(Error):  # it has crashed
            if running:
                await running.close()
        await playwright.stop()


async def _ended(context: BrowserContext) -> None:
    from playwright.async_api import Error

    with suppress(Error, TimeoutError):  # it has crashed, or does not end: it will with the browser
        async with asyncio.timeout(CLOSING_S):
            await context.close()


async def _let(route: Route, hosts: frozenset[str] | None) -> None:
    from playwright.async_api import Error

    asked = route.request
    elsewhere = hosts is not None and (urlsplit(asked.url).hostname or "") not in hosts
    with suppress(Error):  # the page has gone meanwhile
        if asked.resource_type in HEAVY or elsewhere:
            await route.abort("blockedbyclient")
        else:
            await route.continue_()


async def _settled(page: Page, ready: str, until: float) -> None:
    """What comes too late is not waited for: the page is read as it is."""
    from playwright.async_api import TimeoutError as Late

    with suppress(Late):
        if ready:
            await page.wait_for_selector(ready, state="attached", timeout=_left_ms(until) * 0.9)
        else:
            await page.wait_for_load_state("networkidle", timeout=min(SETTLED_S * 1_000, _left_ms(until) * 0.5))


def _left_ms(until: float) -> float:
    return max(until - time.monotonic(), 0.001) * 1_000


def _is_root() -> bool:
    """Chromium refuses to run its sandbox for root."""
    return hasattr(os, "geteuid") and os.geteuid() == 0

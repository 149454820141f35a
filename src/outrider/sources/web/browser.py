"""Chromium through Playwright: a few tabs, one of them ready, closed after a minute

A Chromium that does not start is left alone for a while (`pause_after`); callers learn that at once.

It starts at first use, or earlier by `prepare` if a search is coming. It identifies itself: nothing here disguises it. Playwright is an
extra; Chromium is the installed one (`OUTRIDER_CHROMIUM`, else on the path, else Playwright's own).
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
from typing import TYPE_CHECKING, Any, TypeVar

from outrider.runtime.threads_and_loops import in_background, load_module
from outrider.sources.http.ssrf_guard import Guard
from outrider.sources.web.browser_tab import LOOPBACK_TOO, NavigationCheck, RenderedPage, Tab
from outrider.sources.web.crawl_rules import pause_after
from outrider.state.errors import MissingExtra, RateLimited, SourceTimeout, SourceUnavailable
from outrider.text.sanitize import redact

if TYPE_CHECKING:
    from playwright.async_api import Browser as Running
    from playwright.async_api import Playwright

Result = TypeVar("Result")

FEATURE = "web search in a browser"
VARIABLE = "OUTRIDER_CHROMIUM"
HEADLESS_SHELLS = ("chromium-headless-shell", "chrome-headless-shell")
"""The same engine without a window's interface: here it starts and opens pages with 30 to 45 % of the CPU time."""
NAMES = (*HEADLESS_SHELLS, "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
OWN = (
    "chromium_headless_shell-*/chrome-*/*headless*shell",
    "chromium_headless_shell-*/chrome-*/*headless*shell.exe",
    "chromium-*/chrome-*/chrome",
    "chromium-*/chrome-*/chrome.exe",
    "chromium-*/chrome-*/*.app/Contents/MacOS/*",
)
"""Paths of the browsers that `playwright install chromium` installs, below Playwright's folder of browsers."""
IDLE_S = 60.0
"""How long Chromium and the prepared tab stay open without use."""
OPEN_TAB_S = 30.0
"""Time limit for starting Chromium and opening a tab."""
LATE_S = 2.5
"""A start that took a caller this long is not waited for by the next ones."""
NOWHERE = "socks5://127.0.0.1:9"
"""Proxy for the browser's own traffic, such as updates: the discard port, so that it reaches nothing."""
FLAGS = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-quic",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",  # otherwise WebRTC of a page bypasses the proxy
    "--no-first-run",
)


def find_chromium() -> Path | None:
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


def unavailable_reason() -> str:
    """Why no browser can be started here; empty if one can."""
    if not (find_spec("playwright") and find_spec("cssselect")):
        return str(MissingExtra(FEATURE, "browser"))
    chromium = find_chromium()
    if chromium is None:
        return f"no Chromium was found; install one, or name it in {VARIABLE}"
    return "" if shutil.which(chromium) else f"{VARIABLE} names {chromium}, which cannot be run"


@dataclass(slots=True)
class Chromium:
    """Opens pages. Runs on the background loop; raises `SourceError`, and `MissingExtra` without Playwright."""

    guard: Guard
    tabs: int = 2
    """Open tabs at a time, including the prepared one; further callers wait."""
    _places: asyncio.Semaphore = field(init=False)
    _starting: asyncio.Lock = field(default_factory=asyncio.Lock)
    _playwright: Playwright | None = None
    _running: Running | None = None
    _next: asyncio.Task[Tab] | None = None
    """The tab for the next caller, ready or being prepared."""
    _in_use: int = 0
    _late: asyncio.Task[Tab] | None = None
    """A tab that was not ready when a caller's time was over."""
    _failed_starts: int = 0
    _start_error: str = ""
    _closed_until: float = 0.0
    """No start before this time of `time.monotonic`."""
    _idle_timer: asyncio.TimerHandle | None = None
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._places = asyncio.Semaphore(self.tabs)

    async def prepare(self) -> None:
        """Start Chromium and a tab in the background for an upcoming search. Errors are raised by that search."""
        await in_background(self._prepare())

    async def open_page(
        self, url: str, within_s: float, hosts: frozenset[str] | None = None, ready: str = "", may: NavigationCheck | None = None
    ) -> RenderedPage:
        """A page, once the CSS selector `ready` matches; without a match, when it has settled or failed, or when the time is up.

        With `hosts`, requests to other hosts are blocked, redirects included. `may` is called with every URL that the page itself
        navigates to; the error that it raises ends the load.
        """
        return await in_background(self._open_in_slot(url, within_s, hosts, ready, may))

    async def render(self, url: str, within_s: float, may: NavigationCheck | None = None) -> tuple[str, str]:
        """The final URL and the HTML of a page on any public host."""
        opened = await self.open_page(url, within_s, may=may)
        if opened.status >= 400:
            raise SourceUnavailable(f"{url} answered {opened.status} to a browser")
        return opened.url, opened.html

    async def close(self) -> None:
        await in_background(self._close_all())

    async def _open_in_slot(
        self, url: str, within_s: float, hosts: frozenset[str] | None, ready: str, may: NavigationCheck | None
    ) -> RenderedPage:
        self.guard.target(url)
        until = time.monotonic() + within_s
        try:
            async with asyncio.timeout(max(within_s, 0.0)):
                await self._places.acquire()
        except TimeoutError as error:
            raise RateLimited(f"all {self.tabs} browser tabs were busy for {within_s:.3g} s; retry later") from error
        self._in_use += 1
        open_tabs: list[Tab] = []

        async def show() -> RenderedPage:
            open_tabs.append(await self._take_tab())
            return await open_tabs[0].show(url, until, hosts, ready, may)

        try:
            return await self._translate_errors(show(), url, until, within_s)
        finally:
            self._in_task(self._release_tabs(open_tabs))

    async def _translate_errors(self, work: Coroutine[Any, Any, RenderedPage], url: str, until: float, within_s: float) -> RenderedPage:
        """Raise Playwright's errors as `SourceError`."""
        try:
            playwright = await load_module("playwright.async_api")
        except ModuleNotFoundError as error:
            work.close()
            raise MissingExtra(FEATURE, "browser") from error
        late = f"{url} did not load within {max(within_s, 0.0):.3g} s in a browser"
        try:
            async with asyncio.timeout(max(until - time.monotonic(), 0.0)):
                return await work
        except (TimeoutError, playwright.TimeoutError) as error:
            self._late = self._next if within_s >= LATE_S else None
            raise SourceTimeout(late) from error
        except playwright.Error as error:
            raise SourceUnavailable(f"{url} could not be opened in a browser: {redact(error, '')}") from error

    async def _take_tab(self) -> Tab:
        """The prepared tab, once it is ready; a new one if there is none or Chromium has crashed."""
        self._drop_dead()
        if self._next is not None and self._next is self._late and not self._next.done():
            raise SourceUnavailable("Chromium has not started in the time of an earlier request, and is still starting")
        if self._next is None and (pause_s := self._closed_until - time.monotonic()) > 0:
            raise SourceUnavailable(f"Chromium could not be started ({self._start_error}); the next try is in {pause_s:.0f} s")
        tab_task, self._next = self._next or self._begin_tab(), None
        try:
            return await asyncio.shield(tab_task)
        except asyncio.CancelledError:
            if self._next is None:  # the next caller gets this tab
                self._next = tab_task
            else:
                self._in_task(_drop(tab_task))
            raise

    async def _release_tabs(self, open_tabs: list[Tab]) -> None:
        """Close the tabs in the background and prepare the next one: at once, or after the close if all tabs were in use."""
        if open_tabs:
            await self._prepare()
        try:
            for tab in open_tabs:
                await tab.close()
        finally:
            self._in_use -= 1
            self._places.release()
            self._restart_idle_timer()
        if open_tabs:
            await self._prepare()

    async def _prepare(self) -> None:
        self._drop_dead()
        if self._next is None and self._in_use < self.tabs and time.monotonic() >= self._closed_until:
            self._next = self._begin_tab()
        self._restart_idle_timer()

    def _drop_dead(self) -> None:
        tab_task = self._next
        if tab_task and tab_task.done() and (tab_task.cancelled() or tab_task.exception() is not None or not tab_task.result().usable):
            self._in_task(_drop(tab_task))
            self._next = None

    def _begin_tab(self) -> asyncio.Task[Tab]:
        tab_task = self._in_task(self._make_tab())
        tab_task.add_done_callback(lambda task: task.cancelled() or task.exception())  # mark as retrieved; the next caller retries
        return tab_task

    async def _make_tab(self) -> Tab:
        """A tab of the running Chromium, which is started if need be. Opens the circuit where that fails."""
        try:
            tab = await self._open_tab()
        except Exception as error:
            self._start_error = redact(error, "") or f"it took more than {OPEN_TAB_S:g} s"
            self._failed_starts += 1
            self._closed_until = time.monotonic() + pause_after(self._failed_starts)
            raise
        self._failed_starts, self._closed_until = 0, 0.0
        return tab

    async def _open_tab(self) -> Tab:
        async with asyncio.timeout(OPEN_TAB_S):
            running = await self._start()
            try:
                return await Tab.of(running, self.guard)
            except (await load_module("playwright.async_api")).Error:  # Chromium has crashed, and `is_connected` does not show it yet
                async with self._starting:
                    if self._running is running:
                        await self._close()
                return await Tab.of(await self._start(), self.guard)

    async def _start(self) -> Running:
        async with self._starting:
            if self._running and self._running.is_connected():
                return self._running
            await self._close()
            # looking for files blocks, and Chromium may have been installed or removed since the last time
            if why := await asyncio.to_thread(unavailable_reason):
                raise SourceUnavailable(why)
            executable = await asyncio.to_thread(find_chromium)
            playwright = await load_module("playwright.async_api")
            self._playwright = await playwright.async_playwright().start()
            # Chromium refuses to run its sandbox for root
            self._running = await self._playwright.chromium.launch(
                executable_path=executable,
                chromium_sandbox=not (hasattr(os, "geteuid") and os.geteuid() == 0),
                proxy={"server": NOWHERE, "bypass": LOOPBACK_TOO},
                args=list(FLAGS),
                handle_sigint=False,  # Ctrl-C reaches Chromium, too, and Playwright must survive it to clean up
            )
            return self._running

    def _restart_idle_timer(self) -> None:
        if self._idle_timer:
            self._idle_timer.cancel()
        self._idle_timer = asyncio.get_running_loop().call_later(IDLE_S, lambda: self._in_task(self._end_if_idle()))

    def _in_task(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _end_if_idle(self) -> None:
        async with self._starting:
            if not self._in_use:
                await self._end()

    async def _close_all(self) -> None:
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._end()

    async def _end(self) -> None:
        tab_task, self._next = self._next, None
        if self._idle_timer:
            self._idle_timer.cancel()
        if tab_task:
            await _drop(tab_task)
        await self._close()

    async def _close(self) -> None:
        running, playwright, self._running, self._playwright = self._running, self._playwright, None, None
        if playwright is None:
            return
        from playwright.async_api import Error

        with suppress(Error):  # it has crashed
            if running:
                await running.close()
        await playwright.stop()


async def _drop(tab_task: asyncio.Task[Tab]) -> None:
    tab_task.cancel()
    await asyncio.wait({tab_task})
    if not tab_task.cancelled() and tab_task.exception() is None:
        await tab_task.result().close()

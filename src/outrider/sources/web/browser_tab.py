"""One tab of the browser, used once, and the control of where its page navigates

A tab has its own context, so that no cookies stay, and its own network, a `SocksProxy`. It is opened in advance, which is the slowest
step. A ready page reports its HTML in one message: a script in an isolated world (Chrome DevTools Protocol,
`Page.addScriptToEvaluateOnNewDocument` and `Runtime.addBinding`), which the page's scripts cannot access, waits for the selector.

Every URL that the page itself navigates to is checked before the browser requests it. The domain Fetch pauses each step of a redirect,
which Playwright's routes do not. Frames inside the page are not checked, because their content is not read.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar
from urllib.parse import urlsplit

from outrider.sources.http.ssrf_guard import Guard
from outrider.sources.web.browser_proxy import SocksProxy
from outrider.state.errors import Forbidden, Malformed, SourceError, SourceUnavailable

if TYPE_CHECKING:
    from playwright.async_api import Browser as Running
    from playwright.async_api import BrowserContext, CDPSession, Page, Request, Route

Result = TypeVar("Result")
NavigationCheck = Callable[[str], Awaitable[None]]
"""Raises `SourceError` for a URL that may not be requested."""

HEAVY = frozenset({"image", "media", "font", "stylesheet"})
"""Resource types that are not loaded."""
CLOSING_S = 5.0
MOST_CHARS = 5 * 2**20
SETTLED_S = 2.0
"""Wait for a page to stop changing after it has loaded, if there is no selector for readiness."""
READY_SHARE = 0.9
"""Share of the remaining time for the wait for the selector; then the page is read as it is."""
LOOPBACK_TOO = "<-loopback>"
"""Proxy rule for loopback, which Chromium would otherwise connect to without the proxy.

Playwright adds the rule itself, unless one of its environment variables disables that.
"""
NOBODY: frozenset[str] = frozenset()
FAILED = "chrome-error:"
"""Scheme of the error page that Chromium shows for a page that did not load."""
ISOLATED_WORLD, REPORT_BINDING = "outrider", "outriderReport"
CHECK_MS = 20
REPORT_SCRIPT = """
(() => {
  if (window.top !== window) return
  const css = %(css)s, report = globalThis.%(report)s
  let sent = false
  const send = () => {
    if (sent) return
    sent = true
    clearInterval(timer)
    const type = document.doctype ? new XMLSerializer().serializeToString(document.doctype) : ""
    report(type + (document.documentElement?.outerHTML ?? ""))
  }
  const succeeded = () => (performance.getEntriesByType("navigation")[0]?.responseStatus || 200) === 200
  const check = () => { if (document.readyState !== "loading" && (!succeeded() || document.querySelector(css))) send() }
  const timer = setInterval(check, %(check_ms)d)
  document.addEventListener("DOMContentLoaded", check)
  setTimeout(send, %(until_ms)d - Date.now())
})()
"""
"""Script that reports the HTML once. A page with another status than 200 has no results, so it is reported without the selector."""


class RenderedPage(NamedTuple):
    """A page as rendered by the browser."""

    url: str
    """After redirects."""
    status: int
    html: str
    refused: tuple[str, ...] = ()
    """Hosts that it was not allowed to reach."""


@dataclass(slots=True)
class Tab:
    """Created by `Tab.of`, used for one page, then closed."""

    proxy: SocksProxy
    context: BrowserContext
    page: Page
    session: CDPSession
    navigation: NavigationState
    _html: asyncio.Future[str] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    """Its HTML, once it is ready."""
    _navigation_guard: NavigationGuard | None = None

    @classmethod
    async def of(cls, running: Running, guard: Guard) -> Self:
        """A blank page without access to any host. Raises Playwright's errors."""
        async with AsyncExitStack() as opened:
            proxy = await opened.enter_async_context(SocksProxy(guard, NOBODY))
            context = await running.new_context(
                proxy={"server": proxy.address, "bypass": LOOPBACK_TOO}, service_workers="block", accept_downloads=False, locale="en-US"
            )
            opened.push_async_callback(_close_context, context)
            await context.route("**/*", lambda route: _filter_request(route, proxy))
            page = await context.new_page()
            session = await context.new_cdp_session(page)
            await session.send("Page.enable")
            tab = cls(proxy, context, page, session, await NavigationState.of(session))
            for event in ("crash", "close"):
                page.on(event, partial(_mark_lost, tab._html))
            session.on("Runtime.bindingCalled", partial(_receive_html, tab._html))
            await session.send("Runtime.enable")
            await session.send("Runtime.addBinding", {"name": REPORT_BINDING, "executionContextName": ISOLATED_WORLD})
            opened.pop_all()
        return tab

    @property
    def usable(self) -> bool:
        """Whether the browser is connected and the tab has neither crashed nor been closed."""
        browser = self.context.browser
        return bool(browser and browser.is_connected() and not self._html.done())

    async def show(
        self, url: str, until: float, hosts: frozenset[str] | None, ready: str, may: NavigationCheck | None = None
    ) -> RenderedPage:
        if may is None:
            return await self._load(url, until, hosts, ready)
        self._navigation_guard = await NavigationGuard.over(self.session, may, self.navigation.frame)
        return await self._navigation_guard.until_refused(self._load(url, until, hosts, ready))

    async def _load(self, url: str, until: float, hosts: frozenset[str] | None, ready: str) -> RenderedPage:
        from playwright.async_api import Error

        self.proxy.hosts = hosts
        if ready:
            until_ms = time.time() * 1_000 + left_ms(until) * READY_SHARE
            source = REPORT_SCRIPT % {"css": json.dumps(ready), "report": REPORT_BINDING, "check_ms": CHECK_MS, "until_ms": until_ms}
            await self.session.send("Page.addScriptToEvaluateOnNewDocument", {"source": source, "worldName": ISOLATED_WORLD})
        try:
            answer = await self.page.goto(url, wait_until="commit" if ready else "domcontentloaded", timeout=left_ms(until))
        except Error:
            if self.proxy.refused or self.proxy.unreachable:
                raise self._load_error(url) from None
            raise
        html = await (self._html if ready else self._wait_until_settled(until))
        if self.page.url.startswith(FAILED):
            raise self._load_error(url)
        if len(html) > MOST_CHARS:
            raise Malformed(f"{url} is larger than {MOST_CHARS:,} characters")
        return RenderedPage(self.page.url, answer.status if answer else 200, html, tuple(dict.fromkeys(self.proxy.refused)))

    def _load_error(self, url: str) -> SourceError:
        if self.proxy.refused:
            return Forbidden(f"{url} leads to {self.proxy.refused[0]}, which may not be requested")
        return SourceUnavailable(self.proxy.unreachable[0] if self.proxy.unreachable else f"{url} leads to a page that did not load")

    async def _wait_until_settled(self, until: float) -> str:
        """The HTML of the settled page; after a navigation, of the new page. After half of the remaining time the page is read as it is."""
        from playwright.async_api import TimeoutError as Late

        to_settle_s, late = SETTLED_S, time.monotonic() + left_ms(until) / 2_000
        with suppress(Late, TimeoutError):
            while to_settle_s > 0:
                began = time.monotonic()
                with suppress(Late):
                    await self.page.wait_for_load_state("networkidle", timeout=min(to_settle_s * 1_000, left_ms(late)))
                to_settle_s -= time.monotonic() - began
                if self.navigation.is_settled:
                    break
                async with asyncio.timeout(left_ms(late) / 1_000):
                    await self.navigation.wait()
                await self.page.wait_for_load_state("domcontentloaded", timeout=left_ms(late))
        if not self.navigation.is_settled:
            await self.session.send("Page.stopLoading")  # otherwise `content` waits for the next page
        return await self.page.content()

    async def close(self) -> None:
        if self._navigation_guard:
            await self._navigation_guard.close()
        await self.proxy.close()
        await _close_context(self.context)


def _receive_html(html: asyncio.Future[str], event: dict[str, Any]) -> None:
    if event.get("name") == REPORT_BINDING and not html.done():
        html.set_result(str(event.get("payload", "")))


def _mark_lost(html: asyncio.Future[str], _: object) -> None:
    if not html.done():
        html.set_exception(SourceUnavailable("a page of the browser crashed or was closed"))
        html.exception()  # mark as retrieved, because perhaps nobody awaits it


async def _close_context(context: BrowserContext) -> None:
    """Close within `CLOSING_S`: a page that is still loading can delay it."""
    from playwright.async_api import Error

    with suppress(Error, TimeoutError):  # it has crashed, or hangs until the browser closes
        async with asyncio.timeout(CLOSING_S):
            await context.close()


async def _filter_request(route: Route, proxy: SocksProxy) -> None:
    from playwright.async_api import Error

    request = route.request
    host = urlsplit(request.url).hostname or ""
    elsewhere = proxy.hosts is not None and host not in proxy.hosts
    if elsewhere and request.is_navigation_request() and not _is_embedded(request):
        proxy.refused.append(host)  # the proxy may never hear of it
    with suppress(Error):  # the page was closed meanwhile
        if request.resource_type in HEAVY or elsewhere or _opens_a_window(request):
            await route.abort("blockedbyclient")
        else:
            await route.continue_()


def _is_embedded(request: Request) -> bool:
    """Whether the request loads a frame within the page, which is shown without it."""
    from playwright.async_api import Error

    try:
        return request.frame.parent_frame is not None
    except Error:  # the page that it opens does not exist yet
        return False


def _opens_a_window(request: Request) -> bool:
    """Whether the request belongs to a new window: it is not read, and its navigation would not be checked."""
    from playwright.async_api import Error

    try:
        return request.is_navigation_request() and request.frame.page is not request.frame.page.context.pages[0]
    except Error:  # its page does not exist yet
        return True


def left_ms(until: float) -> float:
    """Milliseconds until `until` (`time.monotonic`), at least 1, because 0 means no limit in Playwright."""
    return max(until - time.monotonic(), 0.001) * 1_000


@dataclass(slots=True)
class NavigationState:
    """Whether the main frame is navigating, which can take as long as the server's response."""

    frame: str
    """Id of the main frame; embedded frames have other ids."""
    _settled: asyncio.Event = field(default_factory=asyncio.Event)

    @classmethod
    async def of(cls, session: CDPSession) -> Self:
        """The state of a page that is not navigating; needs the domain Page enabled."""
        tree = await session.send("Page.getFrameTree")
        state = cls(tree["frameTree"]["frame"]["id"])
        state._settled.set()
        for event in ("frameRequestedNavigation", "frameStartedNavigating"):
            session.on(f"Page.{event}", partial(_mark_navigating, state))
        for event in ("frameNavigated", "frameStoppedLoading"):  # the second if the navigation is cancelled
            session.on(f"Page.{event}", partial(_mark_settled, state))
        return state

    @property
    def is_settled(self) -> bool:
        return self._settled.is_set()

    async def wait(self) -> None:
        await self._settled.wait()

    def mark_navigating(self, event: dict[str, Any]) -> None:
        if event["frameId"] == self.frame and event.get("navigationType") != "sameDocument":
            self._settled.clear()

    def mark_settled(self, event: dict[str, Any]) -> None:
        if self.frame in (event.get("frameId"), event.get("frame", {}).get("id")):
            self._settled.set()


@dataclass(slots=True)
class NavigationGuard:
    """Checks each navigation of the main frame. `NavigationGuard.over` returns once the checks are active."""

    session: CDPSession
    may: NavigationCheck
    frame: str
    """Id of the main frame; embedded frames have other ids."""
    _refused: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @classmethod
    async def over(cls, session: CDPSession, may: NavigationCheck, frame: str) -> Self:
        navigation_guard = cls(session, may, frame)
        session.on("Fetch.requestPaused", partial(_check_request, navigation_guard))
        await session.send("Fetch.enable", {"patterns": [{"urlPattern": "*", "resourceType": "Document"}]})
        return navigation_guard

    async def until_refused(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of `work`. Cancels it and raises the reason as soon as a navigation is refused."""
        task = asyncio.get_running_loop().create_task(work)
        try:
            both: set[asyncio.Future[Any]] = {task, self._refused}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if self._refused.done():
                self._refused.result()
            return await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def check_request(self, paused: dict[str, Any]) -> None:
        task = asyncio.get_running_loop().create_task(self._decide(paused))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _decide(self, paused: dict[str, Any]) -> None:
        from playwright.async_api import Error

        about = {"requestId": paused["requestId"]}
        try:
            if paused["frameId"] == self.frame:
                await self.may(paused["request"]["url"])
        except SourceError as why:
            if not self._refused.done():
                self._refused.set_exception(why)
                self._refused.exception()  # mark as retrieved, because perhaps nobody awaits it
            with suppress(Error):  # the page was closed meanwhile
                await self.session.send("Fetch.failRequest", {**about, "errorReason": "Aborted"})
        else:
            with suppress(Error):
                await self.session.send("Fetch.continueRequest", about)


def _mark_navigating(state: NavigationState, event: dict[str, Any]) -> None:
    """A function, like the next two: Playwright sets an attribute on a handler, or on the object of a bound method, which slots forbid."""
    state.mark_navigating(event)


def _mark_settled(state: NavigationState, event: dict[str, Any]) -> None:
    state.mark_settled(event)


def _check_request(navigation_guard: NavigationGuard, paused: dict[str, Any]) -> None:
    navigation_guard.check_request(paused)

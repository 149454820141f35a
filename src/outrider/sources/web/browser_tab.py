"""One tab of the browser, used once, and the control of where its page navigates

A tab has its own context, so that no cookies stay, and its own network, a `SocksProxy`. It is made in advance, because that takes Chromium
longer than all the rest. When a page is ready it reports its HTML in one message: a script in an isolated world (Chrome DevTools Protocol,
`Page.addScriptToEvaluateOnNewDocument` and `Runtime.addBinding`), which the page's scripts neither see nor reach, waits for the selector.

Every URL that the page itself goes to is checked before the browser requests it. The domain Fetch pauses each step of a redirect, which
Playwright's routes do not. Frames inside the page do not count, because they are not read.
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
"""What a page is read without."""
CLOSING_S = 5.0
MOST_CHARS = 5 * 2**20
SETTLED_S = 2.0
"""How long pages may go on changing after they came, where nothing tells when they are ready."""
READY_SHARE = 0.9
"""Of the time left, how much what is waited for may take; after it the page is read as it is."""
LOOPBACK_TOO = "<-loopback>"
"""Without it Chromium asks loopback past every proxy. Playwright adds it unless an environment variable of its own tells it not to."""
NOBODY: frozenset[str] = frozenset()
FAILED = "chrome-error:"
"""The address of what Chromium shows in the place of a page that did not come."""
WORLD, TELL = "outrider", "outriderTell"
LOOK_MS = 20
TELLING = """
(() => {
  if (window.top !== window) return
  const css = %(css)s, tell = globalThis.%(tell)s
  let told = false
  const say = () => {
    if (told) return
    told = true
    clearInterval(looking)
    const type = document.doctype ? new XMLSerializer().serializeToString(document.doctype) : ""
    tell(type + (document.documentElement?.outerHTML ?? ""))
  }
  const fine = () => (performance.getEntriesByType("navigation")[0]?.responseStatus || 200) === 200
  const look = () => { if (document.readyState !== "loading" && (!fine() || document.querySelector(css))) say() }
  const looking = setInterval(look, %(look_ms)d)
  document.addEventListener("DOMContentLoaded", look)
  setTimeout(say, %(until_ms)d - Date.now())
})()
"""
"""A page whose status is not 200 holds no results: its document is enough."""


class RenderedPage(NamedTuple):
    """A page as the browser shows it."""

    url: str
    """After redirects."""
    status: int
    html: str
    refused: tuple[str, ...] = ()
    """Hosts that it was not let through to."""


@dataclass(slots=True)
class Tab:
    """Made by `Tab.of`, shown once, closed."""

    proxy: SocksProxy
    context: BrowserContext
    page: Page
    session: CDPSession
    way: NavigationState
    _html: asyncio.Future[str] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    """Its HTML, once it is ready."""
    _watch: NavigationGuard | None = None

    @classmethod
    async def of(cls, running: Running, guard: Guard) -> Self:
        """A blank page that may ask nobody yet. Raises Playwright's errors."""
        async with AsyncExitStack() as opened:
            gate = await opened.enter_async_context(SocksProxy(guard, NOBODY))
            context = await running.new_context(
                proxy={"server": gate.address, "bypass": LOOPBACK_TOO}, service_workers="block", accept_downloads=False, locale="en-US"
            )
            opened.push_async_callback(_close_context, context)
            await context.route("**/*", lambda route: _let(route, gate.hosts))
            page = await context.new_page()
            session = await context.new_cdp_session(page)
            await session.send("Page.enable")
            tab = cls(gate, context, page, session, await NavigationState.of(session))
            for event in ("crash", "close"):
                page.on(event, partial(_lose, tab._html))
            session.on("Runtime.bindingCalled", partial(_hear, tab._html))
            await session.send("Runtime.enable")
            await session.send("Runtime.addBinding", {"name": TELL, "executionContextName": WORLD})
            opened.pop_all()
        return tab

    @property
    def usable(self) -> bool:
        """Whether its browser lives, and it has not crashed."""
        browser = self.context.browser
        return bool(browser and browser.is_connected() and not self._html.done())

    async def show(
        self, url: str, until: float, hosts: frozenset[str] | None, ready: str, may: NavigationCheck | None = None
    ) -> RenderedPage:
        if may is None:
            return await self._load(url, until, hosts, ready)
        self._watch = await NavigationGuard.over(self.session, may, self.way.frame)
        return await self._watch.until_refused(self._load(url, until, hosts, ready))

    async def _load(self, url: str, until: float, hosts: frozenset[str] | None, ready: str) -> RenderedPage:
        from playwright.async_api import Error

        self.proxy.hosts = hosts
        if ready:
            until_ms = time.time() * 1_000 + left_ms(until) * READY_SHARE
            source = TELLING % {"css": json.dumps(ready), "tell": TELL, "look_ms": LOOK_MS, "until_ms": until_ms}
            await self.session.send("Page.addScriptToEvaluateOnNewDocument", {"source": source, "worldName": WORLD})
        try:
            answer = await self.page.goto(url, wait_until="commit" if ready else "domcontentloaded", timeout=left_ms(until))
        except Error:
            if self.proxy.refused or self.proxy.unreachable:
                raise self._nowhere(url) from None
            raise
        html = await (self._html if ready else self._wait_until_settled(until))
        if self.page.url.startswith(FAILED):
            raise self._nowhere(url)
        if len(html) > MOST_CHARS:
            raise Malformed(f"{url} is larger than {MOST_CHARS:,} characters")
        return RenderedPage(self.page.url, answer.status if answer else 200, html, tuple(dict.fromkeys(self.proxy.refused)))

    def _nowhere(self, url: str) -> SourceError:
        if self.proxy.refused:
            return Forbidden(f"{url} leads to {self.proxy.refused[0]}, which may not be asked")
        return SourceUnavailable(self.proxy.unreachable[0] if self.proxy.unreachable else f"{url} leads to a page that did not come")

    async def _wait_until_settled(self, until: float) -> str:
        """Where it goes on to another page, that one. What takes more than half of the time is not waited for: it is read as it is."""
        from playwright.async_api import TimeoutError as Late

        to_settle_s, late = SETTLED_S, time.monotonic() + left_ms(until) / 2_000
        with suppress(Late, TimeoutError):
            while to_settle_s > 0:
                began = time.monotonic()
                with suppress(Late):
                    await self.page.wait_for_load_state("networkidle", timeout=min(to_settle_s * 1_000, left_ms(late)))
                to_settle_s -= time.monotonic() - began
                if self.way.there:
                    break
                async with asyncio.timeout(left_ms(late) / 1_000):
                    await self.way.wait()
                await self.page.wait_for_load_state("domcontentloaded", timeout=left_ms(late))
        if not self.way.there:
            await self.session.send("Page.stopLoading")  # else reading waits for the other page
        return await self.page.content()

    async def close(self) -> None:
        if self._watch:
            await self._watch.close()
        await self.proxy.close()
        await _close_context(self.context)


def _hear(html: asyncio.Future[str], event: dict[str, Any]) -> None:
    if event.get("name") == TELL and not html.done():
        html.set_result(str(event.get("payload", "")))


def _lose(html: asyncio.Future[str], _: object) -> None:
    if not html.done():
        html.set_exception(SourceUnavailable("a page of the browser has crashed or was closed"))
        html.exception()  # seen, also where nobody waits for it


async def _close_context(context: BrowserContext) -> None:
    """A page that is still loading can hold up its end."""
    from playwright.async_api import Error

    with suppress(Error, TimeoutError):  # it has crashed, or does not end: it will with the browser
        async with asyncio.timeout(CLOSING_S):
            await context.close()


async def _let(route: Route, hosts: frozenset[str] | None) -> None:
    from playwright.async_api import Error

    request = route.request
    elsewhere = hosts is not None and (urlsplit(request.url).hostname or "") not in hosts
    with suppress(Error):  # the page has gone meanwhile
        if request.resource_type in HEAVY or elsewhere or _opens_a_window(request):
            await route.abort("blockedbyclient")
        else:
            await route.continue_()


def _opens_a_window(request: Request) -> bool:
    """A page that this page opens is not read, and its navigation would not be checked."""
    from playwright.async_api import Error

    try:
        return request.is_navigation_request() and request.frame.page is not request.frame.page.context.pages[0]
    except Error:  # its page is not there yet
        return True


def left_ms(until: float) -> float:
    """Milliseconds until then (`time.monotonic`), at least one microsecond: Playwright takes 0 for no limit."""
    return max(until - time.monotonic(), 0.001) * 1_000


@dataclass(slots=True)
class NavigationState:
    """Whether the whole page is on its way to another one, which it can be for as long as a server takes to answer."""

    frame: str
    """The id of the whole page; what it embeds has others."""
    _there: asyncio.Event = field(default_factory=asyncio.Event)

    @classmethod
    async def of(cls, session: CDPSession) -> Self:
        """Of a page that has not been sent anywhere; needs the domain Page enabled."""
        tree = await session.send("Page.getFrameTree")
        way = cls(tree["frameTree"]["frame"]["id"])
        way._there.set()
        for event in ("frameRequestedNavigation", "frameStartedNavigating"):
            session.on(f"Page.{event}", partial(_leaves, way))
        for event in ("frameNavigated", "frameStoppedLoading"):  # the second where it stays, after all
            session.on(f"Page.{event}", partial(_is_there, way))
        return way

    @property
    def there(self) -> bool:
        return self._there.is_set()

    async def wait(self) -> None:
        await self._there.wait()

    def leaves(self, event: dict[str, Any]) -> None:
        if event["frameId"] == self.frame and event.get("navigationType") != "sameDocument":
            self._there.clear()

    def is_there(self, event: dict[str, Any]) -> None:
        if self.frame in (event.get("frameId"), event.get("frame", {}).get("id")):
            self._there.set()


@dataclass(slots=True)
class NavigationGuard:
    """Made by `NavigationGuard.over`, which returns once every request is checked."""

    session: CDPSession
    may: NavigationCheck
    frame: str
    """The id of the whole page; what it embeds has others."""
    _refused: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @classmethod
    async def over(cls, session: CDPSession, may: NavigationCheck, frame: str) -> Self:
        watch = cls(session, may, frame)
        session.on("Fetch.requestPaused", partial(_meet, watch))
        await session.send("Fetch.enable", {"patterns": [{"urlPattern": "*", "resourceType": "Document"}]})
        return watch

    async def until_refused(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of work with the page, which ends as soon as the page goes where it may not: raises why."""
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

    def meet(self, paused: dict[str, Any]) -> None:
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
                self._refused.exception()  # seen, also where nobody waits for it
            with suppress(Error):  # the page has gone meanwhile
                await self.session.send("Fetch.failRequest", {**about, "errorReason": "Aborted"})
        else:
            with suppress(Error):
                await self.session.send("Fetch.continueRequest", about)


def _leaves(way: NavigationState, event: dict[str, Any]) -> None:
    """A function, as the next two: Playwright leaves a mark on what it is to call, or on whose method it is."""
    way.leaves(event)


def _is_there(way: NavigationState, event: dict[str, Any]) -> None:
    way.is_there(event)


def _meet(watch: NavigationGuard, paused: dict[str, Any]) -> None:
    watch.meet(paused)

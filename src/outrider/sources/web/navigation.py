"""Where a page of a browser goes, by itself or by redirect: every address is asked about before the browser asks for it.

Chrome DevTools Protocol, domain Fetch: it pauses each step of a redirect, which Playwright's routes let pass. Only what the whole page
goes to counts; what a page embeds is no page that we read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from outrider.state.errors import SourceError

if TYPE_CHECKING:
    from playwright.async_api import CDPSession

Result = TypeVar("Result")
May = Callable[[str], Awaitable[None]]
"""Raises `SourceError` for an address that may not be asked."""


@dataclass(slots=True)
class Way:
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

    async def arrived(self) -> None:
        await self._there.wait()

    def leaves(self, said: dict[str, Any]) -> None:
        if said["frameId"] == self.frame and said.get("navigationType") != "sameDocument":
            self._there.clear()

    def is_there(self, said: dict[str, Any]) -> None:
        if self.frame in (said.get("frameId"), said.get("frame", {}).get("id")):
            self._there.set()


@dataclass(slots=True)
class Watch:
    """Made by `Watch.over`, which returns once nothing is asked without it."""

    session: CDPSession
    may: May
    frame: str
    """The id of the whole page; what it embeds has others."""
    _refused: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @classmethod
    async def over(cls, session: CDPSession, may: May, frame: str) -> Self:
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
        task = asyncio.get_running_loop().create_task(self._decided(paused))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _decided(self, paused: dict[str, Any]) -> None:
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


def _leaves(way: Way, said: dict[str, Any]) -> None:
    """A function, as the next two: Playwright leaves a mark on what it is to call, or on whose method it is."""
    way.leaves(said)


def _is_there(way: Way, said: dict[str, Any]) -> None:
    way.is_there(said)


def _meet(watch: Watch, paused: dict[str, Any]) -> None:
    watch.meet(paused)

"""Event loops in threads of their own.

The background loop serves callers that are not asynchronous, and clients that are bound to one loop. An isolated loop runs code of other
packages: if that code blocks, it blocks nobody else. ADR 18 says why this is not anyio's portal.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError, Future
from functools import cache
from typing import Any, Generic, TypeVar

from outrider.runtime.threads import wait_for_future

Result = TypeVar("Result")

BACKGROUND = "background"
CLEANUP_S = 1.0
"""How long a cancelled caller waits for the end of its work, so that what the work wrote is complete."""


def run_in_background(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine from synchronous code, also inside a running loop. An interrupt (Ctrl-C) of the caller cancels it."""
    call = _Call(_loop(BACKGROUND), work)
    try:
        return call.future.result()
    except asyncio.CancelledError as error:
        raise CancelledError from error  # asyncio's own is no `Exception` and would end the calling thread
    except BaseException:
        call.cancel()
        raise


async def in_background(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine on the background loop, in the caller's context, without blocking the caller's loop."""
    loop = _loop(BACKGROUND)
    if asyncio.get_running_loop() is loop:
        return await work
    call = _Call(loop, work)
    try:
        await wait_for_future(call.future)
    except asyncio.CancelledError:
        call.cancel()
        await wait_for_future(call.future, CLEANUP_S)
        raise
    return call.future.result()


async def run_isolated(name: str, work: Callable[[], Awaitable[Result]], within_s: float) -> Future[Result]:
    """Run `work` on the loop of this name, in the caller's context, and return the future when it is done.

    Its exception is whatever `work` raised, `CancelledError` included: the caller itself was not cancelled. Raises `TimeoutError` after
    `within_s`. The work is then cancelled and left behind whether it ends or not, because a thread cannot be stopped from outside.
    """

    async def coroutine() -> Result:
        return await work()

    call = _Call(_loop(name), coroutine())
    try:
        if await wait_for_future(call.future, max(within_s, 0.0)):
            return call.future
    finally:
        call.cancel()
    raise TimeoutError(
        f"did not answer within the {within_s:.3g} s that it may take" if call.begun else "is still held up by an earlier search"
    )


class _Call(Generic[Result]):
    """A coroutine on the loop of another thread. Its future completes when the coroutine has ended, cleanup included."""

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Result]) -> None:
        self.future: Future[Result] = Future()
        self.begun = False
        self._loop = loop
        self._work = work
        self._task: asyncio.Task[None]
        loop.call_soon_threadsafe(self._begin)  # in the caller's context

    def cancel(self) -> None:
        self._loop.call_soon_threadsafe(self._cancel)

    def _begin(self) -> None:
        self.begun = True
        self._task = self._loop.create_task(self._run())
        self._task.add_done_callback(self._close)

    def _cancel(self) -> None:
        self._task.cancel()  # it exists: a loop calls in the order in which it was asked to

    async def _run(self) -> None:
        try:
            result = await self._work
        except BaseException as error:  # noqa: BLE001 - a `SystemExit` would end the loop, which serves others as well
            self.future.set_exception(error)
        else:
            self.future.set_result(result)

    def _close(self, _: asyncio.Task[None]) -> None:
        """Complete the future of a task that was cancelled before its first step."""
        if not self.future.done():
            self._work.close()
            self.future.set_exception(asyncio.CancelledError())


@cache
def _loop(name: str) -> asyncio.AbstractEventLoop:
    """Start a loop at first use. It lives as long as the process, so that clients bound to it stay valid between calls."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name=f"outrider-{name}", daemon=True).start()
    return loop

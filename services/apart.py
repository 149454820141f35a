"""A loop in a thread of its own for code that nobody here has read: what blocks there holds up no search.

Its task is asked to stop when the time is over, and is left behind whether it does or not: a thread cannot be stopped from outside.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Raised:
    """Whatever it raised, its own `CancelledError` included: the caller was not cancelled."""

    error: BaseException


async def apart(name: str, ask: Callable[[], Awaitable[Result]], within_s: float) -> Result | Raised:
    """`ask` on the loop of this name, in the caller's context. `TimeoutError` after `within_s`, which says how far it was."""
    here, there, context = asyncio.get_running_loop(), _loop(name), copy_context()
    done: asyncio.Future[Result | Raised] = here.create_future()
    begun: list[asyncio.Task[None]] = []

    async def asked() -> None:
        ended: Result | Raised
        try:
            ended = await ask()
        except BaseException as error:  # noqa: BLE001 - nothing may end the loop, which is of other searches, too
            ended = Raised(error)
        with suppress(RuntimeError):  # the caller's loop has ended meanwhile
            here.call_soon_threadsafe(settle, ended)

    def settle(ended: Result | Raised) -> None:
        if not done.done():
            done.set_result(ended)

    def begin() -> None:
        if not done.cancelled():
            begun.append(there.create_task(asked(), context=context))

    def stop() -> None:
        for task in begun:
            task.cancel()

    there.call_soon_threadsafe(begin)
    try:
        await asyncio.wait({done}, timeout=max(within_s, 0.0))
        if done.done():
            return done.result()
        why = f"did not answer within the {within_s:.3g} s that it may take" if begun else "is still held up by an earlier search"
        raise TimeoutError(why)
    finally:
        done.cancel()
        there.call_soon_threadsafe(stop)


@cache
def _loop(name: str) -> asyncio.AbstractEventLoop:
    """Started at first use and kept for the life of the process, so that clients which are bound to a loop stay good."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name=f"outrider-{name}", daemon=True).start()
    return loop

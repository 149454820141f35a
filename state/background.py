"""One event loop in a thread of its own: for callers that are not asynchronous, and for clients that are bound to a loop.

Here because doors, the graph and adapters all need the same one and may not import each other.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from contextvars import copy_context
from functools import cache
from typing import Any, TypeVar

Result = TypeVar("Result")

UNWINDING_S = 1.0
"""How long a caller that was cancelled waits for its work to end, so that what it wrote down is complete."""


def run_in_background(work: Coroutine[Any, Any, Result]) -> Result:
    """The coroutine's result: `graph.invoke` works, also inside a running loop. An interrupt (Ctrl-C) of the caller cancels it."""
    future = asyncio.run_coroutine_threadsafe(work, _loop())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


async def in_background(work: Coroutine[Any, Any, Result]) -> Result:
    """The same for a caller on any loop, who is not held up. It runs in the caller's context, so that callbacks and traces find it."""
    here, loop = asyncio.get_running_loop(), _loop()
    if here is loop:
        return await work
    done: asyncio.Future[Result] = here.create_future()
    begun: list[asyncio.Task[Result]] = []
    context = copy_context()

    def begin() -> None:
        task = loop.create_task(work, context=context)
        task.add_done_callback(ended)
        begun.append(task)

    def ended(task: asyncio.Task[Result]) -> None:
        with suppress(RuntimeError):  # the caller's loop has ended meanwhile
            here.call_soon_threadsafe(settle, task)

    def settle(task: asyncio.Task[Result]) -> None:
        if done.done():
            return
        if task.cancelled():
            done.cancel()
        elif error := task.exception():
            done.set_exception(error)
            done.exception()  # seen, also where the caller has gone
        else:
            done.set_result(task.result())

    def stop() -> None:
        begun[0].cancel()

    loop.call_soon_threadsafe(begin)
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        loop.call_soon_threadsafe(stop)
        await asyncio.wait({done}, timeout=UNWINDING_S)
        raise


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Started at first use and kept for the life of the process: clients bound to a loop stay valid between calls."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="outrider-background", daemon=True).start()
    return loop

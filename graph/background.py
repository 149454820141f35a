"""One event loop in a thread, for callers that are not asynchronous: `graph.invoke` works, also inside a running loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from functools import cache
from typing import Any, TypeVar

Result = TypeVar("Result")


def run_in_background(work: Coroutine[Any, Any, Result]) -> Result:
    """The coroutine's result; an interrupt (Ctrl-C) of the caller cancels it."""
    future = asyncio.run_coroutine_threadsafe(work, _loop())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Started at first use and kept for the life of the process: clients bound to a loop stay valid between calls."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="outrider-background", daemon=True).start()
    return loop

"""A library to which searches write is tended: what is new is folded into its indexes, or every search would scan it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from outrider.state.errors import LibraryError

if TYPE_CHECKING:
    from outrider.library.library import Library

WAIT_S = 1.0
"""For another process that writes: an ingestion tends the library itself."""
MOST_S = 60.0
_tending = threading.Lock()
"""One at a time in a process."""

log = logging.getLogger(__name__)


async def tend(opened: Callable[[], Awaitable[Library]]) -> None:
    """Where it is due, and nobody in this process is at it."""
    if not _tending.acquire(blocking=False):
        return
    try:
        async with asyncio.timeout(MOST_S):
            library = await opened()
            try:
                if await library.due():
                    await library.optimize(wait_s=WAIT_S)
            finally:
                library.close()
    except (LibraryError, TimeoutError) as error:
        log.info("the library was not tended: %s", str(error) or f"it takes more than {MOST_S:g} s")
    finally:
        _tending.release()

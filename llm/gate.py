"""One limit on the calls under way for the whole process, whoever makes them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache


class Gate:
    """First come, first served. Used on one loop only."""

    def __init__(self) -> None:
        self._under_way = 0
        self._waiting: list[asyncio.Future[None]] = []

    @asynccontextmanager
    async def passed(self, limit: int) -> AsyncIterator[None]:
        """Waits until fewer than `limit` are under way; services with different limits count each other's calls."""
        while self._under_way >= limit:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            await turn
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            waiting, self._waiting = self._waiting, []
            for turn in waiting:  # all, in their order: the first may have a lower limit than the second, or have gone
                if not turn.done():
                    turn.set_result(None)


@cache
def gate() -> Gate:
    """The process's own."""
    return Gate()

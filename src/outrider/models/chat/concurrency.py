"""One limit on the calls under way for the whole process, whoever makes them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache


class Gate:
    """First come, first served: who waits keeps those who came later waiting, whatever their limits. Used on one loop only."""

    def __init__(self) -> None:
        self._under_way = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def passed(self, limit: int) -> AsyncIterator[None]:
        """Waits until fewer than `limit` are under way; services with different limits count each other's calls."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((limit, turn))
        self._let_in()
        try:
            await turn
            yield
        finally:
            if turn.done() and not turn.cancelled():
                self._under_way -= 1
            turn.cancel()  # who leaves while waiting is passed over
            self._let_in()

    def _let_in(self) -> None:
        """Gives a place to each in turn, as long as there is one; those who have left are passed over."""
        while self._waiting:
            limit, turn = self._waiting[0]
            if not turn.cancelled():
                if self._under_way >= limit:
                    return
                self._under_way += 1
                turn.set_result(None)
            self._waiting.popleft()


@cache
def gate() -> Gate:
    """The process's own."""
    return Gate()

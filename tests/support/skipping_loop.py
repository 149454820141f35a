"""An event loop that skips waiting, and a shared Redis server that lives by its clock"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from outrider.runtime.shared_redis import RedisAway, SharedRedis

Result = TypeVar("Result")


class Skipping(asyncio.SelectorEventLoop):
    """Whatever waits for a time has it at once."""

    def __init__(self) -> None:
        self.skipped = 1_000.0
        loop = self

        class Selector(selectors.SelectSelector):
            def select(self, timeout: float | None = None) -> Any:
                assert timeout is not None, "nothing is left to wait for"
                loop.skipped += max(0.0, timeout)
                return super().select(0)

        super().__init__(Selector())

    def time(self) -> float:
        return self.skipped


def run(work: Coroutine[Any, Any, Result]) -> Result:
    with asyncio.Runner(loop_factory=Skipping) as runner:
        return runner.run(work)


def now() -> float:
    return asyncio.get_running_loop().time()


class SkippingRedis(SharedRedis):
    """One process' access to a real server, whose clock is that of the running loop. A script takes none of its time."""

    def __init__(self, url: str) -> None:
        import redis

        super().__init__(url)
        self._blocking, self._scripts = redis.Redis.from_url(url, protocol=2), {}
        self._info = {"aof_enabled": "1"}
        self.exchanges = 0
        self.is_dead = False
        """Killed: it reports nothing any more."""

    async def prepare(self) -> None:
        if self.fault:
            raise RedisAway(self.fault)

    async def run(self, script: str, keys: Sequence[str], arguments: Sequence[str | float]) -> Any:
        if self.is_dead:
            await asyncio.Event().wait()
        if self.fault:
            raise RedisAway(self.fault)
        self.exchanges += 1
        if script not in self._scripts:
            self._scripts[script] = self._blocking.register_script(f"local now = tonumber(ARGV[{len(arguments) + 1}])\n{script}")
        self._heard_at = now()
        return self._scripts[script](keys, [*arguments, repr(now())])

    def erase(self) -> None:
        """The server has started anew, and had nothing on disk."""
        self._blocking.flushall()

    def know_start(self) -> None:
        """This process has connected to a server that has just started without an append-only file."""
        self._info, self._read_at = {"aof_enabled": "0", "uptime_in_seconds": "0"}, now()

    def lose(self) -> None:
        """The server is away for this process."""
        self.away_since, self.fault = now(), "it is down"

    def find(self) -> None:
        """It is back."""
        self._return()

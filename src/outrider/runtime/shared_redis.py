"""The Redis server that processes share (`shared.redis_url`), and whether it can be used

Used on the background loop only. A server that fails, is slow, is full or may drop keys counts as away. Then nothing waits for it, and a
probe a second looks for its return.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cache
from hashlib import sha1
from typing import Any

from outrider.runtime.redis_client import open_redis
from outrider.runtime.threads_and_loops import run_in_background

SETTING = "shared.redis_url"
PATIENCE_S = 1.0
"""Time limit of one script; in a healthy network it takes less than a millisecond."""
BEAT_S = 5.0
"""How often a process reports that it lives ..."""
ALIVE_S = 15.0
"""... and how long a report counts."""
RETRY_S = 1.0
"""How often a process looks for the return of the server."""
SETTLE_S = 4 * RETRY_S
"""After its return, all processes have found the server within this time."""
NOTICE_S = BEAT_S + PATIENCE_S
"""All processes have noticed within this time that the server is away."""
SHARE_AFTER_S = NOTICE_S + SETTLE_S + 1.0
"""So long at least a process does nothing without the server: then none that uses its share meets one that has noticed nothing."""
CLOSED_WITHIN_S = 1.0
CLOCK = "local clock = redis.call('TIME')\nlocal now = clock[1] + clock[2] / 1000000\n"
"""The beginning of each script: `now` in seconds, by the clock of the server, which is the only one that counts."""
PROCESSES = "outrider:processes"
BEAT = """
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local is_new = redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
redis.call('PEXPIRE', KEYS[1], math.ceil(ARGV[2] * 1000))
return {is_new, redis.call('ZCARD', KEYS[1])}
"""
KEEPS_ALL = "noeviction"

log = logging.getLogger(__name__)


class RedisAway(Exception):
    """The shared server cannot be used now; the message says why."""


class SharedRedis:
    """One server, for all that this process shares. `url` may hold a password, and is never shown."""

    def __init__(self, url: str) -> None:
        self.process = uuid.uuid4().hex[:12]
        self.processes = 0
        """Processes that share the server, this one included, when it was last heard; 0 before the first contact."""
        self.fault = ""
        """Why the server cannot be used; empty if it can."""
        self.away_since: float | None = None
        """By the loop's clock."""
        self.on_return: list[Callable[[], None]] = []
        self._redis = open_redis(url, SETTING, PATIENCE_S, self._greet)
        self._info: Mapping[str, str] = {}
        self._read_at = self._settled_at = self._away_s = self._heard_at = self._counted_from = 0.0
        self._watch: asyncio.Task[None] | None = None
        self._alarm = asyncio.Event()
        """The server has been lost."""
        atexit.register(self.close)

    def __repr__(self) -> str:
        return f"SharedRedis({SETTING})"

    async def prepare(self) -> None:
        """Look at the server before the first script, whose arguments rest on it. Raises `RedisAway`."""
        if self._watch is None:
            self._watch = asyncio.get_running_loop().create_task(self._watch_server())
        if not self._info and not self.fault:
            await self._look()
        if self.fault:
            raise RedisAway(self.fault)

    async def run(self, script: str, keys: Sequence[str], arguments: Sequence[str | float]) -> Any:
        """The result of a Lua script, after `prepare`. Raises `RedisAway`."""
        from redis.exceptions import NoScriptError

        text, server, begun_s = CLOCK + script, self._info.get("run_id"), asyncio.get_running_loop().time()
        async with self._within_patience():
            try:
                result = await self._redis.evalsha(_hash(text), len(keys), *keys, *map(str, arguments))
            except NoScriptError:
                result = await self._redis.eval(text, len(keys), *keys, *map(str, arguments))
        if server and server != self._info.get("run_id"):  # the arguments rest on what the earlier one knew
            self._lose("it has started anew")
            raise RedisAway(self.fault)
        self._heard_at = begun_s
        return result

    async def contact(self) -> None:
        """Report that this process lives, and count those that do. Raises `RedisAway`."""
        is_new, self.processes = await self.run(BEAT, [PROCESSES], [self.process, ALIVE_S])
        if is_new and self.processes > 1:
            self._counted_from = asyncio.get_running_loop().time() + NOTICE_S + PATIENCE_S

    async def check(self) -> str:
        """Why the server cannot be used now; empty if it can."""
        with suppress(RedisAway):
            await self._look()
        return self.fault

    async def _look(self) -> None:
        await self._read_info()
        await self.contact()
        if self.fault:
            self._return()

    def settling_s(self, period_s: float, share_after_s: float) -> float:
        """Seconds until the server knows what all processes did in the last `period_s`.

        It does not where it has started without the data that it had; nor, if it was away so long that another process may use its share
        of a limit, which it does after `share_after_s`, until that has noticed the return.
        """
        now = asyncio.get_running_loop().time()
        age_s = float(self._info.get("uptime_in_seconds", 0.0)) + now - self._read_at
        others_away_s = self._away_s + NOTICE_S + SETTLE_S
        return max(self._settled_at - now if others_away_s > share_after_s else 0.0, 0.0 if self.keeps_data else period_s - age_s, 0.0)

    @property
    def is_counted(self) -> bool:
        """Whether all other processes have counted this one: else the shares of a limit that they use leave none for it."""
        return self._heard_at >= self._counted_from

    @property
    def keeps_data(self) -> bool:
        """Whether the server writes each change to disk (append-only file)."""
        return self._info.get("aof_enabled") == "1"

    def close(self) -> None:
        """Take leave of the other processes and close the connections, which would cause warnings when the process ends."""

        async def leave() -> None:
            if self._watch is not None:
                self._watch.cancel()
            if self.processes and not self.fault:
                with suppress(*_failures()):
                    await self._redis.zrem(PROCESSES, self.process)
            await self._redis.aclose()

        with suppress(TimeoutError):
            run_in_background(asyncio.wait_for(leave(), CLOSED_WITHIN_S))

    def _lose(self, reason: str) -> None:
        if not self.fault:
            self.away_since = asyncio.get_running_loop().time()
            log.warning("the Redis server of %s is unavailable: %s; limits of services are divided among processes", SETTING, reason)
        self.fault = reason
        self._alarm.set()

    async def _watch_server(self) -> None:
        """Report that this process lives, for ever; while the server is away, look for its return."""
        while True:
            with suppress(RedisAway):
                await self._look()
            if self.fault:
                await asyncio.sleep(RETRY_S)
                continue
            self._alarm.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(BEAT_S):
                    await self._alarm.wait()

    def _return(self) -> None:
        assert self.away_since is not None  # noqa: S101 - there is a fault
        now = asyncio.get_running_loop().time()
        self._away_s, self._settled_at = now - self.away_since, now + SETTLE_S
        self.fault, self.away_since = "", None
        log.warning("the Redis server of %s is back after %.0f s", SETTING, self._away_s)
        for notify in self.on_return:
            notify()

    async def _read_info(self) -> None:
        async with self._within_patience():
            self._accept(await self._redis.info())

    @asynccontextmanager
    async def _within_patience(self) -> AsyncIterator[None]:
        """Raises `RedisAway` if the server fails, is refused or gives no answer in time."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                yield
        except _failures() as error:  # TimeoutError is an OSError
            self._lose(str(error) or f"no answer within {PATIENCE_S:g} s")
            raise RedisAway(self.fault) from None

    async def _greet(self, connection: Any) -> None:
        """Look at the server on each new connection, because it may have started anew, without its data."""
        await connection.on_connect()
        await connection.send_command("INFO")
        lines = (await connection.read_response()).decode(errors="replace").splitlines()
        try:
            self._accept(dict(line.split(":", 1) for line in lines if ":" in line))
        except RedisAway as away:
            from redis.exceptions import ConnectionError as NotConnected

            raise NotConnected(str(away)) from None  # which makes the client close the connection

    def _accept(self, info: Mapping[str, object]) -> None:
        """Raises `RedisAway` for a server that may drop keys before they expire."""
        self._info = {name: str(value) for name, value in info.items()}
        self._read_at = asyncio.get_running_loop().time()
        policy = self._info.get("maxmemory_policy", KEEPS_ALL)
        if self._info.get("maxmemory", "0") != "0" and policy != KEEPS_ALL:
            raise RedisAway(
                f"it may drop limits while they hold, since its maxmemory-policy is {policy}: set it to {KEEPS_ALL}, and name another "
                "server in cache.url for a cache that drops old answers"
            )


@cache
def get_shared_redis(url: str) -> SharedRedis:
    """One object for an address and process."""
    return SharedRedis(url)


@cache
def _hash(text: str) -> str:
    return sha1(text.encode(), usedforsecurity=False).hexdigest()  # by which Redis names a script


@cache
def _failures() -> tuple[type[Exception], ...]:
    from redis.exceptions import RedisError

    return OSError, RedisError, RedisAway

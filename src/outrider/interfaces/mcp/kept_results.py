"""Long results that tools link to, kept for a while.

In this process, and with `shared.redis_url` for all processes of a server.
"""

from __future__ import annotations

import logging
import secrets
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from outrider.runtime.redis_client import open_redis

if TYPE_CHECKING:
    from redis.asyncio import Redis

MAX_RESULTS = 100
KEEP_S = 3_600
"""In Redis."""
PATIENCE_S = 2.0
NAMES = "outrider:mcp:results"
KEEP = """
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
redis.call('LPUSH', KEYS[2], KEYS[1])
while redis.call('LLEN', KEYS[2]) > tonumber(ARGV[3]) do redis.call('DEL', redis.call('RPOP', KEYS[2])) end
redis.call('EXPIRE', KEYS[2], ARGV[2])
"""
log = logging.getLogger(__name__)


@dataclass(slots=True)
class KeptResults:
    """Each has a name that cannot be guessed; the oldest are dropped first."""

    redis_url: str = ""
    _results: OrderedDict[str, str] = field(default_factory=OrderedDict)
    _redis: Redis | None = None

    async def keep(self, text: str) -> str:
        """Keep a long result and return its name. One that Redis does not take is known to this process alone."""
        name = secrets.token_hex(16)
        self._results[name] = text
        while len(self._results) > MAX_RESULTS:
            self._results.popitem(last=False)
        if self.redis_url:
            arguments: list[Any] = [text, KEEP_S, MAX_RESULTS]
            await self._try(lambda redis: redis.register_script(KEEP)(keys=[make_key(name), NAMES], args=arguments))
        return name

    async def find(self, name: str) -> str | None:
        if name in self._results or not self.redis_url:
            return self._results.get(name)
        text: bytes | None = await self._try(lambda redis: redis.get(make_key(name)))
        return None if text is None else text.decode()

    async def close(self) -> None:
        """Close the connections to Redis; a later call opens new ones."""
        redis, self._redis = self._redis, None
        if redis:
            await redis.aclose()

    async def _try(self, command: Any) -> Any:
        """The answer of Redis; None while it is away."""
        self._redis = self._redis or open_redis(self.redis_url, "shared.redis_url", PATIENCE_S)
        from redis.exceptions import RedisError

        try:
            return await command(self._redis)
        except (RedisError, OSError, TimeoutError) as error:
            log.warning("a result could not be shared: shared.redis_url is away: %s", " ".join(str(error).split())[:200])
            return None


def make_key(name: str) -> str:
    return f"outrider:mcp:result:{name}"

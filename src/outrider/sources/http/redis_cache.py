"""Answers in Redis, for several machines."""

from __future__ import annotations

import asyncio
import atexit
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from outrider.runtime.background_loop import run_in_background
from outrider.sources.http.cache import CLOSED_WITHIN_S, KEPT_S, Stored
from outrider.state.errors import MissingExtra, SettingsError

if TYPE_CHECKING:
    from redis.asyncio import Redis


@dataclass(slots=True)
class RedisAnswers(Stored):
    """In Redis. Raises `SettingsError` for an address that is none, `MissingExtra` where its client is not installed."""

    url: str = field(repr=False)
    """May hold a password."""
    _redis: Redis = field(init=False, repr=False)

    def __post_init__(self) -> None:
        try:
            from redis.asyncio import Redis
        except ModuleNotFoundError as error:
            raise MissingExtra("a cache in Redis (cache.url)", "redis") from error
        try:
            self._redis = Redis.from_url(
                self.url,
                protocol=2,  # what every server speaks
                socket_timeout=self.patience_s,
                socket_connect_timeout=self.patience_s,
            )
        except ValueError:
            raise SettingsError("cache.url is no address of a Redis server; write for example redis://localhost:6379/0") from None
        atexit.register(self.close)

    def close(self) -> None:
        """It can be used again. Connections that are kept open would be complained about when the process ends."""
        with suppress(TimeoutError):
            run_in_background(asyncio.wait_for(self._redis.aclose(), CLOSED_WITHIN_S))

    async def _read(self, key: str) -> object:
        return await self._redis.get(f"outrider:{key}")

    async def _write(self, key: str, value: bytes) -> None:
        await self._redis.set(f"outrider:{key}", value, ex=KEPT_S)

    def _failures(self) -> tuple[type[Exception], ...]:
        from redis.exceptions import RedisError

        return (RedisError,)

    def _where(self) -> str:
        return "in Redis (cache.url)"

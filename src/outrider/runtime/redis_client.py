"""Client of a Redis server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from outrider.state.errors import MissingExtra, SettingsError

if TYPE_CHECKING:
    from redis.asyncio import Redis


def open_redis(url: str, setting: str, patience_s: float, on_connect: Callable[[Any], Awaitable[None]] | None = None) -> Redis:
    """A client, which connects at its first command; each command may take `patience_s`. `url` may hold a password, and is never shown.

    `on_connect` prepares each new connection, instead of the client's own greeting. Such a client tries a command twice and pauses
    between for nothing. Raises `SettingsError` that names the setting for an invalid address, `MissingExtra` if the client library is
    not installed.
    """
    try:
        from redis.asyncio import Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
    except ModuleNotFoundError as error:
        raise MissingExtra(f"a Redis server ({setting})", "redis") from error
    options: dict[str, Any] = {"redis_connect_func": on_connect, "retry": Retry(NoBackoff(), 1)} if on_connect else {}
    try:
        return Redis.from_url(
            url,
            protocol=2,  # supported by every server
            socket_timeout=patience_s,
            socket_connect_timeout=patience_s,
            **options,
        )
    except ValueError:
        raise SettingsError(f"{setting} is not the address of a Redis server; write for example redis://localhost:6379/0") from None

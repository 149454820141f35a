"""Client of a Redis server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outrider.state.errors import MissingExtra, SettingsError

if TYPE_CHECKING:
    from redis.asyncio import Redis


def open_redis(url: str, setting: str, patience_s: float) -> Redis:
    """A client, which connects at its first command; each command may take `patience_s`. `url` may hold a password, and is never shown.

    Raises `SettingsError` that names the setting for an invalid address, `MissingExtra` if the client library is not installed.
    """
    try:
        from redis.asyncio import Redis
    except ModuleNotFoundError as error:
        raise MissingExtra(f"a Redis server ({setting})", "redis") from error
    try:
        return Redis.from_url(
            url,
            protocol=2,  # supported by every server
            socket_timeout=patience_s,
            socket_connect_timeout=patience_s,
        )
    except ValueError:
        raise SettingsError(f"{setting} is not the address of a Redis server; write for example redis://localhost:6379/0") from None

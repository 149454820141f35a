"""HTTP transport that connects only to addresses which a `Guard` has checked

httpcore opens every connection through a network backend (`httpcore.AsyncNetworkBackend`). TLS starts on the stream that the backend
returns, with the host's name, so that certificates are verified as usual. It is a separate module because it loads httpx.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable
from functools import cache
from typing import Any

import httpcore
import httpx

from outrider.sources.http.ssrf_guard import Guard, check_peer
from outrider.state.errors import Forbidden


@cache
def _ssl_context() -> ssl.SSLContext:
    """The trusted certificates, which take 20 ms to read."""
    return httpx.create_ssl_context(trust_env=False)


class PinnedTransport(httpx.AsyncHTTPTransport):
    """For an `httpx.AsyncClient(transport=..., trust_env=False, follow_redirects=False)`.

    Raises `Forbidden` and `SourceUnavailable` in addition to httpx's errors.
    """

    def __init__(self, guard: Guard) -> None:
        super().__init__(verify=_ssl_context(), trust_env=False)
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=_ssl_context(),
            max_connections=None,  # hosts that hang would block all others; each request has its own time limit
            max_keepalive_connections=10,
            keepalive_expiry=10.0,
            network_backend=PinnedNetwork(guard),
        )


class PinnedNetwork(httpcore.AsyncNetworkBackend):
    """Opens connections to checked addresses only."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's signature
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        failure: Exception = httpcore.ConnectError(f"{host} has no address")
        addresses = await self._guard.addresses(host, port)
        each_s = None if timeout is None else timeout / len(addresses)
        for address in addresses:
            try:
                stream = await self._network.connect_tcp(str(address), port, each_s, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
                continue
            try:
                check_peer(address, stream.get_extra_info("server_addr"), host)
            except Forbidden:
                await stream.aclose()
                raise
            return stream
        raise failure

    async def connect_unix_socket(self, *_: Any, **__: Any) -> httpcore.AsyncNetworkStream:
        raise Forbidden("Unix sockets are not allowed")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

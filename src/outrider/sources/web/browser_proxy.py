"""SOCKS5 proxy (RFC 1928) on loopback that connects a browser to checked addresses only

All connections of a page use this proxy: redirects, scripts, WebSockets, prefetching. Host names are resolved only here. TLS is end to
end between the browser and the host.
"""

from __future__ import annotations

import asyncio
import struct
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Self

from outrider.sources.http.ssrf_guard import Guard
from outrider.state.errors import Forbidden, SourceError

VERSION, CONNECT, NO_PASSWORD = 5, 1, 0
IPV4, NAME, IPV6 = 1, 3, 4
"""Kinds of address, by the first byte."""
DONE, NOT_ALLOWED, UNREACHABLE, NO_SUCH_COMMAND = 0, 2, 4, 7
CONNECT_S = 10.0
CHUNK_BYTES = 65_536
MOST_BYTES = 50 * 2**20
"""Through one proxy, in both directions."""

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(slots=True)
class SocksProxy:
    """`async with SocksProxy(guard, hosts) as proxy:` provides `proxy.address` for a browser; leaving the block closes all connections."""

    guard: Guard
    hosts: frozenset[str] | None = None
    """The only allowed hosts; None for all that the guard allows."""
    refused: list[str] = field(default_factory=list)
    """Refused hosts in the order of the requests."""
    unreachable: list[str] = field(default_factory=list)
    """Connection errors of allowed hosts."""
    address: str = ""
    _remaining_bytes: int = MOST_BYTES
    _server: asyncio.Server | None = None
    _open: set[asyncio.Task[None]] = field(default_factory=set)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.address = f"socks5://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        if self._server:
            self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError, asyncio.IncompleteReadError, TimeoutError, ValueError):  # the browser or the host closed the connection
                async with asyncio.timeout(CONNECT_S):
                    there = await self._handshake(reader, writer)
                if there:
                    try:
                        await asyncio.gather(self._forward(reader, there[1]), self._forward(there[0], writer))
                    finally:
                        there[1].close()
        finally:
            writer.close()

    async def _handshake(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Connection | None:
        _, count = await reader.readexactly(2)
        await reader.readexactly(count)
        writer.write(bytes((VERSION, NO_PASSWORD)))
        _, command, _, kind = await reader.readexactly(4)
        if kind == NAME:
            (length,) = await reader.readexactly(1)
            host = (await reader.readexactly(length)).decode("ascii").lower().removesuffix(".")
        else:
            host = str(ip_address(await reader.readexactly({IPV4: 4, IPV6: 16}[kind])))
        (port,) = struct.unpack("!H", await reader.readexactly(2))
        if command != CONNECT:
            writer.write(_reply(NO_SUCH_COMMAND))
            return None
        if self.hosts is not None and host not in self.hosts:
            self.refused.append(host)
            writer.write(_reply(NOT_ALLOWED))
            return None
        try:
            there = await self.guard.connect(host, port)
        except SourceError as error:
            if isinstance(error, Forbidden):
                self.refused.append(host)
            else:
                self.unreachable.append(str(error))
            writer.write(_reply(UNREACHABLE))
            return None
        writer.write(_reply(DONE))
        return there

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while self._remaining_bytes > 0 and (part := await reader.read(CHUNK_BYTES)):
            self._remaining_bytes -= len(part)
            writer.write(part)
            await writer.drain()
        if self._remaining_bytes <= 0:
            raise ValueError("more bytes than one page may load")
        if writer.can_write_eof():
            writer.write_eof()


def _reply(code: int) -> bytes:
    return bytes((VERSION, code, 0, IPV4, 0, 0, 0, 0, 0, 0))

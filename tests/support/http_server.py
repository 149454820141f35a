"""A small real HTTP/1.1 server on loopback: answers from a function, records requests, and misbehaves on demand.

::

    async with serving(lambda asked: as_json({"total": 0})) as server:
        ...  # query server.base_url; then look at server.requests

It runs in a thread with a loop of its own, so that the client may block, or run on any loop. `with serving(...)` does as well.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from inspect import isawaitable
from types import MappingProxyType
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

from outrider.state.errors import Forbidden, Malformed, RateLimited, SourceError, SourceTimeout, SourceUnavailable, Unauthorized

PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
MEBIBYTE = 2**20
_PORTS: set[int] = set()


@dataclass(frozen=True, slots=True)
class Request:
    """One request as the server saw it."""

    method: str
    path: str
    """Unquoted, without the query."""
    query: Mapping[str, str]
    """Of a name that comes twice, the last value; all of them stand in `target`."""
    headers: Mapping[str, str]
    """By lower-case name."""
    body: bytes
    at: float
    """When it came, by `time.monotonic`."""
    target: str
    """Path and query as they were sent."""
    connection: int
    """Of which number: two requests with the same one came over one connection."""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Answer:
    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    after_s: float = 0.0
    """Seconds before anything is sent."""
    release: threading.Event | None = None
    """Nothing is sent before it is set."""
    drip_s: float = 0.0
    """Seconds between one byte of the body and the next."""
    cut: bool = False
    """Whether the connection is closed in the middle of the body."""
    reset: bool = False
    """Whether it is reset (RST) before anything is sent."""


Handler = Callable[[Request], Answer | Awaitable[Answer]]


def as_json(data: Any, status: int = 200, headers: Mapping[str, str] = MappingProxyType({}), after_s: float = 0.0) -> Answer:
    return as_bytes(json.dumps(data).encode(), "application/json", status, headers, after_s)


def as_text(
    text: str, kind: str = "text/plain", status: int = 200, headers: Mapping[str, str] = MappingProxyType({}), after_s: float = 0.0
) -> Answer:
    """`kind` is the media type: `application/atom+xml` and the like."""
    return as_bytes(text.encode(), f"{kind}; charset=utf-8", status, headers, after_s)


def as_bytes(
    body: bytes,
    kind: str = "application/octet-stream",
    status: int = 200,
    headers: Mapping[str, str] = MappingProxyType({}),
    after_s: float = 0.0,
) -> Answer:
    return Answer(body, status, {"Content-Type": kind, **headers}, after_s)


def refusal(status: int, message: str = "", headers: Mapping[str, str] = MappingProxyType({})) -> Answer:
    """An error as most services write it."""
    return as_json({"message": message or HTTPStatus(status).phrase}, status, headers)


def cut(answer: Answer) -> Answer:
    """Half of its body, and the connection closed."""
    return replace(answer, cut=True)


def dripping(answer: Answer, every_s: float = 0.05) -> Answer:
    return replace(answer, drip_s=every_s)


def huge(size: int = 50 * MEBIBYTE) -> Answer:
    """JSON of this many bytes."""
    return as_bytes(b'"' + b"x" * (size - 2) + b'"', "application/json")


RESET = Answer(reset=True)
NEVER = Answer(after_s=3_600.0)

FAULTS: Mapping[str, Answer] = MappingProxyType(
    {
        "timeout": NEVER,
        "connection reset": RESET,
        "429": refusal(429),
        "429, Retry-After": refusal(429, headers={"Retry-After": "3600"}),
        "403 limit": refusal(403, "You have exceeded a secondary rate limit", {"Retry-After": "60"}),
        "403": refusal(403),
        "401": refusal(401, "Bad credentials"),
        "500": refusal(500),
        "truncated": cut(as_json({"results": ["x" * 100]})),
        "wrong JSON": as_bytes(b'{"results": [', "application/json"),
        "JSON of another shape": as_json([[1, None], "x"]),
        "HTML": as_text("<!doctype html><title>Down for maintenance</title>", "text/html"),
        "slow drip": dripping(as_json({"results": ["x" * 10_000]})),
        "empty": Answer(),
    }
)
"""What every adapter must survive. Two more are made when needed: `huge()`, and a total that disagrees with the pages."""
EXPECTED_ERRORS: Mapping[str, type[SourceError]] = MappingProxyType(
    {
        "timeout": SourceTimeout,
        "connection reset": SourceUnavailable,
        "429": RateLimited,
        "429, Retry-After": RateLimited,
        "403 limit": RateLimited,
        "403": Forbidden,
        "401": Unauthorized,
        "500": SourceUnavailable,
        "truncated": SourceUnavailable,
        "slow drip": SourceTimeout,
        "wrong JSON": Malformed,
        "JSON of another shape": Malformed,
        "HTML": Malformed,
        "empty": Malformed,
    }
)
"""What each of `FAULTS` is, for an adapter that reads JSON."""


class serving:  # noqa: N801 - used as a function
    """Answers on 127.0.0.1 with the result of `handler` for each request. It may be asynchronous; an error of its own is a 599."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.requests: list[Request] = []
        """In the order of their coming."""
        self.now = self.most = 0
        """How many are being answered, and the most there were at once."""
        self.sent = 0
        """Bytes of bodies that were written to the network."""
        self._loop = asyncio.new_event_loop()
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._count = 0
        self.base_url = ""

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._loop.run_forever, name="serving", daemon=True)
        self._thread.start()
        self._server, port = asyncio.run_coroutine_threadsafe(self._started(), self._loop).result()
        self.base_url = f"http://127.0.0.1:{port}"
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stopped(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *_: object) -> None:
        self.__exit__()

    async def _started(self) -> tuple[asyncio.Server, int]:
        """No port is used twice: limits and failures of one server must not apply to another."""
        while True:
            server = await asyncio.start_server(self._met, "127.0.0.1", 0)
            port = server.sockets[0].getsockname()[1]
            if port not in _PORTS:
                _PORTS.add(port)
                return server, port
            server.close()

    async def _stopped(self) -> None:
        await take_no_more(self._server)
        self._server.close()
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for task, writer in self._connections.items():
                writer.transport.abort()
                task.cancel()
            await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)

    def _met(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._count += 1
        task = self._loop.create_task(self._conversation(reader, writer, self._count))
        self._connections[task] = writer
        task.add_done_callback(self._connections.pop)

    async def _conversation(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        try:
            with suppress(ConnectionError):  # the client has disconnected
                await self._answer_in_turn(reader, writer, number)
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer_in_turn(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        async for request in _requests(reader, number):
            self.requests.append(request)
            self.now += 1
            self.most = max(self.most, self.now)
            try:
                again = await self._answer(request, reader, writer)
            finally:
                self.now -= 1
            if not again:
                break

    async def _answer(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Whether the connection stays open."""
        try:
            result = self.handler(request)
            answer = await result if isawaitable(result) else result
        except Exception as error:  # noqa: BLE001 - the test's own, which must not look like a server that is down
            answer = as_text(f"the test's handler failed: {error!r}", status=599)
        while answer.release and not answer.release.is_set():
            await _slept(0.01, reader)
        await _slept(answer.after_s, reader)
        if answer.reset:
            writer.transport.get_extra_info("socket").setsockopt(*_LINGER)
            writer.transport.abort()
            return False
        writer.write(_head(answer))
        body = b"" if request.method == "HEAD" else answer.body
        for part in _parts(body[: len(body) // 2] if answer.cut else body, answer.drip_s):
            writer.write(part)
            await writer.drain()
            self.sent += len(part)
            await _slept(answer.drip_s, reader)
        return not answer.cut


async def take_no_more(server: asyncio.Server) -> None:
    """Before it is closed: asyncio leaves a socket open that it has accepted and not yet passed to its server."""
    for listening in server.sockets:
        server.get_loop().remove_reader(listening.fileno())
    await asyncio.sleep(0)


async def _slept(seconds: float, reader: asyncio.StreamReader) -> None:
    """Raises `ConnectionResetError` as soon as the client has disconnected."""
    until = time.monotonic() + seconds
    while (left_s := until - time.monotonic()) > 0:
        if reader.at_eof():
            raise ConnectionResetError
        await asyncio.sleep(min(left_s, 0.02))


def _linger() -> tuple[int, int, bytes]:
    import socket
    import struct

    return socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)


_LINGER = _linger()
"""Socket option: RST when it is closed."""


async def _requests(reader: asyncio.StreamReader, number: int) -> AsyncIterator[Request]:
    """Of one connection, until it ends."""
    with suppress(asyncio.IncompleteReadError):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, target, _ = head[0].split(" ")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            parts = urlsplit(target)
            query = {name: values[-1] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
            yield Request(method, unquote(parts.path), query, headers, body, time.monotonic(), target, number)


def _head(answer: Answer) -> bytes:
    headers = {"Content-Length": str(len(answer.body)), **answer.headers}
    reason = HTTPStatus(answer.status).phrase if answer.status in set(HTTPStatus) else "Unknown"
    lines = [f"HTTP/1.1 {answer.status} {reason}", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _parts(body: bytes, drip_s: float) -> list[bytes]:
    size = 1 if drip_s else MEBIBYTE
    return [body[at : at + size] for at in range(0, len(body), size)]

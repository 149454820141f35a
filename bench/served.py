"""A loopback server in a process of its own, with a log of its requests.

Its work is not counted as ours, since it runs in another process.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from typing import Any, NamedTuple
from urllib.parse import parse_qsl
from urllib.request import urlopen

LOG = "/log"
SITES = tuple(f"127.0.1.{number}" for number in range(1, 21))
"""More loopback addresses, for pages of different hosts; macOS has none of them unless configured."""
STARTED_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True)
class HttpRequest:
    path: str
    query: Mapping[str, str]
    body: bytes = b""
    host: str = ""
    """As the request names it, with its port."""

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.path.strip("/").split("/"))


@dataclass(frozen=True, slots=True)
class HttpResponse:
    body: bytes
    kind: str = "application/json"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    after_s: float = 0.0
    log_fields: Mapping[str, Any] = field(default_factory=dict)
    """For the log alone."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request at the server, times in seconds since the epoch."""

    path: str
    query: Mapping[str, str]
    began: float
    after_s: float
    now: int
    """Concurrent requests, including this one, whose paths share the first two parts."""
    log_fields: Mapping[str, Any]

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.path.strip("/").split("/"))


Handler = Callable[[HttpRequest], HttpResponse]
"""Computes the responses. It is sent to another process, so it must be a function of a module or hold plain data."""


class Server(NamedTuple):
    base_url: str
    port: int
    sites: tuple[str, ...]
    """Further hosts that it answers to."""

    def log(self, below: str = "") -> list[Call]:
        """The requests so far to addresses that begin with `/below/`, in order of arrival."""
        with urlopen(f"{self.base_url}{LOG}", timeout=STARTED_WITHIN_S) as answer:
            calls = [Call(**row) for row in json.load(answer)]
        return [call for call in calls if call.path.startswith(f"/{below}/" if below else "/")]


@contextmanager
def served(handler: Handler) -> Iterator[Server]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_run, args=(handler, theirs), daemon=True)
    process.start()
    try:
        if not ours.poll(STARTED_WITHIN_S):
            raise TimeoutError(f"the local server did not start within {STARTED_WITHIN_S:g} s")
        port, sites = ours.recv()
        yield Server(f"http://127.0.0.1:{port}", port, sites)
    finally:
        process.terminate()
        process.join()


def _run(handler: Handler, pipe: Connection) -> None:
    import uvicorn

    first = socket.create_server(("127.0.0.1", 0), backlog=1_024)
    port, sockets, sites = first.getsockname()[1], [first], []
    for site in SITES:
        with suppress(OSError):
            sockets.append(socket.create_server((site, port)))
            sites.append(site)
    pipe.send((port, tuple(sites)))
    uvicorn.Server(uvicorn.Config(App(handler), log_level="error", lifespan="off", timeout_keep_alive=600)).run(sockets=sockets)


@dataclass
class App:
    """ASGI."""

    handler: Handler
    calls: list[Call] = field(default_factory=list)
    under_way: dict[str, int] = field(default_factory=dict)

    async def __call__(self, scope: Mapping[str, Any], receive: Callable[[], Any], send: Callable[[Any], Any]) -> None:
        if scope["path"] == LOG:
            await _send(send, HttpResponse(json.dumps([asdict(call) for call in self.calls]).encode()))
            return
        began, body = time.time(), await _body(receive)
        query = dict(parse_qsl(scope["query_string"].decode(), keep_blank_values=True))
        request = HttpRequest(scope["path"], query, body, dict(scope["headers"]).get(b"host", b"").decode())
        group = "/".join(request.parts[:2])
        response = self.handler(request)
        now = self.under_way[group] = self.under_way.get(group, 0) + 1
        self.calls.append(Call(request.path, request.query, began, response.after_s, now, response.log_fields))
        try:
            gone = asyncio.ensure_future(receive())  # completes when the client disconnects
            await asyncio.wait([gone], timeout=max(0.0, began + response.after_s - time.time()))
            gone.cancel()
        finally:
            self.under_way[group] -= 1
        await _send(send, response)


async def _body(receive: Callable[[], Any]) -> bytes:
    parts, more = [], True
    while more:
        message = await receive()
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(parts)


async def _send(send: Callable[[Any], Any], response: HttpResponse) -> None:
    headers = {"content-type": response.kind, "content-length": str(len(response.body)), **response.headers}
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": response.status, "headers": raw})
    await send({"type": "http.response.body", "body": response.body})

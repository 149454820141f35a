"""Limits on searches (running and waiting) and on requests (connections, times, size).

Searches beyond the limits are refused with `Retry-After`.

uvicorn limits how long a connection may be idle between requests, not how slowly a request's head may arrive: a few hundred sockets that
send a byte a minute would block it (https://en.wikipedia.org/wiki/Slowloris_(cyber_attack)).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import math
import re
import time
from asyncio import TimerHandle, Transport
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

from starlette.datastructures import Headers, QueryParams
from uvicorn.protocols.http.h11_impl import H11Protocol

from outrider.interfaces.http.problems import MEDIA_TYPE, Refusal, make_problem, refuse_field
from outrider.usecases.ingest import Upload, make_file_name

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


FIRST_GUESS_S = 5.0
"""Assumed time of a search, until one has ended."""
MAX_RETRY_S = 60
WEIGHT = 0.2
"""Of the newest search in the running mean."""
log = logging.getLogger(__name__)

FULL = Refusal(429, "busy", "too many connections are open here")
SLOW = Refusal(408, "slow-head", "the request did not arrive in time")
WRONG = Refusal(400, "no-http", "this is no HTTP request that can be understood")
CLOSE = {"Connection": "close"}
"""The rest of such a request is not read."""


@dataclass(slots=True)
class Admission:
    """One for a server; all its interfaces share it."""

    at_once: int
    queue: int
    queue_s: float
    in_system: int = 0
    """Requests that run or wait."""
    running: int = 0
    draining: bool = False
    """Searches are still accepted, but a proxy shall send no more: the server stops soon."""
    stopping: bool = False
    _mean_s: float = FIRST_GUESS_S
    _slots: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._slots = asyncio.Semaphore(self.at_once)

    @contextmanager
    def admit(self) -> Iterator[None]:
        """Around a request, however many searches it starts. Raises `Refusal` if the queue is full."""
        if self.stopping:
            raise Refusal(503, "stopping", "this server is about to stop", {"Retry-After": "5", "Connection": "close"})
        if self.in_system >= self.at_once + self.queue:
            raise self._busy(f"{self.in_system:,} requests run or wait here already")
        self.in_system += 1
        try:
            yield
        finally:
            self.in_system -= 1

    @asynccontextmanager
    async def slot(self, *, patient: bool = False) -> AsyncIterator[None]:
        """Around one search. Waits for a free slot, `queue_s` at most unless `patient`."""
        try:
            async with asyncio.timeout(None if patient else self.queue_s):
                await self._slots.acquire()
        except TimeoutError:
            raise self._busy(f"there was no turn for this search within {self.queue_s:g} s") from None
        self.running += 1
        began = time.monotonic()
        try:
            yield
        finally:
            self.running -= 1
            self._mean_s += WEIGHT * (time.monotonic() - began - self._mean_s)
            self._slots.release()

    @property
    def leaving(self) -> bool:
        """Whether a load balancer shall choose another server."""
        return self.draining or self.stopping

    @property
    def waiting(self) -> int:
        return max(0, self.in_system - self.running)

    def retry_after_s(self) -> int:
        """Estimate of the time until a slot is free: the waiting requests at the pace of the last searches."""
        return max(1, min(MAX_RETRY_S, math.ceil(self._mean_s * (self.waiting + 1) / self.at_once)))

    def _busy(self, why: str) -> Refusal:
        return Refusal(429, "busy", why, {"Retry-After": str(self.retry_after_s())})


class Connection(H11Protocol):
    """One connection; h11 parses requests strictly. Among `most` connections, with `head_s` seconds for a request's head."""

    def __init__(self, *args: Any, most: int, head_s: float, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._most, self._head_s = most, head_s
        self._head_timer: TimerHandle | None = None
        self.answered_at = 0.0

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        is_full = len(self.connections) > self._most
        idle = [other for other in self.connections if isinstance(other, Connection) and other.is_idle()] if is_full else []
        if idle:  # the one that has waited longest for its next request makes room
            longest = min(idle, key=lambda other: other.answered_at)
            self.connections.discard(longest)
            longest.transport.close()
        if is_full and not idle:
            self._refuse(FULL)
        else:
            self._head_timer = self.loop.call_later(self._head_s, self._end_slow_head)

    def data_received(self, data: bytes) -> None:
        if self._head_timer is None and self._between_requests():
            self._head_timer = self.loop.call_later(self._head_s, self._end_slow_head)
        super().data_received(data)
        if not self._between_requests():
            self._stop_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        self._refuse(WRONG)

    def is_idle(self) -> bool:
        """Whether its last answer is sent completely and no further request has begun."""
        waits = self.cycle is not None and self.cycle.response_complete and self._head_timer is None
        return waits and not self.transport.get_write_buffer_size() and not self.transport.is_closing()

    def on_response_complete(self) -> None:
        self.answered_at = self.loop.time()
        super().on_response_complete()

    def _between_requests(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _end_slow_head(self) -> None:
        self._head_timer = None
        if self._between_requests() and not self.transport.is_closing():
            self._refuse(SLOW)

    def _refuse(self, refusal: Refusal) -> None:
        """Write a problem document to the socket: there is no request to answer."""
        problem = make_problem(refusal, "")
        body = json.dumps(problem.model_dump(mode="json", exclude_defaults=True)).encode()
        head = f"HTTP/1.1 {refusal.status} {problem.title}\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: {len(body)}\r\n"
        retry = "Retry-After: 5\r\n" if refusal.status == FULL.status else ""
        self.transport.write(f"{head}{retry}Connection: close\r\n\r\n".encode() + body)
        self.transport.close()


class ClientDisconnected(Exception):
    """The client has closed the connection."""


MIN_BYTES_PER_S = 64 * 1024
"""An upload may take its time at this pace, beside the time that any body may take."""
PIECE_BYTES = 2**20
"""Written at once."""
FILE_TYPE = "application/octet-stream"
"""No form of another page can send it without asking first."""


@dataclass(slots=True)
class UploadReceiver:
    """Receives files at some paths: each into a folder of its own, which lives as long as its request."""

    path: re.Pattern[str]
    max_bytes: int
    at_once: int
    read_only: bool = False
    receiving: int = 0

    @asynccontextmanager
    async def open_folder(self, headers: Headers) -> AsyncIterator[Path]:
        """Raises `Refusal` before a byte of the file is read."""
        if self.read_only:
            raise Refusal(403, "read-only", "this server does not change its library (serve.read_only)", CLOSE)
        if headers.get("content-type", "").partition(";")[0].strip().lower() != FILE_TYPE or "content-encoding" in headers:
            raise Refusal(415, "wrong-type", f"a file is sent as it is, with Content-Type: {FILE_TYPE}", CLOSE)
        if self.receiving >= self.at_once:
            raise Refusal(429, "busy", f"{self.receiving:,} files are read here already", {"Retry-After": "5", **CLOSE})
        self.receiving += 1
        try:
            folder = await asyncio.to_thread(TemporaryDirectory, prefix="outrider-upload-", ignore_cleanup_errors=True)
            try:
                yield Path(folder.name)
            finally:
                await asyncio.shield(asyncio.to_thread(folder.cleanup))
        finally:
            self.receiving -= 1

    async def save(self, chunks: AsyncIterator[bytes], folder: Path, name: str) -> Upload:
        """The file, under a safe form of its name; its memory does not grow with its size."""
        path = folder / make_file_name(name)
        digest = hashlib.sha256()
        piece = bytearray()
        file = await asyncio.to_thread(path.open, "xb")
        try:
            async for chunk in chunks:
                piece += chunk
                if len(piece) >= PIECE_BYTES:
                    await asyncio.to_thread(_write_piece, file, piece, digest)
                    piece = bytearray()
            await asyncio.to_thread(_write_piece, file, piece, digest)
        finally:
            await asyncio.shield(asyncio.to_thread(file.close))
        return Upload(path, digest.hexdigest())


def _write_piece(file: BinaryIO, piece: bytearray, digest: hashlib._Hash) -> None:
    digest.update(piece)
    file.write(piece)


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """ASGI middleware for requests with a body: reads and checks it before the application starts."""

    app: ASGIApp
    body_bytes: int
    body_s: float
    request_s: float
    uploads: UploadReceiver | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        has_length = headers.get("content-length", "0") != "0"
        if scope["type"] != "http" or not (scope["method"] == "POST" or has_length or "transfer-encoding" in headers):
            await self.app(scope, receive, send)
            return
        try:
            if self.uploads and scope["method"] == "POST" and self.uploads.path.fullmatch(scope["path"]):
                await self._take_upload(self.uploads, scope, receive, send)
                return
            body = bytearray()
            async for chunk in self._read(headers, receive, self.body_bytes, math.inf):
                body += chunk
        except TimeoutError:
            raise Refusal(408, "slow-body", f"the body did not arrive within {self.body_s:g} s", CLOSE) from None
        except ClientDisconnected:
            return
        _check_json(body)
        await self._run(scope, bytes(body), receive, send)

    async def _take_upload(self, uploads: UploadReceiver, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        async with uploads.open_folder(headers) as folder:
            name = QueryParams(scope["query_string"]).get("name", "")
            upload = await uploads.save(self._read(headers, receive, uploads.max_bytes, MIN_BYTES_PER_S), folder, name)
            scope.setdefault("state", {})["upload"] = upload
            await self._run(scope, b"", receive, send)

    async def _read(self, headers: Headers, receive: Receive, max_bytes: int, bytes_per_s: float) -> AsyncIterator[bytes]:
        """The body's parts. It may take `body_s`, and longer as long as it arrives at `bytes_per_s`. Raises `TimeoutError`, `Refusal`."""
        too_large = Refusal(413, "large-body", f"a body has at most {max_bytes:,} bytes here", CLOSE)
        length = headers.get("content-length", "")
        if length.isdecimal() and len(length) < 20 and int(length) > max_bytes:
            raise too_large
        ends_at = time.monotonic() + self.body_s
        size, more = 0, True
        while more:
            async with asyncio.timeout(ends_at + size / bytes_per_s - time.monotonic()):
                message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnected
            size += len(message.get("body", b""))
            if size > max_bytes:
                raise too_large
            more = message.get("more_body", False)
            yield message.get("body", b"")

    async def _run(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        """Run the application as a task. Cancel it when the client disconnects, or after `request_s` without a first byte of the answer."""
        disconnected, has_begun = asyncio.Event(), asyncio.Event()
        messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive_body() -> Message:
            if messages:
                return messages.pop()
            await disconnected.wait()
            return {"type": "http.disconnect"}

        async def send_message(message: Message) -> None:
            has_begun.set()
            await send(message)

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            disconnected.set()

        watching = asyncio.create_task(watch())
        working: asyncio.Task[None] = asyncio.ensure_future(self.app(scope, receive_body, send_message))
        try:
            await asyncio.wait({working, watching}, timeout=self.request_s, return_when=asyncio.FIRST_COMPLETED)
            if not working.done() and not disconnected.is_set() and has_begun.is_set():
                await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                await working
                return
            working.cancel()
            with suppress(asyncio.CancelledError):
                await working
            if not disconnected.is_set():
                raise Refusal(504, "took-too-long", f"no answer within the {self.request_s:g} s that a request may take here")
        finally:
            for task in (working, watching):
                task.cancel()
            await asyncio.gather(working, watching, return_exceptions=True)


def _check_json(body: bytes | bytearray) -> None:
    """Every body is JSON. Values that Python accepts and JSON does not (NaN, lone surrogates) are refused here once for all handlers."""

    def refuse_constant(name: str) -> NoReturn:
        raise ValueError(f"{name} is no number of JSON")

    if not body:
        return
    try:
        json.dumps(json.loads(body.decode(), parse_constant=refuse_constant), ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:  # both kinds of Unicode errors are ValueErrors
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]
        raise refuse_field("", f"the body is no JSON: {why}") from None

"""A connection that has patience for `head_s` seconds, and one of at most so many.

uvicorn bounds how long a connection may be idle between requests, not how slowly a request's head may come: a few hundred sockets that send
a byte a minute would fill it (https://en.wikipedia.org/wiki/Slowloris_(cyber_attack)).

A request on its way in: its body within bounds and in time, and its work stopped when the asker has gone or waits too long.
"""

from __future__ import annotations

import asyncio
import json
import logging
from asyncio import TimerHandle, Transport
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from starlette.datastructures import Headers
from uvicorn.protocols.http.h11_impl import H11Protocol

from outrider.interfaces.http.problems import MEDIA_TYPE, Refusal, WrongField, problem_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


log = logging.getLogger(__name__)

FULL = Refusal(429, "busy", "too many connections are open here")
SLOW = Refusal(408, "slow-head", "the request did not arrive in time")
WRONG = Refusal(400, "no-http", "this is no HTTP request that can be understood")


class Connection(H11Protocol):
    """uvicorn's own, on h11, which is strict about what is a request."""

    def __init__(self, *given: Any, most: int, head_s: float, **named: Any) -> None:
        super().__init__(*given, **named)
        self._most, self._head_s = most, head_s
        self._patience: TimerHandle | None = None
        self.answered_at = 0.0

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self._most and not self._another_closed():
            self._end(FULL)
        else:
            self._patience = self.loop.call_later(self._head_s, self._lost_patience)

    def data_received(self, data: bytes) -> None:
        if self._patience is None and self._between_requests():
            self._patience = self.loop.call_later(self._head_s, self._lost_patience)
        super().data_received(data)
        if not self._between_requests():
            self._calm()

    def connection_lost(self, exc: Exception | None) -> None:
        self._calm()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        self._end(WRONG)

    def _another_closed(self) -> bool:
        """One that only waits for its next request makes room."""
        idle = [other for other in self.connections if isinstance(other, Connection) and other.is_idle()]
        if not idle:
            return False
        longest = min(idle, key=lambda other: other.answered_at)
        self.connections.discard(longest)
        longest.transport.close()
        return True

    def is_idle(self) -> bool:
        """Whether it has been answered, has taken its answer, and asks nothing further yet."""
        waits = self.cycle is not None and self.cycle.response_complete and self._patience is None
        return waits and not self.transport.get_write_buffer_size() and not self.transport.is_closing()

    def on_response_complete(self) -> None:
        self.answered_at = self.loop.time()
        super().on_response_complete()

    def _between_requests(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _calm(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _lost_patience(self) -> None:
        self._patience = None
        if self._between_requests() and not self.transport.is_closing():
            self._end(SLOW)

    def _end(self, refusal: Refusal) -> None:
        """A problem document straight onto the wire: there is no request to answer."""
        problem = problem_of(refusal, "")
        body = json.dumps(problem.model_dump(mode="json", exclude_defaults=True)).encode()
        head = f"HTTP/1.1 {refusal.status} {problem.title}\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: {len(body)}\r\n"
        retry = "Retry-After: 5\r\n" if refusal.status == FULL.status else ""
        self.transport.write(f"{head}{retry}Connection: close\r\n\r\n".encode() + body)
        self.transport.close()


CLOSE = {"Connection": "close"}
"""What is left of such a request is not read."""


class AskerGone(Exception):
    """Who asked has closed the connection."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """ASGI, for requests with a body: read whole before anything else sees them."""

    app: ASGIApp
    body_bytes: int
    body_s: float
    request_s: float

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _has_body(scope):
            await self.app(scope, receive, send)
            return
        try:
            async with asyncio.timeout(self.body_s):
                body = await self._read(Headers(scope=scope), receive)
        except TimeoutError:
            raise Refusal(408, "slow-body", f"the body did not arrive within {self.body_s:g} s", CLOSE) from None
        except AskerGone:
            return
        _check_json(body)
        await self._watched(scope, body, receive, send)

    async def _read(self, headers: Headers, receive: Receive) -> bytes:
        told = headers.get("content-length", "")
        if told.isdecimal() and len(told) < 20 and int(told) > self.body_bytes:
            raise self._too_large()
        body = bytearray()
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise AskerGone
            body += message.get("body", b"")
            if len(body) > self.body_bytes:
                raise self._too_large()
            more = message.get("more_body", False)
        return bytes(body)

    def _too_large(self) -> Refusal:
        return Refusal(413, "large-body", f"a body has at most {self.body_bytes:,} bytes here", CLOSE)

    async def _watched(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        """The work as a task, which ends where the asker goes; and, as long as it has said nothing, after `request_s`."""
        gone, began = asyncio.Event(), asyncio.Event()
        rest: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def given() -> Message:
            if rest:
                return rest.pop()
            await gone.wait()
            return {"type": "http.disconnect"}

        async def sending(message: Message) -> None:
            began.set()
            await send(message)

        watching = asyncio.create_task(_until_gone(receive, gone))
        working: asyncio.Task[None] = asyncio.ensure_future(self.app(scope, given, sending))
        try:
            await asyncio.wait({working, watching}, timeout=self.request_s, return_when=asyncio.FIRST_COMPLETED)
            if not working.done() and not gone.is_set() and began.is_set():
                await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
            await self._ended(working, gone=gone.is_set())
        finally:
            for task in (working, watching):
                task.cancel()
            await asyncio.gather(working, watching, return_exceptions=True)

    async def _ended(self, working: asyncio.Task[None], *, gone: bool) -> None:
        if working.done():
            await working
            return
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working
        if not gone:
            raise Refusal(504, "took-too-long", f"no answer within the {self.request_s:g} s that a request may take here")


async def _until_gone(receive: Receive, gone: asyncio.Event) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    gone.set()


def _has_body(scope: Scope) -> bool:
    headers = Headers(scope=scope)
    return scope["method"] == "POST" or headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


def _check_json(body: bytes) -> None:
    """All that is sent here is JSON. What Python reads and JSON does not know (NaN, half characters) nobody behind has to bear."""
    if not body:
        return
    try:
        json.dumps(json.loads(body.decode(), parse_constant=_no_constant), ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:  # both kinds of Unicode errors are ValueErrors
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]
        wrong = WrongField(field="", message=f"the body is no JSON: {why}")
        raise Refusal(422, "bad-request", wrong.message, errors=(wrong,)) from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")

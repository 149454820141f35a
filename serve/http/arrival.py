"""A request on its way in: its body within bounds and in time, and its work stopped when the asker has gone or waits too long."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from starlette.datastructures import Headers

from outrider.serve.http.problems import Refusal, WrongField

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

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

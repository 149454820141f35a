"""What stands around every request: a number, the security headers, and the end of every error. The outermost of our layers."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING
from uuid import uuid4

from starlette.datastructures import MutableHeaders

from outrider.interfaces.http.problems import Refusal, response_of
from outrider.state.errors import SearchError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from outrider.interfaces.http.metrics import Metrics

log = logging.getLogger(__name__)

NOTHING_RUNS = "default-src 'none'; frame-ancestors 'none'"
PLAYGROUND = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; "
    "connect-src 'self'; frame-ancestors 'none'"
)
"""LangServe's page sets its address in a script of its own."""
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Content-Security-Policy": NOTHING_RUNS,
}
"""Unless an answer sets its own."""
CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
EXPECTED = (SearchError, Refusal)


class Envelope:
    """ASGI."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
        else:
            await self._answered(scope, receive, send)

    async def _answered(self, scope: Scope, receive: Receive, send: Send) -> None:
        head = scope["method"] == "HEAD"
        if head:
            scope = {**scope, "method": "GET"}  # answered alike, without the body
        request_id = str(uuid4())
        scope.setdefault("state", {})["request_id"] = request_id
        status, enough = 0, False

        async def sending(message: Message) -> None:
            nonlocal status, enough
            if message["type"] == "http.response.start":
                status = message["status"]
                _dressed(message, request_id, scope["path"])
            bare = head and message["type"] == "http.response.body"
            await send({"type": "http.response.body"} if bare else message)
            if bare and message.get("more_body"):
                enough = True
                raise OSError("nobody asked for the body")  # as where the asker has gone: a stream ends here

        try:
            _refuse_odd_path(scope["path"])
            await self.app(scope, receive, sending)
        except Exception as error:  # noqa: BLE001 - nothing may reach the server's own pages, which show internals
            if enough:
                return
            refusal = _told(error, request_id)
            if not status:
                await response_of(refusal, request_id)(scope, receive, sending)
        finally:
            self.metrics.answered({**scope, "method": "HEAD"} if head else scope, status)


def _told(error: Exception, request_id: str) -> Refusal:
    """What the asker is told. A bug goes to the log whole, under the number that the asker gets."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, ExceptionGroup) and error.split(EXPECTED)[1] is None:
        log.warning("request %s ended early: %s", request_id, "; ".join(str(one) for one in error.exceptions))
    else:
        log.error("request %s failed", request_id, exc_info=error)
    return Refusal(500, "internal", "an error of this server; its log tells more under this problem's instance")


def _refuse_odd_path(path: str) -> None:
    if CONTROL.search(path):
        raise Refusal(400, "odd-path", "the path holds a control character")


def _dressed(message: Message, request_id: str, path: str) -> None:
    headers = MutableHeaders(scope=message)
    headers["X-Request-Id"] = request_id
    for name, value in HEADERS.items():
        headers.setdefault(name, PLAYGROUND if value == NOTHING_RUNS and "/playground" in path else value)

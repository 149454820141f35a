"""Outermost middleware: request number, security headers, and an answer for every error."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING
from uuid import uuid4

from starlette.datastructures import MutableHeaders

from outrider.interfaces.http.problems import Refusal, make_response
from outrider.state.errors import SearchError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from outrider.interfaces.http.health import Metrics

log = logging.getLogger(__name__)

NOTHING_RUNS = "default-src 'none'; frame-ancestors 'none'"
PLAYGROUND = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; "
    "connect-src 'self'; frame-ancestors 'none'"
)
"""LangServe's page sets its address in an inline script."""
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Content-Security-Policy": NOTHING_RUNS,
}
"""Defaults; an answer may set its own."""
CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
EXPECTED = (SearchError, Refusal)


class ResponseMiddleware:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
        else:
            await self._respond(scope, receive, send)

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_head = scope["method"] == "HEAD"
        if is_head:
            scope = {**scope, "method": "GET"}  # the same answer, without the body
        request_id = str(uuid4())
        scope.setdefault("state", {})["request_id"] = request_id
        status, is_complete = 0, False

        async def send_message(message: Message) -> None:
            nonlocal status, is_complete
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = request_id
                for name, value in HEADERS.items():
                    headers.setdefault(name, PLAYGROUND if value == NOTHING_RUNS and "/playground" in scope["path"] else value)
            omits_body = is_head and message["type"] == "http.response.body"
            await send({"type": "http.response.body"} if omits_body else message)
            if omits_body and message.get("more_body"):
                is_complete = True
                raise OSError("a HEAD request has no body")  # as for a disconnected client: a stream ends here

        app: ASGIApp = self.app
        if CONTROL.search(scope["path"]):
            app = make_response(Refusal(400, "odd-path", "the path holds a control character"), request_id)
        try:
            await app(scope, receive, send_message)
        except Exception as error:  # noqa: BLE001 - nothing may reach the server's own error pages, which show internals
            if is_complete:
                return
            refusal = error if isinstance(error, Refusal) else _log_error(error, request_id)
            if not status:
                await make_response(refusal, request_id)(scope, receive, send_message)
        finally:
            self.metrics.count_request({**scope, "method": "HEAD"} if is_head else scope, status)


def _log_error(error: Exception, request_id: str) -> Refusal:
    """The answer to an unexpected error. The log has all details under the number that the client receives."""
    if isinstance(error, ExceptionGroup) and error.split(EXPECTED)[1] is None:
        log.warning("request %s ended early: %s", request_id, "; ".join(str(one) for one in error.exceptions))
    else:
        log.error("request %s failed", request_id, exc_info=error)
    return Refusal(500, "internal", "an error of this server; its log has details under this problem's instance")

"""Streamable HTTP at `/mcp`, behind the same keys and checks of the sender as `outrider serve`."""

from __future__ import annotations

import sys
import uuid
from contextlib import closing, redirect_stdout
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings

from outrider.interfaces.http.allowed_origins import Origins
from outrider.interfaces.http.auth import Authenticated
from outrider.interfaces.http.problems import Refusal, response_of
from outrider.interfaces.http.request_limits import Connection
from outrider.interfaces.http.server import address_of, key_needed, listening_on

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer
    from starlette.types import ASGIApp, Receive, Scope, Send

    from outrider.services import Services

PATH = "/mcp"


@dataclass(frozen=True, slots=True)
class Refusing:
    """ASGI. A refusal is an answer."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self.app(scope, receive, send)
        except Refusal as refusal:
            await response_of(refusal, uuid.uuid4().hex)(scope, receive, send)


def application(server: MCPServer, services: Services, host: str) -> ASGIApp:
    """Raises `BadRequest` where a key is needed and there is none that would be accepted."""
    settings = services.settings.serve
    needs_key = key_needed(settings, host)
    checked_before = TransportSecuritySettings(enable_dns_rebinding_protection=False)  # `Origins` does it
    inner = server.streamable_http_app(
        streamable_http_path=PATH, host=host, transport_security=checked_before, max_request_body_size=settings.body_bytes
    )
    keyed = Authenticated(inner, settings.api_keys, needs_key)
    return Refusing(Origins(keyed, frozenset({*settings.hosts, host.lower()}), frozenset(settings.origins)))


def serve(server: MCPServer, services: Services, host: str, port: int) -> None:
    app = application(server, services, host)
    with closing(listening_on(host, port)) as listening, redirect_stdout(sys.stderr):  # logs are no results
        sys.stderr.write(f"Outrider's tools are at {address_of(host, listening)}{PATH} - Ctrl-C stops it\n")
        bounds = services.settings.serve
        protocol: Any = partial(Connection, most=bounds.connections, head_s=bounds.body_s)
        uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on", http=protocol, ws="none")).run(sockets=[listening])

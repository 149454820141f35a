"""MCP over Streamable HTTP at `/mcp`, behind the keys and origin checks of `outrider serve`.

A module of its own, since tools over standard input work without the packages of the extra `serve`.
"""

from __future__ import annotations

import sys
import uuid
from contextlib import closing, redirect_stdout
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings

from outrider.interfaces.http.access import KeyAuthentication, OriginCheck
from outrider.interfaces.http.problems import Refusal, make_response
from outrider.interfaces.http.request_limits import Connection
from outrider.interfaces.http.server import format_address, open_socket, requires_key

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer
    from starlette.types import ASGIApp, Receive, Scope, Send

    from outrider.services import Services

PATH = "/mcp"


@dataclass(frozen=True, slots=True)
class RefusalMiddleware:
    """ASGI middleware that answers refusals."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self.app(scope, receive, send)
        except Refusal as refusal:
            await make_response(refusal, uuid.uuid4().hex)(scope, receive, send)


def build_application(server: MCPServer, services: Services, host: str) -> ASGIApp:
    """The ASGI application. Raises `BadRequest` if it needs a key and the settings hold none."""
    settings = services.settings.serve
    needs_key = requires_key(settings, host)
    no_check = TransportSecuritySettings(enable_dns_rebinding_protection=False)  # `OriginCheck` does it
    inner = server.streamable_http_app(
        streamable_http_path=PATH, host=host, transport_security=no_check, max_request_body_size=settings.body_bytes
    )
    authenticated = KeyAuthentication(inner, settings.api_keys, needs_key)
    return RefusalMiddleware(OriginCheck(authenticated, frozenset({*settings.hosts, host.lower()}), frozenset(settings.origins)))


def serve(server: MCPServer, services: Services, host: str, port: int) -> None:
    app = build_application(server, services, host)
    with closing(open_socket(host, port)) as bound, redirect_stdout(sys.stderr):  # standard output is for results
        sys.stderr.write(f"Outrider's tools are at {format_address(host, bound)}{PATH} - Ctrl-C stops it\n")
        settings = services.settings.serve
        protocol: Any = partial(Connection, most=settings.connections, head_s=settings.body_s)
        uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on", http=protocol, ws="none")).run(sockets=[bound])

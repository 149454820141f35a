"""The Model Context Protocol door: tools, and resources with what was too long for a tool's answer.

Specification: https://modelcontextprotocol.io; the server is the official Python SDK's.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from outrider.state.errors import MissingExtra

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

    from outrider.services import Services


def server_of(services: Services) -> MCPServer:
    """Raises `MissingExtra`."""
    if find_spec("mcp") is None:
        raise MissingExtra("outrider mcp", "mcp")
    from outrider.interfaces.mcp.server import made

    return made(services)


def run_stdio(services: Services) -> None:
    """Until the client closes standard input."""
    server_of(services).run("stdio")


def run_http(services: Services, host: str, port: int) -> None:
    """Until interrupted. Raises `BadRequest` where it cannot listen, or may not without a key; `MissingExtra`."""
    server = server_of(services)
    if any(find_spec(name) is None for name in ("fastapi", "langserve", "uvicorn")):
        raise MissingExtra("outrider mcp --http", "serve")
    from outrider.interfaces.mcp.http import serve

    serve(server, services, host, port)

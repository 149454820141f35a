"""Model Context Protocol interface: tools, and resources for long results.

Specification: https://modelcontextprotocol.io; the server is the official Python SDK's.
"""

from __future__ import annotations

import signal
from importlib.util import find_spec
from typing import TYPE_CHECKING

from outrider.state.errors import MissingExtra

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

    from outrider.services import Services


def make_server(services: Services, *, alone: bool = False) -> MCPServer:
    """The server with its tools; `alone` in its process, it runs background jobs as well. Raises `MissingExtra`."""
    if find_spec("mcp") is None:
        raise MissingExtra("outrider mcp", "mcp")
    from outrider.interfaces.mcp.server import build_server

    return build_server(services, alone=alone)


def run_stdio(services: Services) -> None:
    """Serve until the client closes standard input, or a signal ends the process.

    Ctrl-C ends it at once: the SDK's reader waits for the next line in a thread that no cancellation ends.
    """
    server = make_server(services, alone=True)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    server.run("stdio")


def run_http(services: Services, host: str, port: int) -> None:
    """Serve until interrupted. Raises `BadRequest` if it cannot listen, or needs a key and has none; `MissingExtra`."""
    server = make_server(services, alone=True)
    if any(find_spec(name) is None for name in ("fastapi", "langserve", "uvicorn")):
        raise MissingExtra("outrider mcp --http", "serve")
    from outrider.interfaces.mcp.http import serve

    serve(server, services, host, port)

"""The graph over HTTP by LangServe, at `/search`: invoke, batch, stream, stream_log, playground and schemas; and `/health`.

Documented at https://python.langchain.com/docs/langserve. A key missing from an input answers 422, because the input is typed.
"""

from __future__ import annotations

import ipaddress
import socket
import sys
from contextlib import closing, redirect_stdout
from typing import TYPE_CHECKING

from outrider import __version__
from outrider.graph.pipeline import build
from outrider.services.health import health as engine_health
from outrider.state.errors import BadRequest, MissingExtra, SearchError
from outrider.state.request import SearchRequest
from outrider.state.response import SearchResponse

if TYPE_CHECKING:
    from fastapi import FastAPI

    from outrider.services import Services

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")


def application(services: Services) -> FastAPI:
    """The ASGI application. Raises `MissingExtra` where FastAPI or LangServe is not installed."""
    try:
        from fastapi import FastAPI, Request
        from fastapi.middleware.trustedhost import TrustedHostMiddleware
        from fastapi.responses import JSONResponse
        from langserve import add_routes
    except ImportError as error:
        raise MissingExtra("outrider serve", "serve") from error

    app = FastAPI(title="Outrider", version=__version__, description="One request, searched everywhere at once.")
    # Without a check of the Host header a web page could reach a loopback server through a name of its own (DNS rebinding).
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(LOOPBACK_NAMES))

    @app.exception_handler(SearchError)
    async def refused(request: Request, error: SearchError) -> JSONResponse:
        status = 422 if isinstance(error, BadRequest) else 503
        return JSONResponse({"error": type(error).__name__, "detail": str(error)}, status_code=status)

    @app.get("/health")
    async def health() -> dict[str, object]:
        """What of the engine is on, and why the rest is off; the status is `ok` while a library can be searched."""
        parts = await engine_health(services)
        return {
            "status": "ok" if parts[0].on else "off",
            "version": __version__,
            "parts": [part.model_dump(mode="json") for part in parts],
        }

    graph = build(services).with_types(input_type=SearchRequest, output_type=SearchResponse)
    add_routes(app, graph, path="/search")
    return app


def run_server(services: Services, host: str, port: int) -> None:
    """Serve until interrupted. There are no API keys yet: an address other than loopback is refused."""
    if not _loopback(host):
        raise BadRequest(
            f"--host {host}: only loopback is served, because requests are not authenticated yet; put a proxy with a login in front"
        )
    app = application(services)
    import uvicorn

    with closing(_listening(host, port)) as listening, redirect_stdout(sys.stderr):  # logs are no results
        shown = f"[{host}]" if ":" in host else host
        sys.stderr.write(f"Outrider answers at http://{shown}:{listening.getsockname()[1]}/search - Ctrl-C stops it\n")
        uvicorn.Server(uvicorn.Config(app, log_level="info")).run(sockets=[listening])


def _listening(host: str, port: int) -> socket.socket:
    """A bound socket; whatever keeps it from listening is said before the server starts."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise BadRequest(f"cannot listen on {host}:{port}: {error.strerror or error}; choose another --port") from error


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

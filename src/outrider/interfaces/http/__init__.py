"""HTTP interface: LangServe at `/search`, REST at `/api`, and the server process.

This module is light; its functions load FastAPI and the rest.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from outrider.state.errors import MissingExtra

if TYPE_CHECKING:
    from fastapi import FastAPI

    from outrider.services import Services

PACKAGES = ("fastapi", "fastapi_offline", "langserve", "prometheus_client", "sse_starlette", "uvicorn")


def build_app(services: Services, *, host: str = "127.0.0.1", needs_key: bool = False) -> FastAPI:
    """The ASGI application of a server on `host`. Raises `MissingExtra` if its packages are not installed."""
    _require_packages()
    from outrider.interfaces.http.server import build_application

    return build_application(services, host=host, needs_key=needs_key).app


def run_server(services: Services, host: str, port: int) -> None:
    """Serve until interrupted. Raises `BadRequest` if it cannot listen, or needs a key and has none; `MissingExtra` as above."""
    _require_packages()
    from outrider.interfaces.http.server import serve

    serve(services, host, port)


def _require_packages() -> None:
    if any(find_spec(name) is None for name in PACKAGES):
        raise MissingExtra("outrider serve", "serve")

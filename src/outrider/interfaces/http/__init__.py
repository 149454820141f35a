"""The engine over HTTP: LangServe at `/search`, REST at `/api`, and what a server needs to stand in a network.

This module is light; FastAPI and the rest are loaded by what it calls.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from outrider.state.errors import MissingExtra

if TYPE_CHECKING:
    from fastapi import FastAPI

    from outrider.services import Services

PACKAGES = ("fastapi", "langserve", "prometheus_client", "sse_starlette", "uvicorn")


def build_app(services: Services, *, host: str = "127.0.0.1", needs_key: bool = False) -> FastAPI:
    """The ASGI application as a server on `host` offers it. Raises `MissingExtra` where its packages are not installed."""
    _installed()
    from outrider.interfaces.http.application import doors

    return doors(services, host=host, needs_key=needs_key).app


def run_server(services: Services, host: str, port: int) -> None:
    """Serve until interrupted. Raises `BadRequest` where it cannot listen, or may not without a key; `MissingExtra` as above."""
    _installed()
    from outrider.interfaces.http.server import serve

    serve(services, host, port)


def _installed() -> None:
    if any(find_spec(name) is None for name in PACKAGES):
        raise MissingExtra("outrider serve", "serve")

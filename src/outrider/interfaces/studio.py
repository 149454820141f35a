"""The REST doors for `langgraph dev`, which serves them beside the graphs (`http.app` in `langgraph.json`).

Only their own paths: LangGraph's server has `/metrics`, `/docs` and a description of itself.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.routing import Route

from outrider.interfaces.http import build_app
from outrider.services import Services

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

PATHS = ("/api/{rest:path}", "/healthz", "/readyz")


class Passed:
    """ASGI. As it came; a route takes a class for an application."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


doors = build_app(Services.from_file())


def _lifespan(_: Starlette) -> AbstractAsyncContextManager[Any]:
    return doors.router.lifespan_context(doors)


app = Starlette(routes=[Route(path, Passed(doors)) for path in PATHS], lifespan=_lifespan)

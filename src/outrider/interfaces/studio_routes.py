"""REST routes for `langgraph dev` (`http.app` in `langgraph.json`).

Only some paths: LangGraph's server has its own `/metrics`, `/docs` and description.
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

PATHS = ("/api/{rest:path}", "/livez", "/healthz", "/readyz")


class PassThrough:
    """ASGI application that calls another one. A route takes only a class instance for an application, not a bound method."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


rest_app = build_app(Services.from_file())


def run_lifespan(_: Starlette) -> AbstractAsyncContextManager[Any]:
    return rest_app.router.lifespan_context(rest_app)


app = Starlette(routes=[Route(path, PassThrough(rest_app)) for path in PATHS], lifespan=run_lifespan)

"""Monitoring of the server: `/healthz`, `/readyz`, `/health` and `/metrics`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse

from outrider.interfaces.http.metrics import MEDIA_TYPE
from outrider.interfaces.http.problems import Refusal
from outrider.usecases.health import health as engine_health
from outrider.version import __version__

if TYPE_CHECKING:
    from outrider.interfaces.http.admission import Admission
    from outrider.interfaces.http.metrics import Metrics
    from outrider.services import Services


@dataclass(slots=True)
class HealthRoutes:
    """Handlers over a running server."""

    services: Services
    admission: Admission
    metrics: Metrics
    warm: bool = field(default=False)
    """Whether the models and indexes of searches are loaded."""

    async def alive(self) -> dict[str, str]:
        """The process answers."""
        return {"status": "ok"}

    async def ready(self) -> dict[str, str]:
        """Searches are accepted: models are loaded, and the server is not about to stop."""
        if self.admission.stopping or not self.warm:
            why = "this server is about to stop" if self.admission.stopping else "this server is still loading what searches need"
            raise Refusal(503, "not-ready", why, {"Retry-After": "1"})
        return {"status": "ready"}

    async def engine(self) -> dict[str, Any]:
        """Which parts of the engine are on, and why others are off; the status is `ok` while a library can be searched."""
        parts = await engine_health(self.services)
        return {
            "status": "ok" if parts[0].on else "off",
            "version": __version__,
            "parts": [part.model_dump(mode="json") for part in parts],
        }

    async def figures(self) -> Response:
        """For Prometheus."""
        return Response(self.metrics.text(), media_type=MEDIA_TYPE)


def make_router(handlers: HealthRoutes) -> APIRouter:
    router = APIRouter(tags=["operation"])
    router.add_api_route("/healthz", handlers.alive, methods=["GET"], summary="Whether the server is up")
    router.add_api_route("/readyz", handlers.ready, methods=["GET"], summary="Whether the server accepts searches")
    router.add_api_route("/health", handlers.engine, methods=["GET"], summary="State of the engine")
    router.add_api_route("/metrics", handlers.figures, methods=["GET"], summary="Metrics for Prometheus", response_class=PlainTextResponse)
    return router

"""`/healthz`, `/readyz`, `/health` and `/metrics`: for who watches the server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse

from outrider.interfaces.http import metrics as meters
from outrider.interfaces.http.problems import Refusal
from outrider.usecases.health import health as engine_health
from outrider.version import __version__

if TYPE_CHECKING:
    from outrider.interfaces.http.admission import Gate
    from outrider.interfaces.http.metrics import Metrics
    from outrider.services import Services


@dataclass(slots=True)
class Wellbeing:
    """What is told of a server that runs."""

    services: Services
    gate: Gate
    metrics: Metrics
    warm: bool = field(default=False)
    """Whether what searches need is loaded."""

    async def alive(self) -> dict[str, str]:
        """The process answers."""
        return {"status": "ok"}

    async def ready(self) -> dict[str, str]:
        """Searches are taken: models are loaded, and it is not about to stop."""
        if self.gate.stopping or not self.warm:
            why = "this server is about to stop" if self.gate.stopping else "this server is still loading what searches need"
            raise Refusal(503, "not-ready", why, {"Retry-After": "1"})
        return {"status": "ready"}

    async def engine(self) -> dict[str, Any]:
        """What of the engine is on, and why the rest is off; the status is `ok` while a library can be searched."""
        parts = await engine_health(self.services)
        return {
            "status": "ok" if parts[0].on else "off",
            "version": __version__,
            "parts": [part.model_dump(mode="json") for part in parts],
        }

    async def figures(self) -> Response:
        """For Prometheus."""
        return Response(self.metrics.text(), media_type=meters.MEDIA_TYPE)


def routes_of(well: Wellbeing) -> APIRouter:
    router = APIRouter(tags=["operation"])
    router.add_api_route("/healthz", well.alive, methods=["GET"], summary="Whether it is there")
    router.add_api_route("/readyz", well.ready, methods=["GET"], summary="Whether it takes searches")
    router.add_api_route("/health", well.engine, methods=["GET"], summary="What of the engine is on")
    router.add_api_route("/metrics", well.figures, methods=["GET"], summary="Figures for Prometheus", response_class=PlainTextResponse)
    return router

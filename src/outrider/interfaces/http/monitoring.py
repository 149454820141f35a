"""Monitoring of the server: `/livez`, `/healthz`, `/readyz`, `/health` and `/metrics`.

Names of metrics follow https://prometheus.io/docs/practices/naming/: seconds, `_total` for counters. Labels come from fixed sets of values,
so that no request can create new series.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from outrider.interfaces.http.problems import Refusal
from outrider.services.sources import open_shared_redis
from outrider.state.errors import SearchError
from outrider.usecases.health import health as engine_health
from outrider.version import __version__

if TYPE_CHECKING:
    from starlette.types import Scope

    from outrider.interfaces.http.request_limits import Admission
    from outrider.services import Services
    from outrider.state.response import Failure, Usage


log = logging.getLogger(__name__)

MEDIA_TYPE = CONTENT_TYPE_LATEST
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 60.0, 120.0)
ANSWERS = frozenset({"ok", "partial", "empty", "cached", "stale", "off"})
"""Statuses of a source that are no errors."""
READY_S = 10.0
"""Limit on the look at the library for `/readyz`."""
FROM_CACHE = frozenset({"cached", "stale"})
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Metrics:
    """A registry of its own for each server, so that two in one process do not mix."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

        def counter(name: str, description: str, *labels: str) -> Counter:
            return Counter(f"outrider_{name}", description, labels, registry=self.registry)

        def histogram(name: str, description: str, *labels: str) -> Histogram:
            return Histogram(f"outrider_{name}", description, labels, buckets=SECONDS, registry=self.registry)

        self.requests = counter("http_requests", "Requests answered, by route, method and status.", "route", "method", "status")
        self.searches = counter("searches", "Searches, by interface and outcome.", "door", "outcome")
        self.search_seconds = histogram("search_seconds", "Time of a search, without its time in the queue.", "door")
        self.node_seconds = histogram("node_seconds", "Time of a node of the pipeline.", "node")
        self.node_errors = counter("node_errors", "Failures of a node, by kind of error.", "node", "error")
        self.source_seconds = histogram("source_seconds", "Time of one search of a source.", "source")
        self.source_answers = counter("source_answers", "Searches of a source, by status.", "source", "status")
        self.source_errors = counter("source_errors", "Failed searches of a source, by status.", "source", "status")
        self.cache_hits = counter("cache_hits", "Searches of a source that the cache answered.", "source")
        self.model_calls = counter("model_calls", "Calls of a model, by node.", "node")
        self.model_tokens = counter("model_tokens", "Tokens of a model, by node and direction.", "node", "direction")
        self.model_cost = counter("model_cost_usd", "Cost of models whose prices are known, by node.", "node")

    def watch(self, admission: Admission) -> None:
        """Measure running and waiting requests at each scrape."""
        running = Gauge("outrider_searches_running", "Searches under way.", registry=self.registry)
        waiting = Gauge("outrider_requests_waiting", "Requests that wait for their turn.", registry=self.registry)
        running.set_function(lambda: admission.running)
        waiting.set_function(lambda: admission.waiting)

    def count_request(self, scope: Scope, status: int) -> None:
        route = str(getattr(scope.get("route"), "path", "none"))
        method = scope["method"] if scope["method"] in METHODS else "other"
        self.requests.labels(route, method, str(status or "cut")).inc()

    def count_search(self, door: str, outcome: str, took_s: float, state: Mapping[str, Any]) -> None:
        """Count one search; `state` has the fields that its nodes wrote: `timings_ms`, `failures`, `sources`, `usage`."""
        self.searches.labels(door, outcome).inc()
        self.search_seconds.labels(door).observe(took_s)
        for node, took_ms in state.get("timings_ms", {}).items():
            self.node_seconds.labels(node).observe(took_ms / 1000)
        failures: tuple[Failure, ...] = state.get("failures", ())
        for failure in failures:
            self.node_errors.labels(failure.node, failure.error).inc()
        for row in state.get("sources") or ():
            if not isinstance(row, str):  # names, until the scout has searched them
                self.source_answers.labels(row.source, row.status).inc()
                self.source_seconds.labels(row.source).observe(row.took_ms / 1000)
                if row.status not in ANSWERS:
                    self.source_errors.labels(row.source, row.status).inc()
                if row.status in FROM_CACHE:
                    self.cache_hits.labels(row.source).inc()
        usage: Usage | None = state.get("usage")
        for node, spent in (usage.by_node if usage else {}).items():
            self.model_calls.labels(node).inc(spent.calls)
            self.model_tokens.labels(node, "input").inc(spent.input_tokens)
            self.model_tokens.labels(node, "output").inc(spent.output_tokens)
            self.model_cost.labels(node).inc(spent.cost_usd or 0.0)

    def text(self) -> bytes:
        return generate_latest(self.registry)


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
        """Searches are accepted: models are loaded, the library can be read, and written where results are saved; no stop is under way.

        While there is no library yet, or the shared Redis server is away, `note` says so: searches work without.
        """
        if self.admission.leaving or not self.warm:
            why = "this server is about to stop" if self.admission.leaving else "this server is still loading what searches need"
            raise Refusal(503, "not-ready", why, {"Retry-After": "1"})
        redis = open_shared_redis(self.services.settings)
        lost = "the Redis server of shared.redis_url is unavailable, limits of services are divided" if redis and redis.fault else ""
        note = "; ".join(filter(None, (await self._check_library(), lost)))
        return {"status": "ready", **({"note": note} if note else {})}

    async def finish_start(self) -> None:
        """Models are loaded. The log names a library that is missing, which may be a wrong address, or cannot be used."""
        self.warm = True
        try:
            note = await self._check_library()
        except Refusal as refusal:
            note = f"this server is not ready: {refusal}"
        if note:
            log.warning("%s", note)

    async def _check_library(self) -> str:
        """A note on a library that does not exist yet. Raises `Refusal` (503) for one that cannot be used."""
        try:
            async with asyncio.timeout(READY_S):
                return await self.services.require_ready()
        except (SearchError, TimeoutError) as error:
            why = str(error) or f"the library did not answer within {READY_S:g} s"
            raise Refusal(503, "not-ready", why, {"Retry-After": "5"}) from error

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
    router.add_api_route("/livez", handlers.alive, methods=["GET"], summary="Whether the server is up, as Kubernetes names it")
    router.add_api_route("/healthz", handlers.alive, methods=["GET"], summary="Whether the server is up")
    router.add_api_route("/readyz", handlers.ready, methods=["GET"], summary="Whether the server accepts searches")
    router.add_api_route("/health", handlers.engine, methods=["GET"], summary="State of the engine")
    router.add_api_route("/metrics", handlers.figures, methods=["GET"], summary="Metrics for Prometheus", response_class=PlainTextResponse)
    return router

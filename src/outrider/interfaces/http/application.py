"""The HTTP application: its routes, and the middleware around them.

From the outside in::

    ResponseMiddleware   request number, security headers, answers for errors
    CORSMiddleware       only if the settings name other pages
    OriginCheck          the Host header, and the origin of requests
    KeyAuthentication
    RequestLimits        the body, complete and in time; work stops when the client disconnects
    AdmissionMiddleware  LangServe's requests count for the queue
    routes               the page, /search and /analyze (LangServe), /api (REST), /healthz, /readyz, /health, /metrics
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

from outrider.graph.analyze import build_analysis
from outrider.graph.pipeline import build
from outrider.interfaces.http import health, problems, rest, systematic
from outrider.interfaces.http.access import KeyAuthentication, OriginCheck
from outrider.interfaces.http.health import Metrics
from outrider.interfaces.http.langserve import AdmissionMiddleware, add_langserve_routes
from outrider.interfaces.http.middleware import ResponseMiddleware
from outrider.interfaces.http.openapi import describe
from outrider.interfaces.http.request_limits import Admission, RequestLimits
from outrider.interfaces.http.search_runs import GraphRunner, RunRegistry
from outrider.interfaces.web import routes as page
from outrider.nodes.dedup.cluster import WORKER_MODULES
from outrider.runtime.workers import count_cores
from outrider.state.errors import SearchError
from outrider.version import __version__

if TYPE_CHECKING:
    from outrider.services import Services
    from outrider.settings.sections import ServeSettings

log = logging.getLogger(__name__)

GC_THRESHOLD = 10_000, 5, 4
"""For `gc.set_threshold`. A search holds thousands of records until it ends: with Python's default (700, 10, 10), fifty searches of
`bench doors` triggered 770 collections, a tenth of their time; now some 25. Still fewer are faster, but memory grows.
"""
MAX_PROCESSES = 4
"""Default limit: beyond it the server's own process is the bottleneck."""
DESCRIPTION = "One request, searched everywhere at once: ranked works, the sentences that answer, and the trail to check them."


@dataclass(frozen=True, slots=True)
class Application:
    """The ASGI application with its queue and its searches."""

    app: FastAPI
    admission: Admission
    runs: RunRegistry

    def stop(self) -> None:
        """Accept no more searches; running ones continue."""
        self.admission.stopping = True


def build_application(services: Services, *, host: str = "127.0.0.1", needs_key: bool = False, alone: bool = False) -> Application:
    """Everything that a server on `host` offers; `alone` in its process. Raises nothing: the settings are validated already."""
    settings = services.settings.serve
    admission, metrics = Admission(settings.at_once, settings.queue, settings.queue_s), Metrics()
    metrics.watch(admission)
    runner = GraphRunner(services, build(services), build_analysis(services))
    runs = RunRegistry(runner, admission, metrics, settings.keep_runs, settings.keep_s)
    monitoring = health.HealthRoutes(services, admission, metrics)

    async def warm() -> None:
        await services.warm()
        if alone:  # the loaded modules stay: searching them for garbage costs every fourth search as much as the search
            gc.collect()
            gc.freeze()
            gc.set_threshold(*GC_THRESHOLD)
            count = min(MAX_PROCESSES, count_cores() - 1) if settings.processes is None else settings.processes
            services.workers.start(count, WORKER_MODULES, busy=lambda: admission.running > 1)
        monitoring.warm = True

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        threshold = gc.get_threshold()
        warming = asyncio.create_task(warm())
        try:
            yield
        finally:
            admission.stopping = True
            warming.cancel()
            if late := await runs.drain(settings.shutdown_s):
                log.warning("%d searches were not done within %g s and were stopped", late, settings.shutdown_s)
            await asyncio.gather(warming, return_exceptions=True)
            await runner.close()
            services.close()
            if alone:
                gc.unfreeze()
                gc.set_threshold(*threshold)

    app = FastAPI(
        title="Outrider", version=__version__, description=DESCRIPTION, lifespan=lifespan, docs_url=None, redoc_url=None,
        middleware=_make_middleware(settings, admission, metrics, host, needs_key=needs_key),
    )  # fmt: skip
    app.add_exception_handler(problems.Refusal, problems.handle_refusal)
    app.add_exception_handler(SearchError, problems.handle_search_error)
    app.add_exception_handler(RequestValidationError, problems.handle_invalid_request)
    app.add_exception_handler(HTTPException, problems.handle_http_error)
    app.include_router(health.make_router(monitoring))
    app.include_router(rest.make_router(rest.RestRoutes(services, runs)))
    app.include_router(systematic.make_router(systematic.SystematicRoutes(services, admission)))
    app.include_router(page.make_router(services, runs, admission))
    add_langserve_routes(app, runner, admission, metrics, settings.batch)
    describe(app)
    return Application(app, admission, runs)


def _make_middleware(settings: ServeSettings, admission: Admission, metrics: Metrics, host: str, *, needs_key: bool) -> list[Middleware]:
    cors = Middleware(
        CORSMiddleware,
        allow_origins=list(settings.origins),
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers=["Authorization", "X-API-Key", "Content-Type", "Prefer", "Last-Event-ID", "X-Thread-Id"],
        expose_headers=["Location", "Retry-After", "X-Request-Id"],
    )
    return [
        Middleware(ResponseMiddleware, metrics=metrics),
        *([cors] if settings.origins else []),
        Middleware(OriginCheck, hosts=frozenset({*settings.hosts, host.lower()}), pages=frozenset(settings.origins)),
        Middleware(KeyAuthentication, keys=settings.api_keys, required=needs_key),
        Middleware(RequestLimits, body_bytes=settings.body_bytes, body_s=settings.body_s, request_s=settings.request_s),
        Middleware(AdmissionMiddleware, admission=admission),
    ]

"""The application: routes inside, and around them, from the outside in, what every request goes through.

::

    envelope     a number, security headers, the end of every error
    cors         only where settings name other pages
    origins      the Host header, and who may send
    authenticated
    arrival      the body, whole and in time; work stops when the asker has gone
    admitted     LangServe's requests count for the queue
    routes       the page, /search and /analyze (LangServe), /api (REST), /healthz, /readyz, /health, /metrics
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
from outrider.interfaces.http import health as wellbeing
from outrider.interfaces.http import problems, rest
from outrider.interfaces.http import systematic as exact
from outrider.interfaces.http.admission import Gate
from outrider.interfaces.http.allowed_origins import Origins
from outrider.interfaces.http.auth import Authenticated
from outrider.interfaces.http.langserve import add_remote, admitted
from outrider.interfaces.http.metrics import Metrics
from outrider.interfaces.http.middleware import Envelope
from outrider.interfaces.http.openapi import describe
from outrider.interfaces.http.request_limits import Arrival
from outrider.interfaces.http.run_registry import Runs
from outrider.interfaces.http.run_search import Searching
from outrider.interfaces.web import routes as page
from outrider.nodes.dedup.cluster import WORKER_MODULES
from outrider.runtime.workers import count_cores
from outrider.state.errors import SearchError
from outrider.version import __version__

if TYPE_CHECKING:
    from outrider.services import Services

log = logging.getLogger(__name__)

GARBAGE_AFTER = 10_000, 5, 4
"""As of `gc.set_threshold`. A search holds thousands of records until it ends: with Python's own (700, 10, 10), fifty of `bench doors` were
interrupted 770 times to look for garbage, a tenth of their time, and now are some 25 times. Less often is faster still, but memory grows.
"""
MOST_PROCESSES = 4
"""Unless the settings name a number: beyond that a server's own process is what keeps searches waiting."""
ABOUT = "One request, searched everywhere at once: ranked works, the sentences that answer, and the trail to check them."


@dataclass(frozen=True, slots=True)
class Doors:
    """The application, and what stops it."""

    app: FastAPI
    gate: Gate
    runs: Runs

    def stop(self) -> None:
        """Take no more searches; those under way go on."""
        self.gate.stopping = True


def doors(services: Services, *, host: str = "127.0.0.1", needs_key: bool = False, alone: bool = False) -> Doors:
    """Everything that a server on `host` offers; `alone` in its process. Raises nothing: settings were checked when they were read."""
    settings = services.settings.serve
    gate, metrics = Gate(settings.at_once, settings.queue, settings.queue_s), Metrics()
    metrics.watch(gate)
    searching = Searching(services, build(services), build_analysis(services))
    runs = Runs(searching, gate, metrics, settings.keep_runs, settings.keep_s)
    well = wellbeing.Wellbeing(services, gate, metrics)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        threshold = gc.get_threshold()
        warming = asyncio.create_task(_warmed(services, well, gate, alone=alone))
        try:
            yield
        finally:
            gate.stopping = True
            warming.cancel()
            if late := await runs.drained(settings.shutdown_s):
                log.warning("%d searches were not done within %g s and were stopped", late, settings.shutdown_s)
            await asyncio.gather(warming, return_exceptions=True)
            await searching.close()
            services.close()
            if alone:
                gc.unfreeze()
                gc.set_threshold(*threshold)

    app = FastAPI(
        title="Outrider", version=__version__, description=ABOUT, lifespan=lifespan, docs_url=None, redoc_url=None,
        middleware=_layers(services, gate, metrics, host, needs_key=needs_key),
    )  # fmt: skip
    for kind, handler in (
        (problems.Refusal, problems.refused),
        (SearchError, problems.failed),
        (RequestValidationError, problems.invalid),
        (HTTPException, problems.of_http),
    ):
        app.add_exception_handler(kind, handler)
    app.include_router(wellbeing.routes_of(well))
    app.include_router(rest.routes_of(rest.Rest(services, runs)))
    app.include_router(exact.routes_of(exact.Exact(services, gate)))
    app.include_router(page.routes_of(services, runs, gate))
    add_remote(app, searching, gate, metrics, settings.batch)
    describe(app)
    return Doors(app, gate, runs)


def _layers(services: Services, gate: Gate, metrics: Metrics, host: str, *, needs_key: bool) -> list[Middleware]:
    settings = services.settings.serve
    cors = Middleware(
        CORSMiddleware,
        allow_origins=list(settings.origins),
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers=["Authorization", "X-API-Key", "Content-Type", "Prefer", "Last-Event-ID", "X-Thread-Id"],
        expose_headers=["Location", "Retry-After", "X-Request-Id"],
    )
    return [
        Middleware(Envelope, metrics=metrics),
        *([cors] if settings.origins else []),
        Middleware(Origins, hosts=frozenset({*settings.hosts, host.lower()}), pages=frozenset(settings.origins)),
        Middleware(Authenticated, keys=settings.api_keys, required=needs_key),
        Middleware(Arrival, body_bytes=settings.body_bytes, body_s=settings.body_s, request_s=settings.request_s),
        admitted(gate),
    ]


async def _warmed(services: Services, well: wellbeing.Wellbeing, gate: Gate, *, alone: bool) -> None:
    await services.warm()
    if alone:  # what was loaded stays: looking for garbage in it costs every fourth search as much as the search
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GARBAGE_AFTER)
        asked = services.settings.serve.processes
        count = min(MOST_PROCESSES, count_cores() - 1) if asked is None else asked
        services.workers.start(count, WORKER_MODULES, busy=lambda: gate.running > 1)
    well.warm = True

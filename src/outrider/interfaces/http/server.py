"""The HTTP application with its routes and middleware, and the process that serves it.

From the outside in::

    ResponseMiddleware   request number, security headers, answers for errors, a line of the log
    CORSMiddleware       only if the settings name other pages
    OriginCheck          the Host header, and the origin of requests
    KeyAuthentication
    RequestLimits        the body, complete and in time; work stops when the client disconnects
    AdmissionMiddleware  LangServe's requests count for the queue
    routes               the pages, /search and /analyze (LangServe), /api (REST), /livez, /healthz, /readyz, /health, /metrics
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ipaddress
import logging
import re
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import closing, redirect_stdout
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from uuid import uuid4

import uvicorn
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

from outrider.graph.analyze import build_analysis
from outrider.graph.citations import build_citations
from outrider.graph.pipeline import build
from outrider.interfaces.http import cite, jobs, learning, library, monitoring, problems, rest, review, saved, systematic, threads
from outrider.interfaces.http.access import KeyAuthentication, OriginCheck
from outrider.interfaces.http.graph_runner import GraphRunner
from outrider.interfaces.http.langserve import AdmissionMiddleware, add_langserve_routes
from outrider.interfaces.http.monitoring import Metrics
from outrider.interfaces.http.openapi import describe
from outrider.interfaces.http.problems import Refusal, make_response, refuse_full_disk
from outrider.interfaces.http.request_limits import Admission, Connection, RequestLimits, UploadReceiver
from outrider.interfaces.http.run_store import Limits, RunStore
from outrider.interfaces.http.search_runs import MAX_KEPT_CHARS, RunRegistry
from outrider.interfaces.http.warm_up import prepare_routes, warm_popular, warm_up
from outrider.interfaces.logs import ACCESS, log_server
from outrider.interfaces.web import routes as page
from outrider.nodes.dedup.cluster import WORKER_MODULES
from outrider.runtime.spans import run_named
from outrider.runtime.workers import count_cores
from outrider.services import error_tracker
from outrider.services.deployment import Deployment, check_shared
from outrider.services.job_process import run_jobs_beside
from outrider.settings.redact import Redactor
from outrider.state.errors import BadRequest, SearchError, is_disk_full
from outrider.state.reviews import NoSuchReview
from outrider.systematic_search.ledger import NoSuchRun
from outrider.version import __version__

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from outrider.services import Services
    from outrider.services.deployment import FolderKind
    from outrider.settings.model import Settings
    from outrider.settings.sections import ServeSettings

log = logging.getLogger(__name__)
access_log = logging.getLogger(ACCESS)

NOTHING_RUNS = "default-src 'none'; frame-ancestors 'none'"
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Content-Security-Policy": NOTHING_RUNS,
}
"""Defaults; an answer may set its own."""
CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
EXPECTED = (SearchError, Refusal)


class ResponseMiddleware:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
        else:
            request_id = str(uuid4())
            with run_named(request_id):  # of all lines that work for this request logs, and of a search that it starts
                await self._respond(scope, receive, send, request_id)

    async def _respond(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> None:
        is_head = scope["method"] == "HEAD"
        if is_head:
            scope = {**scope, "method": "GET"}  # the same answer, without the body
        scope.setdefault("state", {})["request_id"] = request_id
        status, is_complete, began = 0, False, time.perf_counter()

        async def send_message(message: Message) -> None:
            nonlocal status, is_complete
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = request_id
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            omits_body = is_head and message["type"] == "http.response.body"
            await send({"type": "http.response.body"} if omits_body else message)
            if omits_body and message.get("more_body"):
                is_complete = True
                raise OSError("a HEAD request has no body")  # as for a disconnected client: a stream ends here

        app: ASGIApp = self.app
        if CONTROL.search(scope["path"]):
            app = make_response(Refusal(400, "odd-path", "the path holds a control character"), request_id)
        try:
            await app(scope, receive, send_message)
        except Exception as error:  # noqa: BLE001 - nothing may reach the server's own error pages, which show internals
            if is_complete:
                return
            refusal = error if isinstance(error, Refusal) else _log_error(error, request_id)
            if not status:
                await make_response(refusal, request_id)(scope, receive, send_message)
        finally:
            answered = {**scope, "method": "HEAD"} if is_head else scope
            self.metrics.count_request(answered, status)
            _log_access(answered, status, time.perf_counter() - began)


def _log_access(scope: Scope, status: int, took_s: float) -> None:
    """A line with the numbers of request and search; the formatter adds that of the run, and hides keys in the address."""
    state, query = scope["state"], scope["query_string"].decode("latin-1")
    search_id = state.get("search_id") or scope.get("path_params", {}).get("run_id", "")
    address = quote(scope["path"]) + (f"?{query}" if query else "")
    fields = {
        "request": state["request_id"],
        **({"search": search_id} if search_id else {}),
        "method": scope["method"],
        "path": address,
        "status": status,
        "took_ms": round(took_s * 1_000, 3),
        **({"client": scope["client"][0]} if scope.get("client") else {}),
        **({"owner": state["owner"]} if state.get("owner") else {}),
    }
    access_log.info("%s %s %s", scope["method"], address, status or "cut", extra={"log_fields": fields})


def _log_error(error: Exception, request_id: str) -> Refusal:
    """The answer to an unexpected error. The log has all details under the number that the client receives."""
    if isinstance(error, ExceptionGroup) and error.split(EXPECTED)[1] is None:
        log.warning("request %s ended early: %s", request_id, "; ".join(str(one) for one in error.exceptions))
    else:
        log.error("request %s failed", request_id, exc_info=error)
    if is_disk_full(error):
        return refuse_full_disk()
    return Refusal(500, "internal", "an error of this server; its log has details under this problem's instance")


GC_THRESHOLD = 10_000, 5, 4
"""For `gc.set_threshold`. A search holds thousands of records until it ends: with Python's default (700, 10, 10), fifty searches of
`bench doors` triggered 770 collections, a tenth of their time; now some 25. Still fewer are faster, but memory grows.
"""
MAX_PROCESSES = 4
"""Default limit: beyond it the server's own process is the bottleneck."""
WORKERS_S = 10.0
"""Limit on the wait for the start of these processes, without which searches work as well."""
DESCRIPTION = "One request, searched everywhere at once: ranked works, the sentences that answer, and the trail to check them."


@dataclass(frozen=True, slots=True)
class Application:
    """The ASGI application with its queue and its searches."""

    app: FastAPI
    admission: Admission
    runs: RunRegistry

    def drain(self) -> None:
        """Tell load balancers to send nothing more; everything is still accepted."""
        self.admission.draining = True

    def stop(self) -> None:
        """Accept no more searches; running ones continue."""
        self.admission.stopping = True


def build_application(services: Services, *, host: str = "127.0.0.1", needs_key: bool = False, alone: bool = False) -> Application:
    """Everything that a server on `host` offers; `alone` in its process. Raises nothing: the settings are validated already."""
    settings = services.settings.serve
    admission, metrics = Admission(settings.at_once, settings.queue, settings.queue_s), Metrics()
    metrics.watch(admission)
    runner = GraphRunner(services, build(services), build_analysis(services), build_citations(services))
    runs = RunRegistry(runner, admission, metrics, settings.keep_runs, settings.keep_s, store=_open_run_store(services.settings))
    health = monitoring.HealthRoutes(services, admission, metrics)

    async def warm() -> None:
        prepare_routes(app)
        if alone:
            count = min(MAX_PROCESSES, count_cores() - 1) if settings.processes is None else settings.processes
            await services.workers.start(count, WORKER_MODULES, busy=lambda: admission.running > 1)
        await services.warm()
        await warm_up(services)
        await warm_popular(services)
        if alone:  # the loaded modules stay: searching them for garbage costs every fourth search as much as the search
            gc.collect()
            gc.freeze()
            gc.set_threshold(*GC_THRESHOLD)
            await services.workers.wait(WORKERS_S)  # while they start, they take the time of the first searches
        await health.finish_start()

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        threshold = gc.get_threshold()
        warming, tending = asyncio.create_task(warm()), asyncio.create_task(runs.tend())
        try:
            async with (
                Deployment.open(services.settings) as app.state.deployment,
                app.state.deployment.announce(services.library),
                run_jobs_beside(services.settings, lambda: admission.running > 0, enabled=alone),
            ):
                yield
        finally:
            admission.stopping = True
            warming.cancel()
            if late := await runs.drain(settings.shutdown_s):
                log.warning("%d searches were not done within %g s and were stopped here", late, settings.shutdown_s)
            tending.cancel()
            await asyncio.gather(warming, tending, return_exceptions=True)
            if runs.store:
                await runs.store.close()
            await runner.close()
            services.close()
            if alone:
                gc.unfreeze()
                gc.set_threshold(*threshold)

    app = FastAPI(
        title="Outrider", version=__version__, description=DESCRIPTION, lifespan=lifespan, docs_url=None, redoc_url=None,
        middleware=_make_middleware(services.settings, admission, metrics, host, needs_key=needs_key),
    )  # fmt: skip
    _handle_errors(app)
    for router in (
        monitoring.make_router(health),
        rest.make_router(rest.RestRoutes(services, runs)),
        threads.make_router(threads.ThreadRoutes(runs)),
        jobs.make_router(jobs.JobRoutes(services)),
        saved.make_router(saved.SavedRoutes(services)),
        learning.make_router(learning.LearningRoutes(services, runs)),
        cite.make_router(cite.CiteRoutes(services, admission)),
        review.make_router(review.ReviewRoutes(services, admission)),
        systematic.make_router(systematic.SystematicRoutes(services, admission)),
        library.make_router(library.LibraryRoutes(services, admission)),
        page.make_router(services, runs, admission),
    ):
        app.include_router(router)
    add_langserve_routes(app, runner, admission, metrics, settings.batch)
    describe(app)
    return Application(app, admission, runs)


def _handle_errors(app: FastAPI) -> None:
    app.add_exception_handler(problems.Refusal, problems.handle_refusal)
    app.add_exception_handler(SearchError, problems.handle_search_error)
    for missing in (NoSuchRun, NoSuchReview):
        app.add_exception_handler(missing, handle_missing_folder)
    app.add_exception_handler(RequestValidationError, problems.handle_invalid_request)
    app.add_exception_handler(HTTPException, problems.handle_http_error)


async def handle_missing_folder(request: Request, error: Exception) -> Response:
    """404 for a run or review that does not exist; 503 where it may exist at a server whose folder is another one."""
    assert isinstance(error, SearchError)  # noqa: S101 - it is registered for nothing else
    kind: FolderKind = "runs" if isinstance(error, NoSuchRun) else "reviews"
    deployment: Deployment | None = getattr(request.app.state, "deployment", None)
    if deployment is None or not await deployment.has_other_folder(kind):
        return await problems.handle_search_error(request, error)
    setting = "systematic.folder" if kind == "runs" else "review.folder"
    why = f"this server has no such folder, and another server keeps its {kind} elsewhere; set {setting} to storage that all servers share"
    return make_response(Refusal(503, "folder-elsewhere", why, {"Retry-After": "1"}), problems.read_request_id(request.scope))


def _open_run_store(settings: Settings) -> RunStore | None:
    """Where the processes of this server share their searches; None for one on its own."""
    url, serve = settings.shared.redis_url, settings.serve
    return RunStore(url, settings.shared.lease_s, Limits(serve.keep_runs, serve.keep_s, MAX_KEPT_CHARS)) if url else None


def _make_middleware(all_settings: Settings, admission: Admission, metrics: Metrics, host: str, *, needs_key: bool) -> list[Middleware]:
    settings = all_settings.serve
    uploads = UploadReceiver(
        re.compile(f"{library.FILES}|{review.FILES}"), all_settings.ingest.max_bytes, settings.uploads, settings.read_only
    )
    cors = Middleware(
        CORSMiddleware,
        allow_origins=list(settings.origins),
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers=["Authorization", "X-API-Key", "Content-Type", "Prefer", "Last-Event-ID", "X-Thread-Id"],
        expose_headers=["Location", "Retry-After", "X-Request-Id", "X-Search-Id"],
    )
    return [
        Middleware(ResponseMiddleware, metrics=metrics),
        *([cors] if settings.origins else []),
        Middleware(OriginCheck, hosts=frozenset({*settings.hosts, host.lower()}), pages=frozenset(settings.origins)),
        Middleware(KeyAuthentication, keys=settings.api_keys, required=needs_key),
        Middleware(RequestLimits, body_bytes=settings.body_bytes, body_s=settings.body_s, request_s=settings.request_s, uploads=uploads),
        Middleware(AdmissionMiddleware, admission=admission),
    ]


BACKLOG = 2_048


def open_socket(host: str, port: int) -> socket.socket:
    """A bound socket. Raises `BadRequest` where it cannot listen."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=BACKLOG)
    except OSError as error:
        raise BadRequest(f"cannot listen on {host}:{port}: {error.strerror or error}; choose another --port") from error


def format_address(host: str, bound: socket.socket) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{bound.getsockname()[1]}"


HEAD_BYTES = 32 * 1024
IDLE_S = 75
"""Time that a connection stays open for its next request: longer than in httpx (5 s) and nginx (60 s), because a request that is sent while
the server closes the connection is lost.
"""


DRAIN_LOOK_S = 0.05
"""How often a draining server looks for a second Ctrl-C."""


class Server(uvicorn.Server):
    """Asked to stop, it is not ready for `drain_s`, then refuses new searches, and waits for running ones."""

    def __init__(self, config: uvicorn.Config, application: Application, drain_s: float = 0.0) -> None:
        super().__init__(config)
        self._application = application
        self._drain_s = drain_s

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._application.drain()
        until = time.monotonic() + self._drain_s
        while time.monotonic() < until and not self.force_exit:  # noqa: ASYNC110 - a signal's handler sets the flag
            await asyncio.sleep(DRAIN_LOOK_S)
        self._application.stop()
        await super().shutdown(sockets)


def serve(services: Services, host: str, port: int) -> None:
    settings = services.settings.serve
    needs_key = requires_key(settings, host)
    check_shared(services.settings)
    with closing(open_socket(host, port)) as bound, redirect_stdout(sys.stderr):  # standard output is for results
        server = make_server(services, host, needs_key=needs_key, alone=True)  # uvicorn binds the streams of its logs here
        keys = f"keys of {', '.join(sorted(settings.api_keys))}" if needs_key else "no key is required"
        greeting = f"Outrider answers at {format_address(host, bound)} - {keys} - Ctrl-C stops it"
        log_server(Redactor.from_settings(services.settings))
        error_tracker.start(services.settings, loggers=error_tracker.SERVER_LOGGERS)
        if sys.stderr.isatty():
            sys.stderr.write(f"{greeting}\n")
        else:  # a program reads the log: every line is JSON
            access_log.info("%s", greeting)
        # uvicorn raises the signal again when it has shut down: by default that kills the process before it has closed its semaphores
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
        server.run(sockets=[bound])


def make_server(services: Services, host: str, *, needs_key: bool, log_level: str = "info", alone: bool = False) -> Server:
    settings = services.settings.serve
    application = build_application(services, host=host, needs_key=needs_key, alone=alone)
    protocol: Any = partial(Connection, most=settings.connections, head_s=settings.body_s)
    config = uvicorn.Config(
        application.app,
        log_config=None,  # its lines go to the handlers of this process, and ours name the request
        access_log=False,
        log_level=log_level,
        http=protocol,
        ws="none",
        server_header=False,
        proxy_headers=bool(settings.proxies),
        forwarded_allow_ips=list(settings.proxies),
        h11_max_incomplete_event_size=HEAD_BYTES,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=max(1, round(settings.shutdown_s)),
    )
    return Server(config, application, settings.drain_s)


def requires_key(settings: ServeSettings, host: str) -> bool:
    """Whether requests need a key. Raises `BadRequest` where they do and the settings hold none."""
    needed = settings.authentication == "always" or not is_loopback(host)
    if needed and not settings.api_keys:
        where = "serve.authentication is always" if is_loopback(host) else f"--host {host} can be reached from other machines"
        raise BadRequest(f"{where}, and serve.api_keys holds no key; make one with: outrider serve key NAME")
    return needed


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

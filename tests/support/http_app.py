"""The server for tests: over services in memory without a socket, or for real on a free port."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from outrider.services import Services
from outrider.settings.model import Settings, SharedSettings
from outrider.settings.sections import ServeSettings
from support import fakes
from support.fakes import Shelf, paper

BASE = "http://127.0.0.1"
SHARED = SharedSettings()
"""Of the servers that a test starts; the fixture `run_store` changes it."""
ASPIRIN = paper("a", "Aspirin and the liver", abstract="Aspirin harms the liver at high doses.", year=2020)
STATINS = paper("b", "Statins in practice", abstract="Statins lower cholesterol.", year=2001)


def services(*records: Any, shelf: Shelf | None = None, **serve: Any) -> Services:
    """A library in memory, and settings of the server."""
    library = shelf or Shelf(list(records or (ASPIRIN, STATINS)))
    settings = Settings(serve=ServeSettings(**serve), shared=SHARED)
    return Services(settings, clock=lambda: fakes.NOON, shelf=library, sources=(library,), reranker=fakes.no_reranker)


@dataclass
class BlockingLibrary(Shelf):
    """A library that answers when it is let."""

    let: asyncio.Event = field(default_factory=asyncio.Event)
    begun: int = 0
    stopped: int = 0

    async def search(self, query: Any) -> Any:
        self.begun += 1
        try:
            await self.let.wait()
        except asyncio.CancelledError:
            self.stopped += 1
            raise
        return await super().search(query)


@asynccontextmanager
async def open_client(own_services: Services, *, needs_key: bool = False, **client: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the application in this loop, without a socket."""

    def build() -> Any:
        from outrider.interfaces.http.server import build_application

        return build_application(own_services, needs_key=needs_key)

    opened = await asyncio.to_thread(build)  # as in a server: before its loop
    transport = httpx.ASGITransport(opened.app, raise_app_exceptions=False)
    async with opened.app.router.lifespan_context(opened.app), httpx.AsyncClient(transport=transport, base_url=BASE, **client) as http:
        http.application = opened  # type: ignore[attr-defined]
        yield http


@contextmanager
def running(own_services: Services, *, needs_key: bool = False) -> Iterator[str]:
    """A real server on a free loopback port; gives its address."""
    from outrider.interfaces.http.server import make_server

    with ThreadPoolExecutor(1) as pool:  # not on the loop of the test, if it has one
        server = pool.submit(make_server, own_services, "127.0.0.1", needs_key=needs_key, log_level="critical").result()
    server.config.port = 0
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    _until(lambda: server.started, thread)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(timeout=120)


async def until(holds: Callable[[], bool], within_s: float = 300.0) -> None:
    """Patience for a busy machine: waits for what must come, for nothing else."""
    async with asyncio.timeout(within_s):
        while not holds():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.01)


def _until(holds: Callable[[], bool], thread: threading.Thread) -> None:
    for _ in range(12_000):
        if holds():
            return
        assert thread.is_alive(), "the server ended before it started"
        time.sleep(0.01)

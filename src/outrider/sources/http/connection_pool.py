"""The HTTP clients of the process, one for each service at its address. Used on the background loop only.

A client looks through all its connections at each request, more than once: with one client for all services, and several searches under
way, that takes longer than the request.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from outrider.runtime.background_loop import run_in_background
from outrider.sources.http.response_body import ACCEPTED

if TYPE_CHECKING:
    import ssl

    import httpx

KEPT_OPEN, KEPT_OPEN_S = 40, 30.0
"""Connections of one client that wait for the next request, and for how long."""
MOST = 16
"""Clients that are kept: more than there are services."""
CLOSED_WITHIN_S = 1.0
TALKATIVE = ("httpx", "hpack.hpack", "hpack.table")
"""Loggers that write whole addresses and headers, with keys in them."""

_asking: ContextVar[bool] = ContextVar("_asking", default=False)


@dataclass(slots=True)
class _Held:
    client: httpx.AsyncClient
    requests: int = 0
    """Under way."""


_held: OrderedDict[tuple[str, str], _Held] = OrderedDict()
"""By service and origin, the one that was used last at the end."""
_closing: set[asyncio.Task[None]] = set()


@contextmanager
def client_of(service: str, url: httpx.URL) -> Iterator[httpx.AsyncClient]:
    """The client for one request. It keeps no cookies and follows no redirect: whether to is for who asks. Proxies of the environment
    are used.
    """
    key = service, f"{url.scheme}://{url.netloc.decode()}"
    held = _held.pop(key, None) or _Held(_made())
    _held[key] = held
    held.requests += 1
    try:
        yield held.client
    finally:
        held.requests -= 1
        _close_the_oldest()


@contextmanager
def unlogged() -> Iterator[None]:
    """What the libraries log of requests that are made here says too much; of others' requests it is let be."""
    before = _asking.set(True)
    try:
        yield
    finally:
        _asking.reset(before)


def close_all() -> None:
    """Connections that are kept open would be complained about when the process ends."""
    with suppress(TimeoutError):
        run_in_background(asyncio.wait_for(_all_closed(), CLOSED_WITHIN_S))


async def _all_closed() -> None:
    closing = [held.client.aclose() for held in _held.values()]
    _held.clear()
    await asyncio.gather(*closing, *_closing)


def _close_the_oldest() -> None:
    while len(_held) > MOST and (idle := next((key for key, held in _held.items() if not held.requests), None)):
        closing = asyncio.create_task(_held.pop(idle).client.aclose())
        _closing.add(closing)
        closing.add_done_callback(_closing.discard)


def _made() -> httpx.AsyncClient:
    from http.cookiejar import CookieJar, DefaultCookiePolicy

    import httpx

    _begin()
    return httpx.AsyncClient(
        verify=_believed(),
        http2=True,
        timeout=None,  # noqa: S113 - each request brings its time
        follow_redirects=False,
        headers={"Accept-Encoding": ACCEPTED},
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=KEPT_OPEN, keepalive_expiry=KEPT_OPEN_S),
    )


@cache
def _begin() -> None:
    """Once for a process, before the first request."""
    for name in TALKATIVE:
        logging.getLogger(name).addFilter(_is_not_ours)
    atexit.register(close_all)


@cache
def _believed() -> ssl.SSLContext:
    """Whose certificates are believed, for all clients; reading them takes longer than a request."""
    import httpx

    return httpx.create_ssl_context()


def _is_not_ours(_: logging.LogRecord) -> bool:
    return not _asking.get()

"""HTTP transport: one request over a shared client, and its response up to a size limit

The process has one client for each service and origin, used on the background loop only. A client scans all its connections at each
request, more than once: with one client for all services and several searches under way, that takes longer than the request.

Bodies are decompressed here, piece by piece: httpx would decompress a whole part, and one layer after another, a million times its size,
before its size can be checked. One layer of gzip is accepted, which is all that is requested (`ACCEPTED`).
"""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import json
import logging
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from outrider.runtime.threads_and_loops import run_in_background
from outrider.sources.http.service import Service
from outrider.state.errors import Malformed, SourceError, SourceTimeout, SourceUnavailable
from outrider.text.sanitize import find_proxy_fault, without_password

if TYPE_CHECKING:
    import ssl

    import httpx

SENT_EVENT = "send_request_body.complete"
"""An event of httpcore's (`trace`, www.encode.io/httpcore/extensions), of HTTP/1.1 and HTTP/2, also for a request without a body."""
ACCEPTED = "gzip"
"""For Accept-Encoding."""
KEEP_OPEN, KEEP_OPEN_S = 40, 30.0
"""Idle connections of one client, and how long they stay open."""
MOST_CLIENTS = 16
"""Clients that stay open: more than there are services."""
CLOSED_WITHIN_S = 1.0
TALKATIVE = ("httpx", "hpack.hpack", "hpack.table")
"""Loggers that write whole URLs and headers, with keys in them."""

log = logging.getLogger(__name__)
_sending: ContextVar[bool] = ContextVar("_sending", default=False)


@dataclass(frozen=True, slots=True)
class Request:
    """`url` and `headers` do not include what goes with every request of the service, which may be secret."""

    service: Service
    method: str
    url: httpx.URL
    headers: Mapping[str, str]
    body: str | None
    accept: frozenset[int]

    @property
    def display_url(self) -> str:
        return without_password(str(self.url))

    @property
    def key(self) -> str:
        """Cache key: a hash of everything that decides the response, including credentials, which decide what is visible."""
        credentials = [dict(self.service.headers), dict(self.service.params), self.url.userinfo.decode()]
        parts = [self.service.name, self.method, self.display_url, dict(self.headers), self.body, credentials]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def __str__(self) -> str:
        """For a message: the URL without the query."""
        return self.service.redact(without_password(str(self.url.copy_with(query=None))))


class Unreachable(SourceUnavailable):
    """No connection: without a network, a retry in a second fails as well."""


class Response(NamedTuple):
    """A response with its decompressed body."""

    status: int
    headers: Mapping[str, str]
    """By lower-case name."""
    body: bytes


def build_url(service: Service, path: str, params: Mapping[str, str | int | float]) -> httpx.URL:
    import httpx

    try:
        return httpx.URL(service.base_url.rstrip("/") + path).copy_merge_params(params)
    except (httpx.InvalidURL, UnicodeError) as error:
        reason = service.redact(error)
        raise SourceUnavailable(f"{service.name} cannot take this query; use fewer or other words: {reason}") from None


async def send(request: Request, agent: str, within_s: float, mark_sent: Callable[[], None]) -> Response:
    """Raises `SourceTimeout` and `SourceUnavailable` for failures that may pass, and `Malformed`.

    `mark_sent` is called when the request leaves this process, again if it does so on a second connection. No error raised holds the
    client's own: that may show a key.
    """
    import httpx

    service = request.service

    async def trace(event: str, _: object) -> None:
        if event.endswith(SENT_EVENT):
            mark_sent()

    headers = {"User-Agent": agent, **request.headers, **service.headers}
    if request.body is not None:
        headers = {"Content-Type": "application/json", **headers}
    url, extensions = request.url.copy_merge_params(service.params), {"trace": trace}
    failure: SourceError
    try:
        with quiet_loggers(), shared_client(service.name, url) as client:
            async with asyncio.timeout(max(within_s, 0.0)):
                async with client.stream(request.method, url, headers=headers, content=request.body, extensions=extensions) as stream:
                    body = await read_body(stream, service.most_bytes, f"{service.name} answered {request} with", service.redact)
                    response = Response(stream.status_code, dict(stream.headers), body)
    except TimeoutError:
        failure = SourceTimeout(f"{service.name} did not respond to {request} within {max(within_s, 0.0):.3g} s; retry later")
    except httpx.HTTPError as error:
        why = service.redact(str(error) or type(error).__name__)
        if isinstance(error, httpx.ConnectError):
            failure = Unreachable(f"{service.name} is unreachable (no network?): {request}: {why}; retry later")
        else:
            failure = SourceUnavailable(f"{service.name} could not be queried: {request}: {why}; retry later")
    else:
        log.debug("%s %s: %d, %d bytes", request.method, request, response.status, len(response.body))
        return response
    raise failure


async def read_body(response: httpx.Response, most: int, what: str, show: Callable[[object], str] = repr) -> bytes:
    """The whole body, at most `most` bytes both compressed and decompressed.

    Raises `Malformed`, whose message begins with `what`, for a larger body, another encoding or broken data, and
    `httpx.RemoteProtocolError` for a body that was cut short. `show` formats a header of the service for a message.
    """
    size = response.headers.get("content-length", "")
    body = b"" if size.isdecimal() and int(size) > most else await read_body_start(response, most + 1, what, show)
    if len(body) > most or (size.isdecimal() and int(size) > most):
        raise Malformed(f"{what} more than {most:,} bytes, the most that is read")
    return body


async def read_body_start(response: httpx.Response, most: int, what: str, show: Callable[[object], str] = repr) -> bytes:
    """At most `most` bytes; the rest is neither decompressed nor awaited. Raises as `read_body` does, except for the size."""
    body, received = bytearray(), 0
    encoding = response.headers.get("content-encoding", "").lower() or "identity"
    if encoding not in {"identity", ACCEPTED}:
        raise Malformed(f"{what} a body encoded as {show(encoding)}, which was not requested")
    gzip = zlib.decompressobj(zlib.MAX_WBITS | 16) if encoding == ACCEPTED else None
    async for part in response.aiter_raw():
        received += len(part)
        try:
            body += gzip.decompress(part, most - len(body)) if gzip else part[: most - len(body)]
        except zlib.error as error:
            raise Malformed(f"{what} a body that cannot be decompressed: {error}") from None
        if len(body) >= most:
            return bytes(body)
        if received > 2 * most:  # gzip makes nothing twice as long: these are bytes after the end
            raise Malformed(f"{what} more than {most:,} bytes, the most that is read")
    if gzip and received and not gzip.eof:
        import httpx

        raise httpx.RemoteProtocolError("its response was cut short")
    return bytes(body)


@dataclass(slots=True)
class _PooledClient:
    client: httpx.AsyncClient
    requests: int = 0
    """Under way."""


_clients: OrderedDict[tuple[str, str], _PooledClient] = OrderedDict()
"""By service and origin, the most recently used one last."""
_closing: set[asyncio.Task[None]] = set()


@contextmanager
def shared_client(service: str, url: httpx.URL) -> Iterator[httpx.AsyncClient]:
    """The client for one request. It keeps no cookies, follows no redirect and uses proxies of the environment."""
    key = service, f"{url.scheme}://{url.netloc.decode()}"
    pooled = _clients.pop(key, None)
    if pooled is None:
        if fault := find_proxy_fault():
            raise SourceError(f"{service} cannot be queried: {fault}")
        _prepare_process()
        pooled = _PooledClient(_make_client())
    _clients[key] = pooled
    pooled.requests += 1
    try:
        yield pooled.client
    finally:
        pooled.requests -= 1
        while len(_clients) > MOST_CLIENTS and (idle := next((key for key, one in _clients.items() if not one.requests), None)):
            closing = asyncio.create_task(_clients.pop(idle).client.aclose())
            _closing.add(closing)
            closing.add_done_callback(_closing.discard)


def _make_client() -> httpx.AsyncClient:
    from http.cookiejar import CookieJar, DefaultCookiePolicy

    import httpx

    return httpx.AsyncClient(
        verify=_ssl_context(),
        http2=True,
        timeout=None,  # noqa: S113 - each request has its own limit
        follow_redirects=False,
        headers={"Accept-Encoding": ACCEPTED},
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=KEEP_OPEN, keepalive_expiry=KEEP_OPEN_S),
    )


def load_client() -> None:
    """Import all that a client needs, and read the trusted certificates. Blocks for a fifth of a second."""
    if not find_proxy_fault():  # requests report it
        _make_client()


@contextmanager
def quiet_loggers() -> Iterator[None]:
    """Suppress the libraries' log lines on requests sent here, which show too much; those on other requests stay."""
    _add_log_filters()
    before = _sending.set(True)
    try:
        yield
    finally:
        _sending.reset(before)


def close_clients() -> None:
    """Open connections would cause warnings when the process ends."""

    async def close() -> None:
        closing = [pooled.client.aclose() for pooled in _clients.values()]
        _clients.clear()
        await asyncio.gather(*closing, *_closing)

    with suppress(TimeoutError):
        run_in_background(asyncio.wait_for(close(), CLOSED_WITHIN_S))


@cache
def _prepare_process() -> None:
    """Once for a process, before the first request."""
    atexit.register(close_clients)


@cache
def _add_log_filters() -> None:
    for name in TALKATIVE:
        logging.getLogger(name).addFilter(lambda _: not _sending.get())


@cache
def _ssl_context() -> ssl.SSLContext:
    """Trusted certificates, for all clients; reading them takes longer than a request."""
    import httpx

    return httpx.create_ssl_context()

"""One request over a client of the process, and its answer, read up to a bound. Used on the background loop only.

The body of an answer, read up to a bound: of a service, a page, a robots.txt.

It is unpacked here, bit by bit: httpx would unpack a whole part, and one layer after another, a million times its size, before it can be
measured. One layer of gzip is taken, which is all that is asked for (`ACCEPTED`).

The HTTP clients of the process, one for each service at its address. Used on the background loop only.

A client looks through all its connections at each request, more than once: with one client for all services, and several searches under
way, that takes longer than the request.
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

from outrider.runtime.background_loop import run_in_background
from outrider.sources.http.service import Service
from outrider.state.errors import Malformed, SourceError, SourceTimeout, SourceUnavailable
from outrider.text.sanitize import without_password

if TYPE_CHECKING:
    import ssl

    import httpx


WRITTEN = "send_request_body.complete"
"""An event of httpcore's (`trace`, www.encode.io/httpcore/extensions), of HTTP/1.1 and HTTP/2, also for a request without a body."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Asked:
    """`url` and `headers` are without what goes with every request of the service, which may be secret."""

    service: Service
    method: str
    url: httpx.URL
    headers: Mapping[str, str]
    body: str | None
    accept: frozenset[int]

    @property
    def shown(self) -> str:
        return without_password(str(self.url))

    @property
    def key(self) -> str:
        """Of the cache: a hash of everything that decides the answer, also of who asks, who may see what others may not."""
        who = [dict(self.service.headers), dict(self.service.params), self.url.userinfo.decode()]
        said = [self.service.name, self.method, self.shown, dict(self.headers), self.body, who]
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()

    def __str__(self) -> str:
        """For a message: the address without the question."""
        return self.service.shown(without_password(str(self.url.copy_with(query=None))))


class Unreachable(SourceUnavailable):
    """No connection: without a network, the next second has none either."""


class Said(NamedTuple):
    status: int
    headers: Mapping[str, str]
    """By lower-case name."""
    body: bytes


def address(service: Service, path: str, params: Mapping[str, str | int | float]) -> httpx.URL:
    import httpx

    try:
        return httpx.URL(service.base_url.rstrip("/") + path).copy_merge_params(params)
    except (httpx.InvalidURL, UnicodeError) as error:
        raise SourceUnavailable(f"{service.name} cannot be asked this; ask with less or other words: {service.shown(error)}") from None


async def exchanged(asked: Asked, agent: str, within_s: float, written: Callable[[], None]) -> Said:
    """Raises `SourceTimeout` and `SourceUnavailable` for what may be of the moment, and `Malformed`.

    `written` is called when the request leaves this process, again where it does so on a second connection. No error raised holds
    the client's own: that may show a key.
    """
    import httpx

    failure: SourceError
    try:
        with unlogged():
            async with asyncio.timeout(max(within_s, 0.0)):
                return await _sent(asked, agent, written)
    except TimeoutError:
        failure = SourceTimeout(f"{asked.service.name} did not answer {asked} within {max(within_s, 0.0):.3g} s; try again later")
    except httpx.HTTPError as error:
        why = asked.service.shown(str(error) or type(error).__name__)
        kind = Unreachable if isinstance(error, httpx.ConnectError) else SourceUnavailable
        failure = kind(f"{asked.service.name} could not be asked {asked}: {why}; try again later")
    raise failure


async def _sent(asked: Asked, agent: str, written: Callable[[], None]) -> Said:
    service = asked.service

    async def trace(event: str, _: object) -> None:
        if event.endswith(WRITTEN):
            written()

    headers = {"User-Agent": agent, **asked.headers, **service.headers}
    if asked.body is not None:
        headers = {"Content-Type": "application/json", **headers}
    url = asked.url.copy_merge_params(service.params)
    with client_of(service.name, url) as client:
        async with client.stream(asked.method, url, headers=headers, content=asked.body, extensions={"trace": trace}) as response:
            what = f"{service.name} answered {asked} with"
            body = await whole(response, service.most_bytes, what, service.shown)
            said = Said(response.status_code, dict(response.headers), body)
    log.debug("%s %s: %d, %d bytes", asked.method, asked, said.status, len(said.body))
    return said


ACCEPTED = "gzip"
"""For Accept-Encoding."""


async def whole(response: httpx.Response, most: int, what: str, shown: Callable[[object], str] = repr) -> bytes:
    """All of it, at most so many bytes, packed and unpacked.

    Raises `Malformed`, which begins with `what`, for more, for another packing and for what cannot be unpacked, and
    `httpx.RemoteProtocolError` for what was cut short. `shown` is how a header of theirs may be shown.
    """
    size = response.headers.get("content-length", "")
    if size.isdecimal() and int(size) > most:
        raise _more(what, most)
    body = await beginning(response, most + 1, what, shown)
    if len(body) > most:
        raise _more(what, most)
    return body


async def beginning(response: httpx.Response, most: int, what: str, shown: Callable[[object], str] = repr) -> bytes:
    """At most so many bytes; the rest is neither unpacked nor waited for. Raises as `whole` does, but for its size."""
    body, came = bytearray(), 0
    packing = response.headers.get("content-encoding", "").lower() or "identity"
    if packing not in {"identity", ACCEPTED}:
        raise Malformed(f"{what} what is packed with {shown(packing)}, which was not asked for")
    unpacking = zlib.decompressobj(zlib.MAX_WBITS | 16) if packing == ACCEPTED else None
    async for part in response.aiter_raw():
        came += len(part)
        try:
            body += unpacking.decompress(part, most - len(body)) if unpacking else part[: most - len(body)]
        except zlib.error as error:
            raise Malformed(f"{what} what cannot be unpacked: {error}") from None
        if len(body) >= most:
            return bytes(body)
        if came > 2 * most:  # gzip makes nothing twice as long: this is no end of it, but what comes after
            raise _more(what, most)
    if unpacking and came and not unpacking.eof:
        import httpx

        raise httpx.RemoteProtocolError("its answer was cut short")
    return bytes(body)


def _more(what: str, most: int) -> Malformed:
    return Malformed(f"{what} more than {most:,} bytes, which is all that is read")


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

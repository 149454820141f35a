"""One request over a client of the process, and its answer, read up to a bound. Used on the background loop only."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from outrider.sources.http.connection_pool import client_of, unlogged
from outrider.sources.http.response_body import whole
from outrider.sources.http.service import Service
from outrider.state.errors import SourceError, SourceTimeout, SourceUnavailable
from outrider.text.sanitize import without_password

if TYPE_CHECKING:
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

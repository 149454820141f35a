"""Checks of the `Host` and `Origin` headers against DNS rebinding and cross-site requests.

A web page can reach a server on this machine in two ways: by its own name that resolves to this machine (DNS rebinding), which `Host`
reveals, and by a form or script that sends without reading the answer, which `Origin` reveals.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from outrider.interfaces.http.problems import Refusal

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class OriginCheck:
    """ASGI middleware. An IP address as `Host` is always accepted: DNS rebinding needs a name."""

    app: ASGIApp
    hosts: frozenset[str]
    """Names beside `localhost`, in lower case."""
    pages: frozenset[str]
    """Origins of other servers' pages that may send requests."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            host = headers.get("host", "")
            name = parse_host(host)
            if name != "localhost" and name not in self.hosts and not is_address(name):
                raise Refusal(400, "unknown-host", "this server is not known by that name; set serve.allowed_hosts where it should be")
            if scope["method"] not in SAFE_METHODS:
                self._check_origin(headers, host)
        await self.app(scope, receive, send)

    def _check_origin(self, headers: Headers, host: str) -> None:
        origin = headers.get("origin", "").lower()
        if not origin and headers.get("sec-fetch-site", "none") not in ("cross-site", "same-site"):
            return  # no browser, or a page of this server
        if origin not in self.pages and urlsplit(origin).netloc != host.lower():
            raise Refusal(403, "cross-site", "pages of other servers may not ask; set serve.cors_origins where one should")


def parse_host(host: str) -> str:
    """A `Host` header without its port; empty if it is invalid."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True

"""Access to the server: API keys, and checks of the `Host` and `Origin` headers.

A key is 256 random bits, so one round of SHA-256 is enough: it cannot be guessed, and a slow hash would let anybody keep a server busy.

The headers are checked against DNS rebinding and cross-site requests. A web page can reach a server on this machine in two ways: by its
own name that resolves to this machine (DNS rebinding), which `Host` reveals, and by a form or script that sends without reading the
answer, which `Origin` reveals.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from outrider.interfaces.http.problems import Refusal
from outrider.interfaces.web.static_files import addresses
from outrider.services.citation_queue import OWNER

if TYPE_CHECKING:
    from pydantic import SecretStr
    from starlette.types import ASGIApp, Receive, Scope, Send


PREFIX = "outrider_"
CHALLENGE = {"WWW-Authenticate": 'Bearer realm="outrider"'}
PROBES = frozenset({"/livez", "/healthz", "/readyz"})
"""Paths of health checks. A load balancer may ask with HTTP/1.0, which has no `Host`; every browser sends one."""
OPEN = frozenset({*PROBES, *addresses()})
"""Paths that need no key: whether the server is up, and the page's own files, which hold no data."""
ANYBODY = ""
"""The owner of requests without a key."""
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def new_key() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def hash_key(key: str) -> str:
    """The form in which the settings hold a key."""
    return "sha256:" + hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def find_owner(key: str, hashes: Mapping[str, SecretStr]) -> str | None:
    """The owner of a key, or None. Compares with every hash, so that the time taken reveals nothing."""
    key_hash, owner = hash_key(key), None
    for name, stored in hashes.items():
        if hmac.compare_digest(key_hash, stored.get_secret_value()):
            owner = name
    return owner


@dataclass(frozen=True, slots=True)
class KeyAuthentication:
    """ASGI middleware. Puts the key's owner into the request's state as `owner`."""

    app: ASGIApp
    keys: Mapping[str, SecretStr]
    required: bool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN:
            headers = Headers(scope=scope)
            scheme, _, bearer = headers.get("authorization", "").partition(" ")
            key = (bearer if scheme.lower() == "bearer" else headers.get("x-api-key", "")).strip()
            owner: str | None = ANYBODY
            if self.required or (key and self.keys):
                if not key:
                    raise Refusal(401, "key-missing", "this server wants a key: send it as Authorization: Bearer KEY", CHALLENGE)
                owner = find_owner(key, self.keys)
                if owner is None:
                    raise Refusal(401, "key-rejected", "this server does not know that key", CHALLENGE)
            scope.setdefault("state", {})["owner"] = owner
            OWNER.set(owner)  # of what this request starts, such as a search and the jobs that it queues
        await self.app(scope, receive, send)


@dataclass(frozen=True, slots=True)
class OriginCheck:
    """ASGI middleware. An IP address as `Host` is always accepted: DNS rebinding needs a name."""

    app: ASGIApp
    hosts: frozenset[str]
    """Names besides `localhost`, in lower case."""
    pages: frozenset[str]
    """Origins of other servers' pages that may send requests."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            host = headers.get("host", "")
            name = parse_host(host)
            is_known = name == "localhost" or name in self.hosts or is_address(name)
            if not is_known and (host or scope["path"] not in PROBES):
                raise Refusal(400, "unknown-host", "this server is not known by that name; set serve.allowed_hosts where it should be")
            if scope["method"] not in SAFE_METHODS:
                origin = headers.get("origin", "").lower()
                # without either header it is no browser, or a page of this server
                is_browser = origin or headers.get("sec-fetch-site", "none") in ("cross-site", "same-site")
                if is_browser and origin not in self.pages and urlsplit(origin).netloc != host.lower():
                    raise Refusal(403, "cross-site", "pages of other servers may not ask; set serve.cors_origins where one should")
        await self.app(scope, receive, send)


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

"""API keys: generation, storage as hashes, and the check of every request.

A key is 256 random bits, so one round of SHA-256 is enough: it cannot be guessed, and a slow hash would let anybody keep a server busy.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.datastructures import Headers

from outrider.interfaces.http.problems import Refusal
from outrider.interfaces.web.static_files import addresses

if TYPE_CHECKING:
    from pydantic import SecretStr
    from starlette.types import ASGIApp, Receive, Scope, Send


PREFIX = "outrider_"
CHALLENGE = {"WWW-Authenticate": 'Bearer realm="outrider"'}
OPEN = frozenset({"/healthz", "/readyz", *addresses()})
"""Paths that need no key: whether the server is up, and the page's own files, which hold no data."""
ANYBODY = ""
"""The owner of requests without a key."""


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
            scope.setdefault("state", {})["owner"] = self._authenticate(Headers(scope=scope))
        await self.app(scope, receive, send)

    def _authenticate(self, headers: Headers) -> str:
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        key = (bearer if scheme.lower() == "bearer" else headers.get("x-api-key", "")).strip()
        if not self.required and (not key or not self.keys):
            return ANYBODY
        if not key:
            raise Refusal(401, "key-missing", "this server wants a key: send it as Authorization: Bearer KEY", CHALLENGE)
        owner = find_owner(key, self.keys)
        if owner is None:
            raise Refusal(401, "key-rejected", "this server does not know that key", CHALLENGE)
        return owner

"""API keys: made here, kept only as hashes.

A key is 256 random bits, so one round of SHA-256 keeps it: there is nothing to guess, and a slow hash would let anybody keep a server busy.

An API key is asked of whoever comes over a network.
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


def new_key() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def hash_of(key: str) -> str:
    """As the settings hold it."""
    return "sha256:" + hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def owner_of(key: str, hashes: Mapping[str, SecretStr]) -> str | None:
    """Whose key it is. Looks at every hash, so that the time says nothing."""
    asked, found = hash_of(key), None
    for name, known in hashes.items():
        if hmac.compare_digest(asked, known.get_secret_value()):
            found = name
    return found


CHALLENGE = {"WWW-Authenticate": 'Bearer realm="outrider"'}
OPEN = frozenset({"/healthz", "/readyz", *addresses()})
"""Paths that need no key: they tell only whether the server is there, or are the page's own files, which hold nothing of anybody."""
ANYBODY = ""
"""The owner of what comes without a key."""


@dataclass(frozen=True, slots=True)
class Authenticated:
    """ASGI. Puts the key's owner into the request's state as `owner`."""

    app: ASGIApp
    keys: Mapping[str, SecretStr]
    required: bool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN:
            scope.setdefault("state", {})["owner"] = self._owner(Headers(scope=scope))
        await self.app(scope, receive, send)

    def _owner(self, headers: Headers) -> str:
        key = _given(headers)
        if not key and not self.required:
            return ANYBODY
        if not key:
            raise Refusal(401, "key-missing", "this server wants a key: send it as Authorization: Bearer KEY", CHALLENGE)
        if not self.keys and not self.required:
            return ANYBODY
        owner = owner_of(key, self.keys)
        if owner is None:
            raise Refusal(401, "key-rejected", "this server does not know that key", CHALLENGE)
        return owner


def _given(headers: Headers) -> str:
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "").strip()

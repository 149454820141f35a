"""API keys: made here, kept only as hashes.

A key is 256 random bits, so one round of SHA-256 keeps it: there is nothing to guess, and a slow hash would let anybody keep a server busy.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import SecretStr

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

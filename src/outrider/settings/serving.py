"""Settings of the server: access and limits."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, SecretStr, field_validator

from outrider.settings.section import Section

MEBIBYTE = 2**20
KEY_HASH = re.compile(r"sha256:[0-9a-f]{64}\Z")
KEY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")


class ServeSettings(Section):
    """Access to the server and its limits; read by `outrider serve`."""

    api_keys: dict[str, SecretStr] = Field(
        default_factory=dict,
        description="Hashes of accepted keys, by their owners' names; `outrider serve key` makes one.",
    )
    authentication: Literal["auto", "always"] = Field(
        "auto", description="Whether requests need a key; auto requires none if only this machine can reach the server."
    )
    allowed_hosts: str = Field("", description="Host names of the server besides addresses and localhost, separated by commas.")
    cors_origins: str = Field(
        "",
        description="Origins of other pages that may send requests, such as https://app.example.org, separated by commas; empty for none.",
    )
    at_once: int = Field(8, ge=1, le=1_000, description="Concurrent searches.")
    processes: int | None = Field(
        None,
        ge=0,
        le=64,
        description="Extra processes that compute while several searches run; by default one for each core but one, 4 at most.",
    )
    queue: int = Field(64, ge=0, le=100_000, description="Maximum number of waiting requests; further ones get 429.")
    queue_s: float = Field(30.0, gt=0, le=3_600, description="Maximum waiting time of a search, in seconds.")
    batch: int = Field(50, ge=1, le=10_000, description="Maximum number of searches in one LangServe batch.")
    request_s: float = Field(120.0, gt=0, le=3_600, description="Time limit of one request in seconds, including waiting.")
    body_bytes: int = Field(MEBIBYTE, ge=1_024, le=1_024 * MEBIBYTE, description="Maximum size of a request's body, in bytes.")
    body_s: float = Field(10.0, gt=0, le=3_600, description="Time limit in seconds for a request's head to arrive, and then for its body.")
    connections: int = Field(512, ge=1, le=100_000, description="Maximum number of open connections.")
    keep_runs: int = Field(100, ge=0, le=100_000, description="Finished asynchronous searches whose responses are kept.")
    keep_s: float = Field(3_600.0, ge=0, le=604_800, description="Seconds for which such a response is kept.")
    shutdown_s: float = Field(30.0, ge=0, le=3_600, description="Seconds that running searches may still take when the server stops.")

    @field_validator("api_keys")
    @classmethod
    def check_keys(cls, keys: dict[str, SecretStr]) -> dict[str, SecretStr]:
        for name, key_hash in keys.items():
            if not KEY_NAME.match(name):
                raise ValueError(f"has an invalid owner {name!r}; use up to 64 letters, digits, - and _")
            if not KEY_HASH.match(key_hash.get_secret_value()):
                raise ValueError(f"has no valid key hash for {name!r}; create a key and its hash with: outrider serve key {name}")
        return keys

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(name.strip().lower() for name in self.allowed_hosts.split(",") if name.strip())

    @property
    def origins(self) -> tuple[str, ...]:
        return tuple(name.strip().rstrip("/").lower() for name in self.cors_origins.split(",") if name.strip())

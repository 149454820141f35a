"""Settings of the server: who may ask it, and how much it bears."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, SecretStr, field_validator

from outrider.settings.section import Section

MEBIBYTE = 2**20
HASHED = re.compile(r"sha256:[0-9a-f]{64}\Z")
KEY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")


class ServeSettings(Section):
    """Who may ask the server, and how much of it; read by `outrider serve`."""

    api_keys: dict[str, SecretStr] = Field(
        default_factory=dict,
        description="Hashes of the keys that are accepted, by their owners' names; `outrider serve key` makes one.",
    )
    authentication: Literal["auto", "always"] = Field(
        "auto", description="Whether requests need a key: auto asks for none where only this machine can reach the server."
    )
    allowed_hosts: str = Field("", description="Names under which it is reached beside addresses and localhost, with commas between.")
    cors_origins: str = Field(
        "", description="Pages of other servers that may ask it, such as https://app.example.org, with commas between; empty for none."
    )
    at_once: int = Field(8, ge=1, le=1_000, description="Searches under way at a time.")
    processes: int | None = Field(
        None,
        ge=0,
        le=64,
        description="Processes beside the server's own that compute for it while several searches are under way; by default one for each "
        "core but one, 4 at most.",
    )
    queue: int = Field(64, ge=0, le=100_000, description="Requests that may wait for their turn; further ones are answered with 429.")
    queue_s: float = Field(30.0, gt=0, le=3_600, description="Seconds that a search may wait for its turn.")
    batch: int = Field(50, ge=1, le=10_000, description="Searches of one LangServe batch.")
    request_s: float = Field(120.0, gt=0, le=3_600, description="Seconds that one request may take, waiting included.")
    body_bytes: int = Field(MEBIBYTE, ge=1_024, le=1_024 * MEBIBYTE, description="Largest body of a request, in bytes.")
    body_s: float = Field(10.0, gt=0, le=3_600, description="Seconds in which a request has to arrive: its head, and then its body.")
    connections: int = Field(512, ge=1, le=100_000, description="Connections that are open at a time.")
    keep_runs: int = Field(100, ge=0, le=100_000, description="Finished asynchronous searches whose answers can be fetched.")
    keep_s: float = Field(3_600.0, ge=0, le=604_800, description="Seconds for which such an answer can be fetched.")
    shutdown_s: float = Field(30.0, ge=0, le=3_600, description="Seconds that searches under way may still take when the server stops.")

    @field_validator("api_keys")
    @classmethod
    def _hashed(cls, keys: dict[str, SecretStr]) -> dict[str, SecretStr]:
        for name, said in keys.items():
            if not KEY_NAME.match(name):
                raise ValueError(f"names the owner {name!r}; take up to 64 letters, digits, - and _")
            if not HASHED.match(said.get_secret_value()):
                raise ValueError(f"holds for {name!r} no hash of a key; make key and hash with: outrider serve key {name}")
        return keys

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(name.strip().lower() for name in self.allowed_hosts.split(",") if name.strip())

    @property
    def origins(self) -> tuple[str, ...]:
        return tuple(name.strip().rstrip("/").lower() for name in self.cors_origins.split(",") if name.strip())

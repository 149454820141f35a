"""Settings and texts for display, with secrets and passwords in addresses replaced."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, SecretStr

from outrider.settings.model import Settings
from outrider.settings.sections import is_secret
from outrider.text.sanitize import HIDDEN, without_credentials, without_keys, without_password

SHORTEST = 6
"""Characters of the shortest secret that is replaced in texts: a shorter one would hide ordinary words."""

DATABASES = ("postgres", "redis")
"""Beginnings of the schemes of databases."""


def redact(settings: Settings) -> dict[str, Any]:
    """JSON-ready values in the order of the model; every secret that is set reads `********`."""
    return {name: _redact(value) for name, value in settings}


def _redact(value: Any, *, free: bool = False) -> Any:
    """`free`: within settings of a plugin, whose types are unknown, so that the name tells whether a value is secret."""
    if isinstance(value, SecretStr):
        return HIDDEN if value.get_secret_value() else ""
    if isinstance(value, BaseModel):
        return {name: _redact(inner) for name, inner in value}
    if isinstance(value, dict) and free:
        return {name: HIDDEN if is_secret(name) and inner else _redact(inner, free=True) for name, inner in value.items()}
    if isinstance(value, dict):
        return {name: _redact(inner, free=isinstance(inner, dict)) for name, inner in value.items()}
    if isinstance(value, list) and free:
        return [_redact(inner, free=True) for inner in value]
    if isinstance(value, str):
        return without_credentials(value) if value.startswith(DATABASES) else without_keys(without_password(value))
    return value


@dataclass(frozen=True, slots=True)
class Redactor:
    """Removes the secrets of the settings, longest first, and passwords and keys in addresses from texts."""

    secrets: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def from_settings(cls, settings: Settings) -> Redactor:
        secrets = {secret for secret in _secrets(settings) if len(secret) >= SHORTEST}
        return cls(tuple(sorted(secrets, key=lambda secret: (-len(secret), secret))))

    def redact(self, text: str) -> str:
        for secret in self.secrets:
            text = text.replace(secret, HIDDEN)
        return without_keys(without_password(text))


def _secrets(value: Any, *, secret: bool = False) -> Iterator[str]:
    """`secret`: below a key of a free mapping whose name denotes a secret."""
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, BaseModel):
        for _, inner in value:
            yield from _secrets(inner)
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _secrets(inner, secret=secret or is_secret(name))
    elif isinstance(value, list):
        for inner in value:
            yield from _secrets(inner, secret=secret)
    elif secret and isinstance(value, str):
        yield value

"""Settings as plain values that may be shown: secrets and passwords in addresses are hidden."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, SecretStr

from outrider.settings.model import Settings
from outrider.settings.section import is_secret
from outrider.state.addresses import HIDDEN, without_password


def redacted(settings: Settings) -> dict[str, Any]:
    """JSON-ready, in the order of the model; every secret that is set reads `********`."""
    return {name: _shown(value) for name, value in settings}


def _shown(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return HIDDEN if value.get_secret_value() else ""
    if isinstance(value, BaseModel):
        return {name: _shown(inner) for name, inner in value}
    if isinstance(value, dict):
        return {key: _of_others(inner) if isinstance(inner, dict) else _shown(inner) for key, inner in value.items()}
    return without_password(value) if isinstance(value, str) else value


def _of_others(value: Any) -> Any:
    """Settings that somebody else has named: what is called a key is hidden whole."""
    if isinstance(value, dict):
        return {name: HIDDEN if is_secret(name) and inner else _of_others(inner) for name, inner in value.items()}
    return [_of_others(inner) for inner in value] if isinstance(value, list) else _shown(value)


SHORTEST = 6
"""Characters: a shorter secret would hide half of all that is said."""


@dataclass(frozen=True, slots=True)
class Hiding:
    """Texts without the secrets of the settings, longest first, and without passwords in addresses."""

    secrets: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, settings: Settings) -> Hiding:
        found = {one for one in _secrets(settings) if len(one) >= SHORTEST}
        return cls(tuple(sorted(found, key=lambda one: (-len(one), one))))

    def hidden(self, text: str) -> str:
        for secret in self.secrets:
            text = text.replace(secret, HIDDEN)
        return without_password(text)


def _secrets(value: Any, *, called: bool = False) -> Iterator[str]:
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, BaseModel):
        for _, inner in value:
            yield from _secrets(inner)
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _secrets(inner, called=called or is_secret(name))
    elif isinstance(value, list):
        for inner in value:
            yield from _secrets(inner, called=called)
    elif called and isinstance(value, str):
        yield value

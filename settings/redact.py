"""Settings as plain values that may be shown: secrets and passwords in addresses are hidden."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, SecretStr

from outrider.settings.model import Settings
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
        return {key: _shown(inner) for key, inner in value.items()}
    return without_password(value) if isinstance(value, str) else value

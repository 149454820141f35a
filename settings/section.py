"""What all sections of the settings are made of."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, ConfigDict, SecretStr

from outrider.state.model import Model


class Section(Model):
    model_config = ConfigDict(strict=True, hide_input_in_errors=True)  # an input may be a key


def _header_value(secret: SecretStr) -> SecretStr:
    """Without the line break that a file of one line ends with."""
    key = secret.get_secret_value().strip()
    if not (key.isascii() and key.isprintable()):
        raise ValueError("holds a character that no HTTP header can carry")
    return SecretStr(key)


SECRET = re.compile(r"key|token|secret|passw|credential", re.IGNORECASE)


def is_secret(name: str) -> bool:
    """Whether a setting that somebody else has named holds a secret, as far as its name says."""
    return bool(SECRET.search(name))


ApiKey = Annotated[SecretStr, AfterValidator(_header_value)]

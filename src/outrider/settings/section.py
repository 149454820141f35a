"""Base class of all sections of the settings, type of keys, and names of secrets.

A module of its own, below the three that declare sections.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, ConfigDict, SecretStr

from outrider.state.model import Model


class Section(Model):
    model_config = ConfigDict(strict=True, hide_input_in_errors=True)  # an input may be a key


def _header_value(secret: SecretStr) -> SecretStr:
    """Strips the line break with which a file of one line ends."""
    key = secret.get_secret_value().strip()
    if not (key.isascii() and key.isprintable()):
        raise ValueError("contains a character that an HTTP header cannot carry")
    return SecretStr(key)


ApiKey = Annotated[SecretStr, AfterValidator(_header_value)]
SECRET = re.compile(r"key|token|secret|passw|credential", re.IGNORECASE)


def is_secret(name: str) -> bool:
    """Whether the name of a free setting, such as an option of an object store, denotes a secret."""
    return bool(SECRET.search(name))

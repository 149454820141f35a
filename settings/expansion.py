"""`${VAR}` and `${VAR:-default}` in a text, as a POSIX shell reads them; `$$` is a dollar sign."""

from __future__ import annotations

import re
from collections.abc import Mapping

REFERENCE = re.compile(r"\$(?:(?P<dollar>\$)|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}|(?P<odd>\{))")


class Unset(LookupError):
    """A variable that is named without a default and not set."""


class Malformed(ValueError):
    """`${` that does not begin a reference."""


def variables_in(text: str) -> tuple[str, ...]:
    """Those that the text names, set or not."""
    return tuple(found["name"] for found in REFERENCE.finditer(text) if found["name"])


def expand(text: str, environ: Mapping[str, str]) -> str:
    """The text with its references replaced; an empty variable takes the default, as in a shell. Values are not expanded again."""

    def replace(found: re.Match[str]) -> str:
        if found["dollar"]:
            return "$"
        if found["odd"]:
            raise Malformed(text[found.start() : found.start() + 20])
        if found["default"] is not None:
            return environ.get(found["name"]) or found["default"]
        if found["name"] not in environ:
            raise Unset(found["name"])
        return environ[found["name"]]

    return REFERENCE.sub(replace, text)

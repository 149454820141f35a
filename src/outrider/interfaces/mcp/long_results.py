"""What was too long for a tool's answer, for a while: each under an address that cannot be guessed."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass, field

MOST = 100
SCHEME = "outrider"


@dataclass(frozen=True, slots=True)
class Held:
    text: str
    mime_type: str


@dataclass(slots=True)
class Kept:
    """The last `MOST`; the oldest go first."""

    _held: OrderedDict[str, Held] = field(default_factory=OrderedDict)

    def put(self, text: str, mime_type: str = "application/json") -> str:
        """Its name."""
        name = secrets.token_hex(16)
        self._held[name] = Held(text, mime_type)
        while len(self._held) > MOST:
            self._held.popitem(last=False)
        return name

    def get(self, name: str) -> Held | None:
        return self._held.get(name)


def address_of(kind: str, name: str) -> str:
    return f"{SCHEME}://{kind}/{name}"

"""What there is to know of a service before it is asked, and what an answer of it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote, quote_plus

from outrider.state.errors import Malformed, SourceError
from outrider.text.sanitize import HIDDEN, redact

if TYPE_CHECKING:
    from outrider.settings.sources import ServiceSettings

MEBIBYTE = 2**20
MOVED = frozenset({301, 302, 307, 308})
"""Statuses that name another address, which is followed by adapters only, and only where they know it."""
SHORTEST_SECRET = 6
"""Characters: shorter values, such as `json`, are shown."""
SHORTEST_KEY = 16
"""Characters: shorter values, such as a version that is a date, may stand in any answer."""
MOST_READ = 65_536
"""Characters of what a service says that are looked through before it is shown."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer with status 200, or another one that the caller accepts."""

    url: str
    """Without what is secret."""
    status: int
    headers: Mapping[str, str]
    """By lower-case name."""
    body: bytes = field(repr=False)
    age_s: float = 0.0
    """How long it has lain in the cache; 0 for an answer of now."""
    stale: bool = False
    """Older than it should be, since the service could not be asked again."""
    why: SourceError | None = None
    """Why it could not be asked again, where it is stale."""

    def json(self) -> Any:
        """Raises `Malformed` for anything but JSON."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError) as error:
            begins = self.body[:40].decode(errors="replace")
            raise Malformed(f"{self.url} answered with something else than JSON, which begins {begins!r}") from error


def is_whole(reply: Reply) -> bool:
    """Whether it looks like an answer: a page that says the service is down comes with status 200, too."""
    kind = reply.headers.get("content-type", "").lower()
    if "json" not in kind:
        return bool(reply.body) and "text/html" not in kind
    try:
        reply.json()
    except Malformed:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Service:
    """One API at one address. `headers` and `params` go with every request and may hold its key: neither is shown or cached."""

    name: str
    base_url: str = field(repr=False)
    """May hold a password."""
    requests: float
    """At most so many requests ..."""
    per_s: float
    """... in so many seconds, by everybody in this process."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    params: Mapping[str, str] = field(default_factory=dict, repr=False)
    at_once: int = 5
    timeout_s: float = 10.0
    """Of one request, waiting for its turn not counted."""
    most_bytes: int = 20 * MEBIBYTE
    """Of one answer, unpacked."""
    keeps: Callable[[Reply], bool] = is_whole
    """Which answers with status 200 are worth keeping: some services report a failure with that status."""
    tries: int = 3
    """Requests that one question may cost; with 0 only the cache is asked, whose answer is stale where it is not fresh."""

    @classmethod
    def of(
        cls,
        name: str,
        settings: ServiceSettings,
        *,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
        keeps: Callable[[Reply], bool] = is_whole,
    ) -> Self:
        """As the settings have it."""
        limits = (settings.requests, settings.per_s, headers or {}, params or {}, settings.at_once, settings.timeout_s)
        return cls(name, settings.base_url, *limits, keeps=keeps)

    def shown(self, said: object) -> str:
        """What it or its client says, on one line that is not long, without what may be secret."""
        text = str(said)[:MOST_READ]
        for secret in self.secrets():
            text = text.replace(secret, HIDDEN)
        return redact("".join(letter if letter.isprintable() else " " for letter in text), "")

    def tells_a_key(self, body: bytes) -> bool:
        return any(secret.encode() in body for secret in self.secrets(SHORTEST_KEY))

    def secrets(self, shortest: int = SHORTEST_SECRET) -> Iterator[str]:
        """Values that may be secret, as they may be written: plain, in an address, in JSON or quoted by Python."""
        values = [*self.headers.values(), *self.params.values()]
        plain = {part for value in values for part in (value, *value.split()) if len(part) >= shortest}
        for secret in sorted(plain, key=lambda one: (-len(one), one)):
            yield from dict.fromkeys((secret, quote(secret, safe=""), quote_plus(secret), json.dumps(secret)[1:-1], repr(secret)[1:-1]))

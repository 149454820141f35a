"""Address, limits and keys of a service (`Service`), and one response (`Reply`)"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import quote, quote_plus

from outrider.runtime.threads_and_loops import run_in_thread
from outrider.state.errors import Malformed, SourceError
from outrider.text.sanitize import HIDDEN, redact

if TYPE_CHECKING:
    from outrider.settings.sections import ServiceSettings

Parsed = TypeVar("Parsed")

MEBIBYTE = 2**20
MOVED = frozenset({301, 302, 307, 308})
"""Redirects. Only adapters follow them, and only to addresses that they know."""
SHORTEST_SECRET = 6
"""Characters: shorter values of headers and parameters, such as `json`, are shown."""
SHORTEST_KEY = 16
"""Characters: shorter values, such as a version that is a date, may occur in any response."""
MOST_READ = 65_536
"""Characters of a service's message that are searched for secrets before it is shown."""
QUICK_BYTES = MEBIBYTE // 4
"""A body up to this size is decoded in about 3 ms; a larger one is decoded in a thread, so that the event loop stays free."""
WHOLE_BYTES = MEBIBYTE
"""A larger body is decoded from its beginning, as far as the requested items go."""
CACHED_BYTES = 8 * MEBIBYTE
"""Of JSON: more than any page that is requested. A larger body is not checked, and so not cached."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A response with status 200, or another status that the caller accepts."""

    url: str
    """Without secrets."""
    status: int
    headers: Mapping[str, str]
    """By lower-case name."""
    body: bytes = field(repr=False)
    age_s: float = 0.0
    """Seconds since the service sent it; 0 if it did not come from the cache."""
    stale: bool = False
    """Older than requested, because the service is unavailable."""
    why: SourceError | None = None
    """Why the service is unavailable, if it is stale."""
    _decoded: list[Any] = field(default_factory=list, init=False, repr=False, compare=False)

    def json(self) -> Any:
        """Decoded once, so callers must not change it. Raises `Malformed` for anything but JSON."""
        if not self._decoded:
            try:
                self._decoded.append(json.loads(self.body))
            except (ValueError, RecursionError) as error:
                raise self._not_json() from error
        return self._decoded[0]

    async def decode(self, most: int | None = None) -> Any:
        """The result of `json`, of a long body in a thread, and only as far as the first `most` items of its list.

        `json` then returns the same: `most` items or more, unless there are fewer.
        """
        if not self._decoded and len(self.body) > QUICK_BYTES:
            is_whole = most is None or len(self.body) <= WHOLE_BYTES
            await run_in_thread(self.json if is_whole else lambda: self._decode_start(most or 0))
        return self.json()

    def _decode_start(self, most: int) -> None:
        """Decode longer and longer beginnings, because `json.loads` would hold the interpreter for the whole body."""
        from pydantic_core import from_json

        size = WHOLE_BYTES
        while size < len(self.body):
            try:
                start = from_json(self.body[:size], allow_partial=True)
            except ValueError as error:
                raise self._not_json() from error
            listed = _last_list(start)
            if listed is not None and len(listed) > most:
                listed.pop()  # it may be cut
                self._decoded.append(start)
                return
            size *= 2
        self.json()

    def _not_json(self) -> Malformed:
        start = self.body[:40].decode(errors="replace")
        return Malformed(f"{self.url} answered with something else than JSON, which begins {start!r}")


def _last_list(value: Any) -> list[Any] | None:
    """The list at the end of a decoded beginning, which may be nested in objects."""
    while isinstance(value, dict) and value:
        value = next(reversed(value.values()))
    return value if isinstance(value, list) else None


async def parse_in_thread(replies: Sequence[Reply], parse: Callable[[], Parsed]) -> Parsed:
    """The result of `parse`, which reads the replies: in a thread if they are long, so that the event loop stays free."""
    return parse() if sum(len(reply.body) for reply in replies) <= QUICK_BYTES else await run_in_thread(parse)


async def may_cache(reply: Reply, service: Service) -> bool:
    """Whether the service's own check accepts it, and it holds no key. A check of a long body runs in a thread."""
    if reply.status != 200 or (len(reply.body) > CACHED_BYTES and "json" in reply.headers.get("content-type", "").lower()):
        return False

    def check() -> bool:
        return service.keeps(reply) and not service.contains_key(reply.body)

    return await parse_in_thread([reply], check)


def is_complete(reply: Reply) -> bool:
    """Whether it looks like a response of the API. An outage page can have status 200, too."""
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
    """One API at one address. `headers` and `params` are sent with every request and may hold a key: neither is shown or cached."""

    name: str
    base_url: str = field(repr=False)
    """May hold a password."""
    requests: float
    """At most this many requests ..."""
    per_s: float
    """... in this many seconds, by the whole process."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    params: Mapping[str, str] = field(default_factory=dict, repr=False)
    at_once: int = 5
    timeout_s: float = 10.0
    """Of one request, without the wait for the rate limit."""
    most_bytes: int = 20 * MEBIBYTE
    """Of one response, decompressed."""
    keeps: Callable[[Reply], bool] = is_complete
    """Which responses with status 200 may be cached: some services report a failure with that status."""
    tries: int = 3
    """Attempts for one request. With 0 only the cache is used, and its response is stale if it is not fresh."""

    @classmethod
    def of(
        cls,
        name: str,
        settings: ServiceSettings,
        *,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
        keeps: Callable[[Reply], bool] = is_complete,
    ) -> Self:
        """A service with the address and limits of the settings."""
        limits = (settings.requests, settings.per_s, headers or {}, params or {}, settings.at_once, settings.timeout_s)
        return cls(name, settings.base_url, *limits, keeps=keeps)

    def redact(self, message: object) -> str:
        """A message of the service or its client on one short line, without possible secrets."""
        text = str(message)[:MOST_READ]
        for secret in self.secrets():
            text = text.replace(secret, HIDDEN)
        return redact("".join(letter if letter.isprintable() else " " for letter in text), "")

    def contains_key(self, body: bytes) -> bool:
        return any(secret.encode() in body for secret in self.secrets(SHORTEST_KEY))

    def secrets(self, shortest: int = SHORTEST_SECRET) -> Iterator[str]:
        """Values that may be secret, in every form: plain, in a URL, in JSON, or quoted by Python."""
        values = [*self.headers.values(), *self.params.values()]
        plain = {part for value in values for part in (value, *value.split()) if len(part) >= shortest}
        for secret in sorted(plain, key=lambda value: (-len(value), value)):
            yield from dict.fromkeys((secret, quote(secret, safe=""), quote_plus(secret), json.dumps(secret)[1:-1], repr(secret)[1:-1]))

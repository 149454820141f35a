"""Asking a service: its turn awaited, its answer kept for later, a failure of the moment tried again as far as there is time.

Everything here runs on the process's background loop, whichever loop asks: one client, one limit a service, for all searches.

Not stamina: it sleeps past its `timeout` rather than before it, tells its hook neither the pause it chose nor the time that is
left, and writes a warning to the log for every pause.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any
from urllib.parse import urlencode

from outrider.runtime.background_loop import in_background
from outrider.runtime.tracing import span
from outrider.sources.http.cache import Answers, Kept, NoAnswers, kept_in, put_beside
from outrider.sources.http.rate_limit import Turn, renewed_in_s, retry_after_s, turn_of
from outrider.sources.http.service import MOST_READ, Reply, Service
from outrider.sources.http.transport import Asked, Said, Unreachable, address, exchanged
from outrider.state.errors import Forbidden, Malformed, RateLimited, SourceError, SourceTimeout, SourceUnavailable, Unauthorized

Params = Mapping[str, str | int | float]
FRESH_S = 3_600.0
"""How long metadata count as fresh."""
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 5.0
SECONDARY_S = 60.0
"""GitHub: "wait for at least one minute before retrying" where neither header says how long (Rate limits for the REST API)."""
KEPT_HEADERS = ("content-type", "link", "etag", "last-modified")
BUSY = frozenset({408, 425})
"""Beside all from 500 on."""
CONTACT = "https://github.com/outrider-search/outrider"


@dataclass(frozen=True, slots=True)
class Caller:
    """Asks services. Raises `SourceError`, never an error of the HTTP client."""

    answers: Answers = field(default_factory=NoAnswers)
    contact: str = ""
    """An e-mail address or page of whoever runs this, for the user agent."""
    fresh_s: float = FRESH_S
    """Where a call says nothing else; 0 asks every time, and keeps the answer for when the service cannot be asked."""
    clock: Callable[[], float] = time.time
    jitter: Callable[[], float] = random.Random().random  # noqa: S311 - no secret
    """From 0 to 1: how much of a pause is made. Not the module's own numbers, which a program may have seeded."""

    async def get(
        self,
        service: Service,
        path: str,
        params: Params | None = None,
        *,
        within_s: float,
        headers: Mapping[str, str] | None = None,
        accept: frozenset[int] = frozenset({200}),
        fresh_s: float | None = None,
    ) -> Reply:
        """The answer to `GET base_url + path`. A 404 and the like raise `SourceUnavailable` unless `accept` holds them.

        `within_s` bounds all of it: the turn, every try, and the pauses between. Within `fresh_s` the same question is answered from
        the cache; where the service cannot answer at the moment, an older answer of the cache is, marked `stale`.
        """
        asked = Asked(service, "GET", address(service, path, params or {}), headers or {}, None, accept)
        return await in_background(self._answered(asked, within_s, fresh_s))

    async def post(
        self,
        service: Service,
        path: str,
        body: Any,
        params: Params | None = None,
        *,
        within_s: float,
        accept: frozenset[int] = frozenset({200}),
        fresh_s: float | None = None,
    ) -> Reply:
        """The same with a JSON body, for services that read with it (Semantic Scholar's batches): it changes nothing, and is tried
        again and kept as well.
        """
        said = json.dumps(body, sort_keys=True)
        asked = Asked(service, "POST", address(service, path, params or {}), {}, said, accept)
        return await in_background(self._answered(asked, within_s, fresh_s))

    async def post_form(
        self,
        service: Service,
        path: str,
        fields: Params,
        *,
        within_s: float,
        accept: frozenset[int] = frozenset({200}),
        fresh_s: float | None = None,
    ) -> Reply:
        """The same with the fields of a form, for questions that are too long for an address (PubMed's E-utilities)."""
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        asked = Asked(service, "POST", address(service, path, {}), headers, urlencode(fields), accept)
        return await in_background(self._answered(asked, within_s, fresh_s))

    async def _answered(self, asked: Asked, within_s: float, fresh_s: float | None) -> Reply:
        until = time.monotonic() + within_s
        kept = await kept_in(self.answers, asked.key, until)
        if kept and kept.age_s < (self.fresh_s if fresh_s is None else fresh_s):
            return _from_cache(asked, kept)
        try:
            with span("service call", service=asked.service.name, method=asked.method):
                said = await self._tried(asked, until)
        except _Passing as failure:
            if kept is None:
                raise failure.error from None
            return _from_cache(asked, kept, failure.error)
        reply = Reply(asked.shown, said.status, said.headers, said.body)
        if reply.status == 200 and asked.service.keeps(reply) and not asked.service.tells_a_key(reply.body):
            headers = {name: reply.headers[name] for name in KEPT_HEADERS if name in reply.headers}
            put_beside(self.answers, asked.key, reply.body, headers)
        return reply

    async def _tried(self, asked: Asked, until: float) -> Said:
        """Raises `_Passing` where it may go better another time."""
        turn = turn_of(asked.service)
        for attempt in range(1, asked.service.tries + 1):
            try:
                return await self._in_turn(asked, turn, until)
            except _Passing as failure:
                pause_s = max(failure.pause_s, self._pause_s(attempt))
                if attempt == asked.service.tries or not failure.again or time.monotonic() + pause_s >= until:
                    raise
            await asyncio.sleep(pause_s)
        raise _Passing(SourceUnavailable(f"{asked.service.name} was not asked {asked}, and no answer is kept"))

    def _pause_s(self, attempt: int) -> float:
        """Exponential, with full jitter (Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015)."""
        return self.jitter() * min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0**attempt)

    async def _in_turn(self, asked: Asked, turn: Turn, until: float) -> Said:
        try:
            async with turn.taken(asked.service, until - time.monotonic()) as written:
                said = await self._exchanged(asked, turn, until, written)
        except (RateLimited, SourceUnavailable) as error:
            raise _Passing(error, again=False) from None  # there is no turn
        now = self.clock()
        if renewed_s := renewed_in_s(said.headers, now):
            turn.close(turn.now() + renewed_s)
        refusal = None if said.status in asked.accept else _refusal(asked, said, now)
        if isinstance(refusal, _Passing):
            turn.failed(refusal.error)
            turn.close(turn.now() + refusal.pause_s)
        else:
            turn.answered()
        if refusal:
            raise refusal
        return said

    async def _exchanged(self, asked: Asked, turn: Turn, until: float, written: Callable[[], None]) -> Said:
        whole_s, within_s = asked.service.timeout_s, until - time.monotonic()
        try:
            return await exchanged(asked, agent_of(self.contact), min(whole_s, within_s), written)
        except Malformed:
            turn.answered()
            raise
        except (SourceTimeout, SourceUnavailable) as error:
            if isinstance(error, SourceUnavailable) or within_s > whole_s / 2:  # with less it had no fair chance
                turn.failed(error)
            raise _Passing(error, again=not isinstance(error, Unreachable)) from None


@cache
def agent_of(contact: str) -> str:
    """Who asks, for the user agent; of the contact what a header can carry."""
    try:
        name = f"Outrider/{version('outrider')}"
    except PackageNotFoundError:  # run from its folder
        name = "Outrider"
    contact = "".join(letter for letter in contact if " " <= letter <= "~")
    contact = f"mailto:{contact}" if "@" in contact and ":" not in contact else contact  # as Crossref's polite pool knows it
    return f"{name} (+{CONTACT}{f'; {contact}' if contact else ''})"


class _Passing(Exception):
    """A failure that may be of the moment, how long the service wants us to wait, and whether this search may try again."""

    def __init__(self, error: SourceError, pause_s: float = 0.0, *, again: bool = True) -> None:
        self.error, self.pause_s, self.again = error, pause_s, again


def _from_cache(asked: Asked, kept: Kept, why: SourceError | None = None) -> Reply:
    """Stale where there is a reason."""
    return Reply(asked.shown, 200, kept.headers, kept.body, kept.age_s, why is not None, why)


def _refusal(asked: Asked, said: Said, now: float) -> SourceError | _Passing:
    service, status = asked.service, said.status
    words = service.shown(said.body[:MOST_READ].decode(errors="replace"))
    what = f"{service.name} answered {status} to {asked}{f': {words}' if words else ''}"
    wait_s = retry_after_s(said.headers, now)
    if status == 429 or (status == 403 and _limited(said, words)):
        if wait_s is None:
            wait_s = renewed_in_s(said.headers, now)
        if wait_s is None and status == 403:
            wait_s = SECONDARY_S
        return _Passing(RateLimited(f"{what}; {_when(wait_s)}", None if wait_s is None else now + wait_s), wait_s or 0.0)
    if status >= 500 or status in BUSY:
        return _Passing(SourceUnavailable(f"{what}; {_when(wait_s)}", None if wait_s is None else now + wait_s), wait_s or 0.0)
    if status == 401:
        return Unauthorized(f"{what}; check the key of {service.name}, or take it away to ask without one")
    if status == 403:
        return Forbidden(f"{what}; see whether the key of {service.name} allows it")
    return SourceUnavailable(what)


def _limited(said: Said, words: str) -> bool:
    """Whether a 403 is GitHub's way of saying 429."""
    return "retry-after" in said.headers or said.headers.get("x-ratelimit-remaining", "").strip() == "0" or "rate limit" in words.lower()


def _when(wait_s: float | None) -> str:
    return f"try again in {wait_s:,.0f} s" if wait_s else "try again later"

"""HTTP client of the sources: rate limits, caching, retries, errors as `SourceError`

Everything runs on the process's background loop, for callers on any loop: all searches share one client and one limit for each service.

Retries do not use stamina: it may sleep beyond its `timeout`, does not pass the pause and the remaining time to its hook, and logs a
warning for every pause.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from outrider.runtime.run_calls import count_call
from outrider.runtime.spans import span
from outrider.runtime.threads_and_loops import in_background
from outrider.sources.http.cache import AnswerCache, CachedAnswer, NoCache, claim_call, read_cached, store_later
from outrider.sources.http.rate_limit import RateLimiter, get_rate_limiter, parse_budget_reset, parse_retry_after
from outrider.sources.http.service import MOST_READ, Reply, Service, may_cache
from outrider.sources.http.transport import Request, Response, Unreachable, build_url, send
from outrider.state.errors import Forbidden, Malformed, RateLimited, SourceError, SourceTimeout, SourceUnavailable, Unauthorized

if TYPE_CHECKING:
    from outrider.runtime.shared_redis import SharedRedis
    from outrider.sources.http.shared_rate_limit import SharedRateLimiter

Params = Mapping[str, str | int | float]
FRESH_S = 3_600.0
"""How long metadata count as fresh."""
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 5.0
SECONDARY_S = 60.0
"""GitHub: "wait for at least one minute before retrying" if neither header says how long (Rate limits for the REST API)."""
CACHED_HEADERS = ("content-type", "link", "etag", "last-modified")
BUSY = frozenset({408, 425})
"""Temporary failures, besides all statuses from 500 on."""
CONTACT = "https://github.com/outrider-search/outrider"


@dataclass(slots=True)
class RequestCount:
    """Requests that one piece of work sent, without answers from the cache."""

    most: int | None = None
    sent: int = 0
    refused: bool = False
    """Whether it wanted to send more than it may."""


_count: ContextVar[RequestCount | None] = ContextVar("request_count", default=None)


@contextmanager
def count_requests(most: int | None = None) -> Iterator[RequestCount]:
    """Count the requests of the work inside, in this context. A request beyond `most`, retries included, raises `SourceUnavailable`."""
    count = RequestCount(most)
    before = _count.set(count)
    try:
        yield count
    finally:
        _count.reset(before)


@dataclass(frozen=True, slots=True)
class Caller:
    """Sends requests to services. Raises `SourceError`, never an error of the HTTP client."""

    answers: AnswerCache = field(default_factory=NoCache)
    contact: str = ""
    """E-mail address or web page of the operator, for the user agent."""
    fresh_s: float = FRESH_S
    """Default of the calls; 0 requests every time, and caches the response for when the service is unavailable."""
    clock: Callable[[], float] = time.time
    jitter: Callable[[], float] = random.Random().random  # noqa: S311 - no secret
    """Factor of a pause, between 0 and 1. From a generator of its own, because a program may have seeded the module's."""
    shared: SharedRedis | None = None
    """The server that holds the limits of all processes; without one they are those of this process."""

    def limiter(self, service: Service) -> RateLimiter | SharedRateLimiter:
        """The limiter of a service, to be used on the background loop only."""
        if self.shared is None:
            return get_rate_limiter(service)
        from outrider.sources.http.shared_rate_limit import get_shared_rate_limiter

        return get_shared_rate_limiter(service, self.shared)

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
        """The response to `GET base_url + path`. A status that is not in `accept`, such as 404, raises `SourceUnavailable`.

        `within_s` bounds everything: the wait for the rate limit, every attempt, and the pauses between them. Within `fresh_s` the same
        request is answered from the cache. If the service is unavailable, an older cached response is returned, marked `stale`.
        """
        request = Request(service, "GET", build_url(service, path, params or {}), headers or {}, None, accept)
        return await in_background(self._fetch(request, within_s, fresh_s))

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
        """The same with a JSON body, for services that read with POST (Semantic Scholar's batches).

        It changes nothing at the service, so it is retried and cached as well.
        """
        text = json.dumps(body, sort_keys=True)
        request = Request(service, "POST", build_url(service, path, params or {}), {}, text, accept)
        return await in_background(self._fetch(request, within_s, fresh_s))

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
        """The same with form fields, for queries that are too long for a URL (PubMed's E-utilities)."""
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        request = Request(service, "POST", build_url(service, path, {}), headers, urlencode(fields), accept)
        return await in_background(self._fetch(request, within_s, fresh_s))

    async def _fetch(self, request: Request, within_s: float, fresh_s: float | None) -> Reply:
        until = time.monotonic() + within_s
        fresh_s = self.fresh_s if fresh_s is None else fresh_s
        cached = await read_cached(self.answers, request.key, until)
        if cached and cached.age_s < fresh_s:
            return _reply_from_cache(request, cached)
        shares = fresh_s > 0 and request.service.tries > 0
        async with claim_call(self.answers if shares else NoCache(), request.key, until) as answer:
            if answer and answer.age_s < fresh_s:  # another process has just got it
                return _reply_from_cache(request, answer)
            return await self._call(request, until, cached)

    async def _call(self, request: Request, until: float, cached: CachedAnswer | None) -> Reply:
        """The service's response, which is cached; or an older one if it is unavailable."""
        try:
            with span("service call", service=request.service.name, method=request.method):
                response = await self._send_with_retries(request, until)
        except TemporaryFailure as failure:
            if cached is None:
                raise failure.error from None
            return _reply_from_cache(request, cached, failure.error)
        reply = Reply(request.display_url, response.status, response.headers, response.body)
        if await may_cache(reply, request.service):
            headers = {name: reply.headers[name] for name in CACHED_HEADERS if name in reply.headers}
            store_later(self.answers, request.key, reply.body, headers)
        return reply

    async def _send_with_retries(self, request: Request, until: float) -> Response:
        """Raises `TemporaryFailure` if a later attempt may succeed."""
        limiter = self.limiter(request.service)
        for attempt in range(1, request.service.tries + 1):
            try:
                return await self._send_once(request, limiter, until)
            except TemporaryFailure as failure:
                pause_s = max(failure.pause_s, self.backoff_s(attempt))
                if attempt == request.service.tries or not failure.again or time.monotonic() + pause_s >= until:
                    raise
            await asyncio.sleep(pause_s)
        raise TemporaryFailure(SourceUnavailable(f"{request.service.name} was not queried for {request}, and the cache has no response"))

    def backoff_s(self, attempt: int) -> float:
        """Exponential, with full jitter (Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015)."""
        return self.jitter() * min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0**attempt)

    async def _send_once(self, request: Request, limiter: RateLimiter | SharedRateLimiter, until: float) -> Response:
        count = _count.get()
        if count is not None and count.most is not None and count.sent >= count.most:
            count.refused = True
            error = SourceUnavailable(f"{request.service.name} was not asked again: no more than {count.most:,} requests were allowed")
            raise TemporaryFailure(error, again=False)
        try:
            async with limiter.acquire(request.service, until - time.monotonic()) as mark_sent:
                whole_s, within_s = request.service.timeout_s, until - time.monotonic()
                count_call(request.service.name)
                if count is not None:
                    count.sent += 1
                try:
                    response = await send(request, user_agent(self.contact), min(whole_s, within_s), mark_sent)
                except Malformed:
                    limiter.record_success()
                    raise
                except (SourceTimeout, SourceUnavailable) as error:
                    if isinstance(error, SourceUnavailable) or within_s > whole_s / 2:  # with less time it proves nothing
                        limiter.record_failure(error)
                    if isinstance(error, Unreachable):
                        raise  # as it is, so that the limiter takes the slot back
                    raise TemporaryFailure(error) from None
        except (RateLimited, SourceUnavailable) as error:
            raise TemporaryFailure(error, again=False) from None  # the limiter refused, or there is no connection
        now = self.clock()
        if reset_s := parse_budget_reset(response.headers, now):
            limiter.close(limiter.now() + reset_s)
        refusal = None if response.status in request.accept else _classify_refusal(request, response, now)
        if isinstance(refusal, TemporaryFailure):
            limiter.record_failure(refusal.error)
            limiter.close(limiter.now() + refusal.pause_s)
        else:
            limiter.record_success()
        if refusal:
            raise refusal
        return response


@cache
def user_agent(contact: str) -> str:
    """Name, version and contact; characters that a header cannot carry are dropped."""
    try:
        name = f"Outrider/{version('outrider')}"
    except PackageNotFoundError:  # not installed
        name = "Outrider"
    contact = "".join(letter for letter in contact if " " <= letter <= "~")
    contact = f"mailto:{contact}" if "@" in contact and ":" not in contact else contact  # as Crossref's polite pool knows it
    return f"{name} (+{CONTACT}{f'; {contact}' if contact else ''})"


class TemporaryFailure(Exception):
    """A failure that may pass, the pause that the service requests, and whether this search may retry."""

    def __init__(self, error: SourceError, pause_s: float = 0.0, *, again: bool = True) -> None:
        self.error, self.pause_s, self.again = error, pause_s, again


def _reply_from_cache(request: Request, cached: CachedAnswer, why: SourceError | None = None) -> Reply:
    """Stale if there is a reason."""
    return Reply(request.display_url, 200, cached.headers, cached.body, cached.age_s, why is not None, why)


def _classify_refusal(request: Request, response: Response, now: float) -> SourceError | TemporaryFailure:
    service, status, headers = request.service, response.status, response.headers
    words = service.redact(response.body[:MOST_READ].decode(errors="replace"))
    message = f"{service.name} answered {status} to {request}{f': {words}' if words else ''}"
    wait_s = parse_retry_after(headers, now)
    # GitHub reports its rate limit with 403, too.
    has_limit = "retry-after" in headers or headers.get("x-ratelimit-remaining", "").strip() == "0" or "rate limit" in words.lower()
    is_limited = status == 429 or (status == 403 and has_limit)
    if is_limited and wait_s is None:
        wait_s = parse_budget_reset(headers, now)
        wait_s = SECONDARY_S if wait_s is None and status == 403 else wait_s
    if is_limited or status >= 500 or status in BUSY:
        kind = RateLimited if is_limited else SourceUnavailable
        when = f"retry in {wait_s:,.0f} s" if wait_s else "retry later"
        return TemporaryFailure(kind(f"{message}; {when}", None if wait_s is None else now + wait_s), wait_s or 0.0)
    if status == 401:
        return Unauthorized(f"{message}; check the key of {service.name}, or remove it to search without one")
    if status == 403:
        return Forbidden(f"{message}; check whether the key of {service.name} allows it")
    return SourceUnavailable(message)

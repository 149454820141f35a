"""Web search: the result page of a search engine, loaded in a browser with pauses

Each engine is a strategy. A page that takes us for a robot is not answered and not requested again before a long pause: it counts as
the engine's limit. Totals are not given, because those of engines are estimates that change from call to call.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol

from outrider.runtime.threads_and_loops import in_background
from outrider.sources.adapter import deadline_after, format_age
from outrider.sources.http.cache import AnswerCache, NoCache, read_cached, store_later
from outrider.sources.web.crawl_rules import HostSchedule
from outrider.sources.web.link_identifiers import find_identifiers
from outrider.sources.web.result_pages import DUCKDUCKGO, ResultPage, SearchEngine, SearchResult, parse_results
from outrider.state.errors import RateLimited, SourceError, SourceTimeout, SourceUnavailable
from outrider.state.hits import Scored
from outrider.state.ports import Capabilities, SourceAnswer, SourceQuery
from outrider.state.records import Page, Record

NAME = "web"
CAPABILITIES = Capabilities(frozenset({"page"}), most=30, queries=1)
CHALLENGES = frozenset({202, 403, 429})
"""Statuses of challenges; DuckDuckGo's is 202."""


class BrowserPage(Protocol):
    """A page as a browser rendered it; `refused` are hosts that it was not allowed to reach."""

    @property
    def status(self) -> int: ...

    @property
    def html(self) -> str: ...

    @property
    def refused(self) -> tuple[str, ...]: ...


class Browser(Protocol):
    """Raises `SourceError`."""

    async def open_page(self, url: str, within_s: float, hosts: frozenset[str] | None = None, ready: str = "") -> BrowserPage:
        """A page loaded from `hosts` only, once the CSS selector `ready` matches."""
        ...


@dataclass(frozen=True, slots=True)
class WebSearch:
    """A `Source`."""

    browser: Browser
    engines: tuple[SearchEngine, ...] = (DUCKDUCKGO,)
    gap_s: float = 2.0
    """Between two requests to one engine, for the whole process."""
    pause_s: float = 900.0
    """After a challenge."""
    timeout_s: float = 10.0
    answers: AnswerCache = field(default_factory=NoCache)
    fresh_s: float = 3_600.0
    name: str = NAME
    capabilities: Capabilities = CAPABILITIES

    @property
    def strategies(self) -> tuple[str, ...]:
        return tuple(engine.name for engine in self.engines)

    async def search(self, query: SourceQuery) -> SourceAnswer:
        """One page of results. Only words are sent, neither years nor languages."""
        engine = next(engine for engine in self.engines if engine.name == query.strategy)
        if not query.text.strip() or query.limit < 1:
            return SourceAnswer(())
        return await in_background(self._search_engine(engine, query))

    async def get(self, scheme: str, value: str, within_s: float) -> Record | None:
        return None

    async def _search_engine(self, engine: SearchEngine, query: SourceQuery) -> SourceAnswer:
        until = deadline_after(min(query.within_s, self.timeout_s))
        url = engine.query_url(query.text.strip())
        key = hashlib.sha256(f"{NAME} {url}".encode()).hexdigest()
        cached = await read_cached(self.answers, key, until)
        if cached and cached.age_s <= self.fresh_s:
            return _answer(
                parse_results(engine, cached.body.decode()), query.limit, f"from the cache, {format_age(cached.age_s)} old", "cached"
            )
        try:
            html, page = await self._load_page(engine, url, until)
        except (RateLimited, SourceTimeout, SourceUnavailable) as error:
            if cached is None:
                raise
            why = f"{engine.name} is unavailable ({error.status}); this is its response of {format_age(cached.age_s)} ago"
            return _answer(parse_results(engine, cached.body.decode()), query.limit, why, "stale", error)
        store_later(self.answers, key, html.encode(errors="replace"), {})
        return _answer(page, query.limit)

    async def _load_page(self, engine: SearchEngine, url: str, until: float) -> tuple[str, ResultPage]:
        await _schedule().wait_turn(engine.host, self.gap_s, until)
        rendered = await self.browser.open_page(url, until - time.monotonic(), frozenset({engine.host}), engine.ready)
        if rendered.status in CHALLENGES:
            raise self._pause_engine(engine, f"answered {rendered.status}")
        if rendered.status >= 400:
            raise SourceUnavailable(f"{engine.name} answered {rendered.status}")
        page = parse_results(engine, rendered.html)
        if page.kind == "challenge":
            raise self._pause_engine(engine, "asks whether a person is searching")
        return rendered.html, page

    def _pause_engine(self, engine: SearchEngine, reason: str) -> SourceError:
        retry_at = _schedule().clock() + self.pause_s
        _schedule().close(engine.host, retry_at, f"it {reason}")
        return RateLimited(f"{engine.name} {reason}; retry in {self.pause_s:g} s", retry_at)


def _answer(page: ResultPage, limit: int, message: str = "", status: str = "", error: SourceError | None = None) -> SourceAnswer:
    results = tuple(Scored(build_record(result), 1 / rank) for rank, result in enumerate(page.results[:limit], 1))
    retry_at = error.retry_at if error else None
    return SourceAnswer(results, message=message, status=status, retry_at=retry_at)  # type: ignore[arg-type]


def build_record(result: SearchResult) -> Page:
    """A result with the identifiers in its link."""
    return Page(
        doc_id=f"{NAME}:{result.url}",
        title=result.title,
        description=result.snippet,
        url=result.url,
        identifiers=find_identifiers(result.url),
        source=NAME,
    )


@cache
def _schedule() -> HostSchedule:
    """One for the process; used on the background loop."""
    return HostSchedule()

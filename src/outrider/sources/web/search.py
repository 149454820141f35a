"""Web search: the result page of a search engine, opened in a browser as a person would, one at a time and with a pause between.

Each engine is a strategy. A page that takes us for a robot is not answered and not asked for again before a long pause: it counts as
the engine's limit. What engines say of totals are estimates that change from call to call; none is given.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol

from outrider.runtime.background_loop import in_background
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
"""Statuses that engines send with a challenge; DuckDuckGo's is 202."""


class BrowserPage(Protocol):
    @property
    def status(self) -> int: ...

    @property
    def html(self) -> str: ...

    @property
    def refused(self) -> tuple[str, ...]: ...


class Browser(Protocol):
    """Raises `SourceError`."""

    async def open_page(self, url: str, within_s: float, hosts: frozenset[str] | None = None, ready: str = "") -> BrowserPage:
        """A page for which no other host than `hosts` was asked, once the CSS selector `ready` is there."""
        ...


@dataclass(frozen=True, slots=True)
class WebSearch:
    """A `Source`."""

    browser: Browser
    engines: tuple[SearchEngine, ...] = (DUCKDUCKGO,)
    gap_s: float = 2.0
    """Between two questions to one engine, by everybody in this process."""
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
        """One page of results. Words are enough: an engine is asked for neither years nor languages."""
        engine = next(engine for engine in self.engines if engine.name == query.strategy)
        if not query.text.strip() or query.limit < 1:
            return SourceAnswer(())
        return await in_background(self._answered(engine, query))

    async def get(self, scheme: str, value: str, within_s: float) -> Record | None:
        return None

    async def _answered(self, engine: SearchEngine, query: SourceQuery) -> SourceAnswer:
        until = deadline_after(min(query.within_s, self.timeout_s))
        url = engine.query_url(query.text.strip())
        key = hashlib.sha256(f"{NAME} {url}".encode()).hexdigest()
        kept = await read_cached(self.answers, key, until)
        if kept and kept.age_s <= self.fresh_s:
            return _answer(
                parse_results(engine, kept.body.decode()), query.limit, f"from the cache, {format_age(kept.age_s)} old", "cached"
            )
        try:
            html, page = await self._asked(engine, url, until)
        except (RateLimited, SourceTimeout, SourceUnavailable) as error:
            if kept is None:
                raise
            why = f"{engine.name} could not be asked ({error.status}); this is its answer of {format_age(kept.age_s)} ago"
            return _answer(parse_results(engine, kept.body.decode()), query.limit, why, "stale", error)
        store_later(self.answers, key, html.encode(errors="replace"), {})
        return _answer(page, query.limit)

    async def _asked(self, engine: SearchEngine, url: str, until: float) -> tuple[str, ResultPage]:
        await _visits().wait_turn(engine.host, self.gap_s, until)
        opened = await self.browser.open_page(url, until - time.monotonic(), frozenset({engine.host}), engine.ready)
        if opened.status in CHALLENGES:
            raise self._challenged(engine, f"answered {opened.status}")
        if opened.status >= 400:
            raise SourceUnavailable(f"{engine.name} answered {opened.status}")
        page = parse_results(engine, opened.html)
        if page.kind == "challenge":
            raise self._challenged(engine, "asks whether a person is searching")
        return opened.html, page

    def _challenged(self, engine: SearchEngine, what: str) -> SourceError:
        retry_at = _visits().clock() + self.pause_s
        _visits().close(engine.host, retry_at, f"it {what}")
        return RateLimited(f"{engine.name} {what}; it is left alone for {self.pause_s:g} s", retry_at)


def _answer(page: ResultPage, limit: int, message: str = "", status: str = "", error: SourceError | None = None) -> SourceAnswer:
    results = tuple(Scored(build_record(found), 1 / rank) for rank, found in enumerate(page.results[:limit], 1))
    retry_at = error.retry_at if error else None
    return SourceAnswer(results, message=message, status=status, retry_at=retry_at)  # type: ignore[arg-type]


def build_record(found: SearchResult) -> Page:
    """A result with what its own link names."""
    return Page(
        doc_id=f"{NAME}:{found.url}",
        title=found.title,
        description=found.snippet,
        url=found.url,
        identifiers=find_identifiers(found.url),
        source=NAME,
    )


@cache
def _visits() -> HostSchedule:
    """One for the process, whoever searches; used on the background loop."""
    return HostSchedule()

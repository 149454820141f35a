"""Web search: the result page of a search engine, loaded in a browser with pauses

Each engine is a strategy. A page that takes us for a robot is not answered and not requested again before a long pause: it counts as
the engine's limit. Totals are not given, because those of engines are estimates that change from call to call.

Result pages of search engines, read by CSS selectors: DuckDuckGo, Bing, Google. No engine documents its pages; the selectors follow the
pages of 2026 (Google's page without scripts: of 2023). A page on which nothing is recognised is `Malformed`, so that a changed page is
never mistaken for "no results".
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import re
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol
from urllib.parse import parse_qs, quote_plus, urljoin, urlsplit

from outrider.runtime.run_calls import count_call
from outrider.runtime.threads_and_loops import in_background
from outrider.sources.adapter import deadline_after, format_age
from outrider.sources.http.cache import AnswerCache, NoCache, read_cached, store_later
from outrider.sources.json_fields import link, text
from outrider.sources.web.crawl_rules import HostSchedule, pause_after
from outrider.sources.web.link_identifiers import find_identifiers
from outrider.state.errors import Malformed, MissingExtra, RateLimited, SourceError, SourceTimeout, SourceUnavailable
from outrider.state.hits import Scored
from outrider.state.ports import Capabilities, SourceAnswer, SourceQuery
from outrider.state.records import Page, Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from lxml.html import HtmlElement  # type: ignore[import-untyped]

MOST_QUERY_CHARS = 400
"""Engines cut or refuse longer queries."""


@dataclass(frozen=True, slots=True)
class SearchEngine:
    """URL of an engine and selectors of its result page. All but `result` and `ad` apply within a result."""

    name: str
    address: str
    """With `{query}` in place of the words."""
    result: str
    title: str
    link: str
    snippet: str
    nothing: str
    """Matches only a page without results ..."""
    challenge: str
    """... and only a page that takes us for a robot or requires consent."""
    ad: str = ""
    """Matches paid results."""
    nothing_says: str = ""
    challenge_says: str = ""
    """The same as patterns of the page's text."""

    def query_url(self, query: str) -> str:
        return self.address.replace("{query}", quote_plus(query[:MOST_QUERY_CHARS]))

    @property
    def host(self) -> str:
        return urlsplit(self.address).hostname or ""

    @property
    def ready(self) -> str:
        """A selector that matches once the page is complete."""
        return ", ".join(filter(None, (self.result, self.nothing, self.challenge)))


class SearchResult(NamedTuple):
    """One result of an engine: absolute URL, title and snippet."""

    url: str
    title: str
    snippet: str


class ResultPage(NamedTuple):
    """The parsed page of an engine: results, none, or a challenge to prove that a person is searching."""

    kind: Literal["results", "nothing", "challenge"]
    results: tuple[SearchResult, ...] = ()
    """Each link once, in the engine's order, without paid results."""


DUCKDUCKGO = SearchEngine(
    "duckduckgo",
    "https://html.duckduckgo.com/html/?q={query}",
    result="div.result",
    title="a.result__a",
    link="a.result__a[href]",
    snippet=".result__snippet",
    nothing=".no-results, .result--no-result",
    challenge=".anomaly-modal__modal, .anomaly-modal__title, #challenge-form, form[action*='anomaly.js']",
    ad=".result--ad",
    challenge_says=r"bots use DuckDuckGo too",
)
BING = SearchEngine(
    "bing",
    "https://www.bing.com/search?q={query}&setlang=en",
    result="li.b_algo",
    title="h2",
    link="h2 a[href]",
    snippet=".b_caption p, p.b_lineclamp2, p.b_lineclamp3, p.b_lineclamp4, p",
    nothing="li.b_no",
    challenge=".captcha, #captcha, .captcha_header, iframe[src*='challenges.cloudflare.com'], form[action*='/turing/']",
    ad="li.b_ad li, li.b_ad",
    challenge_says=r"(?:solve the challenge|one last step).{0,40}(?:continue|human|below)",
)
GOOGLE = SearchEngine(
    "google",
    "https://www.google.com/search?q={query}&hl=en&udm=14",
    result="div.tF2Cxc, div.Gx5Zad.fP1Qef.xpd",
    title="h3",
    link="a[href]",
    snippet="div.VwiC3b, div.BNeawe.s3v9rd.AP7Wnd",
    nothing="#topstuff .mnr-c",
    challenge="#captcha-form, #recaptcha, .g-recaptcha, form[action*='consent.google']",
    ad=".uEierd *, #tads *",
    nothing_says=r"- did not match any documents",
    challenge_says=r"unusual traffic from your computer network",
)
ENGINES = {engine.name: engine for engine in (DUCKDUCKGO, BING, GOOGLE)}


def parse_results(engine: SearchEngine, html: str) -> ResultPage:
    """The results of an engine's page. Raises `Malformed` if nothing is recognised."""
    tree = _tree(engine, html)
    paid = set(_select(tree, engine.ad)) if engine.ad else set()
    blocks = [block for block in _select(tree, engine.result) if block not in paid]
    results: dict[str, SearchResult] = {}
    for block in blocks:
        links = (resolve_target(element.get("href") or "", engine.address) for element in _select(block, engine.link))
        url = next(filter(None, links), None)
        title = next(filter(None, map(_element_text, _select(block, engine.title))), "")
        snippet = next(filter(None, map(_element_text, _select(block, engine.snippet))), "")
        if url and title:
            results.setdefault(url, SearchResult(url, title, snippet))
    if results:
        return ResultPage("results", tuple(results.values()))
    words = text(" ".join(tree.itertext("body", "p", "div", "span", "h1", "h2", "title", "a", "b", "em", "form", "td")))
    if _select(tree, engine.challenge) or (engine.challenge_says and re.search(engine.challenge_says, words, re.IGNORECASE)):
        return ResultPage("challenge")
    if _select(tree, engine.nothing) or (engine.nothing_says and re.search(engine.nothing_says, words, re.IGNORECASE)):
        return ResultPage("nothing")
    raise Malformed(f"{engine.name} answered with a page on which neither results nor their absence are recognised; it may have changed")


def resolve_target(href: str, base: str) -> str | None:
    """The final target of a result's link; None for paid results and for the engine's own pages."""
    try:
        url = urljoin(base, href.strip())
        parts = urlsplit(url)
        host, params = parts.hostname or "", parse_qs(parts.query)
        home = urlsplit(base).hostname or ""
    except ValueError:
        return None
    if _is_within(host, "duckduckgo.com") and parts.path == "/l/":
        return _external_link(params.get("uddg", [""])[0])
    if parts.path == "/url" and ("google." in host or host == home):
        return _external_link((params.get("q") or params.get("url") or [""])[0])
    if parts.path == "/ck/a" and (_is_within(host, "bing.com") or host == home):
        return _external_link(_decode_bing_url(params.get("u", [""])[0]))
    paid = (_is_within(host, "duckduckgo.com") and parts.path == "/y.js") or (
        _is_within(host, "bing.com") and parts.path.startswith("/aclick")
    )
    return None if paid or host == home else _external_link(url)


def _external_link(url: str) -> str | None:
    return link(url) if urlsplit(url).hostname else None


def _decode_bing_url(value: str) -> str:
    """A URL as Bing encodes it: `a1` and base64url without padding."""
    packed = value.removeprefix("a1")
    try:
        return base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4)).decode() if value.startswith("a1") else ""
    except (binascii.Error, ValueError):
        return ""


def _is_within(host: str, domain: str) -> bool:
    return host == domain or host.endswith(f".{domain}")


def _element_text(element: HtmlElement) -> str:
    return text("".join(element.itertext()))


def _select(element: HtmlElement, selector: str) -> list[HtmlElement]:
    return list(_selector(selector)(element))


@cache
def _selector(css: str) -> Callable[[HtmlElement], list[HtmlElement]]:
    try:
        from lxml.cssselect import CSSSelector  # type: ignore[import-untyped]
    except ImportError as error:  # lxml's own, where cssselect is missing
        raise MissingExtra("web search in a browser", "browser") from error
    selector: Callable[[HtmlElement], list[HtmlElement]] = CSSSelector(css)
    return selector


def _tree(engine: SearchEngine, html: str) -> HtmlElement:
    from lxml.etree import LxmlError  # type: ignore[import-untyped]
    from lxml.html import HTMLParser, document_fromstring

    try:
        return document_fromstring(html.encode("utf-8", "replace"), parser=HTMLParser(encoding="utf-8"))
    except (LxmlError, ValueError, AssertionError) as broken:  # lxml asserts that there is a body
        raise Malformed(f"{engine.name} answered with something else than a page: {broken}") from broken


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
            if engine.host in _circuits():
                self._test_in_background(engine, url, key)
            await _schedule().wait_turn(engine.host, self.gap_s, until)
            html, page = await self._load_page(engine, url, until)
        except (RateLimited, SourceTimeout, SourceUnavailable) as error:
            if cached is None:
                raise
            why = f"{engine.name} is unavailable ({error.status}); this is its response of {format_age(cached.age_s)} ago"
            return _answer(parse_results(engine, cached.body.decode()), query.limit, why, "stale", error)
        store_later(self.answers, key, html.encode(errors="replace"), {})
        return _answer(page, query.limit)

    async def _load_page(self, engine: SearchEngine, url: str, until: float) -> tuple[str, ResultPage]:
        """The HTML of a result page, and what it says. Opens the circuit of an engine that the browser cannot reach."""
        within_s = until - time.monotonic()
        count_call(NAME)
        try:
            rendered = await self.browser.open_page(url, within_s, frozenset({engine.host}), engine.ready)
        except (SourceTimeout, SourceUnavailable) as error:
            if isinstance(error, SourceUnavailable) or within_s >= self.timeout_s / 2:  # less time proves nothing
                self._open_circuit(engine, error)
            raise
        _circuits().pop(engine.host, None)
        if rendered.status in CHALLENGES:
            raise self._pause_engine(engine, f"answered {rendered.status}")
        if rendered.status >= 400:
            raise SourceUnavailable(f"{engine.name} answered {rendered.status}")
        page = parse_results(engine, rendered.html)
        if page.kind == "challenge":
            raise self._pause_engine(engine, "asks whether a person is searching")
        return rendered.html, page

    def _open_circuit(self, engine: SearchEngine, error: SourceError) -> None:
        """Skip an engine that the browser cannot reach, at each failure twice as long. Searches wait for it once, not each of them."""
        circuits = _circuits()
        failures = circuits[engine.host] = circuits.get(engine.host, 0) + 1
        until = _schedule().clock() + pause_after(failures)
        _schedule().close(engine.host, until, f"the browser could not reach it: {error}", type(error))

    def _test_in_background(self, engine: SearchEngine, url: str, key: str) -> None:
        """After the pause, load the page while no search waits for it; this search and others are told so. A page goes to the cache."""
        schedule = _schedule()
        if schedule.is_closed(engine.host):
            return
        retry_at = schedule.clock() + self.timeout_s
        schedule.close(engine.host, retry_at, "the browser could not reach it, and tries again", SourceUnavailable)

        async def test() -> None:
            with suppress(SourceError):  # the next search learns the reason
                html, _ = await self._load_page(engine, url, deadline_after(self.timeout_s))
                schedule.open(engine.host)
                store_later(self.answers, key, html.encode(errors="replace"), {})

        task = asyncio.get_running_loop().create_task(test())
        _tests().add(task)
        task.add_done_callback(_tests().discard)

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
def _circuits() -> dict[str, int]:
    """Hosts that the browser did not reach, with the number of failures in a row. One for the process, as the schedule."""
    return {}


@cache
def _tests() -> set[asyncio.Task[None]]:
    """Loads under way that no search waits for: the loop itself holds only weak references."""
    return set()


@cache
def _schedule() -> HostSchedule:
    """One for the process; used on the background loop."""
    return HostSchedule()

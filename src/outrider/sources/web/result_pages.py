"""Result pages of search engines, read by CSS selectors: DuckDuckGo, Bing, Google

No engine documents its pages; the selectors follow the pages of 2026 (Google's page without scripts: of 2023). A page on which nothing is
recognised is `Malformed`, so that a changed page is never mistaken for "no results".
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple
from urllib.parse import parse_qs, quote_plus, urljoin, urlsplit

from outrider.sources.json_fields import link, text
from outrider.state.errors import Malformed, MissingExtra

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

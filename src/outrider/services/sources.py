"""Sources of the settings, and the HTTP client, browser and page reader that they share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import cast

import platformdirs

from outrider.services.source_plugins import load_plugins
from outrider.settings.model import Settings
from outrider.settings.sections import CacheSettings, SerpapiSettings, ServiceSettings, SourcesSettings
from outrider.sources.adapter import DisabledSource
from outrider.sources.arxiv import Arxiv
from outrider.sources.crossref import Crossref
from outrider.sources.github.search import Github
from outrider.sources.http.cache import AnswerCache, DiskCache, RedisCache
from outrider.sources.http.client import Caller, user_agent
from outrider.sources.http.ssrf_guard import Guard
from outrider.sources.openalex import Openalex
from outrider.sources.pubmed import Pubmed
from outrider.sources.semantic_scholar import SemanticScholar
from outrider.sources.serpapi import SerpapiGoogle, SerpapiScholar
from outrider.sources.web.browser import Chromium, unavailable_reason
from outrider.sources.web.fetch import PageFetcher
from outrider.sources.web.search import ENGINES, WebSearch
from outrider.sources.web.search import NAME as WEB
from outrider.state.ports import Detailer, PageReader, Source

OPEN_CACHES = 4


def make_sources(settings: Settings, library: Source) -> tuple[Source, ...]:
    own = (library,) if settings.sources.library.enabled else ()
    return own if settings.sources.offline else (*own, *_make_services(settings))


def find_browser(settings: SourcesSettings) -> Chromium | None:
    """Loads result pages and pages built by scripts. None if no browser is installed or `web` is switched off."""
    return _open_browser(settings.allowed_hosts, settings.web.tabs) if settings.web.enabled and not unavailable_reason() else None


def make_page_reader(settings: SourcesSettings) -> PageReader | None:
    """Fetches pages; None if only the library is searched."""
    return (
        None
        if settings.offline
        else _open_pages(settings.allowed_hosts, settings.contact, settings.web.tabs if find_browser(settings) else 0)
    )


@cache
def _open_browser(allowed_hosts: str, tabs: int) -> Chromium:
    """One for a process, like the pages below: all searches share its tabs."""
    return Chromium(_make_guard(allowed_hosts), tabs)


@cache
def _open_pages(allowed_hosts: str, contact: str, tabs: int) -> PageFetcher:
    """All searches of a process take turns at a host and share its robots.txt. 0 tabs: without a browser."""
    return PageFetcher(_make_guard(allowed_hosts), user_agent(contact), _open_browser(allowed_hosts, tabs) if tabs else None)


@cache
def _make_guard(allowed_hosts: str) -> Guard:
    return Guard(frozenset(host.strip().lower() for host in allowed_hosts.split(",") if host.strip()))


def find_detailers(sources: Sequence[Source]) -> Mapping[str, Detailer]:
    """Sources that have more details of their repositories than a search returns, by name."""
    return {source.name: cast("Detailer", source) for source in sources if hasattr(source, "details")}


def _make_services(settings: Settings) -> Iterator[Source]:
    sources = settings.sources
    caller = Caller(open_answer_cache(settings.cache), sources.contact, settings.cache.fresh_s)
    adapters: Sequence[tuple[ServiceSettings, Callable[[], Source]]] = (
        (sources.github, partial(Github.of, sources.github, caller)),
        (sources.openalex, partial(Openalex.of, sources.openalex, caller)),
        (sources.semantic_scholar, partial(SemanticScholar.of, sources.semantic_scholar, caller)),
        (sources.arxiv, partial(Arxiv.of, sources.arxiv, caller)),
        (sources.pubmed, partial(Pubmed.of, sources.pubmed, caller)),
        (sources.crossref, partial(Crossref.of, sources.crossref, caller)),
        (sources.serpapi_scholar, partial(SerpapiScholar.of, sources.serpapi_scholar, caller)),
        (sources.serpapi_google, partial(SerpapiGoogle.of, sources.serpapi_google, caller)),
    )
    for service, make in adapters:
        if service.enabled and (service.api_key.get_secret_value() or not isinstance(service, SerpapiSettings)):
            yield make()
    if (web := sources.web).enabled:
        browser, engine = find_browser(sources), ENGINES[web.engine]
        if browser is None:
            yield DisabledSource(WEB, (engine.name,), unavailable_reason())
        else:
            yield WebSearch(browser, (engine,), web.gap_s, web.pause_s, web.timeout_s, caller.answers, caller.fresh_s)
    yield from load_plugins(sources.extra, caller)


@lru_cache(maxsize=OPEN_CACHES)
def open_answer_cache(settings: CacheSettings) -> AnswerCache:
    """The cache of answers, one for a process; it opens nothing before its first use."""
    if settings.url:
        return RedisCache(settings.url)
    folder = (
        Path(settings.folder).expanduser() if settings.folder else platformdirs.user_cache_path("outrider", appauthor=False) / "answers"
    )
    return DiskCache(folder)

"""Who is asked: the sources that the settings switch on, the services of the world all over one caller."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import cast

import platformdirs

from outrider.services.source_plugins import plugged
from outrider.settings.model import Settings
from outrider.settings.sources import CacheSettings, SerpapiSettings, ServiceSettings, SourcesSettings
from outrider.sources.adapter import Off
from outrider.sources.arxiv import Arxiv
from outrider.sources.crossref import Crossref
from outrider.sources.github.search import Github
from outrider.sources.http.cache import Answers
from outrider.sources.http.cache_backends import DiskAnswers, RedisAnswers
from outrider.sources.http.client import Caller, agent_of
from outrider.sources.http.ssrf_guard import Guard
from outrider.sources.openalex import Openalex
from outrider.sources.pubmed.search import Pubmed
from outrider.sources.semantic_scholar import SemanticScholar
from outrider.sources.serpapi import SerpapiGoogle, SerpapiScholar
from outrider.sources.web.browser import Chromium, why_off
from outrider.sources.web.fetch import Pages
from outrider.sources.web.result_pages import ENGINES
from outrider.sources.web.search import NAME as WEB
from outrider.sources.web.search import Web
from outrider.state.ports import Detailer, PageReader, Source

CACHES_OPEN = 4


def sources_of(settings: Settings, library: Source) -> tuple[Source, ...]:
    own = (library,) if settings.sources.library.enabled else ()
    return own if settings.sources.offline else (*own, *_services(settings))


def browser_of(asked: SourcesSettings) -> Chromium | None:
    """For result pages and for pages that their scripts make. None where there is none, or `web` is switched off."""
    return _browser(asked.allowed_hosts, asked.web.tabs) if asked.web.enabled and not why_off() else None


def pages_of(asked: SourcesSettings) -> PageReader | None:
    """Who fetches pages; None where only the library is asked."""
    return None if asked.offline else _pages(asked.allowed_hosts, asked.contact, asked.web.tabs if browser_of(asked) else 0)


@cache
def _browser(allowed_hosts: str, tabs: int) -> Chromium:
    """One for a process, as of pages below: whoever searches shares its tabs."""
    return Chromium(_guard(allowed_hosts), tabs)


@cache
def _pages(allowed_hosts: str, contact: str, tabs: int) -> Pages:
    """A host is asked in turn by all searches of a process, and its robots.txt is read once for all. 0 tabs: without a browser."""
    return Pages(_guard(allowed_hosts), agent_of(contact), _browser(allowed_hosts, tabs) if tabs else None)


@cache
def _guard(allowed_hosts: str) -> Guard:
    return Guard(frozenset(host.strip().lower() for host in allowed_hosts.split(",") if host.strip()))


def detailers_of(sources: Sequence[Source]) -> Mapping[str, Detailer]:
    """Those among the sources that tell more of their repositories than a search does."""
    return {source.name: cast("Detailer", source) for source in sources if hasattr(source, "details")}


def _services(settings: Settings) -> Iterator[Source]:
    asked = settings.sources
    caller = Caller(answers_of(settings.cache), asked.contact, settings.cache.fresh_s)
    adapters: Sequence[tuple[ServiceSettings, Callable[[], Source]]] = (
        (asked.github, partial(Github.of, asked.github, caller)),
        (asked.openalex, partial(Openalex.of, asked.openalex, caller)),
        (asked.semantic_scholar, partial(SemanticScholar.of, asked.semantic_scholar, caller)),
        (asked.arxiv, partial(Arxiv.of, asked.arxiv, caller)),
        (asked.pubmed, partial(Pubmed.of, asked.pubmed, caller)),
        (asked.crossref, partial(Crossref.of, asked.crossref, caller)),
        (asked.serpapi_scholar, partial(SerpapiScholar.of, asked.serpapi_scholar, caller)),
        (asked.serpapi_google, partial(SerpapiGoogle.of, asked.serpapi_google, caller)),
    )
    for own, made in adapters:
        if own.enabled and (own.api_key.get_secret_value() or not isinstance(own, SerpapiSettings)):
            yield made()
    if asked.web.enabled:
        yield _web(asked, caller)
    yield from plugged(asked.extra, caller)


def _web(asked: SourcesSettings, caller: Caller) -> Source:
    web, browser = asked.web, browser_of(asked)
    engine = ENGINES[web.engine]
    if browser is None:
        return Off(WEB, (engine.name,), why_off())
    return Web(browser, (engine,), web.gap_s, web.pause_s, web.timeout_s, caller.answers, caller.fresh_s)


@lru_cache(maxsize=CACHES_OPEN)
def answers_of(settings: CacheSettings) -> Answers:
    """Where answers are kept, one for the process: nothing is opened before it is asked."""
    if settings.url:
        return RedisAnswers(settings.url)
    folder = (
        Path(settings.folder).expanduser() if settings.folder else platformdirs.user_cache_path("outrider", appauthor=False) / "answers"
    )
    return DiskAnswers(folder)

"""Who is asked: the sources that the settings switch on, the services of the world all over one caller."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import platformdirs

from outrider.settings.model import Settings
from outrider.settings.sources import CacheSettings, SerpapiSettings, ServiceSettings, SourcesSettings
from outrider.sources.arxiv import Arxiv
from outrider.sources.browser import Chromium, why_off
from outrider.sources.calls.cache import Answers, DiskAnswers, RedisAnswers
from outrider.sources.calls.caller import Caller
from outrider.sources.calls.guard import Guard
from outrider.sources.crossref import Crossref
from outrider.sources.github import Github
from outrider.sources.off import Off
from outrider.sources.openalex import Openalex
from outrider.sources.pubmed import Pubmed
from outrider.sources.semantic_scholar import SemanticScholar
from outrider.sources.serpapi import SerpapiGoogle, SerpapiScholar
from outrider.sources.web import NAME as WEB
from outrider.sources.web import Web
from outrider.sources.web_engines import ENGINES
from outrider.state.ports import Source


def sources_of(settings: Settings, library: Source) -> tuple[Source, ...]:
    own = (library,) if settings.sources.library.enabled else ()
    return own if settings.sources.offline else (*own, *_services(settings))


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


def _web(asked: SourcesSettings, caller: Caller) -> Source:
    web = asked.web
    engine = ENGINES[web.engine]
    why = why_off()
    if why:
        return Off(WEB, (engine.name,), why)
    allowed = frozenset(host.strip().lower() for host in asked.allowed_hosts.split(",") if host.strip())
    browser = Chromium(Guard(allowed), web.tabs)
    return Web(browser, (engine,), web.gap_s, web.pause_s, web.timeout_s, caller.answers, caller.fresh_s)


def answers_of(settings: CacheSettings) -> Answers:
    """Where answers of services are kept: nothing is opened before it is asked."""
    if settings.url:
        return RedisAnswers(settings.url)
    folder = (
        Path(settings.folder).expanduser() if settings.folder else platformdirs.user_cache_path("outrider", appauthor=False) / "answers"
    )
    return DiskAnswers(folder)

"""Sources of the settings and of plug-ins, and the client, browser and pages they share.

Sources of other packages are entry points of the group `outrider.sources`. Each entry point names a factory of a `Source`. A faulty package
loses its own results only, and its line in the answer gives the reason. Its code is not trusted: every exception is caught, and it runs on
a loop of its own (`run_isolated`), so that it blocks no other code.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args

import platformdirs
from pydantic import JsonValue

from outrider.ingest.field_values import TooDeep, clean
from outrider.runtime.tape import without_port
from outrider.runtime.threads_and_loops import run_isolated
from outrider.settings.model import Settings
from outrider.settings.sections import CacheSettings, SerpapiSettings, ServiceSettings, SourcesSettings, is_secret
from outrider.state.errors import Malformed, SearchError, SourceTimeout, SourceUnavailable
from outrider.state.full_text import LocationSource, TextFetcher
from outrider.state.hits import Scored
from outrider.state.ports import AnswerStatus, BatchSource, Capabilities, Detailer, PageReader, Source, SourceAnswer, SourceQuery
from outrider.state.records import RECORD, Document, Page, Paper, Record, Repository
from outrider.state.request import KNOWN_SOURCES, source_plugins
from outrider.text.sanitize import HIDDEN, is_loopback, redact

if TYPE_CHECKING:
    from outrider.runtime.shared_redis import SharedRedis
    from outrider.sources.adapter import DisabledSource
    from outrider.sources.github.repository import GithubRepositories
    from outrider.sources.http.cache import AnswerCache
    from outrider.sources.http.client import Caller
    from outrider.sources.http.ssrf_guard import Guard
    from outrider.sources.web.browser import Chromium
    from outrider.sources.web.fetch import PageFetcher
    from outrider.state.citations import LinkSource

OPEN_CACHES = 4


def make_sources(settings: Settings, library: Source) -> tuple[Source, ...]:
    own = (library,) if settings.sources.library.enabled else ()
    return own if settings.sources.offline else (*own, *_make_services(settings))


def make_link_sources(settings: Settings, sources: Sequence[Source], *, further: bool) -> tuple[LinkSource, ...]:
    """The services that report citations: those among the sources of searches, and `further` ones that are read for nothing else."""
    if settings.sources.offline:
        return ()
    searched = [cast("LinkSource", source) for source in sources if hasattr(source, "directions")]
    if not further:
        return tuple(searched)
    from outrider.sources.europe_pmc import EuropePmc
    from outrider.sources.opencitations import Opencitations

    caller, own = _make_caller(settings), settings.sources
    made: list[LinkSource] = [Opencitations.of(own.opencitations, caller)] if own.opencitations.enabled else []
    made += [EuropePmc.of(own.europe_pmc, caller)] if own.europe_pmc.enabled else []
    return (*searched, *made)


def find_browser(settings: SourcesSettings) -> Chromium | None:
    """Loads result pages and pages built by scripts. None if no browser is installed or `web` is switched off."""
    if not settings.web.enabled:
        return None
    from outrider.sources.web.browser import unavailable_reason

    return None if unavailable_reason() else _open_browser(settings.allowed_hosts, settings.web.tabs)


def make_page_reader(settings: SourcesSettings) -> PageReader | None:
    """Fetches pages; None if only the library is searched."""
    return (
        None
        if settings.offline
        else _open_pages(settings.allowed_hosts, settings.contact, settings.web.tabs if find_browser(settings) else 0)
    )


def make_text_fetcher(settings: Settings, pages: PageReader | None) -> TextFetcher | None:
    """Reads open full texts through the services that are switched on, and `pages`; None if nothing may be contacted."""
    from outrider.full_text.locations import KnownLocations
    from outrider.full_text.reader import OpenTextReader
    from outrider.ingest.entry import ReadOptions
    from outrider.sources.europe_pmc import EuropePmc
    from outrider.sources.http.cache import AnswerTextCache
    from outrider.sources.pmc import Pmc
    from outrider.sources.unpaywall import Unpaywall
    from outrider.sources.web.fetch import PageFetcher

    if settings.sources.offline:
        return None
    own, caller = settings.sources, _make_caller(settings)
    sources: list[LocationSource] = [EuropePmc.of(own.europe_pmc, caller)] if own.europe_pmc.enabled else []
    sources += [Pmc.of(own.pmc, caller)] if own.pmc.enabled else []
    sources.append(KnownLocations(own.arxiv_texts, own.open_links.enabled))
    missing = explain_missing_contact(own)
    if own.unpaywall.enabled and own.open_links.enabled and not missing:
        sources.append(Unpaywall.of(own.unpaywall, caller, own.contact))
    return OpenTextReader(
        sources,
        pages if isinstance(pages, PageFetcher) else None,
        settings.enrich.full_text_licence,
        ReadOptions(max_bytes=settings.ingest.max_bytes, max_pages=settings.ingest.max_pages),
        None if is_cache_refused(settings) else AnswerTextCache(open_answer_cache(settings.answer_cache)),
        settings.cache.fresh_s,
        missing=(missing,) if missing else (),
    )


def explain_missing_contact(settings: SourcesSettings) -> str:
    """Why Unpaywall is not asked although it is switched on; empty if it is."""
    needs = settings.unpaywall.enabled and settings.open_links.enabled and "@" not in settings.contact
    return "unpaywall is not asked: it requires your e-mail address in sources.contact" if needs else ""


@cache
def _open_browser(allowed_hosts: str, tabs: int) -> Chromium:
    """One for a process, like the pages below: all searches share its tabs."""
    from outrider.sources.web.browser import Chromium

    return Chromium(make_guard(allowed_hosts), tabs)


@cache
def _open_pages(allowed_hosts: str, contact: str, tabs: int) -> PageFetcher:
    """All searches of a process take turns at a host and share its robots.txt. 0 tabs: without a browser."""
    from outrider.sources.http.client import user_agent
    from outrider.sources.web.fetch import PageFetcher

    return PageFetcher(make_guard(allowed_hosts), user_agent(contact), _open_browser(allowed_hosts, tabs) if tabs else None)


@cache
def make_guard(allowed_hosts: str) -> Guard:
    from outrider.sources.http.ssrf_guard import Guard

    return Guard(frozenset(host.strip().lower() for host in allowed_hosts.split(",") if host.strip()))


def without_cache(source: Source) -> Source:
    """The same service, asked anew each time. A source of another package decides itself."""
    from outrider.sources.adapter import ServiceSource
    from outrider.sources.http.cache import NoCache

    if not isinstance(source, ServiceSource):
        return source
    return replace(source, caller=replace(source.caller, answers=NoCache(), fresh_s=0.0))


def find_github(sources: Iterable[Source]) -> GithubRepositories | None:
    """GitHub's single repositories; None if it is switched off."""
    from outrider.sources.github.search import Github

    return next((source.repositories for source in map(without_port, sources) if isinstance(source, Github)), None)


def find_detailers(sources: Sequence[Source]) -> Mapping[str, Detailer]:
    """Sources that have more details of their repositories than a search returns, by name."""
    return {source.name: cast("Detailer", source) for source in sources if hasattr(source, "details")}


def _make_caller(settings: Settings) -> Caller:
    from outrider.sources.http.client import Caller

    return Caller(
        open_answer_cache(settings.answer_cache), settings.sources.contact, settings.cache.fresh_s, shared=open_shared_redis(settings)
    )


def open_shared_redis(settings: Settings) -> SharedRedis | None:
    """The server that processes share, one object for a process; None if the settings name none, or this process is offline."""
    url = settings.shared.redis_url
    if not url or (settings.sources.offline and not is_loopback(url)):
        return None
    from outrider.runtime.shared_redis import get_shared_redis

    return get_shared_redis(url)


def _make_services(settings: Settings) -> Iterator[Source]:
    from outrider.sources.adapter import DisabledSource
    from outrider.sources.arxiv import Arxiv
    from outrider.sources.crossref import Crossref
    from outrider.sources.github.search import Github
    from outrider.sources.openalex import Openalex
    from outrider.sources.pubmed import Pubmed
    from outrider.sources.semantic_scholar import SemanticScholar
    from outrider.sources.serpapi import SerpapiGoogle, SerpapiScholar
    from outrider.sources.web.browser import unavailable_reason
    from outrider.sources.web.search import ENGINES, WebSearch
    from outrider.sources.web.search import NAME as WEB

    sources = settings.sources
    caller = _make_caller(settings)
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


def is_cache_refused(settings: Settings) -> bool:
    """Whether the cache is a server on the network, and this process is offline."""
    url = settings.answer_cache.url
    return settings.sources.offline and bool(url) and not is_loopback(url)


@lru_cache(maxsize=OPEN_CACHES)
def open_answer_cache(settings: CacheSettings) -> AnswerCache:
    """The cache of answers, one for a process; it opens nothing before its first use."""
    from outrider.sources.http.cache import DiskCache, RedisCache

    if settings.url:
        return RedisCache(settings.url)
    return DiskCache(find_cache_folder(settings))


def find_cache_folder(settings: CacheSettings) -> Path:
    """The folder of the cache on this machine, also where a server holds the answers."""
    return Path(settings.folder).expanduser() if settings.folder else platformdirs.user_cache_path("outrider", appauthor=False) / "answers"


Result = TypeVar("Result")
PluginSettings = Mapping[str, JsonValue]
Factory = Callable[[PluginSettings, "Caller"], Source]
"""Takes `sources.extra.<name>` without `enabled`, and the shared HTTP client."""
NAME = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")
"""Can be written as an environment variable and as a file name."""
STRATEGIES = ("plugin",)
LAST_SECOND = 253_402_300_799
"""Of the year 9999, the last that `datetime` knows."""


def load_plugins(extra: Mapping[str, PluginSettings], caller: Caller) -> Iterator[Source]:
    """Usable sources, and an `Off` for each unusable one; none that is switched off. Raises nothing."""
    from outrider.sources.adapter import DisabledSource

    names = set(KNOWN_SOURCES)
    entries = source_plugins()
    for entry in entries:
        settings = extra.get(entry.name, {})
        if settings.get("enabled", True) is False:
            continue
        if entry.name in names:
            owner = "Outrider's own" if entry.name in KNOWN_SOURCES else "another package's"
            why = f"its name is {owner}; sources.extra.{entry.name}.enabled: false hides this"
            yield DisabledSource(f"{entry.name} of {describe_package(entry)}", STRATEGIES, why)
        else:
            yield _load_plugin(entry, settings, caller)
        names.add(entry.name)
    for name in sorted(extra.keys() - {entry.name for entry in entries}):
        if extra[name].get("enabled", True) is not False:
            yield DisabledSource(name, STRATEGIES, f"sources.extra.{name} is set, but no installed package adds a source of that name")


def _load_plugin(entry: EntryPoint, settings: PluginSettings, caller: Caller) -> Source:
    from outrider.sources.adapter import DisabledSource

    secrets = tuple(str(value) for name, value in settings.items() if is_secret(name) and value)

    def off(why: str) -> DisabledSource:
        return DisabledSource(
            entry.name, STRATEGIES, f"{why} ({describe_package(entry)}); sources.extra.{entry.name}.enabled: false switches it off"
        )

    if not NAME.fullmatch(entry.name):
        return off("its name must be of a-z, 0-9 and single _")
    if settings.get("enabled", True) is not True:
        return off(f"sources.extra.{entry.name}.enabled takes true or false")
    try:
        factory: Factory = entry.load()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a module may raise anything when it is imported
        return off(f"{entry.value} cannot be imported: {_format_error(error, secrets)}")
    try:
        source = factory({name: value for name, value in settings.items() if name != "enabled"}, caller)
        fault = find_source_fault(source, entry.name)
        return off(fault) if fault else PluginSource.of(source, describe_package(entry), secrets)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a factory or a property may raise anything
        return off(f"{entry.value} made no source: {_format_error(error, secrets)}")


def find_source_fault(source: Any, name: str) -> str:
    """The reason why an object is no `Source` of this name; empty if it is one."""
    missing = [part for part in ("name", "strategies", "capabilities", "timeout_s", "search", "get") if not hasattr(source, part)]
    if missing:
        return f"what it made is no Source: {type(source).__name__} lacks {', '.join(missing)}"
    if source.name != name:
        return f"the source calls itself {source.name!r}, and its entry point {name!r}"
    strategies = source.strategies
    if not (isinstance(strategies, tuple) and strategies and all(isinstance(strategy, str) and strategy for strategy in strategies)):
        return "its strategies must be a tuple of one name or more"
    if not isinstance(source.capabilities, Capabilities):
        return "its capabilities must be Capabilities"
    if not (_is_number(source.timeout_s) and source.timeout_s > 0):
        return "its timeout_s must be a number of seconds above 0"
    needed = ("search", "get", *(["get_many"] if source.capabilities.batch > 1 else ()))
    synchronous = [part for part in needed if not inspect.iscoroutinefunction(getattr(source, part, None))]
    return f"its {' and '.join(synchronous)} must be async functions" if synchronous else ""


@dataclass(frozen=True, slots=True)
class PluginSource:
    """A `Source` around one of another package: raises nothing but `SearchError`, and returns only valid answers and records.

    Halves of surrogate pairs, which JSON can hold and UTF-8 cannot, are replaced here, as the adapters of our own services leave them out.
    """

    source: Source
    package: str
    secrets: tuple[str, ...] = field(repr=False)
    name: str
    strategies: tuple[str, ...]
    capabilities: Capabilities
    timeout_s: float

    @classmethod
    def of(cls, source: Source, package: str, secrets: tuple[str, ...]) -> PluginSource:
        return cls(source, package, secrets, source.name, source.strategies, source.capabilities, source.timeout_s)

    async def search(self, query: SourceQuery) -> SourceAnswer:
        answer = await self._call(lambda: self.source.search(query), query.within_s)
        if isinstance(answer, SourceAnswer) and isinstance(answer.results, tuple) and len(answer.results) > query.limit:
            answer = replace(answer, results=answer.results[: query.limit])
        if fault := find_answer_fault(answer, self.name):
            raise Malformed(f"{self.name} ({self.package}) gave {fault}")
        results = tuple(one._replace(record=self._clean(one.record), why=str(clean(one.why))) for one in answer.results)
        message, model = str(clean(answer.message)), str(clean(answer.model))
        return replace(answer, results=results, places=(), read=None, message=message, model=model)

    async def get(self, scheme: str, value: str, within_s: float) -> Record | None:
        record = await self._call(lambda: self.source.get(scheme, value, within_s), within_s)
        if record is not None and (fault := find_record_fault(record, self.name)):
            raise Malformed(f"{self.name} ({self.package}) gave {fault}")
        return record and self._clean(record)

    async def get_many(self, scheme: str, values: Sequence[str], within_s: float) -> Mapping[str, Record]:
        source = cast("BatchSource", self.source)
        records = await self._call(lambda: source.get_many(scheme, values, within_s), within_s)
        if not isinstance(records, Mapping):
            raise Malformed(f"{self.name} ({self.package}) gave {type(records).__name__} instead of records by identifier")
        if fault := next(filter(None, (find_record_fault(record, self.name) for record in records.values())), ""):
            raise Malformed(f"{self.name} ({self.package}) gave {fault}")
        return {value: self._clean(record) for value, record in records.items()}

    def _clean(self, record: Record) -> Record:
        """The record without what no store takes (`clean`)."""
        fields = record.model_dump(mode="json", exclude_defaults=True)
        try:
            cleaned = cast("dict[str, Any]", clean(fields))
        except TooDeep as error:
            raise Malformed(f"{self.name} ({self.package}) gave a record {error}") from error
        return record if cleaned == fields else RECORD.validate_python({"kind": record.kind, **cleaned})

    async def _call(self, work: Callable[[], Awaitable[Result]], within_s: float) -> Result:
        from outrider.sources.adapter import usable_seconds

        name = f"{self.name} ({self.package})"
        try:
            done = await run_isolated(self.name, work, usable_seconds(within_s))
        except TimeoutError as error:
            raise SourceTimeout(f"{name} {error}") from error
        problem = done.exception()
        if problem is None or isinstance(problem, SearchError):
            return done.result()
        if isinstance(problem, TimeoutError):
            raise SourceTimeout(f"{name} took too long: {_format_error(problem, self.secrets)}") from problem
        raise SourceUnavailable(f"{name} failed: {_format_error(problem, self.secrets)}") from problem


def find_answer_fault(answer: Any, name: str) -> str:
    """The reason why an object is no `SourceAnswer` with records of this source; empty if it is one."""
    if not isinstance(answer, SourceAnswer):
        return f"{type(answer).__name__} instead of a SourceAnswer"
    if not isinstance(answer.results, tuple) or not all(isinstance(result, Scored) for result in answer.results):
        return "results that are no tuple of Scored"
    if fault := next(filter(None, (find_record_fault(result.record, name) for result in answer.results)), ""):
        return fault
    if not all(_is_number(result.score) and isinstance(result.why, str) and isinstance(result.paths, tuple) for result in answer.results):
        return "a result whose score is no finite number"
    if len({result.record.doc_id for result in answer.results}) < len(answer.results):
        return "one doc_id twice"
    total, retry_at = answer.total, answer.retry_at
    if not (total is None or (type(total) is int and total >= 0)):
        return "a total that is no whole number from 0 on"
    if not (retry_at is None or (_is_number(retry_at) and 0 <= retry_at <= LAST_SECOND)):
        return "a retry_at that is no time"
    texts = isinstance(answer.message, str) and isinstance(answer.model, str)
    return "" if texts and answer.status in get_args(AnswerStatus) else f"the status {answer.status!r}, or a message that is no text"


def find_record_fault(record: Any, name: str) -> str:
    """The reason why an object is no record of this source; empty if it is one. Ids begin with the source's name to be unique."""
    if not isinstance(record, Paper | Repository | Page | Document):
        return f"{type(record).__name__} instead of a record"
    if record.source != name or not record.doc_id.startswith(f"{name}:"):
        return f"a record whose source is not {name!r}, or whose doc_id does not begin with '{name}:'"
    return "" if clean(record.doc_id) == record.doc_id else f"the doc_id {record.doc_id!r}, which cannot be stored"


def describe_package(entry: EntryPoint) -> str:
    """Name and version of the distribution, if it has them."""
    try:
        assert entry.dist is not None  # noqa: S101 - `entry_points` sets it
        return f"{entry.dist.metadata['Name']} {entry.dist.version}"
    except (AssertionError, LookupError, TypeError, AttributeError, ValueError, OSError, ImportError):
        return "a package without metadata"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _format_error(error: BaseException, secrets: tuple[str, ...]) -> str:
    text = str(error)
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return redact(f"{type(error).__name__}: {text}" if text else type(error).__name__, "")

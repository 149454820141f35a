"""Composition root: the only place that constructs adapters, from the settings."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from copy import copy
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache, partial
from os import PathLike
from typing import TYPE_CHECKING, Any

from outrider.library.address_and_locks import Location
from outrider.library.find_code import CodeFinder
from outrider.library.fusion import build_fusion, fuse_sources, interleave
from outrider.models.chat.client import get_concurrency_limiter
from outrider.models.chat.endpoint import EndpointChat, make_chat
from outrider.nodes.fine_scorer.fine_scorer import ScoringPrompts
from outrider.nodes.translator.model_plan import QueryPrompt
from outrider.prompts import Prompt, load
from outrider.runtime.tape import WallClock, without_port
from outrider.runtime.threads_and_loops import get_shared, load_module, run_in_thread
from outrider.runtime.workers import Workers
from outrider.services import error_tracker, tracing
from outrider.services.background_reindex import BackgroundReindex
from outrider.services.citation_queue import CitationQueue
from outrider.services.learning import LearnedPreferences
from outrider.services.planner import Planner
from outrider.services.save_results import ResultSaver
from outrider.services.sources import (
    find_browser,
    make_link_sources,
    make_page_reader,
    make_sources,
    make_text_fetcher,
    open_shared_redis,
    without_cache,
)
from outrider.settings.load import load as load_settings
from outrider.settings.model import EmbeddingSettings, RankingSettings, Settings
from outrider.sources.library import LibrarySource
from outrider.state.chat import Chat
from outrider.state.code_links import LinkFinder
from outrider.state.duplicate_decisions import NO_DECISIONS, Decisions, DecisionsProvider, load_no_decisions
from outrider.state.errors import LibraryError, LibraryMissing, MissingExtra, ModelError, SearchError
from outrider.state.full_text import TextFetcher
from outrider.state.ports import Clock, Fusion, LibraryReader, PageReader, PreferencesProvider, ResultStore, Source
from outrider.state.records import LIBRARY, Record
from outrider.state.request import RetrieverType, SearchRequest
from outrider.state.reranking import NOT_PROBED
from outrider.text.sanitize import OFFLINE, is_loopback, without_password
from outrider.version import __version__

if TYPE_CHECKING:
    from outrider.library.library import Library
    from outrider.library.search_engine import Engine
    from outrider.models.embed.embedder import Embedder
    from outrider.recorder.ports import PortBook
    from outrider.reviews.session import OpenReviews
    from outrider.services.recorded import Destination
    from outrider.state.citations import LinkSource
    from outrider.state.embedding import EmbeddingSpace
    from outrider.state.ports import Neighbours, Reranker, RerankerProvider
    from outrider.state.reranking import Verdict
    from outrider.state.systematic import OpenLibrary, RemoteSource


CACHED_MODELS = 2
"""Embedding models that a process holds: one to read with, one to reindex to."""
WARM_S = 60.0
"""How long loaded models count as those that a search needs: another process may give the library vectors of another model."""
AZURE_ENDPOINTS = ("azure_storage_endpoint", "azure_endpoint", "endpoint")
STORE_ENDPOINTS: Mapping[str, tuple[str, ...]] = {
    "s3": ("aws_endpoint", "aws_endpoint_url", "endpoint", "endpoint_url"),
    "gs": ("google_base_url",),
    **dict.fromkeys(("az", "abfs", "abfss"), AZURE_ENDPOINTS),
    "db": ("host_override",),
}
"""By scheme, the options that name the address of an object store: another store's client ignores them."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ModelUse:
    """The models besides the chat model that a search may use."""

    dense: bool = True
    reranker: bool = True
    reranker_requested: bool = False
    """Whatever an evaluation in the library advises."""
    distiller: bool = True

    @classmethod
    def of_request(cls, request: SearchRequest) -> ModelUse:
        is_ranked = request.mode == "discovery"
        by_vectors = request.strategies is None or RetrieverType.LANCE_DENSE in request.strategies
        # on a thread, the earlier run's reports may stand in the same field
        sources = [name for name in request.sources or () if isinstance(name, str)]
        in_library = not sources or LIBRARY in sources
        reranks = request.rerank_enabled is not False and (request.fusion_enabled or bool(request.rerank_enabled))
        return cls(
            dense=request.grey_literature or (is_ranked and by_vectors and in_library),
            reranker=is_ranked and reranks,
            reranker_requested=bool(request.rerank_enabled),
            distiller=is_ranked and request.distill_enabled and request.distill_top > 0,
        )


ALL_MODELS = ModelUse()
ONLY_CHAT = ModelUse(dense=False, reranker=False, distiller=False)
ONLY_DISTILLER = ModelUse(dense=False, reranker=False)


@lru_cache(maxsize=CACHED_MODELS)
def _make_embedder(settings: EmbeddingSettings, space: EmbeddingSpace | None, offline: bool) -> Embedder:
    from outrider.models.embed.embedder import Embedder

    return Embedder.from_settings(settings, space, offline=offline)


def load_embedder(settings: EmbeddingSettings, space: EmbeddingSpace | None, *, offline: bool = False) -> Embedder:
    """One for a process: loading weights takes seconds, and several services may need the same."""
    return get_shared(_make_embedder, settings, space, offline)


def make_fusion(ranking: RankingSettings) -> Fusion:
    """The fusion of the lists of all sources."""
    return partial(fuse_sources, own=build_fusion(ranking), k=ranking.rrf_k)


class Services:
    """Everything a graph needs from outside. Any part can be replaced by keyword, as tests do."""

    def __init__(  # noqa: PLR0913 - one argument a part
        self,
        settings: Settings,
        *,
        clock: Clock = time.time,
        shelf: LibraryReader | None = None,
        sources: tuple[Source, ...] | None = None,
        embedder: Embedder | None = None,
        graph: Neighbours | None = None,
        reranker: RerankerProvider | None = None,
        chat: Chat | None = None,
        pages: PageReader | None = None,
        keeper: ResultStore | None = None,
        texts: TextFetcher | None = None,
        pin: OpenLibrary | None = None,
        world: Mapping[str, RemoteSource] | None = None,
    ) -> None:
        # as the caller named them, for `go_offline`: the attributes below have defaults in place of None
        self._replaced_parts: dict[str, Any] = {
            "shelf": shelf, "sources": sources, "embedder": embedder, "graph": graph, "reranker": reranker, "chat": chat, "pages": pages,
            "keeper": keeper, "texts": texts, "pin": pin, "world": world,
        }  # fmt: skip
        self.settings, self.clock = settings, clock
        self.pin, self.world = pin, world
        """For systematic runs: the library at one version, and services that are read to their last hit; None for those of the settings."""
        self._library: Library | None = None
        self._engine: Engine | None = None
        self._embedder = embedder
        self._graph = graph
        self.reranker: RerankerProvider = self._reranker if reranker is None else reranker
        library = LibrarySource(self.engine)
        self.chat, self._chat_says = (chat, chat.name) if chat else make_chat(settings.llm, offline=settings.sources.offline)
        """The chat model or None; and its name, or why there is none."""
        if settings.shared.redis_url:
            get_concurrency_limiter().redis = open_shared_redis(settings)
        if self.lost_model and not settings.sources.offline:
            _report_lost_model(self.lost_model)
        self.chat_is_of_settings = self.chat is not None and chat is None
        self.shelf: LibraryReader = library if shelf is None else shelf
        self._own_library = library
        self._sources = sources
        self._pages, self._texts = pages, texts
        saves = shelf is None and settings.sources.library.enabled
        self.keeper: ResultStore | None = ResultSaver(self.new_library) if keeper is None and saves else keeper
        """Saves results of services: not to the library of the settings if another shelf is searched."""
        self.text_keeper: ResultStore | None = ResultSaver(self.new_library, self.embed_known) if keeper is None and saves else keeper
        """Saves full texts. Other than new results, their records may have vectors, which a new text would outdate."""
        reads_citations = settings.citations.after_search == "on" and settings.enrich.keep and not settings.sources.offline
        # a job calls the services of the settings: not for the works of other sources
        self.citation_queue = CitationQueue(settings) if reads_citations and saves and sources is None and keeper is None else None
        """Queues the citation job of a search; None where the settings want none."""
        self.links: LinkFinder = CodeFinder(self.library if shelf is None and settings.sources.library.enabled else None)
        """Finds the code of papers and the papers of repositories, in their own texts and in the library of the settings."""
        self.decisions: DecisionsProvider = self._decisions if shelf is None else load_no_decisions
        """Splits and merges that the library of the settings remembers."""
        self._open_histories(own=shelf is None and sources is None)
        self.workers = Workers()
        """Only a server starts them."""
        self.fuse = make_fusion(settings.ranking)
        self.interleave: Fusion = interleave
        self._load_prompts()
        self._loads_models, self._loads_reranker = shelf is None, shelf is None and reranker is None
        self.kept_graph: tuple[Mapping[str, Any], Any] | None = None
        """A graph over these services, and the parts that it was built over (`graph.pipeline.get_search_graph`)."""
        self._warm_until: dict[ModelUse, float] = {}
        """`time.monotonic` until which these models count as loaded."""
        self.ports: PortBook | None = None
        """What comes from outside, behind proxies that a recorded run sees; None where no run is recorded."""
        self.destination: Destination | None = None
        if settings.recorder.enabled:
            from outrider.services.recorded import record_ports

            record_ports(self)

    def _open_histories(self, *, own: bool) -> None:
        """What this installation remembers of its use. Runs over other sources than those of the settings would mislead its plans."""
        settings = self.settings
        self.planner = Planner(settings) if settings.planner.enabled and own else None
        """Records what runs take; None where the settings want no record."""
        self.preferences: PreferencesProvider | None = LearnedPreferences(settings) if settings.learning.enabled else None
        """What was learned from use; None while that is off."""

    def _load_prompts(self) -> None:
        """Read here, so that no search reads a file."""
        self.context_frame: Prompt = load("context", frozenset({"query", "sentences"}))
        load("shortened_context", frozenset({"query", "sentences"}))
        self.dedup_prompt: Prompt = load("dedup", frozenset())
        self.answer_prompt: Prompt = load("short_answer", frozenset({"max_sentences"}))
        self.query_prompt = QueryPrompt.load(self.settings.llm.domain)
        self.scoring_prompts = ScoringPrompts.load(self.settings.llm.domain)

    @classmethod
    def from_file(cls, flags: Mapping[str, object] | None = None) -> Services:
        """Services from flags, environment, the settings files and defaults, in that order."""
        settings = load_settings(flags).settings
        tracing.start_tracing(settings)
        error_tracker.start(settings)
        return cls(settings)

    @classmethod
    def for_library(cls, library: str | PathLike[str] | None, flags: Mapping[str, object] | None = None) -> Services:
        """Services from the settings, with another library if one is named."""
        return cls.from_file(make_flags(library, flags))

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        """Sources of searches. Made at first use: a command that searches nothing needs none of their dependencies."""
        if self.ports is None:
            return self._make_sources()
        from outrider.recorder.ports import SERVICE

        return self.ports.wrap_all("source", self._make_sources, *SERVICE)

    def _make_sources(self) -> tuple[Source, ...]:
        return make_sources(self.settings, self._own_library) if self._sources is None else self._sources

    def wrap(self, name: str, make: Callable[[], Any], *protocols: type) -> Any:
        """The adapter that `make` returns, behind a port where runs are recorded. Every adapter of a node comes through here."""
        return make() if self.ports is None else self.ports.wrap(name, make, *protocols)

    def wrap_all(self, group: str, make: Callable[[], Sequence[Any]], *protocols: type) -> tuple[Any, ...]:
        """The same for adapters with names of their own."""
        return tuple(make()) if self.ports is None else self.ports.wrap_all(group, make, *protocols)

    @cached_property
    def link_sources(self) -> tuple[LinkSource, ...]:
        """Services that report citations: those of the settings, or those among the sources that a caller brings."""
        from outrider.state.citations import LinkSource

        searched = [without_port(source) for source in self.sources]
        return self.wrap_all("link", lambda: make_link_sources(self.settings, searched, further=self._sources is None), LinkSource)

    @property
    def has_own_library(self) -> bool:
        """Whether the library of the settings is used, and not another shelf."""
        return without_port(self.shelf) is self._own_library and self.settings.sources.library.enabled

    @cached_property
    def pages(self) -> PageReader | None:
        """Fetches pages; None if only the library is searched, or other sources than those of the settings."""
        is_own = self._pages is None and self._sources is None
        reader: PageReader | None = self.wrap(
            "pages", lambda: make_page_reader(self.settings.sources) if is_own else self._pages, PageReader
        )
        return reader

    @cached_property
    def texts(self) -> TextFetcher | None:
        """Reads open full texts; None as for `pages`, or where the settings want none."""
        fetcher: TextFetcher | None = self.wrap("texts", self._make_texts, TextFetcher)
        return fetcher

    def _make_texts(self) -> TextFetcher | None:
        if self._texts is not None or self._sources is not None or self.settings.enrich.full_text == "off":
            return self._texts
        return make_text_fetcher(self.settings, without_port(self.pages))

    async def text_fetcher(self) -> tuple[TextFetcher | None, str]:
        """The reader of open full texts, or None, and why."""
        await self.prepare()
        if self.settings.enrich.full_text == "off" and self._texts is None:
            return None, "enrich.full_text is off"
        fetcher = await asyncio.to_thread(lambda: self.texts)
        why = f"only texts that the library holds are read, {OFFLINE}" if self.settings.sources.offline else "no service is switched on"
        return fetcher, "" if fetcher else why

    async def embed_known(self, library: Library, records: Sequence[Record]) -> None:
        """Embed changed records, if the library has vectors and their model is at hand."""
        if await library.space() is None:
            return
        embedder, _ = await self.embedder_at_hand(library)
        if embedder is not None:
            await library.embed(records, embedder)

    @property
    def chat_says(self) -> str:
        """The name of the chat model, or why there is none."""
        chat = without_port(self.chat)
        return chat.description if isinstance(chat, EndpointChat) else self._chat_says

    @property
    def lost_model(self) -> str:
        """Why a chat model that the settings ask for is not used; empty if it is, or if they ask for none."""
        llm = self.settings.llm
        is_configured = llm.model != "none" and bool(llm.base_url or llm.api_key.get_secret_value() or llm.model != "auto")
        return self._chat_says if self.chat is None and is_configured else ""

    @cached_property
    def reviews(self) -> OpenReviews:
        """The reviews of the settings, opened once in this process."""
        from outrider.reviews.session import OpenReviews
        from outrider.services.deployment import find_folders

        return OpenReviews(find_folders(self.settings)["reviews"])

    @property
    def source_names(self) -> tuple[str, ...]:
        return tuple(source.name for source in self.sources)

    @property
    def versions(self) -> Mapping[str, str]:
        """Versions that an answer depends on besides request, library and embedding model: part of the provenance hash.

        Read anew each time: a served model may be named after a graph was built over these services.
        """
        return LiveMapping(self._read_versions)

    def _read_versions(self) -> dict[str, str]:
        prompts = {f"prompt:{prompt.name}": prompt.version for prompt in (self.context_frame, self.dedup_prompt, self.answer_prompt)}
        model = {"chat": self.chat.name} if self.chat else {}
        return {"outrider": __version__, **prompts, **self.query_prompt.versions, **self.scoring_prompts.versions, **model}

    @property
    def is_warm(self) -> bool:
        """Whether models were loaded for a search before."""
        return bool(self._warm_until)

    @property
    def is_library_open(self) -> bool:
        return self._library is not None

    async def library(self) -> Library:
        """The library of the settings, opened once. Raises `LibraryMissing` where there is none yet.

        Two concurrent tasks may both open it; the first handle is kept.
        """
        if self._library is None:
            opened = await self._open(create=False)
            if self._library is None:
                self._library = opened
            else:
                opened.close()
        return self._library

    async def require_ready(self) -> str:
        """Raise `LibraryError` if the library of the settings is gone, damaged, or cannot be written where results are saved.

        A library that does not exist yet is no error while other sources can be searched and the first results can create it. Returns a
        note in that case: its address may be wrong.
        """
        if without_port(self.shelf) is not self._own_library or not self.settings.sources.library.enabled:
            return ""
        was_open = self._library is not None
        saves = self.keeper is not None and self.settings.enrich.keep and not self.settings.sources.offline
        try:
            await (await self.library()).probe(writes=saves)
        except LibraryMissing as missing:
            if was_open or self.source_names == (self._own_library.name,):
                raise
            if not saves:
                return str(missing)
            from outrider.library.library import Library

            await Library.require_creatable(self.settings.library.uri)
            return f"{missing}; else the first results that are saved create it"
        return ""

    async def engine(self, over: Library | None = None) -> Engine:
        """The search engine over the library of the settings (made once) or another, with its embedding model and citation graph."""
        if over is None and self._engine is not None:
            return self._engine
        library = over or await self.library()
        await load_module("outrider.library.search_engine")
        await load_module("outrider.library.graph_neighbours")
        from outrider.library.graph_neighbours import LibraryGraph
        from outrider.library.search_engine import Engine

        # another process can load the model of the settings, not one that a caller brings
        starts = over is None and self.settings.embedding.reindex == "auto" and self._embedder is None
        background = BackgroundReindex(self.settings) if starts else None
        engine = Engine(library, self.embedder, self._graph or LibraryGraph(library), background)
        if over is None:
            self._engine = engine
        return engine

    def embedder(self, space: EmbeddingSpace | None = None) -> Embedder:
        """The embedding model of the settings; for `auto`, the one that wrote `space`. Loads nothing yet."""
        if self._embedder is not None:
            return self._embedder
        return load_embedder(self.settings.embedding, space, offline=self.settings.sources.offline)

    async def prepare(self) -> None:
        """Make the sources and the reader of pages in a thread: looking for a browser and for plug-ins reads the disk."""
        if "sources" not in self.__dict__ or "pages" not in self.__dict__:
            await asyncio.to_thread(lambda: (self.sources, self.pages))

    async def warm(self, use: ModelUse = ALL_MODELS, *, searches: bool = True) -> None:
        """Load models before a search's time limit starts: the chat client, and those in `use`. The search itself reports their errors.

        The graphs call it before their first node, with the models of their request; a server calls it when it starts. Concurrent callers
        share one load. A served model is not contacted, since it is loaded and might not answer; but an endpoint that has to name its
        only model is. If the web is searched, its browser starts in the background; `searches` is False for work that needs no source.
        """
        if self._is_replay:
            return
        with suppress(SearchError):
            await self.prepare()
        if searches and self._sources is None and not self.settings.sources.offline:
            browser = await asyncio.to_thread(find_browser, self.settings.sources)
            if browser:
                await browser.prepare()
        if time.monotonic() < self._warm_until.get(use, 0.0):
            return
        loads = [self._load_chat()]
        if self._loads_models:
            loads += [self._load_library(dense=use.dense)]
            loads += [self._load_reranker(requested=use.reranker_requested)] if use.reranker and self._loads_reranker else []
            loads += [self._load_distiller()] if use.distiller else []
        await asyncio.gather(*map(_ignore_search_errors, loads))
        self._warm_until[use] = time.monotonic() + WARM_S

    async def find_model_name(self) -> None:
        """Ask the server of the chat model for its only model, if the settings name none. Raises `ChatError`."""
        chat = without_port(self.chat)
        if isinstance(chat, EndpointChat) and chat.is_unnamed:
            await chat.warm_up()

    async def _load_chat(self) -> None:
        chat = without_port(self.chat)
        if isinstance(chat, EndpointChat):
            await chat.warm_up()

    async def _load_library(self, *, dense: bool) -> None:
        if not self.settings.sources.library.enabled:
            return
        space = await (await self.engine()).library.space()
        if not dense or space is None:
            return
        if self.settings.embedding.base_url:
            transport = await load_module("outrider.models.servers.transport")
            await run_in_thread(transport.load_client)
            return
        await run_in_thread(lambda: self.embedder(space).space)

    async def _load_reranker(self, *, requested: bool) -> None:
        reranker, _ = await self._reranker(asked=requested)
        if reranker and isinstance(reranker, (await load_module("outrider.models.rerank.cross_encoder")).CrossEncoderReranker):
            await run_in_thread(reranker.load)  # type: ignore[attr-defined]

    async def _load_distiller(self) -> None:
        from outrider.services.distiller import needs_model, prepare_distillers

        if needs_model(self.settings.distiller):
            await run_in_thread((await prepare_distillers(self))[0].load)

    async def embedder_at_hand(self, library: Library) -> tuple[Embedder | None, str]:
        """The loaded model that embeds new records; or None, and why there is none."""
        embedder = self.embedder(await library.space())
        try:
            await run_in_thread(lambda: embedder.space)
        except (ModelError, MissingExtra) as error:
            return None, str(error)
        return embedder, ""

    async def _reranker(self, *, asked: bool = False) -> tuple[Reranker | None, str]:
        """The reranker of the settings unless evaluations in the library advise against it, or None, and why; `asked` ignores them."""
        verdicts: Sequence[Verdict] = ()
        space: EmbeddingSpace | None = None
        with suppress(LibraryMissing):
            verdicts = await (await self.library()).verdicts()
        if self.settings.reranker.model_name == "auto" and not (verdicts or asked):
            return None, NOT_PROBED
        await load_module("outrider.models.rerank.select")
        from outrider.models.rerank.select import choose_reranker

        with suppress(LibraryMissing):
            space = await (await self.library()).space()
        embedder = self.embedder(space)
        settings, offline = self.settings.reranker, self.settings.sources.offline
        reranker, why = await run_in_thread(lambda: choose_reranker(settings, embedder, verdicts, requested=asked, offline=offline))
        return (await self.read_stored_tokens(reranker), why) if reranker else (None, why)

    async def read_stored_tokens(self, reranker: Reranker, most_missing: int | None = None) -> Reranker:
        """Late interaction that reads the token vectors stored in the library, if there is one; another reranker as it is.

        At most `most_missing` texts of a query without them are embedded; None is the number of a search.
        """
        from outrider.models.rerank.late_interaction import LateInteraction

        with suppress(LibraryMissing):
            if isinstance(reranker, LateInteraction):
                most = reranker.most_missing if most_missing is None else most_missing
                library, space = await self.library(), reranker.embedder.space
                return replace(reranker, stored=partial(library.read_tokens, space), most_missing=most)
        return reranker

    async def _decisions(self) -> Decisions:
        if self._sources is None and not self.settings.sources.library.enabled:
            return NO_DECISIONS
        with suppress(LibraryMissing):
            return Decisions.from_log(await (await self.library()).decisions())
        return NO_DECISIONS

    def be_replayed(self, chat_says: str, *, own_chat: bool) -> None:
        """Answer as the recorded services did, and load nothing."""
        self._chat_says, self.chat_is_of_settings = chat_says, own_chat

    @property
    def _is_replay(self) -> bool:
        return self.ports is not None and self.ports.is_replay

    def at(self, clock: Clock) -> Services:
        """The same services, and the same open parts, with another clock: a resumed run continues at its own time."""
        self.sources  # noqa: B018 - made once for both
        services = copy(self)
        services.clock = clock if self.ports is None else WallClock(clock)
        return services

    def go_offline(self) -> Services:
        """Others that contact nothing but this machine, with the parts that a caller brought. Close them."""
        sources = self.settings.sources.model_copy(update={"offline": True})
        return Services(self.settings.model_copy(update={"sources": sources}), clock=self.clock, **self._replaced_parts)

    async def find_library_address(self) -> str:
        """The place of the library of the settings, without a password; empty where another shelf is searched, or none."""
        if not self.has_own_library:
            return ""
        location = await asyncio.to_thread(Location.parse, self.settings.library.uri)
        return location.address if location.path is None else str(await asyncio.to_thread(location.path.resolve))

    def of_library(self) -> Services:
        """The same library and models alone: no other source, page, chat model or store. No source if another shelf is searched."""
        services = copy(self)
        services._sources = (self._own_library,) if self.has_own_library else ()  # noqa: SLF001 - its own
        services._pages = services._texts = services.chat = None  # noqa: SLF001 - its own
        services.keeper = services.text_keeper = services.citation_queue = services.planner = None
        for made in ("sources", "pages", "texts"):
            services.__dict__.pop(made, None)
        return services

    def for_saved_run(self) -> Services:
        """The same library and models for a search that is compared with its last run.

        It asks the services anew, and saves nothing: else the library would have what a service no longer has. What is learned from use
        does not move works in and out of it. It reads no full texts, which are not compared. Makes the sources.
        """
        services = copy(self)
        services.keeper = services.text_keeper = services.citation_queue = services.preferences = services.planner = None
        services._pages, services._texts = self.pages, None  # noqa: SLF001 - its own
        services._sources = tuple(without_cache(without_port(source)) for source in self.sources)  # noqa: SLF001 - its own
        for made in ("sources", "pages", "texts"):
            services.__dict__.pop(made, None)
        return services

    def with_ranking(self, ranking: RankingSettings) -> Services:
        """The same services, and the same open parts, with another fusion and other weights."""
        services = copy(self)
        services.settings = self.settings.model_copy(update={"ranking": ranking})
        services.fuse = make_fusion(ranking)
        return services

    def close(self) -> None:
        """Close everything that was opened."""
        self.workers.close()
        if self._library is not None:
            self._library.close()
            self._library = self._engine = None

    async def new_library(self) -> Library:
        """The library of the settings, created where it is missing."""
        return await self._open(create=True)

    async def _open(self, *, create: bool) -> Library:
        if self._is_replay:
            raise LibraryError("a replayed run reads its recording, not a library")
        self._refuse_remote_library()
        await load_module("outrider.library.library")  # in a thread: it takes a second
        from outrider.library.library import Library

        settings = self.settings.library
        secrets = {name: value.get_secret_value() for name, value in settings.storage_options.items()}
        return await Library.open(
            settings.uri,
            create=create,
            storage_options=secrets,
            read_consistency_s=settings.read_consistency_s,
            copy_tables=settings.copy_tables,
        )

    def _refuse_remote_library(self) -> None:
        """Raise `LibraryError` for a library on the network if this process is offline."""
        settings = self.settings.library
        if not self.settings.sources.offline or Location.parse(settings.uri).path is not None:
            return
        options = {name.lower(): value.get_secret_value() for name, value in settings.storage_options.items()}
        scheme = settings.uri.partition("://")[0]
        endpoint = next((options[name] for name in STORE_ENDPOINTS[scheme] if name in options), "")
        if not endpoint and scheme == "s3":
            endpoint = os.environ.get("AWS_ENDPOINT_URL", "")
        if not is_loopback(endpoint):
            raise LibraryError(f"the library at {without_password(settings.uri)} is not on this machine, {OFFLINE}; use one in a folder")


def make_flags(library: str | PathLike[str] | None, flags: Mapping[str, object] | None = None) -> dict[str, object]:
    """Flags for the settings, with another library if one is named."""
    return {"library.uri": None if library is None else str(library), **(flags or {})}


@cache
def _report_lost_model(reason: str) -> None:
    """Once for a process: a command has services of its own beside those of `outrider.graph.pipeline.graph`."""
    log.error("no chat model is used: %s", reason)


class LiveMapping(Mapping[str, str]):
    """A mapping that is read anew at each use."""

    def __init__(self, read: Callable[[], Mapping[str, str]]) -> None:
        self._read = read

    def __getitem__(self, name: str) -> str:
        return self._read()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())


async def _ignore_search_errors(work: Coroutine[Any, Any, None]) -> None:
    with suppress(SearchError):
        await work


@asynccontextmanager
async def open_services(
    services: Services | None, library: str | PathLike[str] | None = None, flags: Mapping[str, object] | None = None, *, keep: bool = False
) -> AsyncIterator[Services]:
    """The caller's own services, which stay open, or new ones for this call. Settings are read in a thread.

    With `keep`, they are used again by later calls in the same surroundings (`kept_services`).
    """
    if services is not None:
        yield services
        return
    if keep:
        from outrider.services.kept_services import borrow, give_back

        borrowed = await borrow(make_flags(library, flags), Services)
        try:
            yield borrowed.services
        finally:
            await give_back(borrowed)
        return
    opened = await asyncio.to_thread(Services.for_library, library, flags)
    try:
        yield opened
    finally:
        opened.close()

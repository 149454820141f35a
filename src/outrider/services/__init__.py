"""Composition root: the only place that constructs adapters, from the settings."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from functools import cached_property, lru_cache, partial
from os import PathLike
from typing import TYPE_CHECKING

from outrider.library.fusion import build_fusion, fuse_sources, interleave
from outrider.models.chat.endpoint import EndpointChat, make_chat
from outrider.nodes.fine_scorer.fine_scorer import ScoringPrompts
from outrider.nodes.translator.model_plan import QueryPrompt
from outrider.prompts import Prompt, load
from outrider.runtime.threads_and_loops import load_module, run_in_thread
from outrider.runtime.workers import Workers
from outrider.services import tracing
from outrider.services.save_results import ResultSaver
from outrider.services.sources import find_browser, make_page_reader, make_sources
from outrider.settings.load import load as load_settings
from outrider.settings.model import EmbeddingSettings, Settings
from outrider.sources.library import LibrarySource
from outrider.state.chat import Chat
from outrider.state.duplicate_decisions import NO_DECISIONS, Decisions, DecisionsProvider, load_no_decisions
from outrider.state.errors import LibraryMissing, MissingExtra, ModelError, SearchError
from outrider.state.ports import Clock, Fusion, LibraryReader, PageReader, ResultStore, Source
from outrider.version import __version__

if TYPE_CHECKING:
    from outrider.library.library import Library
    from outrider.library.search_engine import Engine
    from outrider.models.embed.embedder import Embedder
    from outrider.state.embedding import EmbeddingSpace
    from outrider.state.ports import Neighbours, Reranker, RerankerProvider
    from outrider.state.reranking import Verdict
    from outrider.state.systematic import RemoteSource
    from outrider.systematic_search.run import OpenLibrary


CACHED_MODELS = 2
"""Embedding models that a process holds: one to read with, one to reindex to."""


@lru_cache(maxsize=CACHED_MODELS)
def load_embedder(settings: EmbeddingSettings, space: EmbeddingSpace | None) -> Embedder:
    """One for a process: loading weights takes seconds, and several services may need the same."""
    from outrider.models.embed.embedder import Embedder

    return Embedder.from_settings(settings, space)


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
        pin: OpenLibrary | None = None,
        world: Mapping[str, RemoteSource] | None = None,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.pin, self.world = pin, world
        """For systematic runs: the library at one version, and services that are read to their last hit; None for those of the settings."""
        self._library: Library | None = None
        self._engine: Engine | None = None
        self._embedder = embedder
        self._graph = graph
        self.reranker: RerankerProvider = self._reranker if reranker is None else reranker
        library = LibrarySource(self.engine)
        self.chat, self.chat_says = (chat, chat.name) if chat else make_chat(settings.llm)
        """The chat model or None; and its name, or why there is none."""
        self.chat_is_of_settings = self.chat is not None and chat is None
        self.shelf: LibraryReader = library if shelf is None else shelf
        self._own_library = library
        self._sources = sources
        self._pages = pages
        saves = shelf is None and settings.sources.library.enabled
        self.keeper: ResultStore | None = ResultSaver(self.new_library) if keeper is None and saves else keeper
        """Saves results of services: not to the library of the settings if another shelf is searched."""
        self.decisions: DecisionsProvider = self._decisions if shelf is None else load_no_decisions
        """Splits and merges that the library of the settings remembers."""
        self.workers = Workers()
        """Only a server starts them."""
        self.fuse: Fusion = partial(fuse_sources, own=build_fusion(settings.ranking), k=settings.ranking.rrf_k)
        self.interleave: Fusion = interleave
        self.context_frame: Prompt = load("context", frozenset({"query", "sentences"}))
        self.dedup_prompt: Prompt = load("dedup", frozenset())
        self.query_prompt = QueryPrompt.load(settings.llm.domain)
        self.scoring_prompts = ScoringPrompts.load(settings.llm.domain)

    @classmethod
    def from_file(cls, flags: Mapping[str, object] | None = None) -> Services:
        """Services from flags, environment, the settings files and defaults, in that order."""
        settings = load_settings(flags).settings
        tracing.start_tracing(settings)
        return cls(settings)

    @classmethod
    def for_library(cls, library: str | PathLike[str] | None, flags: Mapping[str, object] | None = None) -> Services:
        """Services from the settings, with another library if one is named."""
        return cls.from_file({"library.uri": None if library is None else str(library), **(flags or {})})

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        """Sources of searches. Made at first use: a command that searches nothing needs none of their dependencies."""
        return make_sources(self.settings, self._own_library) if self._sources is None else self._sources

    @cached_property
    def pages(self) -> PageReader | None:
        """Fetches pages; None if only the library is searched, or other sources than those of the settings."""
        return make_page_reader(self.settings.sources) if self._pages is None and self._sources is None else self._pages

    @property
    def source_names(self) -> tuple[str, ...]:
        return tuple(source.name for source in self.sources)

    @property
    def versions(self) -> Mapping[str, str]:
        """Versions that an answer depends on besides request, library and embedding model: part of the provenance hash."""
        prompts = {f"prompt:{prompt.name}": prompt.version for prompt in (self.context_frame, self.dedup_prompt)}
        model = {"chat": self.chat.name} if self.chat else {}
        return {"outrider": __version__, **prompts, **self.query_prompt.versions, **self.scoring_prompts.versions, **model}

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

    async def require_ready(self) -> None:
        """Raise `LibraryError` if the library of the settings is gone, damaged, or cannot be written where results are saved.

        A library that does not exist yet is no error while other sources can be searched: the first results create it.
        """
        if self.shelf is not self._own_library or not self.settings.sources.library.enabled:
            return
        was_open = self._library is not None
        saves = self.keeper is not None and not self.settings.sources.offline
        try:
            await (await self.library()).probe(writes=saves)
        except LibraryMissing:
            if was_open or self.source_names == (self._own_library.name,):
                raise

    async def engine(self, over: Library | None = None) -> Engine:
        """The search engine over the library of the settings (made once) or another, with its embedding model and citation graph."""
        if over is None and self._engine is not None:
            return self._engine
        library = over or await self.library()
        await load_module("outrider.library.search_engine")
        await load_module("outrider.library.graph_neighbours")
        from outrider.library.graph_neighbours import LibraryGraph
        from outrider.library.search_engine import Engine

        engine = Engine(library, self.embedder, self._graph or LibraryGraph(library))
        if over is None:
            self._engine = engine
        return engine

    def embedder(self, space: EmbeddingSpace | None = None) -> Embedder:
        """The embedding model of the settings; for `auto`, the one that wrote `space`. Loads nothing yet."""
        if self._embedder is not None:
            return self._embedder
        return load_embedder(self.settings.embedding, space)

    async def warm(self, *, searches: bool = True) -> None:
        """Load the weights for the library's vectors before a search's time limit starts; the search itself reports errors of the library.

        An embedding server is not contacted: its model is loaded, and it might not answer. The client of a chat model is loaded, too. If
        the web is searched, its browser starts in the background; `searches` is False for work that needs no source.
        """
        if searches and self._sources is None and not self.settings.sources.offline:
            browser = find_browser(self.settings.sources)
            if browser:
                await browser.prepare()
        if isinstance(self.chat, EndpointChat):
            await self.chat.warm_up()
        if self.settings.embedding.base_url:
            return
        with suppress(SearchError):
            space = await (await self.library()).space()
            if space is not None:
                await run_in_thread(lambda: self.embedder(space).space)

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
        await load_module("outrider.models.rerank.select")
        from outrider.models.rerank.select import NOT_PROBED, choose_reranker

        verdicts: Sequence[Verdict] = ()
        space: EmbeddingSpace | None = None
        with suppress(LibraryMissing):
            verdicts = await (await self.library()).verdicts()
        if self.settings.reranker.model_name == "auto" and not (verdicts or asked):
            return None, NOT_PROBED
        with suppress(LibraryMissing):
            space = await (await self.library()).space()
        embedder = self.embedder(space)
        return await run_in_thread(lambda: choose_reranker(self.settings.reranker, embedder, verdicts, requested=asked))

    async def _decisions(self) -> Decisions:
        if self._sources is None and not self.settings.sources.library.enabled:
            return NO_DECISIONS
        with suppress(LibraryMissing):
            return Decisions.from_log(await (await self.library()).decisions())
        return NO_DECISIONS

    def at(self, clock: Clock) -> Services:
        """The same services, and the same open parts, with another clock: a resumed run continues at its own time."""
        self.sources  # noqa: B018 - made once for both
        services = copy(self)
        services.clock = clock
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
        await load_module("outrider.library.library")  # in a thread: it takes a second
        from outrider.library.library import Library

        settings = self.settings.library
        secrets = {name: value.get_secret_value() for name, value in settings.storage_options.items()}
        return await Library.open(settings.uri, create=create, storage_options=secrets)


@contextmanager
def open_services(
    services: Services | None, library: str | PathLike[str] | None = None, flags: Mapping[str, object] | None = None
) -> Iterator[Services]:
    """The caller's own services, which stay open, or new ones for this call."""
    if services is not None:
        yield services
        return
    opened = Services.for_library(library, flags)
    try:
        yield opened
    finally:
        opened.close()

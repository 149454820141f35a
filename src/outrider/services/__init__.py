"""Composition root: the only place that constructs adapters, from the settings."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING

from outrider.library.fusion import build_fusion, fuse_sources, interleave
from outrider.models.chat.endpoint import EndpointChat, make_chat
from outrider.nodes.fine_scorer.fine_scorer import ScoringPrompts
from outrider.nodes.translator.model_plan import QueryPrompt
from outrider.prompts import Prompt, load
from outrider.runtime.threads import load_module, run_in_thread
from outrider.runtime.workers import Workers
from outrider.services import tracing
from outrider.services.save_results import ResultSaver
from outrider.services.sources import browser_of, pages_of, sources_of
from outrider.settings.load import load as load_settings
from outrider.settings.model import EmbeddingSettings, Settings
from outrider.sources.library import LibrarySource
from outrider.state.chat import Chat
from outrider.state.decisions import NO_DECISIONS, Decisions, DecisionsProvider, load_no_decisions
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
    from outrider.state.systematic import WorldSource
    from outrider.systematic_search.run import OpenLibrary


MODELS_KEPT = 2
"""Embedding models that a process holds: one to read with, one to reindex to."""


@lru_cache(maxsize=MODELS_KEPT)
def embedder_of(settings: EmbeddingSettings, space: EmbeddingSpace | None) -> Embedder:
    """One for a process: loading weights takes seconds, and several services may ask for the same."""
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
        world: Mapping[str, WorldSource] | None = None,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.pin, self.world = pin, world
        """For exact runs: the library at one version, and services that are read to their last hit; None for those of the settings."""
        self._library: Library | None = None
        self._engine: Engine | None = None
        self._embedder = embedder
        self._graph = graph
        self.reranker: RerankerProvider = self._reranker if reranker is None else reranker
        library = LibrarySource(self.engine)
        self.chat, self.chat_says = (chat, chat.name) if chat else make_chat(settings.llm)
        """The model that understands and judges, or None; and which it is, or why there is none."""
        self.chat_is_of_settings = self.chat is not None and chat is None
        self.shelf: LibraryReader = library if shelf is None else shelf
        self._own_library = library
        self._sources = sources
        self._pages = pages
        keeps = shelf is None and settings.sources.library.enabled
        self.keeper: ResultStore | None = ResultSaver(self.new_library) if keeper is None and keeps else keeper
        """Where what services gave is kept: not in the library of the settings where another shelf is searched."""
        self.decisions: DecisionsProvider = self._decisions if shelf is None else load_no_decisions
        """What was split and merged in the library of the settings."""
        self.workers = Workers()
        """A server starts them."""
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
        tracing.begin(settings)
        return cls(settings)

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        """Who is asked. Made at first use: a command that searches nothing needs none of what they need."""
        return sources_of(self.settings, self._own_library) if self._sources is None else self._sources

    @cached_property
    def pages(self) -> PageReader | None:
        """Who fetches pages; None where only the library is asked, or others than the sources of the settings."""
        return pages_of(self.settings.sources) if self._pages is None and self._sources is None else self._pages

    @property
    def source_names(self) -> tuple[str, ...]:
        return tuple(source.name for source in self.sources)

    @property
    def versions(self) -> Mapping[str, str]:
        """What an answer depends on beside request, library and models: goes into the provenance hash."""
        prompts = {f"prompt:{prompt.name}": prompt.version for prompt in (self.context_frame, self.dedup_prompt)}
        model = {"chat": self.chat.name} if self.chat else {}
        return {"outrider": __version__, **prompts, **self.query_prompt.versions, **self.scoring_prompts.versions, **model}

    async def library(self) -> Library:
        """The library of the settings, kept once it is open; `LibraryMissing` where there is none yet.

        Two tasks that ask at the same time may both open it; the first handle is kept.
        """
        if self._library is None:
            opened = await self._open(create=False)
            if self._library is None:
                self._library = opened
            else:
                opened.close()
        return self._library

    async def engine(self, over: Library | None = None) -> Engine:
        """The library of the settings, kept once it is open, or another, with the model that reads its vectors and the graph around it."""
        if over is not None:
            return await self._engine_over(over)
        if self._engine is None:
            self._engine = await self._engine_over(await self.library())
        return self._engine

    async def _engine_over(self, library: Library) -> Engine:
        made = await load_module("outrider.library.search_engine")
        neighbours = await load_module("outrider.library.neighbours")
        engine: Engine = made.Engine(library, self.embedder, self._graph or neighbours.LibraryGraph(library))
        return engine

    def embedder(self, space: EmbeddingSpace | None = None) -> Embedder:
        """The embedding model of the settings; where they say `auto`, the one that wrote `space`. Loads nothing yet."""
        if self._embedder is not None:
            return self._embedder
        return embedder_of(self.settings.embedding, space)

    async def warm(self, *, searches: bool = True) -> None:
        """Load the weights that the library's vectors need, before a search's time counts; what is wrong with them the search will say.

        A server is not asked: it has its model loaded, and might not answer. The client of a chat model is loaded, too. Where the web
        is searched, its browser begins to start, beside all else; `searches` is False for what asks no source.
        """
        if searches and self._sources is None and not self.settings.sources.offline:
            browser = browser_of(self.settings.sources)
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
        """The model that new records are embedded with, loaded; or None, and why there is none."""
        embedder = self.embedder(await library.space())
        try:
            await run_in_thread(lambda: embedder.space)
        except (ModelError, MissingExtra) as error:
            return None, str(error)
        return embedder, ""

    async def _reranker(self, *, asked: bool = False) -> tuple[Reranker | None, str]:
        """The reranker of the settings that no probe of the library speaks against, or None, and why; `asked` overrules probes."""
        choose = await load_module("outrider.models.rerank.select")
        verdicts = await self._verdicts()
        if self.settings.reranker.model_name == "auto" and not (verdicts or asked):
            return None, choose.NOT_PROBED
        embedder = self.embedder(await self._space())
        found: tuple[Reranker | None, str] = await run_in_thread(
            lambda: choose.reranker_of(self.settings.reranker, embedder, verdicts, requested=asked)
        )
        return found

    async def _decisions(self) -> Decisions:
        if self._sources is None and not self.settings.sources.library.enabled:
            return NO_DECISIONS
        with suppress(LibraryMissing):
            return Decisions.from_log(await (await self.library()).decisions())
        return NO_DECISIONS

    async def _verdicts(self) -> Sequence[Verdict]:
        with suppress(LibraryMissing):
            return await (await self.library()).verdicts()
        return ()

    async def _space(self) -> EmbeddingSpace | None:
        with suppress(LibraryMissing):
            return await (await self.library()).space()
        return None

    def at(self, clock: Clock) -> Services:
        """The same services by another clock, which share whatever is open: a run that was interrupted goes on at its own time."""
        self.sources  # noqa: B018 - made once for both
        other = copy(self)
        other.clock = clock
        return other

    def close(self) -> None:
        """Give back what was opened."""
        self.workers.close()
        if self._library is not None:
            self._library.close()
            self._library = self._engine = None

    async def new_library(self) -> Library:
        """The library of the settings, made where there is none."""
        return await self._open(create=True)

    async def _open(self, *, create: bool) -> Library:
        store = await load_module("outrider.library.library")
        where = self.settings.library
        secrets = {name: value.get_secret_value() for name, value in where.storage_options.items()}
        library: Library = await store.Library.open(where.uri, create=create, storage_options=secrets)
        return library

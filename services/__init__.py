"""The composition root: the only place that constructs adapters, from the settings."""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from outrider import __version__
from outrider.prompts import Prompt, load
from outrider.retrieval.rrf import interleaved, reciprocal_rank_fusion
from outrider.settings.load import load as load_settings
from outrider.settings.model import Settings
from outrider.sources.library import LibrarySource
from outrider.state.ports import Clock, Fusion, Shelf, Source

if TYPE_CHECKING:
    from outrider.retrieval.store import Library


class Services:
    """Everything a graph needs from outside. Any part can be replaced by keyword, as tests do."""

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Clock = time.time,
        shelf: Shelf | None = None,
        sources: tuple[Source, ...] | None = None,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self._library: Library | None = None
        library = LibrarySource(self.library)
        self.shelf: Shelf = library if shelf is None else shelf
        own = (library,) if settings.sources.library.enabled else ()
        self.sources: tuple[Source, ...] = own if sources is None else sources
        self.fuse: Fusion = partial(reciprocal_rank_fusion, k=settings.ranking.rrf_k)
        self.interleave: Fusion = interleaved
        self.context_frame: Prompt = load("context", frozenset({"query", "sentences"}))

    @classmethod
    def from_file(cls, flags: Mapping[str, object] | None = None) -> Services:
        """Services from flags, environment, the settings files and defaults, in that order."""
        return cls(load_settings(flags).settings)

    @property
    def source_names(self) -> tuple[str, ...]:
        return tuple(source.name for source in self.sources)

    @property
    def versions(self) -> Mapping[str, str]:
        """What an answer depends on beside request and library: goes into the provenance hash."""
        return {"outrider": __version__, "prompt:context": self.context_frame.version}

    async def library(self) -> Library:
        """The library of the settings, kept once it is open; `LibraryMissing` where there is none yet.

        Two tasks that ask at the same time may both open it, which does no harm; one of the handles is kept.
        """
        if self._library is None:
            self._library = await self._open(create=False)
        return self._library

    def close(self) -> None:
        """Give back what was opened."""
        if self._library is not None:
            self._library.close()
            self._library = None

    async def new_library(self) -> Library:
        """The library of the settings, made where there is none."""
        return await self._open(create=True)

    async def _open(self, *, create: bool) -> Library:
        store = await asyncio.to_thread(importlib.import_module, "outrider.retrieval.store")  # reads files: not on the event loop
        where = self.settings.library
        secrets = {name: value.get_secret_value() for name, value in where.storage_options.items()}
        library: Library = await store.Library.open(where.uri, create=create, storage_options=secrets)
        return library

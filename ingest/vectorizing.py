"""Vectors for what is ingested, as long as the model works."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from outrider.ingest.report import MAX_REASONS, VectorReport
from outrider.retrieval.vectors.writing import Embedded
from outrider.state.embedding import EmbeddingSpace
from outrider.state.errors import ModelError
from outrider.state.ports import OnCount, TextEmbedder
from outrider.state.records import Record


class Shelf(Protocol):
    """What embedding needs of a library."""

    async def accept(self, space: EmbeddingSpace) -> None: ...

    async def embed(self, records: Sequence[Record], embedder: TextEmbedder, progress: OnCount | None = None) -> Embedded: ...


@dataclass(slots=True)
class Vectorizing:
    """One run's vectors and what is told of them."""

    library: Shelf
    embedder: TextEmbedder | None
    off: str = ""
    """Why nothing is embedded, or no more."""
    model: str | None = None
    embedded: int = 0
    reused: int = 0
    cut: int = 0
    without: int = 0
    reasons: list[str] = field(default_factory=list)

    async def check(self) -> None:
        """Before anything is read: the model can be loaded, and is the library's."""
        if self.embedder is not None:
            space = await asyncio.to_thread(_space, self.embedder)
            await self.library.accept(space)
            self.model = space.model_name

    async def embed(self, records: Sequence[Record], progress: OnCount) -> None:
        """A model that fails is not asked again: an endpoint that is gone would cost every batch its time limit."""
        if self.embedder is None:
            self.without += len(records)
            return
        try:
            done = await self.library.embed(records, self.embedder, progress)
        except ModelError as error:
            self.embedder, self.off = None, str(error)
            self.without += len(records)
            return
        self.embedded += done.embedded
        self.reused += done.reused
        self.cut += done.cut
        self.without += len(done.without)
        room = MAX_REASONS - len(self.reasons)
        self.reasons += [f"{doc_id}: {why}" for doc_id, why in sorted(done.without.items())[:room]]

    def report(self) -> VectorReport:
        return VectorReport(
            model=self.model,
            embedded=self.embedded,
            reused=self.reused,
            cut=self.cut,
            without=self.without,
            reasons=tuple(self.reasons),
            off=self.off,
        )


def _space(embedder: TextEmbedder) -> EmbeddingSpace:
    return embedder.space

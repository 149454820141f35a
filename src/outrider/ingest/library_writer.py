"""Vectors for what is ingested, as long as the model works.

Records on their way into the library: embedded, upserted in batches, their files remembered when all of them are in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from outrider.ingest.reader_thread import Bounds, estimate_bytes
from outrider.ingest.record_ids import Named
from outrider.ingest.report import MAX_REASONS, RecordStatus, Tally, VectorReport
from outrider.library.metadata_tables import IngestedFile
from outrider.library.vectors.write import Embedded
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


OPTIMIZE_EVERY_BATCHES = 100


class Shelves(Shelf, Protocol):
    """What ingestion needs of a library."""

    async def content_hashes(self, doc_ids: Sequence[str]) -> Mapping[str, str]:
        """Of those that are held."""
        ...

    async def fetch(self, doc_ids: Sequence[str]) -> list[Record]:
        """Those that are held."""
        ...

    async def upsert(self, records: Sequence[Record]) -> object: ...

    async def ingested(self, fingerprint: str) -> IngestedFile | None: ...

    async def remember(self, *files: IngestedFile) -> None:
        """Forgets what the same origins held before: a file set back to an earlier content must be read again."""
        ...

    async def origins(self) -> Mapping[str, int]: ...

    async def optimize(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Waiting:
    """A record on its way into the library, and whose it is."""

    named: Named
    tally: Tally


@dataclass(frozen=True, slots=True)
class Finished:
    """A file that was read to its end and is remembered once its records are in."""

    path: Path
    fingerprint: str
    records: int


@dataclass(slots=True)
class Storing:
    """One run's records."""

    library: Shelves
    bounds: Bounds
    """Of a batch."""
    vectors: Vectorizing
    finished: dict[str, Finished] = field(default_factory=dict)
    """By fingerprint, until they are remembered."""
    waiting: list[Waiting] = field(default_factory=list)
    waiting_bytes: int = 0
    batches: int = 0
    records: int = 0
    """That are in, those that were before included."""

    @property
    def full(self) -> bool:
        return len(self.waiting) >= self.bounds.records or self.waiting_bytes >= self.bounds.bytes

    def wait(self, named: Named, tally: Tally) -> None:
        self.waiting.append(Waiting(named, tally))
        self.waiting_bytes += estimate_bytes(named.record)

    async def flush(self, embedding: OnCount) -> None:
        """Upserts what waits, then remembers the files that are complete by it. `embedding` is told how far the model is."""
        waiting, self.waiting, self.waiting_bytes = self.waiting, [], 0
        if waiting:
            await self._store(waiting, embedding)
        finished, self.finished = self.finished, {}
        now = datetime.now(UTC).isoformat(timespec="seconds")
        await self.library.remember(*(IngestedFile(file.fingerprint, str(file.path), file.records, now) for file in finished.values()))

    async def _store(self, waiting: Sequence[Waiting], embedding: OnCount) -> None:
        """Only what is new or different is written. Each file's counts are of what stood in the library just before."""
        held = dict(await self.library.content_hashes([item.named.record.doc_id for item in waiting]))
        changed: list[Record] = []
        statuses: list[RecordStatus] = []
        for item in waiting:
            doc_id, content = item.named.record.doc_id, item.named.content
            before = held.get(doc_id)
            statuses.append("added" if before is None else "unchanged" if before == content else "updated")
            held[doc_id] = content
            if statuses[-1] != "unchanged":
                changed.append(item.named.record)
        if changed:
            await self.vectors.embed(changed, embedding)
            await self.library.upsert(changed)
            self.batches += 1
            if self.batches % OPTIMIZE_EVERY_BATCHES == 0:
                await self.library.optimize()
        for item, status in zip(waiting, statuses, strict=True):
            item.tally.count(status)
        self.records += len(waiting)

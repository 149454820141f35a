"""Writing of ingested records into the library: embedded and upserted in batches.

A file is remembered once all its records are in the library.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from outrider.ingest.entry import estimate_bytes
from outrider.ingest.reader_thread import Bounds
from outrider.ingest.record_ids import NamedRecord
from outrider.ingest.report import MAX_REASONS, RecordStatus, Tally, VectorReport
from outrider.library.metadata_tables import IngestedFile
from outrider.library.vectors.write import EmbeddingReport
from outrider.state.embedding import EmbeddingSpace
from outrider.state.errors import ModelError
from outrider.state.filters import Filter
from outrider.state.full_text import carry_text, read_origin
from outrider.state.ports import OnCount, TextEmbedder
from outrider.state.records import Paper, Record

OPTIMIZE_EVERY_BATCHES = 100


class IngestLibrary(Protocol):
    """The methods of a library that ingestion calls."""

    async def accept(self, space: EmbeddingSpace) -> None: ...

    async def embed(self, records: Sequence[Record], embedder: TextEmbedder, progress: OnCount | None = None) -> EmbeddingReport: ...

    async def content_hashes(self, doc_ids: Sequence[str]) -> Mapping[str, str]:
        """Hashes of the records that the library holds."""
        ...

    async def fetch(self, doc_ids: Sequence[str]) -> list[Record]:
        """The records that the library holds."""
        ...

    async def page(self, where: Filter | None = None, limit: int = 20) -> list[Record]:
        """Records that match a filter."""
        ...

    async def upsert(self, records: Sequence[Record]) -> object: ...

    async def add_cited_works(self, works: Sequence[Paper]) -> object: ...

    async def ingested(self, fingerprint: str) -> IngestedFile | None: ...

    async def remember(self, *files: IngestedFile) -> None:
        """Forgets earlier contents of the same origins: a file set back to an earlier content must be read again."""
        ...

    async def forget(self, origins: Sequence[str]) -> None:
        """The contents of these files: the next run reads them again."""
        ...

    async def ingested_files(self) -> Sequence[IngestedFile]: ...

    async def origins(self) -> Mapping[str, int]: ...

    async def doc_ids(self, origin: str) -> Sequence[str]:
        """Of the records of an origin."""
        ...

    async def count_contents(self, hashes: Sequence[str]) -> Mapping[str, int]:
        """How many of these contents the library holds, by origin."""
        ...

    async def set_origin(self, doc_ids: Sequence[str], origin: str) -> None: ...

    async def id_origins(self) -> Mapping[str, str]:
        """Of renamed files: the origin that the ids of their records are made of, by path."""
        ...

    async def set_id_origins(self, changes: Mapping[str, str | None]) -> None:
        """None removes the entry of a path."""
        ...

    async def remove(self, doc_ids: Sequence[str]) -> int: ...

    async def optimize(self) -> None: ...


@dataclass(slots=True)
class RecordEmbedder:
    """Embeds the records of one run as long as the model works, and counts for the report."""

    library: IngestLibrary
    embedder: TextEmbedder | None
    off: str = ""
    """Why nothing is embedded, or nothing more."""
    model: str | None = None
    embedded: int = 0
    reused: int = 0
    cut: int = 0
    without: int = 0
    reasons: list[str] = field(default_factory=list)

    async def check(self) -> None:
        """Checks, before anything is read, that the model can be loaded and is the library's."""
        if self.embedder is not None:
            space = await asyncio.to_thread(lambda embedder: embedder.space, self.embedder)  # loads the model
            await self.library.accept(space)
            self.model = space.model_name

    async def embed(self, records: Sequence[Record], progress: OnCount) -> None:
        """A model that fails is not called again: an endpoint that is down would cost every batch its time limit."""
        if self.embedder is None:
            self.without += len(records)
            return
        try:
            result = await self.library.embed(records, self.embedder, progress)
        except ModelError as error:
            self.embedder, self.off = None, str(error)
            self.without += len(records)
            return
        self.embedded += result.embedded
        self.reused += result.reused
        self.cut += result.cut
        self.without += len(result.without)
        room = MAX_REASONS - len(self.reasons)
        self.reasons += [f"{doc_id}: {why}" for doc_id, why in sorted(result.without.items())[:room]]

    def make_report(self) -> VectorReport:
        return VectorReport(
            model=self.model,
            embedded=self.embedded,
            reused=self.reused,
            cut=self.cut,
            without=self.without,
            reasons=tuple(self.reasons),
            off=self.off,
        )


@dataclass(frozen=True, slots=True)
class FinishedFile:
    """A file that was read to its end, to be remembered once its records are in the library."""

    origin: str
    fingerprint: str
    records: int


@dataclass(slots=True)
class _Batch:
    """Records to write, with what is counted and remembered after it."""

    tallies: list[Tally]
    """Of the file of each record, also of those that are unchanged."""
    finished: dict[str, FinishedFile]
    statuses: list[RecordStatus] = field(default_factory=list)
    changed: list[Record] = field(default_factory=list)
    cited: list[Paper] = field(default_factory=list)


@dataclass(slots=True)
class LibraryWriter:
    """Collects the records of one run and writes them in batches."""

    library: IngestLibrary
    bounds: Bounds
    """Of a batch."""
    embedder: RecordEmbedder
    finished: dict[str, FinishedFile] = field(default_factory=dict)
    """By fingerprint, until they are remembered."""
    waiting: list[tuple[NamedRecord, Tally]] = field(default_factory=list)
    """Records that are not written yet, each with the tally of its file."""
    waiting_bytes: int = 0
    batches: int = 0
    records: int = 0
    """In the library now, including those that were there before the run."""
    writes_behind: bool = False
    """Whether a batch is embedded while the one before is written: where the model is not on this machine, both have work then."""
    _writing: asyncio.Task[None] | None = None
    _written_ids: frozenset[str] = frozenset()
    """Of the batch that is being written."""

    @property
    def full(self) -> bool:
        return len(self.waiting) >= self.bounds.records or self.waiting_bytes >= self.bounds.bytes

    def add(self, named: NamedRecord, tally: Tally) -> None:
        self.waiting.append((named, tally))
        self.waiting_bytes += estimate_bytes(named.record)

    async def save(self) -> None:
        """As `flush`, without vectors: a run that is stopped keeps what it has read, and ends soon."""
        self.embedder.embedder, self.embedder.off = None, self.embedder.off or "the run was stopped"
        await self.flush(lambda _done, _total: None)
        await self.settle()

    async def flush(self, on_embed: OnCount) -> None:
        """Writes the waiting records that are new or changed, then remembers the files that are complete.

        Each file's counts compare with the library just before the write. `on_embed` gets the progress of the model. Records of a flush
        that is cancelled before the write still wait.
        """
        waiting, ids = self.waiting, [named.record.doc_id for named, _ in self.waiting]
        if not self._written_ids.isdisjoint(ids):
            await self.settle()
        hashes = dict(await self.library.content_hashes(ids)) if waiting else {}
        batch = _Batch([tally for _, tally in waiting], finished=dict(self.finished))
        read_again = [named for named, _ in waiting if hashes.get(named.record.doc_id) not in (None, named.content)]
        texts = await self._find_fetched_texts(read_again)
        for named, _ in waiting:
            before, record, content = hashes.get(named.record.doc_id), named.record, named.content
            if stored := texts.get(record.doc_id):
                record = carry_text(record, stored)
                content = record.content_hash()
            batch.statuses.append("added" if before is None else "unchanged" if before == content else "updated")
            hashes[record.doc_id] = content
            if batch.statuses[-1] != "unchanged":
                batch.changed.append(record)
                batch.cited += named.cited
        if batch.changed:
            await self.embedder.embed(batch.changed, on_embed)
        await self.settle()
        self.waiting, self.waiting_bytes = [], 0
        self._written_ids, self._writing = frozenset(ids), asyncio.create_task(self._write(batch))
        if not self.writes_behind:
            await self.settle()

    async def settle(self) -> None:
        """Waits until the last batch is written. A cancelled caller leaves the write to itself; `save` waits for it."""
        if (writing := self._writing) is None:
            return
        try:
            await asyncio.shield(writing)
        finally:
            if writing.done():
                self._writing, self._written_ids = None, frozenset()

    async def _write(self, batch: _Batch) -> None:
        if batch.changed:
            await self.library.add_cited_works(batch.cited)  # first: a record that is there counts as read
            await self.library.upsert(batch.changed)
            self.batches += 1
            if self.batches % OPTIMIZE_EVERY_BATCHES == 0:
                await self.library.optimize()
        for tally, status in zip(batch.tallies, batch.statuses, strict=True):
            tally.count(status)
        self.records += len(batch.tallies)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        finished = batch.finished.values()
        await self.library.remember(*(IngestedFile(file.fingerprint, file.origin, file.records, now) for file in finished))
        # till now in this mapping, so that a copy of such a file is known as one
        self.finished = {fingerprint: file for fingerprint, file in self.finished.items() if fingerprint not in batch.finished}

    async def _find_fetched_texts(self, changed: Sequence[NamedRecord]) -> dict[str, Record]:
        """The stored records whose full text was fetched: their files do not hold it, so it is kept when a file is read again."""
        ids = [named.record.doc_id for named in changed if not named.record.text]
        return {record.doc_id: record for record in await self.library.fetch(ids) if read_origin(record)} if ids else {}

"""Records on their way into the library: embedded, upserted in batches, their files remembered when all of them are in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from outrider.ingest.feeding import Bounds, estimate_bytes
from outrider.ingest.naming import Named
from outrider.ingest.report import RecordStatus, Tally
from outrider.ingest.vectorizing import Shelf, Vectorizing
from outrider.retrieval.ledger import IngestedFile
from outrider.state.ports import OnCount
from outrider.state.records import Record

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

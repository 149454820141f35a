"""Paths into the library: each file read once, in a thread, batched across files, remembered when all of it is in.

Idempotent: a file whose fingerprint (content, reader, its version, options) the library remembers is not read again; records
are upserted by content hash. Resumable: what was upserted stays, a file is remembered only after its last record. A file with
failed entries is not remembered, so that every run reports them. Bounded: a few batches are in memory, whatever the files' size.

With a model, records are embedded before they are written. Where it fails in the middle, the rest is written without vectors:
the files need not be read again, words find the records, and `outrider library reindex` gives them their vectors.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from outrider.ingest.columns import check_fields
from outrider.ingest.entry import DEFAULTS, BadEntry, ReadOptions
from outrider.ingest.feeding import Bounds, fed, weight
from outrider.ingest.installed import ORIGIN
from outrider.ingest.installed import installed as installed_packages
from outrider.ingest.naming import Named, Namer, Outcome, Repeated
from outrider.ingest.readers import KnownReader, NoReader, reader_for
from outrider.ingest.report import IngestReport, RecordStatus, Tally
from outrider.ingest.vectorizing import Shelf, Vectorizing
from outrider.ingest.walk import Found, walk
from outrider.retrieval.ledger import IngestedFile
from outrider.state.errors import BadRequest, NothingToRead, UnreadableFile
from outrider.state.ports import TextEmbedder
from outrider.state.records import Record

BATCH_BYTES = 16 * 2**20
OPTIMIZE_EVERY_BATCHES = 100
HASH_CHUNK_BYTES = 2**20


class Shelves(Shelf, Protocol):
    """What ingestion needs of a library."""

    async def content_hashes(self, doc_ids: Sequence[str]) -> Mapping[str, str]:
        """Of those that are held."""
        ...

    async def upsert(self, records: Sequence[Record]) -> object: ...

    async def ingested(self, fingerprint: str) -> IngestedFile | None: ...

    async def remember(self, *files: IngestedFile) -> None:
        """Forgets what the same origins held before: a file set back to an earlier content must be read again."""
        ...

    async def origins(self) -> Mapping[str, int]: ...

    async def optimize(self) -> None: ...


@dataclass(frozen=True, slots=True)
class IngestProgress:
    """How far a run is; bytes are those of files on disk, `current` the file being read."""

    files_done: int
    files_total: int
    records: int
    bytes_done: int
    bytes_total: int
    current: Path | None
    embedding: tuple[int, int] | None = None
    """Records of the present batch that are embedded, of how many, while the model works on them."""


OnProgress = Callable[[IngestProgress], None]


async def ingest(  # noqa: PLR0913 - library, what to read, and keywords with defaults
    library: Shelves,
    paths: Sequence[Path],
    options: ReadOptions | None = None,
    *,
    installed: bool = False,
    progress: OnProgress | None = None,
    batch_records: int = DEFAULTS.batch_records,
    batch_bytes: int = BATCH_BYTES,
    embedder: TextEmbedder | None = None,
    off: str = "no embedding model was given",
) -> IngestReport:
    """Read everything under `paths`, and with `installed` this environment's packages, into the library.

    Without an `embedder` the report says why records get no vectors: `off`.

    Before anything is read raises `BadRequest` where a path does not exist or `options` map an unknown field, `ModelError` where the
    embedder cannot be loaded, `EmbeddingSpaceMismatch` where it is not the library's; `LibraryError` whenever the library fails.
    A file that cannot be read is reported and does not stop the rest; nor does a model that fails later.
    """
    if not paths and not installed:
        raise BadRequest("nothing to ingest: name files or folders, or ask for the installed packages")
    options = options or ReadOptions()
    check_fields(options.columns)
    started = time.perf_counter()
    found = await asyncio.to_thread(walk, paths)
    total = sum(file.size for file in found)
    vectors = Vectorizing(library, embedder, "" if embedder else off)
    await vectors.check()
    run = _Run(library, options, Bounds(batch_records, batch_bytes), len(found) + installed, total, progress, vectors)
    for file in found:
        await run.file(file)
    if installed:
        await run.packages()
    await run.finish()
    return IngestReport.of(tuple(tally.report() for tally in run.tallies), vectors.report(), time.perf_counter() - started)


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A record on its way into the library, and whose it is."""

    named: Named
    tally: Tally


@dataclass(frozen=True, slots=True)
class _Finished:
    """A file that was read to its end and is remembered once its records are in."""

    path: Path
    fingerprint: str
    records: int


@dataclass(slots=True)
class _Run:
    """One run of ingestion."""

    library: Shelves
    options: ReadOptions
    bounds: Bounds
    files_total: int
    bytes_total: int
    on_progress: OnProgress | None
    vectors: Vectorizing
    tallies: list[Tally] = field(default_factory=list)
    waiting: list[_Waiting] = field(default_factory=list)
    waiting_bytes: int = 0
    finished: dict[str, _Finished] = field(default_factory=dict)
    held: Mapping[str, int] | None = None
    batches: int = 0
    records: int = 0
    bytes_done: int = 0

    async def file(self, found: Found) -> None:
        tally = self._tally(found.path, found.size)
        started = time.perf_counter()
        try:
            await self._file(found, tally)
        except NothingToRead as nothing:
            tally.skip(str(nothing))
        except (UnreadableFile, OSError) as broken:
            tally.fail(_why(broken))
        tally.took_s = time.perf_counter() - started
        self.bytes_done += found.size
        self._show(None)

    async def packages(self) -> None:
        """The packages of this environment, which have no file to remember: unchanged ones are told by their content."""
        tally = self._tally(Path(ORIGIN), 0)
        tally.reader = ORIGIN
        started = time.perf_counter()
        await self._take(lambda: Namer(ORIGIN, single=False).named(installed_packages()), tally)
        tally.took_s = time.perf_counter() - started

    async def finish(self) -> None:
        await self._flush()
        await self.library.optimize()
        self._show(None)

    def _tally(self, path: Path, size: int) -> Tally:
        tally = Tally(path, size)
        self.tallies.append(tally)
        self._show(path)
        return tally

    async def _file(self, found: Found, tally: Tally) -> None:
        if found.problem:
            raise UnreadableFile(found.problem)
        if found.passed:
            return tally.skip(found.passed)
        reader = await asyncio.to_thread(reader_for, found.path)
        if isinstance(reader, NoReader):
            return tally.skip(reader.reason)
        tally.reader = reader.name
        if found.size > self.options.max_bytes:
            raise UnreadableFile(f"{found.size:,} bytes, more than the limit of {self.options.max_bytes:,}")
        before = found.path.stat()
        fingerprint = await asyncio.to_thread(fingerprint_of, found.path, reader, self.options)
        if await self._known(fingerprint, found.path, tally):
            return None
        namer = Namer(str(found.path), single=reader.single)
        taken = await self._take(lambda: namer.named(reader.read(found.path, self.options)), tally)
        after = found.path.stat()
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            tally.say("changed while it was read; ingest it again")
        elif not taken and not tally.failed:
            tally.skip("holds no record")
        elif not tally.failed:
            self.finished[fingerprint] = _Finished(found.path, fingerprint, taken)
        return None

    async def _known(self, fingerprint: str, path: Path, tally: Tally) -> bool:
        """Whether a file with this content was read to its end before, in this run or an earlier one."""
        if here := self.finished.get(fingerprint):
            origin, records = str(here.path), here.records
        elif (before := await self.library.ingested(fingerprint)) and await self._held(before):
            origin, records = before.origin, before.records
        else:
            return False
        tally.unchanged = records
        self.records += records
        if origin != str(path):
            tally.say(f"same content as {origin}")
        return True

    async def _held(self, before: IngestedFile) -> bool:
        """Whether the records of that file are still there; reading them also finds a library that is damaged."""
        if self.held is None:
            self.held = await self.library.origins()
        return self.held.get(before.origin, 0) >= before.records

    async def _take(self, outcomes: Callable[[], Iterable[Outcome]], tally: Tally) -> int:
        """Every entry of one file; returns how many records."""
        taken = repeated = 0
        async for group in fed(outcomes, self.bounds):
            for outcome in group:
                match outcome:
                    case BadEntry(where, why, empty=True):
                        tally.say(f"{where}: {why}")
                    case BadEntry(where, why):
                        tally.fail(f"{where}: {why}")
                    case Repeated():
                        repeated += 1
                    case Named():
                        taken += 1
                        self.waiting.append(_Waiting(outcome, tally))
                        self.waiting_bytes += weight(outcome.record)
            if len(self.waiting) >= self.bounds.records or self.waiting_bytes >= self.bounds.bytes:
                await self._flush()
            self._show(tally.path)
        if repeated:
            tally.say(f"{repeated} entries repeat an earlier one exactly" if repeated > 1 else "1 entry repeats an earlier one exactly")
        return taken

    async def _flush(self) -> None:
        """Upserts what waits, then remembers the files that are complete by it."""
        waiting, self.waiting, self.waiting_bytes = self.waiting, [], 0
        if waiting:
            await self._store(waiting)
        finished, self.finished = self.finished, {}
        now = datetime.now(UTC).isoformat(timespec="seconds")
        await self.library.remember(*(IngestedFile(file.fingerprint, str(file.path), file.records, now) for file in finished.values()))

    async def _store(self, waiting: Sequence[_Waiting]) -> None:
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
            await self.vectors.embed(changed, lambda done, of: self._show(None, (done, of)))
            await self.library.upsert(changed)
            self.batches += 1
            if self.batches % OPTIMIZE_EVERY_BATCHES == 0:
                await self.library.optimize()
        for item, status in zip(waiting, statuses, strict=True):
            item.tally.count(status)
        self.records += len(waiting)

    def _show(self, current: Path | None, embedding: tuple[int, int] | None = None) -> None:
        if self.on_progress is not None:
            done = len(self.tallies) - (current is not None)
            self.on_progress(IngestProgress(done, self.files_total, self.records, self.bytes_done, self.bytes_total, current, embedding))


def fingerprint_of(path: Path, reader: KnownReader, options: ReadOptions) -> str:
    """Sha-256 over the file's bytes and everything else that decides what is read from them."""
    content = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(HASH_CHUNK_BYTES):
            content.update(chunk)
    said = [content.hexdigest(), reader.name, reader.version, sorted(options.columns.items()), options.max_pages]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()


def _why(broken: UnreadableFile | OSError) -> str:
    if isinstance(broken, OSError):
        return broken.strerror or str(broken)
    return str(broken)

"""Files and what is named into the library: each file read once, in a thread, batched, remembered when all of it is in.

Idempotent: a file whose fingerprint (content, reader, its version, options) the library remembers is not read again; records
are upserted by content hash. Resumable: what was upserted stays, a file is remembered only after its last record. A file with
failed entries is not remembered, so that every run reports them. Bounded: a few batches are in memory, whatever the files' size.

Targets (`doi:...`, links) are not remembered: every run asks for them again, and what came is told from what is held by its content.

With a model, records are embedded before they are written. Where it fails in the middle, the rest is written without vectors:
the files need not be read again, words find the records, and `outrider library reindex` gives them their vectors.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path

from outrider.ingest.entry import DEFAULTS, BadEntry, Entry, ReadOptions
from outrider.ingest.fetch_targets import Brought, World, asked_ahead, shelved
from outrider.ingest.file_walk import Found, walk
from outrider.ingest.installed_packages import ORIGIN
from outrider.ingest.installed_packages import installed as installed_packages
from outrider.ingest.library_writer import Finished, Shelves, Storing, Vectorizing
from outrider.ingest.reader_thread import Bounds, read_groups
from outrider.ingest.readers import KnownReader, NoReader, reader_for
from outrider.ingest.record_ids import Named, Namer, Outcome, Repeated, short_id
from outrider.ingest.report import IngestReport, Tally
from outrider.ingest.row_columns import check_fields
from outrider.ingest.targets import Target
from outrider.library.metadata_tables import IngestedFile
from outrider.linkage.confirm_work import same_work
from outrider.state.errors import BadRequest, NothingToRead, UnreadableFile
from outrider.state.ports import TextEmbedder
from outrider.state.records import Record

BATCH_BYTES = 16 * 2**20
TARGETS_A_BATCH = 25
"""Fewer than records of files: each took seconds to come, and what was interrupted should not have to be asked for again."""
HASH_CHUNK_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class IngestProgress:
    """How far a run is; targets count as files, bytes are those of files on disk; `current` is the file or target being read."""

    files_done: int
    files_total: int
    records: int
    bytes_done: int
    bytes_total: int
    current: Path | str | None
    embedding: tuple[int, int] | None = None
    """Records of the present batch that are embedded, of how many, while the model works on them."""


OnProgress = Callable[[IngestProgress], None]


async def ingest(  # noqa: PLR0913 - library, what to read, and keywords with defaults
    library: Shelves,
    paths: Sequence[Path],
    options: ReadOptions | None = None,
    *,
    targets: Sequence[Target] = (),
    world: World | None = None,
    installed: bool = False,
    progress: OnProgress | None = None,
    batch_records: int = DEFAULTS.batch_records,
    batch_bytes: int = BATCH_BYTES,
    embedder: TextEmbedder | None = None,
    off: str = "no embedding model was given",
) -> IngestReport:
    """Read everything under `paths`, what `world` has of `targets`, and with `installed` this environment's packages, into the library.

    Without an `embedder` the report says why records get no vectors: `off`.

    Before anything is read raises `BadRequest` where a path does not exist, `options` map an unknown field or there are targets without
    a `world`, `ModelError` where the embedder cannot be loaded, `EmbeddingSpaceMismatch` where it is not the library's; `LibraryError`
    whenever the library fails. A file that cannot be read, or a target that cannot be had, is reported and does not stop the rest; nor
    does a model that fails later.
    """
    if not (paths or targets or installed):
        raise BadRequest("nothing to ingest: name files, folders, identifiers or links, or ask for the installed packages")
    check_world(targets, world)
    options = options or ReadOptions()
    check_fields(options.columns)
    started = time.perf_counter()
    found = await asyncio.to_thread(walk, paths)
    total = sum(file.size for file in found)
    vectors = Vectorizing(library, embedder, "" if embedder else off)
    await vectors.check()
    storing = Storing(library, Bounds(batch_records, batch_bytes), vectors)
    run = _Run(library, options, storing, len(found) + len(targets) + installed, total, progress)
    for file in found:
        await run.file(file)
    if world:
        await run.targets(targets, world)
    if installed:
        await run.packages()
    await run.finish()
    return IngestReport.of(tuple(tally.report() for tally in run.tallies), vectors.report(), time.perf_counter() - started)


def check_world(targets: Sequence[Target], world: World | None) -> None:
    """Raises `BadRequest` for targets that nobody can be asked for."""
    if targets and world is None:
        why = "this run is offline (--offline, sources.offline); nothing was read"
        raise BadRequest(f"{targets[0]} is asked for over the network, and {why}")


@dataclass(slots=True)
class _Run:
    """One run of ingestion."""

    library: Shelves
    options: ReadOptions
    storing: Storing
    files_total: int
    bytes_total: int
    on_progress: OnProgress | None
    tallies: list[Tally] = field(default_factory=list)
    brought: dict[str, Record] = field(default_factory=dict)
    """What came of targets so far, by doc_id."""
    held: Mapping[str, int] | None = None
    bytes_done: int = 0

    async def file(self, found: Found) -> None:
        tally = self._tally(found.path, found.size)
        await self._reported(self._file(found, tally), tally)
        self.bytes_done += found.size
        self._show(None)

    async def targets(self, targets: Sequence[Target], world: World) -> None:
        """Some are asked for ahead; they are taken in their order."""
        async with aclosing(asked_ahead(world, targets)) as coming:
            async for target, asked in coming:
                tally = self._tally(str(target), 0)
                await self._reported(self._target(asked, tally), tally)
                if len(self.storing.waiting) >= TARGETS_A_BATCH:
                    await self.storing.flush(self._embedding)
                self._show(None)

    async def packages(self) -> None:
        """The packages of this environment, which have no file to remember: unchanged ones are told by their content."""
        tally = self._tally(Path(ORIGIN), 0)
        tally.reader = ORIGIN
        started = time.perf_counter()
        await self._take(lambda: Namer(ORIGIN, single=False).named(installed_packages()), tally)
        tally.took_s = time.perf_counter() - started

    async def _reported(self, work: Awaitable[None], tally: Tally) -> None:
        started = time.perf_counter()
        try:
            await work
        except NothingToRead as nothing:
            tally.skip(str(nothing))
        except (UnreadableFile, OSError) as broken:
            tally.fail(_why(broken))
        tally.took_s = time.perf_counter() - started

    async def finish(self) -> None:
        await self.storing.flush(self._embedding)
        await self.library.optimize()
        self._show(None)

    def _tally(self, path: Path | str, size: int) -> Tally:
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
            raise UnreadableFile(f"{found.size:,} bytes, more than the limit of {self.options.max_bytes:,} (ingest.max_bytes)")
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
            self.storing.finished[fingerprint] = Finished(found.path, fingerprint, taken)
        return None

    async def _target(self, asked: Awaitable[Brought], tally: Tally) -> None:
        brought = await asked
        tally.reader = brought.record.source
        for note in brought.notes:
            tally.say(note)
        origin = await self._origin(brought)
        if origin != str(brought.target):
            tally.say(f"the same work as {origin}, whose record it is")
        record = shelved(brought.record)
        self.brought[short_id(origin, "")] = record
        await self._take(lambda: Namer(origin, single=True).named([Entry(record)]), tally)

    async def _origin(self, brought: Brought) -> str:
        """Its target, unless the same work is held under another of its identifiers."""
        ids = {short_id(name, ""): name for name in (str(brought.target), *brought.other_names())}
        held = {record.doc_id: record for record in await self.library.fetch(list(ids))} | self.brought
        own = next(iter(ids))
        found = (doc_id for doc_id in ids if doc_id in held and (doc_id == own or same_work(held[doc_id], brought.record)))
        return ids[next(found, own)]

    async def _known(self, fingerprint: str, path: Path, tally: Tally) -> bool:
        """Whether a file with this content was read to its end before, in this run or an earlier one."""
        if here := self.storing.finished.get(fingerprint):
            origin, records = str(here.path), here.records
        elif (before := await self.library.ingested(fingerprint)) and await self._held(before):
            origin, records = before.origin, before.records
        else:
            return False
        tally.unchanged = records
        self.storing.records += records
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
        async for group in read_groups(outcomes, self.storing.bounds):
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
                        self.storing.wait(outcome, tally)
            if self.storing.full:
                await self.storing.flush(self._embedding)
            self._show(tally.path)
        if repeated:
            tally.say(f"{repeated} entries repeat an earlier one exactly" if repeated > 1 else "1 entry repeats an earlier one exactly")
        return taken

    def _embedding(self, done: int, of: int) -> None:
        self._show(None, (done, of))

    def _show(self, current: Path | str | None, embedding: tuple[int, int] | None = None) -> None:
        if self.on_progress is not None:
            done = len(self.tallies) - (current is not None)
            records = self.storing.records
            self.on_progress(IngestProgress(done, self.files_total, records, self.bytes_done, self.bytes_total, current, embedding))


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

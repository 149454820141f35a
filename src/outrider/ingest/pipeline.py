"""Ingestion of files, targets and installed packages into the library.

Idempotent: a file whose fingerprint (content, reader, its version, options) the library remembers is not read again; records
are upserted by content hash. Resumable: records that were upserted stay, a file is remembered only after its last record. A file with
failed entries is not remembered, so that every run reports them. Bounded: a few batches are in memory, whatever the files' size.

Targets (`doi:...`, links) are not remembered: every run fetches them again, and compares contents to report what changed.

With a model, records are embedded before they are written. If it fails in the middle, the rest is written without vectors:
the files need not be read again, word search finds the records, and `outrider library reindex` adds their vectors.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from outrider.ingest.column_mapping import check_fields
from outrider.ingest.entry import DEFAULTS, BadEntry, Entry, FileNote, ReadOptions
from outrider.ingest.file_access import FileAccess, LocalFiles
from outrider.ingest.file_changes import FileChanges, Fingerprints, check_paths
from outrider.ingest.file_walk import InputFile, walk
from outrider.ingest.installed_packages import ORIGIN, read_installed_packages
from outrider.ingest.library_writer import FinishedFile, IngestLibrary, LibraryWriter, RecordEmbedder
from outrider.ingest.reader_thread import Bounds, read_groups
from outrider.ingest.readers.select_reader import NoReader
from outrider.ingest.record_ids import NamedRecord, Namer, Outcome, RepeatedEntry, make_id
from outrider.ingest.report import IngestReport, Tally
from outrider.ingest.targets import PUBLICATION_SCHEMES, FetchedTarget, RemoteSources, Target, fetch_ahead, make_library_record
from outrider.linkage.lookup_match import same_work
from outrider.runtime.threads_and_loops import finish
from outrider.state.errors import BadRequest, NothingToRead, UnreadableFile
from outrider.state.filters import Compare, Or
from outrider.state.ports import TextEmbedder
from outrider.state.records import Record

BATCH_BYTES = 16 * 2**20
TARGETS_A_BATCH = 25
"""Fewer than records of files: each took seconds to fetch, and an interrupted run should not have to fetch them again."""
BY_COLUMN = ("doi", "pmid")
"""Identifiers that the library has columns for."""
MOST_OF_A_WORK = 20
"""Records of the library with one of a work's identifiers that are looked at."""
SAME_CONTENT = "same content as "
"""Before the origin of a file whose copy is read again."""
Prune = Literal["", "list", "remove"]
"""For records that their files no longer hold: a path that no longer exists may be named to `list` its records, or to `remove` them."""


@dataclass(frozen=True, slots=True)
class IngestProgress:
    """Progress of a run. Targets count as files; bytes are those of files on disk; `current` is the file or target being read."""

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
    library: IngestLibrary,
    paths: Sequence[Path],
    options: ReadOptions | None = None,
    *,
    targets: Sequence[Target] = (),
    remote: RemoteSources | None = None,
    installed: bool = False,
    progress: OnProgress | None = None,
    batch_records: int = DEFAULTS.batch_records,
    batch_bytes: int = BATCH_BYTES,
    embedder: TextEmbedder | None = None,
    off: str = "no embedding model was given",
    prune: Prune = "",
    upload: str = "",
    access: FileAccess | None = None,
) -> IngestReport:
    """Read the files under `paths`, `targets` from `remote`, and with `installed` this environment's packages, into the library.

    Without an `embedder` the report gives `off` as the reason why records get no vectors. Records of these files, and of deleted files
    under `paths`, that are no longer there are always reported, and removed if `prune` says so. With `upload` the one path is a temporary
    file, and this the origin of its records. A run that is cancelled writes what it has read, without vectors. `access` reads the files
    elsewhere than on this machine.

    Raises before anything is read: `BadRequest` if a path does not exist, `options` map an unknown field or there are targets without
    `remote`; `ModelError` if the embedder cannot be loaded; `EmbeddingSpaceMismatch` if it is not the library's. Raises `LibraryError`
    whenever the library fails. A file that cannot be read, or a target that cannot be fetched, is reported and does not stop the rest;
    nor does a model that fails later.
    """
    if not (paths or targets or installed):
        raise BadRequest("nothing to ingest: name files, folders, identifiers or links, or ask for the installed packages")
    check_targets(targets, remote)
    options = options or ReadOptions()
    check_fields(options.columns)
    started = time.perf_counter()
    files = await asyncio.to_thread(walk, await check_paths(library, paths, prune=bool(prune)))
    files = [replace(file, upload=upload) for file in files]
    record_embedder = RecordEmbedder(library, embedder, "" if embedder else off)
    await record_embedder.check()
    writer = LibraryWriter(library, Bounds(batch_records, batch_bytes), record_embedder, writes_behind=access is not None)
    fingerprints = Fingerprints(options)
    changes = await FileChanges.find(library, paths, files, options, fingerprints)
    total = len(files) + len(targets) + installed
    access = access or LocalFiles(options, writer.bounds, fingerprints)
    run = _Run(library, options, writer, access, fingerprints, changes, total, sum(file.size for file in files), progress)
    try:
        await run.read_all(files, targets, remote, installed=installed)
        await writer.flush(run.on_embed)
    except asyncio.CancelledError:
        await finish(writer.save())
        raise
    finally:
        await writer.settle()
    stale = await changes.make_report(remove=prune == "remove")
    if prune == "remove":  # these files hold what the library holds of them; others are read again, to be reported again
        writer.finished |= run.with_stale
        await writer.flush(run.on_embed)
        await writer.settle()
    await library.optimize()
    run.show_progress(None)
    reports = tuple(tally.make_report() for tally in run.tallies)
    took_s = time.perf_counter() - started
    return IngestReport.summarize(reports, record_embedder.make_report(), took_s, stale, changes.list_gone_elsewhere())


def check_targets(targets: Sequence[Target], remote: RemoteSources | None) -> None:
    """Raises `BadRequest` for targets without sources to fetch them from."""
    if targets and remote is None:
        raise BadRequest(f"{targets[0]} must be fetched, and this run is offline (--offline, sources.offline); nothing was read")


@dataclass(slots=True)
class _Run:
    """State of one run of ingestion."""

    library: IngestLibrary
    options: ReadOptions
    writer: LibraryWriter
    access: FileAccess
    fingerprints: Fingerprints
    changes: FileChanges
    files_total: int
    bytes_total: int
    on_progress: OnProgress | None
    tallies: list[Tally] = field(default_factory=list)
    fetched: dict[str, Record] = field(default_factory=dict)
    """Records of targets so far, by doc_id."""
    origins: dict[str, str] = field(default_factory=dict)
    """Targets so far and the other identifiers of their works: the target under which the work is stored."""
    with_stale: dict[str, FinishedFile] = field(default_factory=dict)
    """Files with records in the library that they no longer hold, by fingerprint."""
    bytes_done: int = 0

    async def read_all(
        self, files: Sequence[InputFile], targets: Sequence[Target], remote: RemoteSources | None, *, installed: bool
    ) -> None:
        readable = [file for file in files if not (file.problem or file.skip_reason)]
        await self.access.expect(readable, self.changes.id_origins, self.library.ingested_files)
        for file in files:
            tally = self.start(file.path, file.size)
            await self.report_errors(self.read_file(file, tally), tally)
            self.bytes_done += file.size
            self.show_progress(None)
        if remote:
            await self.fetch_targets(targets, remote)
        if installed:
            tally = self.start(Path(ORIGIN))
            tally.reader = ORIGIN
            packages_started = time.perf_counter()
            # they have no file to remember: the content shows which are unchanged
            seen: set[str] = set()
            groups = read_groups(lambda: Namer(ORIGIN, single=False).name_all(read_installed_packages()), self.writer.bounds)
            await self.take(groups, tally, seen)
            if not tally.failed:
                await self.changes.compare(ORIGIN, seen)
            tally.took_s = time.perf_counter() - packages_started

    def start(self, path: Path | str, size: int = 0) -> Tally:
        tally = Tally(path, size)
        self.tallies.append(tally)
        self.show_progress(path)
        return tally

    async def report_errors(self, work: Awaitable[object], tally: Tally) -> None:
        started = time.perf_counter()
        try:
            await work
        except NothingToRead as error:
            tally.skip(str(error))
        except UnreadableFile as error:
            tally.fail(str(error))
        except OSError as error:
            tally.fail(error.strerror or str(error))
        held = self.changes.records.get(str(tally.path), 0)
        if (tally.skipped or tally.failed) and held and str(tally.path) not in self.changes.stale:
            tally.remark(f"{held:,} records of an earlier reading are in the library and stay there, since it was not read completely now")
        tally.took_s = time.perf_counter() - started

    async def read_file(self, file: InputFile, tally: Tally) -> None:
        path = file.origin
        if former := self.changes.renamed.get(path):
            what = "a new version of the earlier upload" if file.upload else f"renamed from {former}"
            tally.remark(f"{what}; its records keep their ids")
        if file.problem:
            raise UnreadableFile(file.problem)
        if file.skip_reason:
            return tally.skip(file.skip_reason)
        inspection = await self.access.inspect(file)
        if isinstance(inspection, NoReader):
            return tally.skip(inspection.reason)
        tally.reader, fingerprint = inspection.reader.name, inspection.fingerprint
        if not fingerprint:
            raise UnreadableFile(f"{file.size:,} bytes, more than the limit of {self.options.max_bytes:,} (ingest.max_bytes)")
        if await self._is_unchanged(fingerprint, path, tally):
            return None
        # ids are collected only where the library may hold others of this file
        seen: set[str] | None = set() if self.changes.records.get(path) else None
        groups = self.access.read(file, inspection, self.changes.id_origins.get(path, ""), tally.set_encoding)
        records = await self.take(groups, tally, seen)
        if await self.access.stamp(file) != inspection.stamp:
            tally.add_reason("changed while it was read; ingest it again")
        elif seen is not None and not tally.failed and await self.changes.compare(path, seen):
            self.with_stale[fingerprint] = FinishedFile(path, fingerprint, records)
        elif not records and not tally.failed:
            tally.skip("holds no record")
        elif not tally.failed:
            self.writer.finished[fingerprint] = FinishedFile(path, fingerprint, records)
            self.changes.records[path] = records
        return None

    async def _is_unchanged(self, fingerprint: str, path: str, tally: Tally) -> bool:
        """Whether a file with this content was read to its end before, in this run or an earlier one, and its records still exist."""
        if finished := self.writer.finished.get(fingerprint):
            origin, records = finished.origin, finished.records
        elif before := await self.library.ingested(fingerprint):
            origin, records = before.origin, before.records
            held = self.changes.records.get(origin, 0)
            # fewer: some were removed; more: some are no longer in the file, and are found by reading it
            if held < records or (held > records and origin == path):
                return False
            if origin != path and await asyncio.to_thread(self.fingerprints.find, Path(origin)) not in (None, fingerprint):
                return False  # no copy any more: the other file was edited since
        else:
            return False
        if origin != path and self.changes.records.get(path):
            return False  # it held other records before, which are no longer in it
        tally.unchanged = records
        self.writer.records += records
        if origin != path:
            tally.add_reason(f"{SAME_CONTENT}{origin}")
        return True

    async def fetch_targets(self, targets: Sequence[Target], remote: RemoteSources) -> None:
        """Some are fetched ahead; their records are taken in the order of the targets."""
        async with aclosing(fetch_ahead(remote, targets)) as fetches:
            async for target, fetch in fetches:
                tally = self.start(str(target))
                await self.report_errors(self._take_target(fetch, tally), tally)
                if len(self.writer.waiting) >= TARGETS_A_BATCH:
                    await self.writer.flush(self.on_embed)
                    await self.writer.settle()  # a later target may be the same work
                self.show_progress(None)

    async def _take_target(self, fetch: Awaitable[FetchedTarget], tally: Tally) -> None:
        fetched = await fetch
        tally.reader = fetched.record.source
        for note in fetched.notes:
            tally.add_reason(note)
        # the same work may be in the library under another of its identifiers
        aliases = (str(fetched.target), *fetched.list_aliases())
        named = dict.fromkeys((*aliases, *(self.origins[name] for name in aliases if name in self.origins)))
        named |= dict.fromkeys(await self._find_origins(fetched))
        names = {make_id(name, ""): name for name in named}
        known = {record.doc_id: record for record in await self.library.fetch(list(names))} | self.fetched
        own_id = next(iter(names))
        same = [doc_id for doc_id in names if doc_id in known and same_work(known[doc_id], fetched.record)]
        origin = names[own_id if own_id in known or not same else same[0]]
        if origin != str(fetched.target):
            tally.add_reason(f"the same work as {origin}, and stored as its record")
        stored = known.get(make_id(origin, "")) if make_id(origin, "") in same else None
        record = make_library_record(fetched.record, stored)
        self.fetched[make_id(origin, "")] = record
        self.origins |= dict.fromkeys(aliases, origin)
        await self.take(read_groups(lambda: Namer(origin, single=True).name_all([Entry(record)]), self.writer.bounds), tally)

    async def _find_origins(self, fetched: FetchedTarget) -> list[str]:
        """Targets under which the library has records with an identifier of this one, which services did not all name then."""
        pairs = dict(fetched.record.identifiers.pairs()) if fetched.target.scheme in PUBLICATION_SCHEMES else {}
        parts = tuple(Compare(scheme, "$eq", pairs[scheme]) for scheme in BY_COLUMN if scheme in pairs)
        records = await self.library.page(Or(parts), MOST_OF_A_WORK) if parts else []
        origins = (record.origin for record in records if record.origin and record.doc_id == make_id(record.origin, ""))
        # records of files are the user's own and are never replaced; a preprint is not its publication
        return [origin for origin in origins if origin.partition(":")[0] in PUBLICATION_SCHEMES]

    async def take(self, groups: AsyncGenerator[list[Outcome]], tally: Tally, seen: set[str] | None = None) -> int:
        """Takes every entry of one file. Returns the number of records, and adds their ids to `seen`."""
        records = repeated = 0
        async with aclosing(groups):
            async for group in groups:
                for outcome in group:
                    match outcome:
                        case BadEntry(where, why, empty=True):
                            tally.add_reason(f"{where}: {why}")
                        case BadEntry(where, why):
                            tally.fail(f"{where}: {why}")
                        case RepeatedEntry():
                            repeated += 1
                        case FileNote(text):
                            tally.remark(text)
                        case NamedRecord():
                            records += 1
                            tally.untitled += not outcome.record.title.strip()
                            self.changes.claim(outcome.record.doc_id, str(tally.path))
                            if seen is not None:
                                seen.add(outcome.record.doc_id)
                            self.writer.add(outcome, tally)
                if self.writer.full:
                    await self.writer.flush(self.on_embed)
                self.show_progress(tally.path)
        if repeated:
            tally.add_reason(
                f"{repeated} entries repeat an earlier one exactly" if repeated > 1 else "1 entry repeats an earlier one exactly"
            )
        return records

    def on_embed(self, current: int, total: int) -> None:
        self.show_progress(None, (current, total))

    def show_progress(self, current: Path | str | None, embedding: tuple[int, int] | None = None) -> None:
        if self.on_progress is not None:
            done = len(self.tallies) - (current is not None)
            records = self.writer.records
            self.on_progress(IngestProgress(done, self.files_total, records, self.bytes_done, self.bytes_total, current, embedding))

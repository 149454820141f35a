"""Changes of ingested files since the last run: renamed, deleted, and records that are gone.

A record belongs to the file it came from. A file that was renamed is known by its content: the same bytes at a new path, or half of its
first records, while the old path no longer has them. Its records then move to the new path and keep their ids.

Nothing is removed unless the caller asks for it. A file that cannot be read, an unreachable folder and a drive that is not mounted
look like deletions to a careless eye: only a path that the file system denies is gone, and a file that was not read to its end
keeps all its records.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from outrider.ingest.entry import Entry, ReadOptions
from outrider.ingest.file_walk import InputFile
from outrider.ingest.library_writer import IngestLibrary
from outrider.ingest.readers.select_reader import FileReader, NoReader, select_reader
from outrider.ingest.record_ids import NamedRecord, Namer
from outrider.ingest.report import MAX_REASONS, StaleRecords
from outrider.library.metadata_tables import IngestedFile
from outrider.state.errors import BadRequest, UnreadableFile

SAMPLE = 100
"""Records of a new file that are compared with those of files that are gone."""
SAME = 0.5
"""Share of the sample that a file which is gone must have held, to be the one that was renamed and edited."""
REMOVED_AT_ONCE = 5_000
UPLOAD = "upload:"
"""Before the origins of uploads, which have no path of their own."""
RESERVED = "#"
"""Before an origin that is no path any more but still in ids, among the paths of `id_origins`."""
HASH_CHUNK_BYTES = 2**20
Stamp = tuple[int, int]
"""Size and time of the last change in nanoseconds."""


def read_stamp(path: Path) -> Stamp:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """Fingerprints of files, each computed once as long as its size and time stay."""

    options: ReadOptions
    _known: dict[str, tuple[Stamp, str]] = field(default_factory=dict)

    def compute(self, path: Path, reader: FileReader) -> str:
        """Sha-256 over the file's bytes and everything else that decides which records are read from them."""
        stamp = read_stamp(path)
        before = self._known.get(str(path))
        if before is not None and before[0] == stamp:
            return before[1]
        content = hashlib.sha256()
        with path.open("rb") as file:
            while chunk := file.read(HASH_CHUNK_BYTES):
                content.update(chunk)
        parts = [content.hexdigest(), reader.name, reader.version, sorted(self.options.columns.items()), self.options.max_pages]
        fingerprint = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
        self._known[str(path)] = (stamp, fingerprint)
        return fingerprint

    def find(self, path: Path) -> str | None:
        """None for a file that is not read: it has no reader, is too large, or cannot be opened."""
        try:
            reader = select_reader(path)
            is_read = isinstance(reader, FileReader) and path.stat().st_size <= self.options.max_bytes
            return self.compute(path, reader) if is_read and isinstance(reader, FileReader) else None
        except (UnreadableFile, OSError):
            return None


@dataclass(slots=True)
class FileChanges:
    """What the library holds of files, compared with the disk."""

    library: IngestLibrary
    named: frozenset[Path]
    """The files and folders of this run whose records may be pruned."""
    records: dict[str, int] = field(default_factory=dict)
    """In the library before the run, by origin."""
    id_origins: dict[str, str] = field(default_factory=dict)
    """Of renamed files: path -> the origin that their records' ids are made of."""
    renamed: dict[str, str] = field(default_factory=dict)
    """In this run: path -> former path."""
    gone: list[str] = field(default_factory=list)
    """Paths that no longer exist, with records."""
    gone_ids: dict[str, str] = field(default_factory=dict)
    """Id -> path, of the records of deleted files under the paths of this run."""
    claimed: dict[str, str] = field(default_factory=dict)
    """Id -> path of the file that holds the record under its own id: an export of Outrider's. It is not lost with the deleted file."""
    stale: dict[str, list[str]] = field(default_factory=dict)
    """Ids of records that their file no longer holds, by path."""

    @classmethod
    async def find(
        cls, library: IngestLibrary, paths: Sequence[Path], files: Sequence[InputFile], options: ReadOptions, fingerprints: Fingerprints
    ) -> FileChanges:
        """Compares, and moves the records of renamed files."""
        named = await asyncio.to_thread(_find_named, paths, files)
        changes = cls(library, named, dict(await library.origins()))
        uploads = any(file.upload for file in files)
        comparable = [origin for origin in changes.records if (is_upload(origin) if uploads else Path(origin).is_absolute())]
        if not paths or not comparable:
            return changes
        changes.id_origins = dict(await library.id_origins())
        # the file of an earlier upload no longer exists: an edited one is known by its records
        changes.gone = sorted(comparable) if uploads else await asyncio.to_thread(find_gone, comparable)
        if changes.gone:
            moves = await changes._match_contents(files, fingerprints)
            moves |= await changes._match_records(files, options, moves)
            await changes._move(moves, fingerprints)
        # a file at the former path of a renamed one gets ids of its own
        taken = set(changes.id_origins.values())
        new: dict[str, str | None] = {}
        for path in (file.origin for file in files):
            if path in taken and path not in changes.id_origins:
                number = next(number for number in range(2, len(taken) + 3) if f"{path}#{number}" not in taken)
                new[path] = f"{path}#{number}"
                taken.add(f"{path}#{number}")
        if new:
            await library.set_id_origins(new)
            changes.id_origins |= {path: name for path, name in new.items() if name}
        for path in changes.gone:
            if changes._is_named(path):
                changes.gone_ids |= dict.fromkeys(await library.doc_ids(path), path)
        return changes

    async def _match_contents(self, files: Sequence[InputFile], fingerprints: Fingerprints) -> dict[str, str]:
        """Former path -> new path of each file that has the same content at another path, and whose own path lost it."""
        known = {file.fingerprint: file for file in await self.library.ingested_files()}
        readable = [file for file in files if not (file.problem or file.skip_reason)]
        now = {file.origin: await asyncio.to_thread(fingerprints.find, file.path) for file in readable}
        gone, moves = set(self.gone), dict[str, str]()
        for path, fingerprint in now.items():
            before = known.get(fingerprint or "")
            if before is None or before.origin == path or before.origin in moves or not self.records.get(before.origin):
                continue
            if before.origin in gone or now.get(before.origin) not in (None, fingerprint):
                moves[before.origin] = path
        return moves

    async def _match_records(self, files: Sequence[InputFile], options: ReadOptions, moves: Mapping[str, str]) -> dict[str, str]:
        """The same for files that were renamed and edited: by the contents of the new file's first records."""
        more: dict[str, str] = {}
        targets = {*moves.values(), *self.records}
        for file in files:
            candidates = {path for path in self.gone if path not in moves and path not in more}
            if not candidates:
                break
            if file.origin in targets or file.problem or file.skip_reason or file.size > options.max_bytes:
                continue
            sample = await asyncio.to_thread(_read_sample, file.path, options)
            if not sample:
                continue
            origins = await self.library.count_contents(sample)
            former, count = max(((path, origins.get(path, 0)) for path in candidates), key=lambda pair: (pair[1], pair[0]))
            if count >= SAME * len(sample):
                more[former] = file.origin
        return more

    async def _move(self, moves: Mapping[str, str], fingerprints: Fingerprints) -> None:
        """All at once: a file may have taken the name of another one that was renamed too."""
        if not moves:
            return
        doc_ids = {former: await self.library.doc_ids(former) for former in moves}
        names = {new: self.id_origins.get(former, former) for former, new in moves.items()}
        changed = {new: name if name != new else None for new, name in names.items()}
        # a file that was overwritten may still have records: no other file may make the same ids
        overwritten = (self.id_origins.get(new, new) for new in names if new not in moves and self.records.get(new))
        changed |= {RESERVED + name: name for name in overwritten}
        outdated: dict[str, str | None] = {former: None for former in moves if former in self.id_origins and former not in changed}
        await self.library.set_id_origins(changed)  # first: after an interruption the next run finds the same ids
        counts = {former: self.records.pop(former) for former in moves}
        for former, new in moves.items():
            await self.library.set_origin(doc_ids[former], new)
            self.records[new] = self.records.get(new, 0) + counts[former]
        now = datetime.now(UTC).isoformat(timespec="seconds")
        known = {file.origin: file for file in await self.library.ingested_files()}
        same = {new: known[former] for former, new in moves.items() if former in known}
        contents = {new: await asyncio.to_thread(fingerprints.find, Path(new)) for new in same}
        files = [IngestedFile(file.fingerprint, new, file.records, now) for new, file in same.items() if contents[new] == file.fingerprint]
        # what is known of a path's former content says nothing of the records that it has now
        await self.library.forget([*moves, *moves.values()])
        await self.library.remember(*files)
        if outdated:
            await self.library.set_id_origins(outdated)
        self.id_origins = {path: name for path, name in {**self.id_origins, **changed, **outdated}.items() if name is not None}
        self.renamed = {new: former for former, new in moves.items()}
        self.gone = [path for path in self.gone if path not in moves]

    async def compare(self, origin: str, seen: set[str]) -> bool:
        """Notes which records of an origin that was read to its end are no longer in it; whether there are any."""
        stale = [doc_id for doc_id in await self.library.doc_ids(origin) if doc_id not in seen]
        if stale:
            self.stale[origin] = sorted(stale)
        return bool(stale)

    def claim(self, doc_id: str, path: str) -> None:
        """Call it with every record of the run."""
        if self.gone_ids.pop(doc_id, None) is not None:
            self.claimed[doc_id] = path

    def list_gone_elsewhere(self) -> tuple[str, ...]:
        return tuple(path for path in self.gone if not (is_upload(path) or self._is_named(path)))

    def _is_named(self, origin: str) -> bool:
        return not self.named.isdisjoint((Path(origin), *Path(origin).parents))

    async def make_report(self, *, remove: bool) -> tuple[StaleRecords, ...]:
        """What was found, after the last record was written; with `remove` the records are removed first."""
        for path in sorted(set(self.claimed.values())):
            await self.library.set_origin([doc_id for doc_id, claimer in self.claimed.items() if claimer == path], path)
        for doc_id, path in sorted(self.gone_ids.items()):
            self.stale.setdefault(path, []).append(doc_id)
        reports: list[StaleRecords] = []
        gone = set(self.gone)
        for origin, doc_ids in sorted(self.stale.items()):
            first = await self.library.fetch(doc_ids[:MAX_REASONS])
            titles = tuple(record.title or record.full_text()[:80] for record in first)
            if remove:
                for start in range(0, len(doc_ids), REMOVED_AT_ONCE):
                    await self.library.remove(doc_ids[start : start + REMOVED_AT_ONCE])
                if origin in gone and origin in self.id_origins:
                    await self.library.set_id_origins({origin: None})
            reports.append(StaleRecords(path=origin, gone=origin in gone, doc_ids=tuple(doc_ids), titles=titles, removed=remove))
        return tuple(reports)


def _find_named(paths: Sequence[Path], files: Sequence[InputFile]) -> frozenset[Path]:
    """The real paths, without folders that hold no file at all: so looks the place of a drive that is not mounted."""
    holding = {place for file in files for place in (file.path, *file.path.parents)}
    return frozenset(place for path in paths if (place := path.resolve()) in holding or is_gone(place))


def find_gone(origins: Iterable[str]) -> list[str]:
    """The paths that do not exist, sorted. A path that cannot be looked at (no permission, a broken mount) is not among them."""
    return sorted(origin for origin in origins if is_gone(origin))


def is_upload(origin: str) -> bool:
    return origin.startswith(UPLOAD)


def is_gone(path: str | Path) -> bool:
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        return False
    return False


async def check_paths(library: IngestLibrary, paths: Sequence[Path], *, prune: bool) -> list[Path]:
    """The paths to walk: those that exist. With `prune`, a path that does not may be one that the library has records of.

    Raises `BadRequest` for a missing path that the library knows, without `prune`; other missing paths are refused by the walk.
    """
    missing = [path for path in paths if await asyncio.to_thread(is_gone, path)]
    if not missing:
        return [*paths]
    origins = await library.origins()
    known: dict[Path, int] = {}
    for path in missing:
        with suppress(OSError, ValueError, RuntimeError):
            place = await asyncio.to_thread(path.resolve)
            known[path] = sum(count for origin, count in origins.items() if place in (Path(origin), *Path(origin).parents))
    for path, count in known.items():
        if count and not prune:
            raise BadRequest(
                f"{path}: there is no such file or folder; the library holds {count:,} record(s) of it, which --prune lists and "
                "--prune --yes removes"
            )
    return [path for path in paths if not known.get(path)]


def _read_sample(path: Path, options: ReadOptions) -> list[str]:
    """Content hashes of the file's first records; empty for formats in which a file is one record, and for what cannot be read."""
    try:
        reader = select_reader(path)
        if isinstance(reader, NoReader) or reader.single:
            return []
        # records with ids of their own, of an export, need no renaming
        entries = (one for one in reader.read(path, options) if isinstance(one, Entry) and not one.record.doc_id)
        outcomes = Namer(str(path), single=False).name_all(entries)
        return list(islice((one.content for one in outcomes if isinstance(one, NamedRecord)), SAMPLE))
    except (UnreadableFile, OSError):
        return []  # the run reports it when it reads the file

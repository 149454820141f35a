"""Deduplication of the records of files, without a library.

It gives the groups of records that are one work, and each work as one record.
Records wait in a temporary file, so that memory holds about a KB of each.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from outrider.ingest.column_mapping import check_fields
from outrider.ingest.entry import BadEntry, FileNote, ReadOptions
from outrider.ingest.file_walk import InputFile, walk
from outrider.ingest.readers.select_reader import NoReader, select_reader
from outrider.ingest.record_ids import OwnIds, make_id
from outrider.linkage.disk_keys import OnStep, no_progress
from outrider.linkage.merge import merge_records
from outrider.linkage.normalized_record import Keys, make_keys
from outrider.linkage.out_of_core import Group, OutOfCoreResolution, OutOfCoreResolver
from outrider.linkage.resolve import Pair, Related
from outrider.state.duplicate_decisions import NO_DECISIONS, Decisions
from outrider.state.errors import BadRequest, NothingToRead, UnreadableFile, explain_limit
from outrider.state.records import RECORD, Record
from outrider.text.encoding import Encoding

MAX_NOTES = 20


class RecordFile:
    """Records on disk, by place. Close it."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w+b")
        self._starts = array("Q", [0])

    def __len__(self) -> int:
        return len(self._starts) - 1

    def add(self, record: Record) -> None:
        data = record.model_dump_json(exclude_defaults=False).encode()
        self._file.write(data)
        self._starts.append(self._starts[-1] + len(data))

    def __getitem__(self, place: int) -> Record:
        self._file.seek(self._starts[place])
        return RECORD.validate_json(self._file.read(self._starts[place + 1] - self._starts[place]))

    def close(self) -> None:
        self._file.close()


@dataclass(frozen=True, slots=True)
class FileDeduplication:
    """The works among the records of files. Its temporary files exist until its context ends."""

    ids: Sequence[str]
    """The id of each record, unique among all."""
    files: int
    notes: tuple[str, ...]
    """What could not be read, and how ids were made."""
    _records: RecordFile
    _resolution: OutOfCoreResolution
    _decisions: Decisions

    def __len__(self) -> int:
        return len(self.ids)

    def groups(self) -> Iterator[Group]:
        """Every record once, singles included, in the order of the files."""
        return self._resolution.groups()

    def unsure_pairs(self) -> Sequence[Pair]:
        """Pairs that were not merged but may be one work, and that nobody decided."""
        pairs = self._resolution.ambiguous_pairs()
        if not self._decisions.different:
            return pairs
        first = {self.ids[place]: group.places[0] for group in self.groups() for place in group.places}
        apart = {frozenset((first.get(one), first.get(other))) for one, other in self._decisions.different}
        return [pair for pair in pairs if frozenset((pair.one, pair.other)) not in apart]

    def count_unknown(self) -> int:
        """The number of decided records that are not in the files."""
        return len(self._decisions.decided_ids() - set(self.ids))

    def related_pairs(self) -> Sequence[Related]:
        return self._resolution.find_related()

    def record(self, place: int) -> Record:
        return self._records[place]

    def work(self, group: Group) -> Record:
        """The group as one record, with the id of its leader."""
        members = []
        for place in group.places:
            record, own_id = self._records[place], self.ids[place]
            metadata = {**record.metadata, "ID": record.metadata.get("ID") or own_id}
            members.append((own_id, record.model_copy(update={"metadata": metadata})))
        return merge_records(members)


@contextmanager
def deduplicate_files(
    paths: Sequence[Path], options: ReadOptions, on_step: OnStep = no_progress, decisions: Decisions = NO_DECISIONS
) -> Iterator[FileDeduplication]:
    """Deduplicate the records of files and folders.

    Decisions name records by their own ids, and override evidence. Raises `BadRequest` for a path without records or that cannot be read.
    """
    check_fields(options.columns)
    with (
        TemporaryDirectory(prefix="outrider-dedup-") as folder,
        closing(RecordFile(Path(folder) / "records")) as records,
    ):
        source = _RecordSource(paths, options, records)
        ids: Sequence[str] = ()
        if decisions:  # they name ids, which are unique only when every file is read
            deque(source.read(), maxlen=0)
            ids = source.ids.make_all()
            decisions = decisions.rename(_find_lost_zeros(decisions.decided_ids(), ids))
        with closing(OutOfCoreResolver(Path(folder), on_step, decisions=decisions)) as resolver:
            for place, own_id in enumerate(ids):
                resolver.add(own_id, make_keys(records[place]))
            for keys in () if decisions else source.read():
                resolver.add("", keys)
            ids = ids or source.ids.make_all()
            yield FileDeduplication(ids, source.files, source.make_notes(), records, resolver.resolve(), decisions)


def _find_lost_zeros(decided: Collection[str], ids: Collection[str]) -> dict[str, str]:
    """By decided id the only id in the files that a spreadsheet shows like it: "7" for "007"."""
    whole: dict[str, list[str]] = {}
    for own_id in ids:
        whole.setdefault(own_id.lstrip("0"), []).append(own_id)
    candidates = ((one, whole.get(one.lstrip("0"), [])) for one in decided)
    return {one: found[0] for one, found in candidates if len(found) == 1 and one.isdigit()}


@dataclass(slots=True)
class _RecordSource:
    """Reads the records of all files into the record file."""

    paths: Sequence[Path]
    options: ReadOptions
    records: RecordFile
    ids: OwnIds = field(default_factory=OwnIds)
    files: int = 0
    notes: list[str] = field(default_factory=list)
    lost: int = 0

    def read(self) -> Iterator[Keys]:
        """The keys of each record, in the order of the files."""
        named = {path.resolve() for path in self.paths if not path.is_dir()}
        for file in walk(self.paths):
            try:
                yield from self._read_file(file)
            except NothingToRead as error:
                if file.path in named:
                    raise BadRequest(str(error)) from error
                self.notes.append(f"Left out: {error}")
            except UnreadableFile as error:
                raise BadRequest(f"{error}; nothing was compared") from error
            except OSError as error:
                if explain_limit(error):  # of the temporary files, not of this one
                    raise
                raise BadRequest(f"{file.path}: {error.strerror or error}; nothing was compared") from error
        if not len(self.records):
            raise BadRequest(f"no record in {', '.join(map(str, self.paths))}" + (f": {'; '.join(self.notes[:3])}" if self.notes else ""))

    def _read_file(self, file: InputFile) -> Iterator[Keys]:
        if file.problem:
            raise UnreadableFile(f"{file.path}: {file.problem}")
        reader = NoReader(file.skip_reason) if file.skip_reason else select_reader(file.path)
        if isinstance(reader, NoReader):
            raise NothingToRead(f"{file.path}: {reader.reason}")
        if file.size > self.options.max_bytes:
            raise UnreadableFile(f"{file.path}: {file.size:,} bytes, more than the limit of {self.options.max_bytes:,} (ingest.max_bytes)")
        self.files += 1
        self.ids.start_file(file.path)

        def note_encoding(encoding: Encoding) -> None:
            if not encoding.is_certain:
                self.notes.append(f"{file.path.name} is read as {encoding.describe()}")

        for entry in reader.read(file.path, replace(self.options, on_encoding=note_encoding)):
            if isinstance(entry, BadEntry):
                self.lost += not entry.empty
                if not entry.empty and self.lost <= MAX_NOTES:
                    self.notes.append(f"Not read: {file.path.name}, {entry.where}: {entry.why}")
                continue
            if isinstance(entry, FileNote):
                self.notes.append(f"{file.path.name}: {entry.text}")
                continue
            own_id = entry.own_id if entry.own_id is not None else entry.record.doc_id or None
            self.ids.add(own_id)
            keys = make_keys(entry.record)
            key = f"id:{own_id}" if own_id is not None else f"at:{len(self.records)}"
            doc_id = entry.record.doc_id or make_id(str(file.path), key)
            self.records.add(entry.record.model_copy(update={"doc_id": doc_id, "origin": str(file.path)}))
            yield keys

    def make_notes(self) -> tuple[str, ...]:
        """Call it after `ids.make_all`."""
        notes = [*self.notes]
        if self.lost > MAX_NOTES:
            notes.append(f"{self.lost:,} entries could not be read; the first {MAX_NOTES} are listed above")
        if self.ids.without:
            notes.append(f"{self.ids.without:,} records have no id of their own: their id is FILE#PLACE")
        if self.ids.scoped:
            notes.append("Files share ids: each is written as FILE:ID")
        if self.ids.repeated:
            notes.append(f"{self.ids.repeated:,} ids are in one file more than once: later ones got #2 and so on")
        return tuple(notes)

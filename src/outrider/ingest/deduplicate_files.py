"""Files of any format that is ingested into works: which of their records are one, and each work as one record. No library is touched.

Records wait in a temporary file, so that memory holds about a KB of each.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from outrider.ingest.entry import BadEntry, Entry, ReadOptions
from outrider.ingest.file_walk import Found, walk
from outrider.ingest.readers import NoReader, reader_for
from outrider.ingest.record_ids import OwnIds, short_id
from outrider.ingest.row_columns import check_fields
from outrider.linkage.disk_keys import OnStep, no_progress
from outrider.linkage.keys import Keys, make_keys
from outrider.linkage.merge import merge_records
from outrider.linkage.out_of_core import Group, OutOfCoreResolution, OutOfCoreResolver
from outrider.linkage.resolve import Pair as Unsure
from outrider.linkage.resolve import Related
from outrider.state.errors import BadRequest, NothingToRead, UnreadableFile
from outrider.state.records import RECORD, Record

MOST_NOTES = 20


class RecordFile:
    """Records on disk, by place. Close it."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w+b")
        self._starts = array("Q", [0])

    def __len__(self) -> int:
        return len(self._starts) - 1

    def add(self, record: Record) -> None:
        said = record.model_dump_json(exclude_defaults=False).encode()
        self._file.write(said)
        self._starts.append(self._starts[-1] + len(said))

    def __getitem__(self, place: int) -> Record:
        self._file.seek(self._starts[place])
        return RECORD.validate_json(self._file.read(self._starts[place + 1] - self._starts[place]))

    def close(self) -> None:
        self._file.close()


@dataclass(frozen=True, slots=True)
class Deduplicated:
    """What was found in files; holds temporary files until its context ends."""

    ids: Sequence[str]
    """Of each record its own id, unique among all."""
    files: int
    notes: tuple[str, ...]
    """What could not be read, and how ids were made."""
    _records: RecordFile
    _found: OutOfCoreResolution

    def __len__(self) -> int:
        return len(self.ids)

    def groups(self) -> Iterator[Group]:
        """Every record once, singles included, in the order of the files."""
        return self._found.groups()

    def unsure(self) -> Sequence[Unsure]:
        return self._found.ambiguous_pairs()

    def related(self) -> Sequence[Related]:
        return self._found.related()

    def record(self, place: int) -> Record:
        return self._records[place]

    def work(self, group: Group) -> Record:
        """The group as one record, called as its leader is."""
        return merge_records([(self.ids[at], _called(self._records[at], self.ids[at])) for at in group.places])


def _called(record: Record, own: str) -> Record:
    return record.model_copy(update={"metadata": {**record.metadata, "ID": record.metadata.get("ID") or own}})


@contextmanager
def deduplicated(paths: Sequence[Path], options: ReadOptions, on_step: OnStep = no_progress) -> Iterator[Deduplicated]:
    """Files, and those under folders. Raises `BadRequest` for what is not there, cannot be read, or holds no record."""
    check_fields(options.columns)
    with (
        TemporaryDirectory(prefix="outrider-dedup-") as folder,
        closing(RecordFile(Path(folder) / "records")) as records,
        closing(OutOfCoreResolver(Path(folder), on_step)) as many,
    ):
        reading = _Reading(paths, options, records)
        for key in reading.read():
            many.add("", key)
        found = many.resolve()
        yield Deduplicated(reading.ids.all(), reading.files, reading.told(), records, found)


@dataclass(slots=True)
class _Reading:
    paths: Sequence[Path]
    options: ReadOptions
    records: RecordFile
    ids: OwnIds = field(default_factory=OwnIds)
    files: int = 0
    notes: list[str] = field(default_factory=list)
    lost: int = 0

    def read(self) -> Iterator[Keys]:
        named = {path.resolve() for path in self.paths if not path.is_dir()}
        for found in walk(self.paths):
            yield from self._file(found, named=found.path in named)
        if not len(self.records):
            raise BadRequest(f"no record in {', '.join(map(str, self.paths))}" + (f": {'; '.join(self.notes[:3])}" if self.notes else ""))

    def _file(self, found: Found, *, named: bool) -> Iterator[Keys]:
        try:
            yield from self._entries(found)
        except NothingToRead as nothing:
            if named:
                raise BadRequest(str(nothing)) from nothing
            self.notes.append(f"Left out: {nothing}")
        except UnreadableFile as broken:
            raise BadRequest(f"{broken}; nothing was compared") from broken
        except OSError as broken:
            raise BadRequest(f"{found.path}: {broken.strerror or broken}; nothing was compared") from broken

    def _entries(self, found: Found) -> Iterator[Keys]:
        if found.problem:
            raise UnreadableFile(f"{found.path}: {found.problem}")
        reader = NoReader(found.passed) if found.passed else reader_for(found.path)
        if isinstance(reader, NoReader):
            raise NothingToRead(f"{found.path}: {reader.reason}")
        if found.size > self.options.max_bytes:
            raise UnreadableFile(
                f"{found.path}: {found.size:,} bytes, more than the limit of {self.options.max_bytes:,} (ingest.max_bytes)"
            )
        self.files += 1
        self.ids.file(found.path)
        for entry in reader.read(found.path, self.options):
            if isinstance(entry, BadEntry):
                self._bad(found.path, entry)
            else:
                yield self._kept(found.path, entry)

    def _kept(self, path: Path, entry: Entry) -> Keys:
        own = entry.own_id if entry.own_id is not None else entry.record.doc_id or None
        self.ids.add(own)
        key = make_keys(entry.record)
        called = entry.record.doc_id or short_id(str(path), f"id:{own}" if own is not None else f"at:{len(self.records)}")
        self.records.add(entry.record.model_copy(update={"doc_id": called, "origin": str(path)}))
        return key

    def _bad(self, path: Path, entry: BadEntry) -> None:
        if not entry.empty:
            self.lost += 1
            if self.lost <= MOST_NOTES:
                self.notes.append(f"Not read: {path.name}, {entry.where}: {entry.why}")

    def told(self) -> tuple[str, ...]:
        """After `ids.all`."""
        more = [f"{self.lost:,} entries could not be read, the first {MOST_NOTES} stand above"] if self.lost > MOST_NOTES else []
        ids = self.ids
        if ids.without:
            more.append(f"{ids.without:,} records have no id of their own: they are called by their file and place")
        if ids.scoped:
            more.append("Files share ids: each is written as FILE:ID")
        if ids.repeated:
            more.append(f"{ids.repeated:,} ids stand in one file more than once: later ones got #2 and so on")
        return (*self.notes, *more)

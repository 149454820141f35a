"""Deduplication of the records of files, without a library, and its review file.

It gives the groups of records that are one work, and each work as one record.
Records wait in a temporary file, so that memory holds about a KB of each.

The review file is a table of doubtful pairs of records, in which a person decides. One row a pair. The column `decision` is empty until
somebody writes `same` or `different` into it; then the pair is merged or stays apart, whatever the evidence says. A later run keeps every
decided row.
"""

from __future__ import annotations

import csv
from array import array
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, TextIO

from outrider.ingest.column_mapping import check_fields
from outrider.ingest.entry import BadEntry, FileNote, ReadOptions
from outrider.ingest.exported_rows import escape_formula, unescape_formula
from outrider.ingest.file_walk import InputFile, require_paths, walk
from outrider.ingest.readers.select_reader import NoReader, select_reader
from outrider.ingest.record_ids import OwnIds, make_id
from outrider.linkage.disk_keys import OnStep, no_progress
from outrider.linkage.out_of_core import Group, OutOfCoreResolution, OutOfCoreResolver
from outrider.linkage.resolve import Pair, Related
from outrider.runtime.task_map import TaskMap, map_here
from outrider.state.duplicate_decisions import NO_DECISIONS, Decision, Decisions, make_pair
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
        from outrider.linkage.merge import merge_records  # groups alone need none of it

        members = []
        for place in group.places:
            record, own_id = self._records[place], self.ids[place]
            metadata = {**record.metadata, "ID": record.metadata.get("ID") or own_id}
            members.append((own_id, record.model_copy(update={"metadata": metadata})))
        return merge_records(members)


def check_input(paths: Sequence[Path], options: ReadOptions) -> None:
    """Raise `BadRequest` for what can be known to be wrong at once; call it before a cluster is started for the work."""
    check_fields(options.columns)
    require_paths(paths)


@contextmanager
def deduplicate_files(
    paths: Sequence[Path],
    options: ReadOptions,
    on_step: OnStep = no_progress,
    decisions: Decisions = NO_DECISIONS,
    tasks: TaskMap = map_here,
    *,
    keep_records: bool = True,
) -> Iterator[FileDeduplication]:
    """Deduplicate the records of files and folders.

    Decisions name records by their own ids, and override evidence. The files are read here; `tasks` compares the records. Without
    `keep_records`, nothing but ids is known of a group: `record` and `work` raise `IndexError`. Raises `BadRequest` for a path without
    records or that cannot be read.
    """
    check_input(paths, options)
    with (
        TemporaryDirectory(prefix="outrider-dedup-") as folder,
        closing(RecordFile(Path(folder) / "records")) as records,
    ):
        source = _RecordSource(paths, options, records if keep_records or decisions else None)
        ids: Sequence[str] = ()
        if decisions:  # they name ids, which are unique only when every file is read
            deque(source.read(), maxlen=0)
            ids = source.ids.make_all()
            decisions = decisions.rename(_find_lost_zeros(decisions.decided_ids(), ids))
        with closing(OutOfCoreResolver(Path(folder), on_step, decisions=decisions, tasks=tasks)) as resolver:
            if decisions:
                resolver.add_records((own_id, records[place]) for place, own_id in enumerate(ids))
            else:
                resolver.add_records(("", record) for record in source.read())
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
    """Reads the records of all files, also into the record file if there is one."""

    paths: Sequence[Path]
    options: ReadOptions
    records: RecordFile | None
    ids: OwnIds = field(default_factory=OwnIds)
    files: int = 0
    count: int = 0
    """Of records."""
    notes: list[str] = field(default_factory=list)
    lost: int = 0

    def read(self) -> Iterator[Record]:
        """Each record, in the order of the files."""
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
        if not self.count:
            raise BadRequest(f"no record in {', '.join(map(str, self.paths))}" + (f": {'; '.join(self.notes[:3])}" if self.notes else ""))

    def _read_file(self, file: InputFile) -> Iterator[Record]:
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
            if self.records is not None:
                key = f"id:{own_id}" if own_id is not None else f"at:{self.count}"
                doc_id = entry.record.doc_id or make_id(str(file.path), key)
                self.records.add(entry.record.model_copy(update={"doc_id": doc_id, "origin": str(file.path)}))
            self.count += 1
            yield entry.record

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


FIELDS = ("id", "title", "authors", "year", "venue", "volume", "issue", "pages", "doi", "abstract")
COLUMNS = ("decision", "score", *(f"{name}_{side}" for name in FIELDS for side in (1, 2)), "why")
SAME, DIFFERENT = frozenset("same yes y 1 merge duplicate".split()), frozenset("different no n 0 split distinct".split())
MAX_ABSTRACT_CHARS = 500


@dataclass(frozen=True, slots=True)
class DuplicateReview:
    """The rows of a review file that are decided, and what they decide."""

    rows: tuple[Mapping[str, str], ...] = ()
    decisions: Decisions = field(default=NO_DECISIONS)

    def write(self, deduplication: FileDeduplication, stream: TextIO) -> int:
        """Write the decided rows, then the pairs that nobody decided yet, the likeliest first. Returns the number of the latter."""
        writer = csv.DictWriter(stream, COLUMNS, lineterminator="\r\n")
        stream.write("\ufeff")  # spreadsheets take a file without it for Windows-1252
        writer.writeheader()
        writer.writerows(self.rows)
        waiting = list(_make_rows(deduplication))
        writer.writerows(waiting)
        return len(waiting)


def read_review(path: Path) -> DuplicateReview:
    """The decisions of a review file; none if it does not exist. Raises `BadRequest` for another file, or a decision that is none."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.DictReader(stream, dialect=_sniff(stream))
            missing = [name for name in ("decision", "id_1", "id_2") if name not in (reader.fieldnames or ())]
            if missing:
                raise BadRequest(f"{path} is no review file: it has no column {', '.join(missing)}; give a new name to --review")
            rows = [(reader.line_num, {name: cell or "" for name, cell in row.items() if name in COLUMNS}) for row in reader]
    except FileNotFoundError:
        return DuplicateReview()
    except OSError as error:
        raise BadRequest(f"{path} cannot be read as a review file: {error.strerror or error}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadRequest(f"{path} cannot be read as a review file: {error}; save it as CSV in UTF-8") from error
    decided = [(line, row, what) for line, row in rows if (what := _parse_decision(path, line, row))]
    log: dict[tuple[str, str], Decision] = {}
    for line, row, what in decided:
        ids = make_pair(unescape_formula(row["id_1"]), unescape_formula(row["id_2"]))
        earlier = log.setdefault(ids, Decision(what=what, ids=ids, why=f"{path.name}, line {line}"))
        if earlier.what != what:
            raise BadRequest(f"the decisions of {path} contradict each other: {ids[0]} and {ids[1]} in line {line} and in {earlier.why}")
    decisions = Decisions.from_log(log.values())
    if conflicts := decisions.conflicts():
        raise BadRequest(f"the decisions of {path} contradict each other: {conflicts[0]}")
    return DuplicateReview(tuple(row for _, row, _ in decided), decisions)


def _sniff(stream: TextIO) -> type[csv.Dialect]:
    """The dialect of the header: spreadsheets of many countries save CSV with semicolons."""
    header = stream.readline()
    stream.seek(0)

    class Dialect(csv.excel):
        delimiter = max(",;\t", key=header.count)

    return Dialect


def _parse_decision(path: Path, line: int, row: Mapping[str, str]) -> Literal["merge", "split"] | None:
    decision = row["decision"].strip().lower()
    if decision and not (row["id_1"] and row["id_2"] and row["id_1"] != row["id_2"]):
        raise BadRequest(f"{path}, line {line}: a decision needs two ids, not {row['id_1']!r} and {row['id_2']!r}")
    if decision and decision not in SAME | DIFFERENT:
        raise BadRequest(f"{path}, line {line}: {row['decision']!r} is no decision; write same or different, or leave the cell empty")
    return "merge" if decision in SAME else "split" if decision else None


def _make_rows(deduplication: FileDeduplication) -> Iterator[dict[str, str]]:
    for pair in deduplication.unsure_pairs():
        cells = {"why": pair.judgement.why()}
        for side, place in ((1, pair.one), (2, pair.other)):
            record = deduplication.record(place)
            values = {
                **{name: getattr(record, name, None) for name in FIELDS},
                "authors": "; ".join(record.authors),
                "doi": record.identifiers.doi,
                "abstract": record.abstract[:MAX_ABSTRACT_CHARS],
                "id": deduplication.ids[place],
            }
            cells |= {f"{name}_{side}": "" if value is None else str(value) for name, value in values.items()}
        yield {"decision": "", "score": f"{pair.judgement.score:.1f}", **{name: escape_formula(cell) for name, cell in cells.items()}}

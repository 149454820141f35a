"""A review on disk: a folder with the log of its decisions and the records of its imports.

`decisions.jsonl` is the only truth (`decision_log`). Each import has a file `records-N.jsonl`, one record a line, which the log names with
its digest: a file that no entry names was left behind by a process that died, and is ignored. Records are numbered from 1 in the order of
their imports.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from outrider.linkage.merge import merge_records
from outrider.reviews import decision_log
from outrider.reviews.decision_log import DecisionLog, create_log, sync_folder, write_file
from outrider.reviews.review_state import RESOLVE, Batch, ReviewState
from outrider.state.errors import BadRequest, shorten
from outrider.state.notices import list_notices
from outrider.state.records import RECORD, Record
from outrider.state.reviews import VERDICTS, Presentation, ReviewDamaged, ReviewRecord, Verdict

MAX_NAMED = 5
"""Records that an error names."""


NOT_SHOWN = Presentation()


@dataclass(frozen=True, slots=True)
class NewDecision:
    """A decision to be made. `imported` ones are final without further reviewers."""

    record: int
    verdict: Verdict
    by: str
    reason: str = ""
    shown: Presentation = NOT_SHOWN
    imported: bool = False
    resolves: bool = False

    def entry(self, at: str) -> dict[str, Any]:
        kind = {"kind": RESOLVE, "verdict": self.verdict} if self.resolves else {"kind": self.verdict}
        shown = self.shown.model_dump(exclude_defaults=True)
        fields = {"reason": self.reason, "shown": shown, "imported": self.imported}
        return {**kind, "record": self.record, "by": self.by, "at": at, **{name: value for name, value in fields.items() if value}}


@dataclass(frozen=True, slots=True)
class NewNote:
    record: int
    text: str
    by: str

    def entry(self, at: str) -> dict[str, Any]:
        return {"kind": "note", "record": self.record, "by": self.by, "at": at, "text": self.text}


@dataclass(frozen=True, slots=True)
class NewBatch:
    """Records to be imported, and the places (from 0) of those that another record describes: in the batch or, by number, before it."""

    source: str
    records: Sequence[Record]
    duplicate_of: Mapping[int, int]
    """By place in the batch: the number of the record that stands for it."""
    path: str = ""
    """Of a file on this machine."""


class Review:
    """An open review. Its methods block; they may be called from several threads and processes at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = ReviewState()
        self._log = DecisionLog(folder, self.state.apply)
        self._lock = threading.RLock()
        self._files: dict[str, _RecordsFile] = {}
        self.refresh()

    @classmethod
    def create(cls, folder: Path, settings: Mapping[str, Any]) -> Review:
        """A new review. Raises `BadRequest` where there is one."""
        if folder.exists():
            raise BadRequest(
                f"there is a review {folder.name} already; choose another name, or delete it: outrider review delete {folder.name}"
            )
        part = folder.with_name(f".{folder.name}.new")
        try:
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(parents=True)
            create_log(part, {"kind": "create", **settings})
            part.rename(folder)
            sync_folder(folder.parent)
        except OSError as error:
            raise decision_log.ReviewUnwritable(f"{folder} cannot be made: {error.strerror or error}") from error
        return cls(folder)

    def refresh(self) -> None:
        """Read what other processes appended."""
        with self._lock:
            self._log.read()

    def is_replaced(self) -> bool:
        """Whether another process deleted the review, and perhaps began another one under its name."""
        return self._log.is_replaced()

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was found when the log was read, for a person."""
        if not self._log.torn:
            return ()
        return (
            f"the last {self._log.torn:,} bytes of {decision_log.NAME} are an entry that was cut off while it was written; it is dropped",
        )

    def decide(self, new: Sequence[NewDecision | NewNote], at: str) -> None:
        """Append decisions and notes: all, or none with `BadRequest`."""
        with self._writing() as append:
            for one in new:
                self._check(one)
            append([one.entry(at) for one in new])

    def undo(self, by: str, at: str, record: int | None = None) -> int:
        """Take back a reviewer's last decision, or the last one on a record; its number. Raises `BadRequest` where there is none."""
        with self._writing() as append:
            number = self.state.last_decided(by) if record is None else self.state.leader(record)
            if number is None or not self.state.can_undo(number, by):
                what = "nothing" if record is None else f"no decision on record {record}"
                raise BadRequest(f"{by} has {what} to take back")
            append([{"kind": "undo", "record": number, "by": by, "at": at}])
            return number

    def import_batch(self, new: NewBatch, decisions: Sequence[NewDecision | NewNote], by: str, at: str, expected: int) -> None:
        """Append records, and the decisions that came with them: all, or none.

        `expected` is the number of records for which the batch was compared; `BadRequest` where another import came in between.
        """
        lines = [record.model_dump_json(exclude_defaults=True, exclude={"kind"})[:-1] for record in new.records]
        kinds = [record.kind for record in new.records]
        content = "".join(
            f'{line}{"," if len(line) > 1 else ""}"kind":"{kind}"}}\n' for line, kind in zip(lines, kinds, strict=True)
        ).encode()
        with self._writing() as append:
            if self.state.total != expected:
                raise BadRequest("another import was made meanwhile; import again")
            first, file = expected + 1, f"records-{len(self.state.batches) + 1}.jsonl"
            write_file(self.folder / file, content)
            entry = {
                "kind": "import", "file": file, "sha256": hashlib.sha256(content).hexdigest(), "records": len(new.records),
                "source": new.source, **({"path": new.path} if new.path else {}), "by": by, "at": at,
                "duplicate_of": {str(first + place): of for place, of in sorted(new.duplicate_of.items())},
                "labels": sum(isinstance(one, NewDecision) for one in decisions),
            }  # fmt: skip
            append([entry, *(one.entry(at) for one in decisions)])

    def records(self, numbers: Sequence[int]) -> list[Record]:
        """Raises `BadRequest` for an unknown number, `ReviewDamaged` for a changed file."""
        with self._lock:
            return [self._parse(number) for number in numbers]

    def all_records(self) -> Iterator[Record]:
        return (self._parse(number) for number in range(1, self.state.total + 1))

    def find_numbers(self, ids: Sequence[str]) -> list[int]:
        """The numbers of records by number, DOI, PMID or another id. Raises `BadRequest` for unknown and for ambiguous ones."""
        total = self.state.total
        numbers = {one: int(one) for one in ids if one.isdecimal() and len(one) < 10 and 1 <= int(one) <= total}
        if rest := {one for one in ids if one not in numbers}:
            names = _name_records(self.all_records())
            found = {one: names[one.strip().lower()] for one in rest if one.strip().lower() in names}
            for one, places in found.items():
                if len(works := {self.state.leader(number): number for number in reversed(places)}) > 1:
                    listed = ", ".join(map(str, sorted(works.values())[:MAX_NAMED]))
                    raise BadRequest(f"{shorten(one)} names different works: records {listed}; write a number. Nothing was written")
            numbers |= {one: places[0] for one, places in found.items()}
        if unknown := [one for one in dict.fromkeys(ids) if one not in numbers]:
            more = f" and {len(unknown) - MAX_NAMED} more" if len(unknown) > MAX_NAMED else ""
            listed = ", ".join(shorten(one) for one in unknown[:MAX_NAMED])
            raise BadRequest(
                f"{self.state.name} has no record {listed}{more}; its {total:,} records are numbered from 1. Nothing was written"
            )
        return [numbers[one] for one in ids]

    def texts(self) -> list[str]:
        """Title with abstract of every record; a work without one has that of a duplicate. Read without making records of most."""
        with self._lock:
            rows = [json.loads(row) for batch in self.state.batches for row in self._open(batch)]
            for number in self.state.duplicates:
                if not rows[number - 1].get("abstract"):
                    rows[number - 1] = self.work(number).model_dump()
        return [_join_texts(row) for row in rows]

    def work(self, number: int) -> Record:
        """A record with what its duplicates have and it lacks, and with their notices; a duplicate as it was imported."""
        members = self.records([number, *self.state.duplicates.get(number, ())])
        return merge_records([(record.doc_id, record) for record in members], first_leads=True)

    def view(self, number: int, viewer: str | None = None) -> ReviewRecord:
        """A record as a reviewer may see it, with all that its duplicates say."""
        with self._lock:
            state, record = self.state, self.work(number)
            return ReviewRecord(
                number=number,
                record=record,
                notices=list_notices(record),
                state=state.state(number),
                duplicate_of=state.duplicate_of.get(number),
                decisions=state.decisions(number, viewer),
                notes=state.visible_notes(number, viewer),
            )

    @contextmanager
    def reading(self) -> Iterator[ReviewState]:
        """The state, which no other thread changes meanwhile."""
        with self._lock:
            yield self.state

    @contextmanager
    def _writing(self) -> Iterator[Any]:
        with self._lock, self._log.writing() as append:
            yield append

    def _check(self, new: NewDecision | NewNote) -> None:
        if not 1 <= new.record <= self.state.total:
            raise BadRequest(f"{self.state.name} has no record {new.record}; its {self.state.total:,} records are numbered from 1")
        if isinstance(new, NewNote):
            return
        if new.verdict not in VERDICTS:
            raise BadRequest(f"a decision is {', '.join(VERDICTS)}, not {new.verdict!r}")
        state = self.state.state(new.record)
        if new.resolves and state != "conflict" and not any(one.resolves for one in self.state.decisions(new.record)):
            raise BadRequest(f"record {new.record} is {state}: there is no conflict to resolve; nothing was written")

    def _parse(self, number: int) -> Record:
        for batch in self.state.batches:
            if batch.first <= number < batch.first + batch.records:
                try:
                    return RECORD.validate_json(self._open(batch)[number - batch.first])
                except ValidationError as error:
                    raise ReviewDamaged(
                        f"{self.folder / batch.file}: record {number} cannot be read: {error.errors()[0]['msg']}"
                    ) from error
        raise BadRequest(f"{self.state.name} has no record {number}; its {self.state.total:,} records are numbered from 1")

    def _open(self, batch: Batch) -> _RecordsFile:
        if batch.file not in self._files:
            self._files[batch.file] = _RecordsFile(self.folder / batch.file, batch)
        return self._files[batch.file]


class _RecordsFile(Sequence[bytes]):
    """The lines of a file of records, which is checked against the log when it is opened. Bodies stay on the disk."""

    def __init__(self, path: Path, batch: Batch) -> None:
        self._path = path
        self._starts = array("Q", [0])
        digest = hashlib.sha256()
        try:
            with path.open("rb") as stream:
                for line in stream:
                    digest.update(line)
                    self._starts.append(self._starts[-1] + len(line))
        except OSError as error:
            raise ReviewDamaged(f"{path} cannot be read: {error.strerror or error}; restore it from a copy") from error
        if digest.hexdigest() != batch.sha256 or len(self) != batch.records:
            raise ReviewDamaged(f"{path} is not what was imported: it was cut or changed; restore it from a copy. Nothing was written")

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, place: Any) -> Any:
        with self._path.open("rb") as stream:
            stream.seek(self._starts[place])
            return stream.read(self._starts[place + 1] - self._starts[place])

    def __iter__(self) -> Iterator[bytes]:
        with self._path.open("rb") as stream:
            yield from stream


def _join_texts(row: Mapping[str, Any]) -> str:
    return f"{row.get('title', '')} {row.get('abstract') or row.get('description') or row.get('text', '')}"


def _name_records(records: Iterable[Record]) -> dict[str, list[int]]:
    names: dict[str, list[int]] = {}
    for number, record in enumerate(records, start=1):
        own = [value for scheme, value in record.identifiers.pairs() if scheme == "doi"]
        own += [f"{scheme}:{value}" for scheme, value in record.identifiers.pairs()]
        for name in dict.fromkeys((record.doc_id, *own)):
            names.setdefault(name.lower(), []).append(number)
    return names

"""Ids of records: the `doc_id` in the library, and unique ids across several files.

A `doc_id` is the same each time a file is read.
It is the first 20 hex digits of sha256 over (origin, key). The key is the entry's own id; else, in formats where a file
is one record, nothing; else its strongest identifier and its title; else its content. So own ids are scoped to their file, a
document edited in place stays one record, and entries without any name are one record where they are equal. A record that
brings a `doc_id` (an Outrider export) keeps it. The origin is the file's path, or after a renaming the path that it had at first.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from outrider.ingest.entry import BadEntry, Entry, FileNote, Parsed
from outrider.ingest.record_draft import replace_own_ids
from outrider.linkage.names_and_titles import normal_title
from outrider.state.records import Paper, Record

ID_DIGITS = 20
DIGEST_BYTES = 10
"""Of each key and content while a file is read: about 200 bytes of memory an entry, a collision in 10^12 entries."""


@dataclass(frozen=True, slots=True)
class NamedRecord:
    """A record ready for the library, with its content hash."""

    record: Record
    content: str
    cited: tuple[Paper, ...] = ()
    """As in its `Entry`."""


@dataclass(frozen=True, slots=True)
class RepeatedEntry:
    """An entry equal to an earlier one of the same name in the same file."""


Outcome = NamedRecord | RepeatedEntry | BadEntry | FileNote


class Namer:
    """Names the entries of one file, in order. If one key comes with different contents, later entries get `#2`, `#3`.

    `id_origin` is the origin that ids are made of, where it is not the file's own: a renamed file keeps its records' ids.
    """

    def __init__(self, origin: str, *, single: bool, id_origin: str = "") -> None:
        self._origin = origin
        self._id_origin = id_origin or origin
        self._single = single
        self._times: dict[bytes, int] = {}
        self._seen: set[bytes] = set()

    def name_all(self, entries: Iterable[Parsed]) -> Iterator[Outcome]:
        for place, entry in enumerate(entries, start=1):
            if isinstance(entry, BadEntry | FileNote):
                yield entry
                continue
            try:
                yield self.name(entry)
            except UnicodeEncodeError as error:
                yield BadEntry(f"entry {place}", f"holds {error.object[error.start]!r}, half of a character; it cannot be stored")

    def name(self, entry: Entry) -> NamedRecord | RepeatedEntry:
        """Raises `UnicodeEncodeError` for a record with a lone surrogate."""
        record = entry.record
        if entry.own_id is not None:
            record = replace_own_ids(record, lambda target: f"doc:{make_id(self._id_origin, target)}")
        content = record.content_hash()
        if entry.record.doc_id:
            base = entry.record.doc_id
        elif entry.own_id is not None:
            base = f"id:{entry.own_id}"
        elif self._single:
            base = ""
        else:
            strongest = next(iter(entry.record.identifiers.pairs()), None)
            title = normal_title(entry.record.title)
            base = f"work:{strongest[0]}:{strongest[1]}:{title}" if strongest else f"content:{content}"
        digest = _digest(f"{base}\0{content}")
        if digest in self._seen:
            return RepeatedEntry()
        self._seen.add(digest)
        key = self._make_unique(base)
        doc_id = key if entry.record.doc_id else make_id(self._id_origin, key)
        return NamedRecord(record.model_copy(update={"doc_id": doc_id, "origin": self._origin}), content, entry.cited)

    def _make_unique(self, base: str) -> str:
        """`base`, or `base#2` and so on if that is taken."""
        times = self._times.get(_digest(base), 0) + 1
        key = base if times == 1 else f"{base}#{times}"
        while times > 1 and _digest(key) in self._times:
            times += 1
            key = f"{base}#{times}"
        self._times[_digest(base)] = times
        self._times.setdefault(_digest(key), 1)
        return key


def make_id(origin: str, key: str) -> str:
    """The `doc_id` of a key within an origin."""
    return hashlib.sha256(json.dumps([origin, key]).encode()).hexdigest()[:ID_DIGITS]


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()


@dataclass(slots=True)
class OwnIds:
    """Unique ids of records from several files, close to the ids in the files. Takes records in order; `make_all` gives the ids.

    An id stays as it is. If two files share one, the ids of all files begin with their file: `dblp.csv:12`. An id that a file repeats
    gets `#2`; a record without an id is named by its file and place: `refs.ris#12`.
    """

    without: int = 0
    repeated: int = 0
    scoped: bool = False
    _files: list[Path] = field(default_factory=list)
    _ids: list[tuple[int, int, str | None]] = field(default_factory=list)
    """Number of the file, place in it, own id."""
    _place: int = 0

    def start_file(self, path: Path) -> None:
        self._files.append(path)
        self._place = 0

    def add(self, own_id: str | None) -> None:
        self._place += 1
        self._ids.append((len(self._files) - 1, self._place, own_id))

    def make_all(self) -> list[str]:
        """The ids, in the order of the records. Sets `without`, `repeated` and `scoped`."""
        first_file: dict[str, int] = {}
        self.scoped = any(first_file.setdefault(own_id, file) != file for file, _, own_id in self._ids if own_id is not None)
        self.without = self.repeated = 0
        # names of the files, with as many folders as make them different
        lengths = range(1, max((len(path.parts) for path in self._files), default=1) + 1)
        shortened = (["/".join(path.parts[-length:]) for path in self._files] for length in lengths)
        files = next((names for names in shortened if len(set(names)) == len(names)), [str(path) for path in self._files])
        used: dict[str, None] = {}
        for file, place, own_id in self._ids:
            base = f"{files[file]}#{place}" if own_id is None else f"{files[file]}:{own_id}" if self.scoped else own_id
            name, times = base, 1
            while name in used:
                times += 1
                name = f"{base}#{times}"
            self.without += own_id is None
            self.repeated += times > 1
            used[name] = None
        return list(used)

"""What a record is called: its place in the library, the same at every reading of the same file.

A `doc_id` is the first 20 hex digits of sha256 over (origin, key). The key is the entry's own id; else, in formats where a file
is one record, nothing; else its strongest identifier and its title; else its content. So own ids are scoped to their file, a
document edited in place stays one record, and entries without any name are one record where they are equal. A record that
brings a `doc_id` (our own export) keeps it.

What records of files are called when they are told apart by their own ids: each once, as the file gives it where that is possible.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from outrider.ingest.entry import BadEntry, Entry, Parsed
from outrider.ingest.record_draft import with_own_ids
from outrider.linkage.titles import normal_title
from outrider.state.records import Record

ID_DIGITS = 20
DIGEST_BYTES = 10
"""Kept of each key and content while a file is read: about 200 bytes of memory an entry, a collision in 10^12 entries."""


@dataclass(frozen=True, slots=True)
class Named:
    """A record ready for the library, with its content hash."""

    record: Record
    content: str


@dataclass(frozen=True, slots=True)
class Repeated:
    """An entry that says exactly what an earlier one of the same name in the same file said."""


Outcome = Named | Repeated | BadEntry


class Namer:
    """Names the entries of one file, in order. Where one key comes with different contents, later ones get `#2`, `#3`."""

    def __init__(self, origin: str, *, single: bool) -> None:
        self._origin = origin
        self._single = single
        self._times: dict[bytes, int] = {}
        self._said: set[bytes] = set()

    def named(self, entries: Iterable[Parsed]) -> Iterator[Outcome]:
        for place, entry in enumerate(entries, start=1):
            if isinstance(entry, BadEntry):
                yield entry
                continue
            try:
                yield self.name(entry)
            except UnicodeEncodeError as error:
                yield BadEntry(f"entry {place}", f"holds {error.object[error.start]!r}, half of a character; it cannot be stored")

    def name(self, entry: Entry) -> Named | Repeated:
        """Raises `UnicodeEncodeError` for a record with a lone surrogate."""
        record = entry.record
        if entry.own_id is not None:
            record = with_own_ids(record, lambda target: f"doc:{short_id(self._origin, target)}")
        content = record.content_hash()
        base = self._key(entry, content)
        saying = _digest(f"{base}\0{content}")
        if saying in self._said:
            return Repeated()
        self._said.add(saying)
        key = self._free(base)
        doc_id = key if entry.record.doc_id else short_id(self._origin, key)
        return Named(record.model_copy(update={"doc_id": doc_id, "origin": self._origin}), content)

    def _key(self, entry: Entry, content: str) -> str:
        if entry.record.doc_id:
            return entry.record.doc_id
        if entry.own_id is not None:
            return f"id:{entry.own_id}"
        if self._single:
            return ""
        strongest = next(iter(entry.record.identifiers.pairs()), None)
        return f"work:{strongest[0]}:{strongest[1]}:{normal_title(entry.record.title)}" if strongest else f"content:{content}"

    def _free(self, base: str) -> str:
        """`base`, or `base#2` and so on where that is taken."""
        times = self._times.get(_digest(base), 0) + 1
        key = base if times == 1 else f"{base}#{times}"
        while times > 1 and _digest(key) in self._times:
            times += 1
            key = f"{base}#{times}"
        self._times[_digest(base)] = times
        self._times.setdefault(_digest(key), 1)
        return key


def short_id(origin: str, key: str) -> str:
    return hashlib.sha256(json.dumps([origin, key]).encode()).hexdigest()[:ID_DIGITS]


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()


@dataclass(slots=True)
class OwnIds:
    """Takes records in order; `all` gives their names.

    An id stays as it is. Where two files share one, the ids of all files begin with their file: `dblp.csv:12`. One that a file gives
    twice gets `#2`, a record without any is called by its file and place: `refs.ris#12`.
    """

    _files: list[Path] = field(default_factory=list)
    _said: list[tuple[int, int, str | None]] = field(default_factory=list)
    without: int = 0
    repeated: int = 0
    scoped: bool = False

    def file(self, path: Path) -> None:
        self._files.append(path)
        self._place = 0

    _place: int = 0

    def add(self, own: str | None) -> None:
        self._place += 1
        self._said.append((len(self._files) - 1, self._place, own))

    def all(self) -> list[str]:
        names = _short(self._files)
        self.scoped = self._shared()
        used: set[str] = set()
        self.without = self.repeated = 0
        return [self._free(names[file], place, own, used) for file, place, own in self._said]

    def _shared(self) -> bool:
        seen: dict[str, int] = {}
        return any(seen.setdefault(own, file) != file for file, _, own in self._said if own is not None)

    def _free(self, file: str, place: int, own: str | None, used: set[str]) -> str:
        wanted = f"{file}#{place}" if own is None else f"{file}:{own}" if self.scoped else own
        self.without += own is None
        name, times = wanted, 1
        while name in used:
            times += 1
            name = f"{wanted}#{times}"
        self.repeated += times > 1
        used.add(name)
        return name


def _short(files: Sequence[Path]) -> list[str]:
    """Names of files, with as many folders as tell them apart."""
    parts = max((len(path.parts) for path in files), default=1)
    for kept in range(1, parts + 1):
        names = ["/".join(path.parts[-kept:]) for path in files]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in files]

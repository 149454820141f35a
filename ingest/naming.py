"""What a record is called: its place in the library, the same at every reading of the same file.

A `doc_id` is the first 20 hex digits of sha256 over (origin, key). The key is the entry's own id; else, in formats where a file
is one record, nothing; else its strongest identifier and its title; else its content. So own ids are scoped to their file, a
document edited in place stays one record, and entries without any name are one record where they are equal. A record that
brings a `doc_id` (our own export) keeps it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from outrider.identity.titles import normal_title
from outrider.ingest.citing import with_own_ids
from outrider.ingest.entry import BadEntry, Entry, Parsed
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

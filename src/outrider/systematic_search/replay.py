"""A run made again, and how its hits differ from those it had: none, or each with its cause."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from outrider.state.errors import LibraryError
from outrider.state.records import LIBRARY
from outrider.state.systematic import PinnedLibrary, Snapshot
from outrider.systematic_search.ledger import lines
from outrider.systematic_search.manifest import Manifest
from outrider.systematic_search.run import OpenLibrary

Change = Literal["gained", "lost", "changed"]


@dataclass(frozen=True, slots=True)
class Difference:
    """`changed` is a hit of both runs whose record says something else now."""

    change: Change
    source: str
    doc_id: str
    title: str
    cause: str


@dataclass(frozen=True, slots=True)
class Replayed:
    before: int
    """Hits of the first run."""
    now: int
    differences: tuple[Difference, ...]
    snapshot_before: Snapshot | None
    snapshot_now: Snapshot | None
    tool_before: Mapping[str, str]
    tool_now: Mapping[str, str]
    remarks: tuple[str, ...] = ()
    """What limits the comparison, such as a source that was not read to its end."""
    provenance_hash: str = ""
    """Of the second run; equal to the first one's where nothing at all differs."""

    @property
    def empty(self) -> bool:
        return not self.differences


@dataclass(slots=True)
class Hits:
    """Of a ledger: (source, id) -> (content hash, title). Some 300 bytes a hit."""

    found: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, path: Path) -> Hits:
        hits = cls()
        for line in lines(path):
            if line.kind == "hit":
                said = line.said
                hits.found[said["source"], said["doc_id"]] = (said["content"], said["record"].get("title", ""))
        return hits


async def compared(
    first: tuple[Manifest, Path], second: tuple[Manifest, Path], then: PinnedLibrary | None, now: PinnedLibrary | None
) -> Replayed:
    """Two runs of one query by their manifests and ledgers; `then` and `now` are the library as each read it, None where it has gone."""
    (old, old_path), (new, new_path) = first, second
    before, after = Hits.of(old_path).found, Hits.of(new_path).found
    causes = _Causes(old, new, before, after)
    own = [doc_id for source, doc_id in before.keys() ^ after.keys() if source == LIBRARY]
    causes.then, causes.now = await _contents(then, own), await _contents(now, own)
    differences = [
        Difference(change, source, doc_id, title, causes.of(change, source, doc_id))
        for change, source, doc_id, title in _changes(before, after)
    ]
    remarks = [f"the {which} run is not complete: {said}" for which, one in (("first", old), ("second", new)) for said in one.missing]
    if then is None and old.asked.snapshot and any(one.source == LIBRARY for one in differences):
        remarks.append(f"version {old.asked.snapshot.version} of the library is not kept any more, so that causes are known in part only")
    return Replayed(
        len(before), len(after), tuple(differences), old.asked.snapshot, new.asked.snapshot, old.asked.tool, new.asked.tool, tuple(remarks),
        new.provenance_hash,
    )  # fmt: skip


def _changes(
    before: Mapping[tuple[str, str], tuple[str, str]], after: Mapping[tuple[str, str], tuple[str, str]]
) -> Iterable[tuple[Change, str, str, str]]:
    for key in sorted(before.keys() | after.keys()):
        if key not in before:
            yield "gained", *key, after[key][1]
        elif key not in after:
            yield "lost", *key, before[key][1]
        elif before[key][0] != after[key][0]:
            yield "changed", *key, after[key][1]


@dataclass(slots=True)
class _Causes:
    old: Manifest
    new: Manifest
    before: Mapping[tuple[str, str], tuple[str, str]]
    after: Mapping[tuple[str, str], tuple[str, str]]
    then: Mapping[str, str] | None = None
    """Content hashes of the library's records in question; None where it has gone."""
    now: Mapping[str, str] | None = None

    def of(self, change: Change, source: str, doc_id: str) -> str:
        if change == "changed":
            return "record changed"
        return self._own(change, doc_id) if source == LIBRARY else self._others(source)

    def _own(self, change: Change, doc_id: str) -> str:
        key = (LIBRARY, doc_id)
        then = self.before[key][0] if key in self.before else None if self.then is None else self.then.get(doc_id, "")
        now = self.after[key][0] if key in self.after else None if self.now is None else self.now.get(doc_id, "")
        if then is None or now is None:
            return "record added or changed" if change == "gained" else "record removed or changed"
        if then == now:
            return self._read_otherwise() or "the library's index answered otherwise: please report it"
        return "record added" if not then else "record removed" if not now else "record changed"

    def _others(self, source: str) -> str:
        was = {sent.source: sent for sent in self.old.asked.sources}.get(source)
        asked = {sent.source: sent for sent in self.new.asked.sources}.get(source)
        if was is None or asked is None or (was.query, was.parameters) != (asked.query, asked.parameters):
            return "the source is asked otherwise"
        moved = "source moved" if was.reproducible else "source moved, or answered otherwise: its totals are not reproducible"
        otherwise = self._read_otherwise()
        return f"{moved}, or {otherwise}" if otherwise else moved

    def _read_otherwise(self) -> str:
        """Tokenizer or version, where they differ."""
        old, new = self.old.asked, self.new.asked
        told = [f"{name} {was} -> {new.tool[name]}" for name, was in sorted(old.tool.items()) if new.tool.get(name) != was]
        if old.snapshot and new.snapshot and old.snapshot.tokenizer != new.snapshot.tokenizer:
            told.insert(0, f"{old.snapshot.tokenizer} -> {new.snapshot.tokenizer}")
        return f"tokenizer or version changed ({', '.join(told)})" if told else ""


async def _contents(library: PinnedLibrary | None, doc_ids: Sequence[str]) -> Mapping[str, str] | None:
    """Content hashes of those that are in it."""
    return None if library is None else await library.content_hashes(doc_ids)


async def kept(open_library: OpenLibrary, snapshot: Snapshot | None) -> PinnedLibrary | None:
    """The library as a run read it; None where that version has gone, or it was not asked."""
    if snapshot is None:
        return None
    try:
        return await open_library(snapshot)
    except LibraryError:
        return None

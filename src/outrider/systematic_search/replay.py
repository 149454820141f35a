"""Comparison of a run with a replay of it: the hits that differ, each with its cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from outrider.state.errors import LibraryError
from outrider.state.records import LIBRARY
from outrider.state.systematic import OpenLibrary, PinnedLibrary, Snapshot
from outrider.systematic_search.ledger import read_lines
from outrider.systematic_search.manifest import Manifest

Change = Literal["gained", "lost", "changed"]
HitKey = tuple[str, str]
"""Source and id of a hit."""


@dataclass(frozen=True, slots=True)
class Difference:
    """`changed` is a hit of both runs whose record has another content now."""

    change: Change
    source: str
    doc_id: str
    title: str
    cause: str


@dataclass(frozen=True, slots=True)
class Replayed:
    """The comparison of a run with its replay."""

    before: int
    """Hits of the first run."""
    now: int
    differences: tuple[Difference, ...]
    snapshot_before: Snapshot | None
    snapshot_now: Snapshot | None
    tool_before: Mapping[str, str]
    tool_now: Mapping[str, str]
    remarks: tuple[str, ...] = ()
    """Limits of the comparison, such as a source that was not read to its end."""
    provenance_hash: str = ""
    """Of the second run; equal to the first one's if nothing at all differs."""
    run_remarks: tuple[str, ...] = ()
    """Remarks of the second run on the query, as every run has them."""

    @property
    def empty(self) -> bool:
        return not self.differences


async def compare_runs(
    first: tuple[Manifest, Path], second: tuple[Manifest, Path], library_before: PinnedLibrary | None, library_now: PinnedLibrary | None
) -> Replayed:
    """Compare two runs of one query by their manifests and ledgers. The libraries are those the runs read; None if a version is gone."""
    (old, old_path), (new, new_path) = first, second
    before, after = _read_hits(old_path), _read_hits(new_path)
    in_question = [doc_id for source, doc_id in before.keys() ^ after.keys() if source == LIBRARY]
    contents = [None if library is None else await library.content_hashes(in_question) for library in (library_before, library_now)]
    causes = _Causes(old, new, before, after, *contents)
    differences = []
    for key in sorted(before.keys() | after.keys()):
        if key in before and key in after and before[key][0] == after[key][0]:
            continue
        change: Change = "gained" if key not in before else "lost" if key not in after else "changed"
        title = (before if change == "lost" else after)[key][1]
        differences.append(Difference(change, *key, title, causes.find(change, key)))
    remarks = [f"the {name} run is not complete: {why}" for name, run in (("first", old), ("second", new)) for why in run.missing]
    snapshot = old.asked.snapshot
    if library_before is None and snapshot and any(difference.source == LIBRARY for difference in differences):
        remarks.append(f"version {snapshot.version} of the library is gone, so some causes are known only in part")
    return Replayed(
        len(before), len(after), tuple(differences), snapshot, new.asked.snapshot, old.asked.tool, new.asked.tool, tuple(remarks),
        new.provenance_hash, new.remarks,
    )  # fmt: skip


def _read_hits(path: Path) -> dict[HitKey, tuple[str, str]]:
    """Content hash and title of each hit of a ledger; some 300 bytes a hit."""
    lines = (line.fields for line in read_lines(path) if line.kind == "hit")
    return {(hit["source"], hit["doc_id"]): (hit["content"], hit["record"].get("title", "")) for hit in lines}


@dataclass(frozen=True, slots=True)
class _Causes:
    old: Manifest
    new: Manifest
    before: Mapping[HitKey, tuple[str, str]]
    after: Mapping[HitKey, tuple[str, str]]
    contents_before: Mapping[str, str] | None
    """Content hashes of the library's records in question; None if that version of the library is gone."""
    contents_now: Mapping[str, str] | None

    def find(self, change: Change, key: HitKey) -> str:
        if change == "changed":
            return "record changed"
        if key[0] != LIBRARY:
            return self._find_at_source(key[0])
        then = self.before[key][0] if key in self.before else None if self.contents_before is None else self.contents_before.get(key[1], "")
        now = self.after[key][0] if key in self.after else None if self.contents_now is None else self.contents_now.get(key[1], "")
        if then is None or now is None:
            return "record added or changed" if change == "gained" else "record removed or changed"
        if then == now:
            return self._find_other_reading() or "the library's index answered differently: please report it"
        return "record added" if not then else "record removed" if not now else "record changed"

    def _find_at_source(self, source: str) -> str:
        old, new = ({query.source: query for query in run.asked.sources}.get(source) for run in (self.old, self.new))
        if old is None or new is None or (old.query, old.parameters) != (new.query, new.parameters):
            return "the source receives another query"
        moved = "source moved" if old.reproducible else "source moved, or answered differently: its totals are not reproducible"
        other_reading = self._find_other_reading()
        return f"{moved}, or {other_reading}" if other_reading else moved

    def _find_other_reading(self) -> str:
        """Tokenizer or version, if they differ."""
        old, new = self.old.asked, self.new.asked
        changes = [f"{name} {version} -> {new.tool[name]}" for name, version in sorted(old.tool.items()) if new.tool.get(name) != version]
        if old.snapshot and new.snapshot and old.snapshot.tokenizer != new.snapshot.tokenizer:
            changes.insert(0, f"{old.snapshot.tokenizer} -> {new.snapshot.tokenizer}")
        return f"tokenizer or version changed ({', '.join(changes)})" if changes else ""


async def open_version(open_library: OpenLibrary, snapshot: Snapshot | None) -> PinnedLibrary | None:
    """The library as a run read it; None if the run did not read it, or if that version is gone."""
    if snapshot is None:
        return None
    try:
        return await open_library(snapshot)
    except LibraryError:
        return None

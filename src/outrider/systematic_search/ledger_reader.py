"""Reading a ledger: its hits page by page, its export, and how far a service was read.

No more than a page is in memory at once; each line is checked against the chain as it is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from outrider.state.errors import BadRequest, SearchError
from outrider.state.records import RECORD, BaseRecord, Record
from outrider.state.systematic import Harvest, Proof, Slice
from outrider.systematic_search.ledger import Line, Tampered, file_digest, read_lines
from outrider.systematic_search.manifest import Manifest

MAX_LAST_LINE = 4_096
"""Bytes of the line that ends a ledger; it holds two numbers and a sentence."""
NOT_STORED = frozenset({"took_s", "seen"})
"""Fields of `Harvest` that no line holds: a time differs between equal runs, and `seen` follows from hits and `dropped` of all pages."""


class IncompleteRun(SearchError):
    """A run has not fetched all matches; the message has the numbers and the command that resumes the run."""

    exit_code = 3


class RunHit(NamedTuple):
    """A hit as the ledger stores it."""

    number: int
    """From 1."""
    record: Record
    source: str
    proof: Proof
    content: str
    """The record's content hash."""


class RunPage(NamedTuple):
    """Hits in the ledger's order; `cursor` requests the next page."""

    hits: tuple[RunHit, ...]
    cursor: str
    source: str
    is_last: bool = False
    """Whether nothing is known to follow in the run. One that was read back does not tell."""


class RecordWriter(Protocol):
    """Writes records in one format."""

    def begin(self) -> None: ...
    def record(self, record: BaseRecord) -> None: ...
    def end(self) -> None: ...


def read_pages(path: Path, after: str = "", end: int | None = None) -> Iterator[RunPage]:
    """Whole pages after the cursor `after`, in the first `end` bytes. `BadRequest` for a cursor that no page of this ledger has."""
    hits: list[RunHit] = []
    is_after = not after
    for line in read_lines(path):
        if end is not None and line.end > end:
            break
        if line.kind == "hit":
            if is_after:
                hits.append(make_run_hit(line))
        elif line.kind == "page":
            page = RunPage(tuple(hits), f"{line.fields['source']}:{line.fields['cursor']}", line.fields["source"])
            hits = []
            if is_after:
                yield page
            is_after = is_after or page.cursor == after
    if not is_after:
        raise BadRequest(f"no page of this run ends at the cursor {after[:80]!r}; start without a cursor")


def read_hits(path: Path, after: int, most: int, end: int | None = None) -> tuple[RunHit, ...]:
    """At most `most` hits behind number `after`, in the first `end` bytes."""
    hits: list[RunHit] = []
    for line in read_lines(path):
        if len(hits) >= most or (end is not None and line.end > end):
            break
        if line.kind == "hit" and line.fields["hit"] > after:
            hits.append(make_run_hit(line))
    return tuple(hits)


def is_done(path: Path) -> bool:
    """Whether a run read each of its sources, to the end or until it failed: the last line of its ledger says so."""
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - MAX_LAST_LINE))
        return stream.read().splitlines()[-1:][0].startswith(b'{"done"')


def make_run_hit(line: Line) -> RunHit:
    """The hit of a `hit` line; raises pydantic's `ValidationError` for a record that does not validate."""
    fields = line.fields
    return RunHit(fields["hit"], RECORD.validate_python(fields["record"]), fields["source"], fields["proof"], fields["content"])


def export_hits(path: Path, writer: RecordWriter) -> int:
    """Write the records of a ledger one by one, each work once; returns how many."""
    duplicates = {line.fields["hit"] for line in read_lines(path) if line.kind == "duplicate"}
    count = 0
    writer.begin()
    for line in read_lines(path):
        if line.kind == "hit" and line.fields["hit"] not in duplicates:
            writer.record(make_run_hit(line).record)
            count += 1
    writer.end()
    return count


def read_routes(path: Path) -> dict[str, frozenset[int]]:
    """The works that each source found, as numbers of hits: a duplicate counts as the hit that it repeats."""
    routes: dict[str, set[int]] = {}
    sources: dict[int, str] = {}
    first: dict[int, int] = {}
    for line in read_lines(path):
        if line.kind == "hit":
            sources[line.fields["hit"]] = line.fields["source"]
        elif line.kind == "duplicate":
            first[line.fields["hit"]] = first.get(line.fields["of"], line.fields["of"])
    for number, source in sources.items():
        routes.setdefault(source, set()).add(first.get(number, number))
    return {source: frozenset(works) for source, works in routes.items()}


def require_unchanged(path: Path, manifest: Manifest) -> None:
    """Raise `Tampered` for a ledger that is not the one of the manifest."""
    if file_digest(path) != manifest.ledger.sha256:
        raise Tampered(f"{path} is not the ledger of its manifest; `outrider verify` names the place")


def require_complete(manifest: Manifest, folder: Path) -> None:
    """Raise `IncompleteRun` if a source was not read to its last hit."""
    if not manifest.complete:
        raise IncompleteRun(
            f"the run is not complete: {manifest.total:,} hits were fetched. {'; '.join(manifest.missing)}. "
            f"Resume it with: outrider systematic --resume {folder}"
        )


def dump_fetch_state(harvest: Harvest) -> dict[str, Any]:
    """How far a service was read, for the ledger's line of a page; the line of the end goes without `dropped`."""
    state = {field.name: getattr(harvest, field.name) for field in fields(harvest) if field.name not in NOT_STORED}
    slices = [asdict(part) for part in harvest.slices]
    return {**state, "slices": slices, "remarks": list(harvest.remarks), "dropped": list(harvest.dropped)}


def load_fetch_state(state: Mapping[str, Any], path: Path, source: str, end: int) -> Harvest:
    """The state of a source's last whole page, with the ids of all its records in the first `end` bytes of the ledger."""
    known_ids: set[str] = set()
    for line in read_lines(path):
        if line.end > end:
            break
        if line.fields.get("source") != source:
            continue
        if line.kind == "hit":
            known_ids.add(line.fields["doc_id"])
        elif line.kind == "page":
            known_ids.update(line.fields["harvest"]["dropped"])
    slices = [Slice(**part) for part in state["slices"]]
    return Harvest(**{**state, "slices": slices, "remarks": list(state["remarks"])}, seen=known_ids)

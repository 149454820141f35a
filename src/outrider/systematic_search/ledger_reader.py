"""Hits out of a ledger, page by page, never more than a page at once; each line is checked against the chain as it is read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from outrider.state.errors import BadRequest
from outrider.state.records import RECORD
from outrider.systematic_search.errors import IncompleteRun, Tampered
from outrider.systematic_search.ledger import Line, file_digest, lines
from outrider.systematic_search.manifest import Manifest
from outrider.systematic_search.run import Found, RunPage


def pages(path: Path, after: str = "", upto: int | None = None) -> Iterator[RunPage]:
    """Whole pages behind the cursor `after`, of the first `upto` bytes; `BadRequest` for a cursor that no page of this ledger has."""
    held: list[Found] = []
    passed = not after
    for line in lines(path):
        if upto is not None and line.end > upto:
            break
        if line.kind == "hit":
            if passed:
                held.append(found(line))
        elif line.kind == "page":
            page = RunPage(tuple(held), f"{line.said['source']}:{line.said['cursor']}", line.said["source"])
            held = []
            if passed:
                yield page
            passed = passed or page.cursor == after
    if not passed:
        raise BadRequest(f"no page of this run ends at the cursor {after[:80]!r}; begin without one")


def found(line: Line) -> Found:
    said = line.said
    return Found(said["hit"], RECORD.validate_python(said["record"]), said["source"], said["proof"], said["content"])


def duplicates_in(path: Path) -> frozenset[int]:
    """Numbers of the hits that say of a work what an earlier hit of another source said."""
    return frozenset(line.said["hit"] for line in lines(path) if line.kind == "duplicate")


def require_whole(path: Path, made: Manifest) -> None:
    """`Tampered` where the ledger is not the one that the manifest tells of."""
    if file_digest(path) != made.ledger.sha256:
        raise Tampered(f"{path} is not the ledger of its manifest; `outrider verify` names the place")


def require_complete(manifest: Manifest, folder: Path) -> None:
    """`IncompleteRun` with the numbers, where not every source was read to its last hit."""
    if not manifest.complete:
        raise IncompleteRun(
            f"the run is not complete: {manifest.total:,} hits came. {'; '.join(manifest.missing)}. "
            f"Go on with it: outrider systematic --resume {folder}"
        )

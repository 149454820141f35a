"""How a service was read, as the ledger keeps it: what a run that broke off goes on with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from outrider.state.systematic import Harvest, Slice
from outrider.systematic_search.ledger import lines

NOT_KEPT = frozenset({"took_s", "seen"})
"""A time differs between equal runs, and what was seen follows from hits and `dropped` of all pages."""


def kept(into: Harvest) -> dict[str, Any]:
    """Of a page."""
    said = {one.name: getattr(into, one.name) for one in fields(into) if one.name not in NOT_KEPT}
    return {**said, "slices": [asdict(one) for one in into.slices], "remarks": list(into.remarks), "dropped": list(into.dropped)}


def ended(into: Harvest) -> dict[str, Any]:
    """Of the end, which names no records."""
    said = kept(into)
    said.pop("dropped")
    return said


def gone_on_with(said: Mapping[str, Any], path: Path, source: str, upto: int) -> Harvest:
    """Of the source's last whole page, in the first `upto` bytes of a ledger."""
    read = {**said, "slices": [Slice(**one) for one in said["slices"]], "remarks": list(said["remarks"])}
    return Harvest(**read, seen=_seen(path, source, upto))


def _seen(path: Path, source: str, upto: int) -> set[str]:
    seen: set[str] = set()
    for line in lines(path):
        if line.end > upto:
            break
        if line.said.get("source") != source:
            continue
        if line.kind == "hit":
            seen.add(line.said["doc_id"])
        elif line.kind == "page":
            seen.update(line.said["harvest"]["dropped"])
    return seen

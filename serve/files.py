"""Deduplicating files from a program: what `outrider dedup --json` prints, as an object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from outrider.identity.resolving import Related
from outrider.ingest.deduplicating import deduplicated
from outrider.ingest.entry import ReadOptions
from outrider.settings.load import load
from outrider.state.records import Record


@dataclass(frozen=True, slots=True)
class FilesDeduplicated:
    """Ids are the records' own, as `outrider dedup` prints them."""

    groups: tuple[tuple[str, ...], ...]
    """Every record once, singles included, in the order of the files."""
    reasons: tuple[tuple[str, ...], ...]
    """In parallel: why each group is one work; empty for a single."""
    works: tuple[Record, ...]
    """In parallel: each group as one record; `metadata["merged"]` names all of several."""
    unsure: tuple[tuple[str, str], ...]
    """Pairs that stayed apart and may be one work, the surest first."""
    related: tuple[tuple[str, str, str], ...]
    """(id, relation, id) of what belongs together and is not one work, such as a preprint and its article."""
    notes: tuple[str, ...]
    """What could not be read, and how ids were made."""


def files_deduplicated(files: Sequence[str | PathLike[str]], columns: Mapping[str, str]) -> FilesDeduplicated:
    """Raises `BadRequest`."""
    bounds = load().settings.ingest
    options = ReadOptions(columns=dict(columns), max_bytes=bounds.max_bytes, max_pages=bounds.max_pages)
    with deduplicated([Path(file) for file in files], options) as found:
        groups = list(found.groups())
        return FilesDeduplicated(
            groups=tuple(tuple(found.ids[place] for place in group.places) for group in groups),
            reasons=tuple(group.reasons for group in groups),
            works=tuple(found.work(group) for group in groups),
            unsure=tuple((found.ids[pair.one], found.ids[pair.other]) for pair in found.unsure()),
            related=tuple(_related(found.ids, one) for one in found.related()),
            notes=found.notes,
        )


def _related(ids: Sequence[str], said: Related) -> tuple[str, str, str]:
    first, second = (said.one, said.other) if said.relation.forward else (said.other, said.one)
    return ids[first], said.relation.kind, ids[second]

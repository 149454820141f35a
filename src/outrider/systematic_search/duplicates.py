"""Which hits of several sources say of a work what an earlier hit said: counted, named, and never taken out of the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from outrider.state.records import RECORD, Record
from outrider.systematic_search.ledger import lines

BY_IDENTITY = "all that the records say (identifiers, titles, authors, years, pages)"
BY_IDENTIFIERS = "identifiers alone, for there are too many hits to compare all that they say: PMID, or DOI and the same title"


@dataclass(frozen=True, slots=True)
class Duplicate:
    hit: int
    of: int
    """The earlier hit; both count from 1."""
    why: str


def found(path: Path, most: int) -> tuple[list[Duplicate], str]:
    """In the order of the hits, and by what they were recognised. Up to `most` hits by identity, else by identifiers; a few KB each."""
    total = sum(1 for line in lines(path) if line.kind == "hit")
    if total <= most:
        return _by_identity(path), BY_IDENTITY
    return _by_identifiers(path), BY_IDENTIFIERS


def records(path: Path) -> Iterator[tuple[int, Record]]:
    for line in lines(path):
        if line.kind == "hit":
            yield line.said["hit"], RECORD.validate_python(line.said["record"])


def _by_identity(path: Path) -> list[Duplicate]:
    from outrider.linkage.keys import make_keys
    from outrider.linkage.resolve import resolve_keys

    numbers, keys = [], []
    for number, record in records(path):
        numbers.append(number)
        keys.append(make_keys(record))
    resolution = resolve_keys(keys)
    told = []
    for places, reasons in zip(resolution.groups, resolution.reasons, strict=True):
        why = reasons[0] if reasons else ""
        told += [Duplicate(numbers[at], numbers[places[0]], why) for at in places[1:]]
    return sorted(told, key=lambda one: one.hit)


def _by_identifiers(path: Path) -> list[Duplicate]:
    first: dict[tuple[str, ...], int] = {}
    told = []
    for number, record in records(path):
        keys = list(_keys(record))
        known = sorted((first[key], key[0]) for key in keys if key in first)
        if known:
            told.append(Duplicate(number, known[0][0], f"same {known[0][1]}"))
        for key in keys:
            first.setdefault(key, known[0][0] if known else number)
    return told


def _keys(record: Record) -> Iterator[tuple[str, ...]]:
    """Supplements share the DOI of their issue, so that a DOI alone does not make two records one."""
    from outrider.linkage.identifiers import normal_doi, normal_pmid
    from outrider.linkage.titles import normal_title

    if record.identifiers.pmid and (pmid := normal_pmid(record.identifiers.pmid)):
        yield "PMID", pmid
    title = normal_title(record.title)
    if title and record.identifiers.doi and (doi := normal_doi(record.identifiers.doi)):
        yield "DOI", doi, title

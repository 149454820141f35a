"""Duplicates among the hits of several sources.

They are counted and named, and stay in the ledger.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from outrider.state.records import RECORD, Record
from outrider.systematic_search.ledger import read_lines

BY_IDENTITY = "all that the records say (identifiers, titles, authors, years, pages)"
BY_IDENTIFIERS = "identifiers alone, for there are too many hits to compare all that they say: PMID, or DOI and the same title"


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A hit whose work an earlier hit describes, and the reason."""

    hit: int
    of: int
    """The earlier hit; both count from 1."""
    why: str


def find_duplicates(path: Path, identity_most: int) -> tuple[list[Duplicate], str]:
    """The duplicates of a ledger in the order of the hits, and the method: all fields of up to `identity_most` hits, else identifiers.

    Memory: a few KB a hit.
    """
    total = sum(1 for line in read_lines(path) if line.kind == "hit")
    return (_compare_keys(path), BY_IDENTITY) if total <= identity_most else (_compare_identifiers(path), BY_IDENTIFIERS)


def _read_records(path: Path) -> Iterator[tuple[int, Record]]:
    for line in read_lines(path):
        if line.kind == "hit":
            yield line.fields["hit"], RECORD.validate_python(line.fields["record"])


def _compare_keys(path: Path) -> list[Duplicate]:
    from outrider.linkage.normalized_record import make_keys
    from outrider.linkage.resolve import resolve_keys

    numbers, keys = [], []
    for number, record in _read_records(path):
        numbers.append(number)
        keys.append(make_keys(record))
    resolution = resolve_keys(keys)
    duplicates = []
    for members, reasons in zip(resolution.groups, resolution.reasons, strict=True):
        why = reasons[0] if reasons else ""
        duplicates += [Duplicate(numbers[member], numbers[members[0]], why) for member in members[1:]]
    return sorted(duplicates, key=lambda duplicate: duplicate.hit)


def _compare_identifiers(path: Path) -> list[Duplicate]:
    first: dict[tuple[str, ...], int] = {}
    duplicates = []
    for number, record in _read_records(path):
        keys = list(_identifier_keys(record))
        matches = sorted((first[key], key[0]) for key in keys if key in first)
        if matches:
            duplicates.append(Duplicate(number, matches[0][0], f"same {matches[0][1]}"))
        for key in keys:
            first.setdefault(key, matches[0][0] if matches else number)
    return duplicates


def _identifier_keys(record: Record) -> Iterator[tuple[str, ...]]:
    """A DOI counts together with the title: supplements share the DOI of their issue."""
    from outrider.linkage.identifiers import normal_doi, normal_pmid
    from outrider.linkage.names_and_titles import normal_title

    if record.identifiers.pmid and (pmid := normal_pmid(record.identifiers.pmid)):
        yield "PMID", pmid
    title = normal_title(record.title)
    if title and record.identifiers.doi and (doi := normal_doi(record.identifiers.doi)):
        yield "DOI", doi, title

"""RIS (Research Information Systems, 2011 tag set) in the dialects of EndNote, Zotero, Ovid, Embase, Scopus, Web of Science.

Read line by line, which rispy does not do (it holds the file whole, cuts URLs at semicolons, and stops at a continuation line
after a repeated tag). A tag line is two characters, blanks or a tab, a hyphen. A line without a tag goes on with the value
before it; under KW it is the next keyword. A record ends where the next TY stands, so that what some exporters put behind ER
is kept, and a missing ER loses nothing. Tags without a place of their own stay in the metadata as they are called.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import JsonValue

from outrider.ingest.entry import BadEntry, Entry, Parsed, ReadOptions
from outrider.ingest.readers.text_files import entries_or_error
from outrider.ingest.record_draft import Draft, from_pubmed, identifiers_of
from outrider.ingest.row_columns import NOTHING, has_content
from outrider.ingest.values import clean, scalar
from outrider.state.errors import NothingToRead
from outrider.state.records import Paper

LINE = re.compile(r"([A-Z][A-Z0-9])( {2}|[ \t]*\t| )-(?:[ \t]?(.*))$")
SLOPPY = frozenset("TY ER TI T1 T2 AU A1 AB N2 PY Y1 JO JF DO KW UR VL IS SP EP SN LA ID".split())
"""Tags that count with a single blank before the hyphen too; of any other it is prose."""
OF_A_RECORD = frozenset({"TI", "T1", "AU", "A1", "AB", "N2"})
LISTS = frozenset({"AU", "A1", "KW"})
"""One value a line; a semicolon in it is part of it."""
VENUES = ("T2", "JF", "JO", "J2", "JA", "BT")


@dataclass(slots=True)
class _Tags:
    """One record's lines as they come; `behind` holds those after its ER."""

    line: int
    within: dict[str, list[str]] = field(default_factory=dict)
    behind: dict[str, list[str]] = field(default_factory=dict)
    ended: bool = False
    last: str | None = None

    def add(self, tag: str, value: str) -> None:
        (self.behind if self.ended else self.within).setdefault(tag, []).append(value)
        self.last = tag

    def go_on(self, text: str) -> None:
        if self.ended or self.last is None or not text:
            return  # numbers and links that some exporters put between records
        values = self.within[self.last]
        if self.last == "KW":
            values.append(text)
        else:
            values[-1] = f"{values[-1]}\n{text}".strip()

    def end(self) -> None:
        self.ended, self.last = True, None


def read(path: Path, options: ReadOptions) -> Iterator[Parsed]:
    return entries_or_error(path, options, _entries, NothingToRead(f"{path}: no RIS record in it (none of its lines starts with TY)"))


def _entries(lines: Iterable[str]) -> Iterator[Parsed]:
    for tags in _records(lines):
        yield from _parsed(tags)


def _records(lines: Iterable[str]) -> Iterator[_Tags]:
    tags: _Tags | None = None
    for number, line in enumerate(lines, 1):
        tag, value = _cut(line)
        if tag == "TY":
            if tags:
                yield tags
            tags = _Tags(number)
            tags.add(tag, value)
        elif tags is None:
            continue  # a preamble
        elif tag == "ER":
            tags.end()
        elif tag:
            tags.add(tag, value)
        else:
            tags.go_on(value)
    if tags:
        yield tags


def _cut(line: str) -> tuple[str | None, str]:
    found = LINE.match(line.rstrip("\n").removeprefix("\ufeff"))
    if not found or (found.group(2) == " " and found.group(1) not in SLOPPY):
        return None, line.strip()
    return found.group(1), found.group(3).strip()


def _parsed(tags: _Tags) -> Iterator[Parsed]:
    """The record, and a word on lines behind it that look like another one without its TY."""
    lost = OF_A_RECORD.intersection(tags.behind)
    if not lost:
        for tag, values in tags.behind.items():
            tags.within.setdefault(tag, []).extend(values)
    yield _entry(tags)
    if lost:
        yield BadEntry(f"after the record on line {tags.line}", "a record without its TY line")


def _entry(tags: _Tags) -> Parsed:
    given = {tag: [value for value in values if value] for tag, values in tags.within.items()}
    raw: dict[str, JsonValue] = {
        tag: clean(values[0] if len(values) == 1 and tag not in LISTS else values) for tag, values in given.items() if values
    }
    record = _paper(Draft(raw))
    if not has_content(record, ignored=("ID", "TY")):
        return BadEntry(f"line {tags.line}", NOTHING, empty=True)
    own = record.metadata.get("ID")
    return Entry(record, scalar(own[0] if isinstance(own, list) else own) if own else None)


def _paper(draft: Draft) -> Paper:
    url = draft.line("UR")
    names = {
        "doi": ("DO", "M3", "L3"),
        "pmid": ("AN",) if from_pubmed(draft, ("DB", "DP"), "AN") else (),
        "pmcid": ("C2",),
        "isbn": ("SN",),
    }
    identifiers = identifiers_of(draft, names, url)
    return Paper(
        doc_id="",
        title=draft.line("TI", "T1", "CT") or draft.line("BT") or "",
        abstract=draft.text("AB", "N2"),
        url=url,
        identifiers=identifiers,
        authors=draft.lines("AU", "A1"),
        year=draft.year("PY", "Y1", "DA"),
        venue=draft.line(*VENUES),
        volume=draft.line("VL"),
        issue=draft.line("IS"),
        pages=draft.pages((), ("SP",), ("EP",)),
        language=draft.line("LA"),
        tags=draft.lines("KW"),
        metadata=draft.rest,
    )

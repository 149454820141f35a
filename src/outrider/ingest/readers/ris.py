"""Reader of RIS (2011 tag set) in the dialects of reference managers and databases.

Dialects: EndNote, Zotero, Ovid, Embase, Scopus, Web of Science.
Read line by line, which rispy does not do (it holds the file whole, cuts URLs at semicolons, and stops at a continuation line
after a repeated tag). A tag line is two characters, blanks or a tab, a hyphen. A line without a tag continues the value
before it; under KW it is the next keyword. A record ends at the next TY, so that lines which some exporters put after ER
are read, and a missing ER loses nothing. Tags without a field of the record stay in the metadata under their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import JsonValue

from outrider.ingest.column_mapping import NOTHING, has_content
from outrider.ingest.entry import BadEntry, Entry, Parsed, ReadOptions
from outrider.ingest.field_values import clean, format_scalar
from outrider.ingest.readers.open_text import read_entries
from outrider.ingest.record_draft import Draft, is_from_pubmed, make_paper
from outrider.state.errors import NothingToRead

LINE = re.compile(r"([A-Z][A-Z0-9])( {2}|[ \t]*\t| )-(?:[ \t]?(.*))$")
SINGLE_BLANK_TAGS = frozenset("TY ER TI T1 T2 AU A1 AB N2 PY Y1 JO JF DO KW UR VL IS SP EP SN LA ID".split())
"""Tags that count with a single blank before the hyphen too; any other such line is prose."""
RECORD_TAGS = frozenset({"TI", "T1", "AU", "A1", "AB", "N2"})
"""Tags that show, after ER, that a record without TY follows."""
LISTS = frozenset({"AU", "A1", "KW"})
"""One value a line; a semicolon in it is part of it."""
NAMES = {
    "title": ("TI", "T1", "CT"), "book": ("BT",), "abstract": ("AB", "N2"), "url": ("UR",), "authors": ("AU", "A1"),
    "year": ("PY", "Y1", "DA"), "venue": ("T2", "JF", "JO", "J2", "JA", "BT"), "volume": ("VL",), "issue": ("IS",),
    "first_page": ("SP",), "last_page": ("EP",), "language": ("LA",), "keywords": ("KW",),
    "doi": ("DO", "M3", "L3"), "pmcid": ("C2",), "isbn": ("SN",),
}  # fmt: skip
"""Field or identifier of a record -> tags."""


@dataclass(slots=True)
class _Tags:
    """One record's lines as they come; `after_end` holds those after its ER."""

    line: int
    tags: dict[str, list[str]] = field(default_factory=dict)
    after_end: dict[str, list[str]] = field(default_factory=dict)
    ended: bool = False
    last: str | None = None

    def add(self, tag: str, value: str) -> None:
        (self.after_end if self.ended else self.tags).setdefault(tag, []).append(value)
        self.last = tag

    def continue_last(self, text: str) -> None:
        if self.ended or self.last is None or not text:
            return  # numbers and links that some exporters put between records
        values = self.tags[self.last]
        if self.last == "KW":
            values.append(text)
        else:
            values[-1] = f"{values[-1]}\n{text}".strip()

    def end(self) -> None:
        self.ended, self.last = True, None


def read(path: Path, options: ReadOptions) -> Iterator[Parsed]:
    nothing = NothingToRead(f"{path}: no RIS record in it (none of its lines starts with TY)")
    return read_entries(path, options, _parse, nothing=nothing)


def _parse(lines: Iterable[str]) -> Iterator[Parsed]:
    record: _Tags | None = None
    for number, line in enumerate(lines, 1):
        match = LINE.match(line.rstrip("\n").removeprefix("\ufeff"))
        if match and (match.group(2) != " " or match.group(1) in SINGLE_BLANK_TAGS):
            tag, value = match.group(1), match.group(3).strip()
        else:
            tag, value = "", line.strip()
        if tag == "TY":
            if record:
                yield from _make_entries(record)
            record = _Tags(number)
            record.add(tag, value)
        elif record is None:
            continue  # a preamble
        elif tag == "ER":
            record.end()
        elif tag:
            record.add(tag, value)
        else:
            record.continue_last(value)
    if record:
        yield from _make_entries(record)


def _make_entries(lines: _Tags) -> Iterator[Parsed]:
    """The record, and a report of lines after it that look like another one without its TY."""
    lost = RECORD_TAGS.intersection(lines.after_end)
    if not lost:
        for tag, values in lines.after_end.items():
            lines.tags.setdefault(tag, []).extend(values)
    raw: dict[str, JsonValue] = {}
    for tag, values in lines.tags.items():
        if values := [value for value in values if value]:
            raw[tag] = clean(values[0] if len(values) == 1 and tag not in LISTS else values)
    draft = Draft(raw)
    pmid = ("AN",) if is_from_pubmed(draft, ("DB", "DP"), "AN") else ()
    record = make_paper(draft, {**NAMES, "pmid": pmid})
    if has_content(record, ignored=("ID", "TY")):
        own_id = record.metadata.get("ID")
        yield Entry(record, format_scalar(own_id[0] if isinstance(own_id, list) else own_id) if own_id else None)
    else:
        yield BadEntry(f"line {lines.line}", NOTHING, empty=True)
    if lost:
        yield BadEntry(f"after the record on line {lines.line}", "a record without its TY line")

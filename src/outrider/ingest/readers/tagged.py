"""Reader of tagged records: RIS, MEDLINE, Web of Science, Ovid, EndNote (Refer), RefWorks.

`dialects` states what differs. Read line by line. A line without a tag continues the value before it. A missing end of a record loses
nothing: the next record begins with its first tag, or where a tag comes again that no record has twice. Tags without a field of the
record stay in the metadata under their names; `nan`, `[No abstract available]` and the like are absent values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from pydantic import JsonValue

from outrider.ingest.column_mapping import NOTHING, has_content
from outrider.ingest.entry import BadEntry, Entry, Parsed, Reader, ReadOptions
from outrider.ingest.field_values import clean, format_scalar, is_absent, split_list
from outrider.ingest.readers.dialects import ENDNOTE_REFER, MEDLINE, REFWORKS, RIS, WEB_OF_SCIENCE, Dialect, Tags
from outrider.ingest.readers.open_text import read_entries
from outrider.ingest.readers.ovid import OVID
from outrider.ingest.record_draft import Draft, is_from_pubmed, make_paper
from outrider.state.errors import NothingToRead

DIALECTS = (OVID, MEDLINE, WEB_OF_SCIENCE, ENDNOTE_REFER, REFWORKS, RIS)
"""In the order in which a file is compared with them: RIS may come after a preamble of any kind."""
RECORD_TAGS = frozenset({"TI", "T1", "AU", "A1", "AB", "N2"})
"""Tags that show, after the end of a record, that one without its first line follows."""

UNKNOWN_LABEL = re.compile(r"[A-Z][\w/() -]{1,60}")
"""A field's name on a line of its own that a dialect does not list."""


@dataclass(slots=True)
class TaggedRecord:
    """The lines of one record as they come."""

    line: int
    entries: list[tuple[str, str]] = field(default_factory=list)
    """Tags and values."""
    before_blank: int = 0
    """Number of entries up to the last blank line."""
    before_end: int | None = None
    """Number of entries up to the tag that ends a record."""

    def cut(self, tag: str, number: int) -> TaggedRecord | None:
        """The record that began before this second `tag`: after the last blank line, or here if `tag` is the first of this record."""
        if any(name == tag for name, _ in self.entries[: self.before_blank]):
            begun = TaggedRecord(number, self.entries[self.before_blank :])
            del self.entries[self.before_blank :]
            return begun
        if self.entries and self.entries[0][0] == tag != self.entries[-1][0]:
            return TaggedRecord(number)
        return None

    def tags(self) -> tuple[Tags, Tags]:
        """The values by tag, and those behind the end of the record."""
        parts: tuple[Tags, Tags] = {}, {}
        end = len(self.entries) if self.before_end is None else self.before_end
        for place, (tag, value) in enumerate(self.entries):
            parts[place >= end].setdefault(tag, []).append(value)
        return parts


class RecordSplitter:
    """Splits lines into records. `feed` returns a record when the next one begins; the last one stays in `record`."""

    def __init__(self, dialect: Dialect) -> None:
        self.record: TaggedRecord | None = None
        self._dialect = dialect
        self._opens = dialect.opens
        self._ragged = not dialect.indents
        self._label = ""
        """The tag of the next lines, if it stands as a name on a line of its own."""
        self._indent: int | None = None
        """Blanks before every line of the file, as some programs write them; known from the first line."""

    def feed(self, number: int, line: str) -> TaggedRecord | None:
        dialect = self._dialect
        text = line.rstrip("\r\n").removeprefix("\ufeff")
        if self._indent is None and text.strip():
            self._indent = len(text) - len(text.lstrip())
        if self._indent:
            text = text[min(self._indent, len(text) - len(text.lstrip())) :]
        tag, value = self._split(text)
        if tag in dialect.file_tags:
            return None
        is_marker = dialect.marker is not None and dialect.marker.match(text) is not None
        if is_marker:
            self._opens = frozenset()  # every record has one
        if is_marker or tag in self._opens:
            return self._open(number, tag, value)
        if self.record is None:
            if not tag or dialect.opens:
                return None  # a preamble
            self.record = TaggedRecord(number)
        if not tag:
            self._continue(text)
        elif tag == dialect.ends:
            self.record.before_end = len(self.record.entries) if self.record.before_end is None else self.record.before_end
        else:
            return self._add(number, tag, value)
        return None

    def _split(self, text: str) -> tuple[str, str]:
        """Tag and value of a tag line; no tag for any other line."""
        match = self._dialect.line.match(text)
        if match is None or (self._dialect.is_prose is not None and self._dialect.is_prose(match["tag"], match["gap"])):
            return "", text.strip()
        if self._ragged and self._dialect.known and match["tag"] not in self._dialect.known:
            return "", text.strip()
        return match["tag"], (match["value"] or "").strip()

    def _open(self, number: int, tag: str, value: str) -> TaggedRecord | None:
        finished = self.record if self.record and (self.record.entries or self.record.before_end is not None) else None
        if finished or self.record is None:
            self.record = TaggedRecord(number)
        if tag:
            self.record.entries.append((tag, value))
        self._label = ""
        return finished

    def _add(self, number: int, tag: str, value: str) -> TaggedRecord | None:
        finished = None
        record = self.record or TaggedRecord(number)
        if tag in self._dialect.once and (begun := record.cut(tag, number)):
            finished, record = record, begun
        record.entries.append((tag, value))
        self.record, self._label = record, ""
        return finished

    def _continue(self, text: str) -> None:
        record, value, dialect = self.record, text.strip(), self._dialect
        is_indented = text[:1].isspace()
        if record is None or record.before_end is not None:
            return  # numbers and links that some exporters put between records
        if not value:
            record.before_blank = len(record.entries)
        elif not is_indented and value in dialect.labels:
            self._label = dialect.labels[value]
            record.entries.append((self._label, ""))
        elif self._label and not is_indented and not self._ragged and UNKNOWN_LABEL.fullmatch(value):
            self._label = value
            record.entries.append((value, ""))
        elif record.entries:
            tag, before = record.entries[-1]
            if tag in dialect.items:
                record.entries.append((tag, value))
            else:
                joint = " " if dialect.wraps and is_indented else "\n"
                record.entries[-1] = tag, f"{before}{joint}{value}".strip()
            self._ragged = self._ragged or (dialect.wraps and not is_indented)


def _parse(dialect: Dialect, lines: Iterable[str]) -> Iterator[Parsed]:
    splitter = RecordSplitter(dialect)
    for number, line in enumerate(lines, 1):
        if record := splitter.feed(number, line):
            yield from _make_entries(dialect, record)
    if splitter.record:
        yield from _make_entries(dialect, splitter.record)


def _make_entries(dialect: Dialect, record: TaggedRecord) -> Iterator[Parsed]:
    """The record, and a report of lines after it that look like another one without its first line."""
    tags, after = record.tags()
    lost = RECORD_TAGS.intersection(after)
    if not lost:
        for tag, values in after.items():
            tags.setdefault(tag, []).extend(values)
    tags = {tag: present for tag, values in tags.items() if (present := [value for value in values if not is_absent(value)])}
    own_id = next((tags[tag][0] for tag in dialect.own_id if tag in tags), None)
    dialect.prepare(tags)
    raw: dict[str, JsonValue] = {}
    for tag, values in tags.items():
        if tag in dialect.splits:
            items = (format_scalar(item) for value in values for item in split_list(value, commas=False))
            raw[tag] = [clean(item) for item in items if item]
        elif values:
            raw[tag] = clean(values[0] if len(values) == 1 and tag not in dialect.lists else [*values])
    draft = Draft(raw)
    names = dict(dialect.names)
    if "accession" in names and is_from_pubmed(draft, names["databases"], names["accession"][0]):
        names["pmid"] = names["accession"]
    paper = dialect.finish(make_paper(draft, names))
    if has_content(paper, ignored=dialect.ignored):
        yield Entry(paper, format_scalar(clean(own_id)))
    else:
        yield BadEntry(f"line {record.line}", NOTHING, empty=True)
    if lost:
        yield BadEntry(f"after the record on line {record.line}", f"a record without its {dialect.start} line")


def _make_reader(dialect: Dialect) -> Reader:
    def read(path: Path, options: ReadOptions) -> Iterator[Parsed]:
        nothing = NothingToRead(f"{path}: no {dialect.title} record in it (none of its lines starts with {dialect.start})")
        return read_entries(path, options, partial(_parse, dialect), nothing=nothing)

    return read


read_ris = _make_reader(RIS)
read_medline = _make_reader(MEDLINE)
read_web_of_science = _make_reader(WEB_OF_SCIENCE)
read_ovid = _make_reader(OVID)
read_endnote_refer = _make_reader(ENDNOTE_REFER)
read_refworks = _make_reader(REFWORKS)

"""Reader of tagged records: RIS, MEDLINE, Web of Science, Ovid, EndNote (Refer), RefWorks.

`dialects` states what differs; Ovid's dialect is here, since it has code of its own. Read line by line. A line without a tag continues the
value before it. A missing end of a record loses nothing: the next record begins with its first tag, or where a tag comes again that no
record has twice. Tags without a field of the record stay in the metadata under their names; `nan`, `[No abstract available]` and the like
are absent values.

Ovid's dialect is that of MEDLINE, Embase, PsycINFO and others. Its tags differ from one database to the next (ospguides.ovid.com). A
tag may be spelled out on a line of its own. Journal, volume, issue and pages may stand in one line, `SO`. Names carry roles, degrees and
marks, and titles carry the section of the journal.
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
from outrider.ingest.field_values import MAX_AUTHOR_CHARS, clean, format_scalar, is_absent, one_line, parse_source, split_list
from outrider.ingest.readers.dialects import ENDNOTE_REFER, MEDLINE, REFWORKS, RIS, WEB_OF_SCIENCE, Dialect, Tags, separate_headings
from outrider.ingest.readers.open_text import read_entries
from outrider.ingest.record_draft import Draft, is_from_pubmed, make_paper
from outrider.state.errors import NothingToRead
from outrider.state.records import Paper
from outrider.text.languages_and_work_types import normal_language

OVID_LABELS = {
    "Unique Identifier": "UI", "Accession Number": "AN", "Database": "DB", "Status": "ST", "Title": "TI", "Authors": "AU", "Author": "AU",
    "Authors Full Name": "FA", "Source": "SO", "Abbreviated Source": "AS", "Journal Name": "JN", "NLM Journal Name": "NJ",
    "Publisher": "PB", "Abstract": "AB", "MeSH Subject Headings": "MH", "Subject Headings": "MH", "Keyword Heading": "KW", "Keywords": "KW",
    "Author Keywords": "KW", "Language": "LG", "Publication Type": "PT", "Document Type": "PT", "Digital Object Identifier": "DO",
    "DOI Number": "DO", "DOI": "DO", "ISSN Print": "IS", "ISSN Electronic": "ES", "ISSN Linking": "IL", "ISSN": "IS", "ISBN": "IB",
    "Year of Publication": "YR", "Publication Year": "YR", "Date of Publication": "DP", "Volume": "VO", "Issue/Part": "IP", "Issue": "IP",
    "Page": "PG", "Pagination": "PG", "Institution": "IN", "Country of Publication": "CP", "CAS Registry/EC Number/Name of Substance": "RN",
    "Record Owner": "RO", "Version ID": "VI", "Comments": "CM", "Entry Date": "ED", "Update Date": "UP", "Copyright": "CR",
    "Grant Information": "GI", "Publication History Status": "PH", "Publishing Model": "PI", "Correspondence Address": "CA",
}  # fmt: skip
DEGREES = re.compile(r"(?<=[a-z.])(?:,?\s+(?:MD|PhD|Ph\.D\.|MPH|MSc|BSc|MA|BA|MS|RN|DrPH|MBBS|FRCP|FACC)\b\.?)+$")
"""`Gazic, Barbara MD, PhD`, but not the initials in `Kumar, MS`."""
LONG_LAST_WORD = re.compile(r"([^\W\d_]{3,})\.$")
"""`AHMED, Mughees.`, but not `Behan L.`"""
SECTION = re.compile(r"\s+\[([^\[\]]+)\]\.?$")
SECTIONS = frozenset("article articles report review editorial letter comment miscellaneous references refs".split())
"""Ovid writes behind a title the section of the journal (`[Article]`), how many references (`[83 refs]`), the language (`[German]`)."""
RUN_TOGETHER = re.compile(r"\s*([^\s.][^.]*?\s[A-Z]{1,4})\.(?=\s|$)")
"""`Smith J. Jones KL.`"""
TYPES_IN_A_LINE = re.compile(r"(?<=[a-z])\.\s+(?=[A-Z])")
"""`Journal Article. Research Support, U.S. Gov't.`"""
OVID_HEADING = re.compile(r"\*?(?P<name>.+?)\s*/\s*\*?[a-z]{2}(?:,\s*\*?[a-z]{2})*\s*\[(?P<qualifiers>[^\]]+)\]$")
"""`*Asthma/dt [Drug Therapy]`"""


def _clean_author(name: str) -> str:
    """Without roles (`Walsdorf, Neill B. [Inventor]`), degrees, and marks that point to the institution (`He, Zhimin 1,2,*`)."""
    name = one_line(name.partition("[")[0]).rstrip(" 0123456789,+*")
    family, comma, given = name.partition(", ")
    name = f"{family}{comma}{DEGREES.sub('', given)}".rstrip(" ,")
    return LONG_LAST_WORD.sub(r"\1", name) if name.endswith(".") else name


def _without_section(title: str) -> str:
    title = one_line(title)
    while match := SECTION.search(title):
        words = match.group(1).casefold()
        is_section = len(words.split()) <= 3 and not SECTIONS.isdisjoint(words.split())
        if not (is_section or (len(words) > 3 and normal_language(words))):
            break
        title = title[: match.start()]
    return title


def _prepare_ovid(tags: Tags) -> None:
    full = [name for name in tags.get("FA", ()) if "," in name]
    authors = tags.pop("AU", [])
    if len(full) >= len(authors) > 0:
        authors = full
        del tags["FA"]
    authors = [name for line in authors for name in map(str, split_list(line, commas=False))]
    split = ((line, RUN_TOGETHER.findall(line) if len(line) <= MAX_AUTHOR_CHARS else []) for line in authors)
    authors = [name for line, names in split for name in (names if len(names) > 1 else [line])]
    tags["authors"] = [_clean_author(name) for name in authors]
    tags["TI"] = [_without_section(title) for title in tags.get("TI", ())]
    # PsycINFO separates its identifiers by commas
    tags["ID"] = [str(item).strip() for value in tags.get("ID", ()) for item in split_list(value, commas=True)]
    tags["PT"] = [part.rstrip(".") for tag in ("PT", "DT") for value in tags.pop(tag, []) for part in TYPES_IN_A_LINE.split(value)]
    # `BT` holds a whole citation of a book, `SO` one of an article
    if not any(tags.get(tag) for tag in ("JN", "NJ", "VO", "PG")) and (source := next(iter(tags.get("SO", ())), "")):
        tags.update({tag: [value] for tag, value in parse_source(one_line(source)).items() if tag != "year" or not tags.get("YR")})
    if any("medline" in name.casefold() or "pubmed" in name.casefold() for name in tags.get("DB", ())):
        tags["pmid"] = [value.partition(" ")[0].rstrip(".") for value in tags.get("UI", [])[:1] or tags.get("AN", [])[:1]]
    tags["pmid"] = tags.get("pmid") or [value.partition(" ")[0] for value in tags.get("PM", [])[:1]]


def _finish_ovid(paper: Paper) -> Paper:
    headings: dict[str, list[str]] = {}
    for heading in paper.mesh:
        match = OVID_HEADING.match(heading)
        headings[heading] = [match["name"], *match["qualifiers"].lower().split(", ")] if match else [heading.lstrip("*")]
    return separate_headings(paper, headings)


OVID = Dialect(
    name="ovid",
    title="Ovid (tagged)",
    signature=re.compile(r"\s*(?:<\s*\d+\s*\.?\s*>\s*\n(?: *[A-Z][A-Z0-9] {1,2}- |" + "|".join(OVID_LABELS) + r")|VN {1,2}- Ovid)"),
    line=re.compile(r"(?P<tag>[A-Z][A-Z0-9])(?P<gap> {1,2})-(?: (?P<value>.*))?$"),
    start="<1. >",
    opens=frozenset({"VN"}),
    marker=re.compile(r"<\s*\d+\s*\.?\s*>\s*$"),
    labels=OVID_LABELS,
    items=frozenset({"AU", "FA", "IN", "MH", "PT", "RN"}),
    splits=frozenset({"KW"}),
    lists=frozenset({"authors", "ID", "MH", "PT"}),
    own_id=("UI", "AN"),
    ignored=("VN", "DB"),
    prepare=_prepare_ovid,
    finish=_finish_ovid,
    names={
        "title": ("TI",), "book": ("BT",), "abstract": ("AB",), "url": (), "authors": ("authors",), "year": ("YR", "DP", "year"),
        "venue": ("JN", "NJ", "JT", "venue"), "abbreviation": ("AS", "JA"), "volume": ("VO", "volume"), "issue": ("IP", "issue"),
        "pages": ("PG", "pages"), "language": ("LG", "LA"), "keywords": ("KW", "ID"), "mesh": ("MH",), "types": ("PT",),
        "issn": ("IS", "IL", "ES", "IT"), "doi": ("DO", "DI", "SO"), "pmid": ("pmid",), "isbn": ("IB",),
    },
)  # fmt: skip


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
        """Blanks before every line of the file, as some programs write them; known from the first line, or of a record from its own."""

    def feed(self, number: int, line: str) -> TaggedRecord | None:
        dialect = self._dialect
        text = line.rstrip("\r\n").removeprefix("\ufeff")
        indent = len(text) - len(text.lstrip())
        if indent != self._indent and text.strip() and (self._indent is None or self._opens_at(text[indent:])):
            self._indent = indent
        if self._indent:
            text = text[min(self._indent, indent) :]
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

    def _opens_at(self, text: str) -> bool:
        """Whether an indented line opens a record, which only a dialect can show whose indented lines continue nothing."""
        return not self._dialect.wraps and self._split(text)[0] in self._opens

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
        if not values:
            continue
        if tag in dialect.splits:
            items = (format_scalar(item) for value in values for item in split_list(value, commas=False))
            raw[tag] = [clean(item) for item in items if item]
        else:
            raw[tag] = clean(values[0] if len(values) == 1 and tag not in dialect.lists else [*values])
    draft = Draft(raw)
    names = dict(dialect.names)
    if "accession" in names and is_from_pubmed(draft, names["databases"], names["accession"][0]):
        names["pmid"] = (*names.get("pmid", ()), *names["accession"])
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

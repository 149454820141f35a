"""RIS export (2011 tag set, UTF-8): one tag a line, and each value on one line.

Written: title, authors, abstract, year (1000 to 2199), venue, volume, issue, pages, DOI, PMID (as `AN` of the database PubMed),
PMCID (C2), ISBN, URL, keywords, language, and the metadata that came from RIS tags. Lost: text, description, MeSH terms (written
as keywords), other identifiers, counts, edges, other metadata, `doc_id` if the record has an `ID` of its own, and the kind of
repositories and pages except for their type (COMP, ELEC).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from outrider.ingest.export.writer import Writer, format_untitled
from outrider.ingest.field_values import format_scalar, one_line
from outrider.state.records import BaseRecord, Paper, Repository

RANGE = re.compile(r"([^\s-]+)-([^\s-]+)")
TYPE = re.compile(r"[A-Z]{2,8}")
TYPES = {"paper": "JOUR", "repository": "COMP", "page": "ELEC", "document": "GEN"}
METADATA_TAGS = (
    "A2", "A3", "A4", "AD", "C1", "C3", "C4", "C5", "C6", "C7", "C8", "CA", "CN", "CY", "DA", "ET", "J2", "L1", "L2", "L4", "LB", "M1",
    "M3", "N1", "NV", "OP", "PB", "RI", "RN", "RP", "SE", "ST", "T3", "TA", "TT", "Y2",
)  # fmt: skip
"""Tags in the metadata of a record read from RIS that mean the same when they are read again."""


class RisWriter(Writer):
    """One block of tag lines a record, closed by `ER`."""

    def record(self, record: BaseRecord) -> None:
        tags = (*_list_paper_tags(record), *_list_other_tags(record))
        lines = [f"{tag}  - {line}" for tag, value in tags if value is not None and (line := one_line(value))]
        self.stream.write("\n".join([*lines, "ER  - ", "", ""]))


def _list_paper_tags(record: BaseRecord) -> Iterator[tuple[str, str | None]]:
    kind = "repository" if isinstance(record, Repository) else str(record.model_dump()["kind"])
    own_type = record.metadata.get("TY")
    if isinstance(own_type, str) and TYPE.fullmatch(own_type):
        yield "TY", own_type
    else:
        yield "TY", "GEN" if kind == "paper" and not record.venue else TYPES[kind]
    yield "ID", format_scalar(record.metadata.get("ID")) or record.doc_id
    yield "TI", record.title
    yield from (("AU", name) for name in record.authors)
    yield "PY", f"{record.year:04d}" if record.year is not None else None
    yield "T2", record.venue
    if isinstance(record, Paper):
        yield "VL", record.volume
        yield "IS", record.issue
        first_and_last = RANGE.fullmatch(one_line(record.pages or ""))
        yield "SP", first_and_last.group(1) if first_and_last else record.pages
        yield "EP", first_and_last.group(2) if first_and_last else None


def _list_other_tags(record: BaseRecord) -> Iterator[tuple[str, str | None]]:
    yield "AB", record.abstract or record.description
    yield from (("KW", word) for word in record.tags)
    if isinstance(record, Paper):
        yield from (("KW", word) for word in record.mesh if word not in record.tags)
    yield "LA", record.language
    yield "UR", record.url
    yield "DO", record.identifiers.doi
    if record.identifiers.pmid:
        yield "AN", record.identifiers.pmid
        yield "DB", "PubMed"
    yield "C2", record.identifiers.pmcid
    yield "SN", record.identifiers.isbn
    for tag in METADATA_TAGS:
        value = record.metadata.get(tag)
        yield from ((tag, format_scalar(item)) for item in (value if isinstance(value, list) else [value]))
    if not record.metadata.get("N1"):
        yield "N1", format_untitled(record)

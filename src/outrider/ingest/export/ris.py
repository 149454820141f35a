"""RIS, 2011 tag set, UTF-8, one tag a line; every field on one line, so that line ends in texts become blanks.

Carried: title, authors, abstract, year (1000 to 2199), venue, volume, issue, pages, DOI, PMID (as `AN` of the database PubMed),
PMCID (C2), ISBN, URL, keywords, language, and the metadata that came from RIS tags. Lost: text, description, MeSH terms (written
as keywords), other identifiers, counts, edges, other metadata, `doc_id` where the record has an `ID` of its own, and the kind of
repositories and pages except for their type (COMP, ELEC).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pydantic import JsonValue

from outrider.ingest.export.writer import Writer, scraps
from outrider.ingest.values import one_line, scalar
from outrider.state.records import BaseRecord, Paper, Repository

RANGE = re.compile(r"([^\s-]+)-([^\s-]+)")
TYPE = re.compile(r"[A-Z]{2,8}")
TYPES = {"paper": "JOUR", "repository": "COMP", "page": "ELEC", "document": "GEN"}
KEPT = (
    "A2", "A3", "A4", "AD", "C1", "C3", "C4", "C5", "C6", "C7", "C8", "CA", "CN", "CY", "DA", "ET", "J2", "L1", "L2", "L4", "LB", "M1",
    "M3", "N1", "NV", "OP", "PB", "RI", "RN", "RP", "SE", "ST", "T3", "TA", "TT", "Y2",
)  # fmt: skip
"""Tags that may stand in the metadata of a record read from RIS and that mean the same when they are read again."""


class RisWriter(Writer):
    def record(self, record: BaseRecord) -> None:
        lines = [f"TY  - {_type(record)}"]
        lines += [f"{tag}  - {line}" for tag, value in _fields(record) if value is not None and (line := one_line(value))]
        self.stream.write("\n".join([*lines, "ER  - ", "", ""]))


def _type(record: BaseRecord) -> str:
    kind = "repository" if isinstance(record, Repository) else str(record.model_dump()["kind"])
    given = record.metadata.get("TY")
    if isinstance(given, str) and TYPE.fullmatch(given):
        return given
    return "GEN" if kind == "paper" and not record.venue else TYPES[kind]


def _fields(record: BaseRecord) -> Iterator[tuple[str, str | None]]:
    yield "ID", scalar(record.metadata.get("ID")) or record.doc_id
    yield "TI", record.title
    yield from (("AU", name) for name in record.authors)
    yield "PY", f"{record.year:04d}" if record.year is not None else None
    yield "T2", record.venue
    if isinstance(record, Paper):
        yield "VL", record.volume
        yield "IS", record.issue
        yield from _pages(record.pages)
    yield "AB", record.abstract or record.description
    yield from (("KW", word) for word in record.tags)
    if isinstance(record, Paper):
        yield from (("KW", word) for word in record.mesh if word not in record.tags)
    yield "LA", record.language
    yield "UR", record.url
    yield from _identifiers(record)
    for tag in KEPT:
        yield from ((tag, value) for value in _kept(record.metadata.get(tag)))
    if not record.metadata.get("N1"):
        yield "N1", scraps(record)


def _identifiers(record: BaseRecord) -> Iterator[tuple[str, str | None]]:
    known = record.identifiers
    yield "DO", known.doi
    if known.pmid:
        yield "AN", known.pmid
        yield "DB", "PubMed"
    yield "C2", known.pmcid
    yield "SN", known.isbn


def _pages(pages: str | None) -> Iterator[tuple[str, str | None]]:
    both = RANGE.fullmatch(one_line(pages or ""))
    yield "SP", both.group(1) if both else pages
    if both:
        yield "EP", both.group(2)


def _kept(value: JsonValue) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [text for item in values if (text := scalar(item))]

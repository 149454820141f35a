"""RIS export (2011 tag set, UTF-8): one tag a line, and each value on one line.

Written: type, title, authors, abstract, year (1000 to 2199), venue, volume, issue, pages, DOI, PMID (as `AN` of the database PubMed),
PMCID (C2), ISBN and ISSN (SN), URL, keywords, language, editors (A2), publisher, place, edition, series, types of publication (M3),
notes, the label of screening and notices of retraction and correction (N1, one a line, which reference managers show as notes), the place
of a fetched full text (L1, L2), and the metadata that came from RIS tags. Lost: text, description, MeSH terms (written as keywords),
other identifiers, counts, edges, other metadata, `doc_id` if the record has an `ID` of its own, and the kind of repositories and pages
except for their type (COMP, ELEC).
"""

from __future__ import annotations

import re

from outrider.ingest.export.base_writer import Writer, find_link, format_untitled, list_new_notes, list_own_notes
from outrider.ingest.export.publication import find_publication, find_type
from outrider.ingest.field_values import format_scalar, one_line
from outrider.state.full_text import parse_origin
from outrider.state.records import BaseRecord, Paper, Repository, web_link
from outrider.text.screening_labels import LABEL_NOTES, find_verdict

RANGE = re.compile(r"([^\s-]+)-([^\s-]+)")
TYPE = re.compile(r"[A-Z]{2,8}")
TYPES = {"paper": "JOUR", "repository": "COMP", "page": "ELEC", "document": "GEN"}
PAPER_TYPES = {
    "conference": "CONF", "book": "BOOK", "chapter": "CHAP", "dissertation": "THES", "dataset": "DATA", "report": "RPRT", "news": "NEWS",
    "standard": "STAND", "reference-entry": "ENCYC",
}  # fmt: skip
"""Our types -> those of RIS; all others are articles in journals, or `GEN`."""
METADATA_TAGS = (
    "A2", "A3", "A4", "AD", "C1", "C3", "C4", "C5", "C6", "C7", "C8", "CA", "CN", "CY", "DA", "ET", "J2", "L1", "L2", "L4", "LB", "M1",
    "M3", "NV", "OP", "PB", "RI", "RN", "RP", "SE", "SN", "ST", "T3", "TA", "TT", "Y2",
)  # fmt: skip
"""Tags in the metadata of a record read from RIS that mean the same when they are read again."""
LINK_TAGS = frozenset({"L1", "L2", "L4"})
"""Of these, the tags that reference managers open as links: only addresses of the web are written."""


class RisWriter(Writer):
    """One block of tag lines a record, closed by `ER`."""

    def record(self, record: BaseRecord) -> None:
        lines = [f"{tag}  - {line}" for tag, value in _list_tags(record) if value is not None and (line := one_line(value))]
        self.stream.write("\n".join([*lines, "ER  - ", "", ""]))


def _list_notes(record: BaseRecord) -> list[str]:
    """The label of screening as ASReview reads it, the record's own notes as they are, then a line for each notice."""
    own = list_own_notes(record.metadata)
    label = LABEL_NOTES.get(find_verdict(record.metadata))
    own = [label, *own] if label and not any(label in note for note in own) else own
    return [*own, *list_new_notes(record, "; ".join(own))] or [format_untitled(record)]


def _list_text_links(record: BaseRecord) -> list[tuple[str, str]]:
    """The place of a fetched full text, unless the record's own tags have it: L1 for a PDF, L2 for another form."""
    origin = parse_origin(record.metadata)
    own = {format_scalar(record.metadata.get(tag)) for tag in LINK_TAGS}
    return [] if origin is None or origin.url in own or not web_link(origin.url) else [("L1" if origin.form == "pdf" else "L2", origin.url)]


def _list_publication(record: BaseRecord) -> list[tuple[str, str]]:
    """Who published it, which the metadata of other formats name otherwise."""
    known = find_publication(record)
    own = record.metadata.get("A2")
    editors = () if isinstance(own, list) and own else known.editors
    texts = (("PB", known.publisher), ("CY", known.place), ("ET", known.edition), ("T3", known.series))
    return [*(("A2", name) for name in editors), *((tag, text) for tag, text in texts if text)]


def _list_tags(record: BaseRecord) -> list[tuple[str, str | None]]:
    kind = "repository" if isinstance(record, Repository) else str(record.model_dump()["kind"])
    own_type = record.metadata.get("TY")
    if not (isinstance(own_type, str) and TYPE.fullmatch(own_type)):
        known_type = PAPER_TYPES.get(find_type(record)) if kind == "paper" else None
        own_type = known_type or ("GEN" if kind == "paper" and not record.venue else TYPES[kind])
    paper = record if isinstance(record, Paper) else None
    pages = paper.pages if paper else None
    first_and_last = RANGE.fullmatch(one_line(pages or ""))
    known = record.identifiers
    metadata = ((tag, record.metadata.get(tag)) for tag in METADATA_TAGS)
    lists = (("SN", "issn"), ("SN", "other_issns"), ("M3", "publication_types"))
    named = ((tag, record.metadata.get(name)) for tag, name in lists)
    return [
        ("TY", own_type),
        ("ID", format_scalar(record.metadata.get("ID")) or record.doc_id),
        ("TI", record.title),
        *(("AU", name) for name in record.authors),
        ("PY", f"{record.year:04d}" if record.year is not None else None),
        ("T2", record.venue),
        *([("VL", paper.volume), ("IS", paper.issue)] if paper else []),
        *([("SP", first_and_last.group(1)), ("EP", first_and_last.group(2))] if first_and_last else [("SP", pages)]),
        ("AB", record.abstract or record.description),
        *(("KW", word) for word in record.tags),
        *(("KW", word) for word in (paper.mesh if paper else ()) if word not in record.tags),
        ("LA", record.language),
        ("UR", find_link(record)),
        ("DO", known.doi),
        *([("AN", known.pmid), ("DB", "PubMed")] if known.pmid else []),
        ("C2", known.pmcid),
        ("SN", known.isbn),
        *(
            (tag, text)
            for tag, items in (*named, *metadata)
            for item in (items if isinstance(items, list) else [items])
            if (text := format_scalar(item)) and (tag not in LINK_TAGS or web_link(text))
        ),
        *((tag, text) for tag, text in _list_publication(record) if not format_scalar(record.metadata.get(tag))),
        *_list_text_links(record),
        *(("N1", text) for text in _list_notes(record)),
    ]

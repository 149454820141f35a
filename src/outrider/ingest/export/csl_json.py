"""CSL-JSON export, one item a line: for Zotero, pandoc and citation processors.

Schema: Citation Style Language 1.0.2 (resource.citationstyles.org/schema/v1.0/input/json/csl-data.json).
Written: id, type, title, authors, year, venue, volume, issue, pages, DOI, PMID, PMCID, ISBN, ISSN, URL, abstract, keywords, language,
editors, publisher, its place, edition and series; notices of retraction and correction as `note`, and `status` for a work that is
retracted or doubted. A semicolon within a keyword becomes a comma. Lost: text, MeSH terms, counts, edges, other metadata and identifiers,
and the kind of repositories and pages except for their type (`software`, `webpage`).
"""

from __future__ import annotations

import json
from typing import TextIO

from pydantic import JsonValue

from outrider.ingest.export.base_writer import Writer, find_link, join_keywords, make_note
from outrider.ingest.export.publication import TYPED_BY, find_publication
from outrider.ingest.field_values import clean, format_scalar, one_line
from outrider.state.notices import is_alarming, list_notices
from outrider.state.records import BaseRecord, Paper
from outrider.text.languages_and_work_types import normal_type

KINDS = {"repository": "software", "page": "webpage", "document": "document", "paper": "article-journal"}
TYPES = {
    "preprint": "article", "conference": "paper-conference", "book": "book", "chapter": "chapter", "dissertation": "thesis",
    "dataset": "dataset", "report": "report", "news": "article-newspaper", "peer-review": "review", "reference-entry": "entry",
    "standard": "standard",
}  # fmt: skip
"""Our types -> CSL's; all others are articles in journals."""
CSL_TYPES = frozenset(
    "article article-journal article-magazine article-newspaper bill book broadcast chapter classic collection dataset document entry "
    "entry-dictionary entry-encyclopedia event figure graphic hearing interview legal_case legislation manuscript map motion_picture "
    "musical_score pamphlet paper-conference patent performance periodical personal_communication post post-weblog regulation report "
    "review review-book software song speech standard thesis treaty webpage".split()
)


class CslJsonWriter(Writer):
    """One array, one item a line."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._ids: set[str] = set()

    def begin(self) -> None:
        self.stream.write("[")

    def record(self, record: BaseRecord) -> None:
        # the title stays if it is empty: readers know an item by it
        item = {name: value for name, value in _make_item(record).items() if name == "title" or value not in (None, "", [])}
        # the record's own id or key, else its `doc_id`; a number makes it unique in the file
        own = (format_scalar(record.metadata.get(name)) for name in ("id", "key", "ID"))
        base = next(filter(None, own), None) or record.doc_id or "record"
        name, number = base, 1
        while name in self._ids:
            number += 1
            name = f"{base}-{number}"
        self._ids.add(name)
        item["id"] = name
        self.stream.write(("\n" if len(self._ids) == 1 else ",\n") + json.dumps(clean(item), ensure_ascii=False))

    def end(self) -> None:
        self.stream.write("\n]\n" if self._ids else "]\n")


def _make_item(record: BaseRecord) -> dict[str, JsonValue]:
    ids = record.identifiers
    paper = record if isinstance(record, Paper) else Paper(doc_id="")
    publication = find_publication(record)
    return {
        "id": "",
        "type": _find_type(record),
        "title": record.title,
        "author": [_make_name(name) for name in record.authors if one_line(name)],
        "issued": {"date-parts": [[record.year]]} if record.year is not None else None,
        "container-title": record.venue,
        "container-title-short": format_scalar(record.metadata.get("journal_abbreviation")),
        "volume": paper.volume,
        "issue": paper.issue,
        "page": paper.pages,
        "DOI": ids.doi,
        "PMID": ids.pmid,
        "PMCID": ids.pmcid,
        "ISBN": ids.isbn,
        "ISSN": format_scalar(record.metadata.get("issn")),
        "URL": find_link(record),
        "abstract": record.abstract or record.description,
        "keyword": join_keywords(record.tags),
        "language": record.language,
        "editor": [_make_name(name) for name in publication.editors],
        "publisher": publication.publisher,
        "publisher-place": publication.place,
        "edition": publication.edition,
        "collection-title": publication.series,
        "note": make_note(record) or None,
        "status": next((notice.kind for notice in list_notices(record) if is_alarming(notice)), None),
    }


def _find_type(record: BaseRecord) -> str:
    kind = str(record.model_dump(include={"kind"})["kind"])
    own = record.metadata.get("type")
    if isinstance(own, str) and own in CSL_TYPES:
        return own
    if kind != "paper":
        return KINDS[kind]
    values = (record.metadata.get(name) for name in TYPED_BY)
    words = (word for value in values for word in (value if isinstance(value, list) else [value]) if isinstance(word, str))
    return next((TYPES[name] for word in words if (name := normal_type(word)) in TYPES), KINDS[kind])


def _make_name(name: str) -> dict[str, JsonValue]:
    """Family and given names where exactly one comma separates them; the name as it is written otherwise."""
    family, _, given = name.partition(", ")
    is_split = name.count(",") == 1 and f"{family.strip()}, {given.strip()}" == name and bool(family.strip() and given.strip())
    return {"family": family, "given": given} if is_split else {"literal": name}

"""BibTeX export (UTF-8), one field a line.

LaTeX's special characters are escaped, letters of any script are kept.
Written: type, title, authors, abstract, year, venue, volume, issue (`number`), pages, DOI, PMID, PMCID, ISBN, arXiv (`eprint`), URL,
keywords, language, editors, publisher (also `school`, `institution`), place (`address`), edition, series, notices of retraction and
correction (`note`), and texts in the metadata whose names can be BibTeX fields. White space becomes
single blanks, a semicolon within a keyword becomes a comma, hyphens between pages are single. Lost: text, MeSH terms, counts, edges,
other metadata, `doc_id` (the citation key is the record's own, or made of author, year and title), the kind of repositories and pages
except for the type (`software`, `online`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import TextIO
from urllib.parse import quote

from outrider.ingest.export.base_writer import Writer, find_link, join_keywords, make_note
from outrider.ingest.export.publication import find_publication, find_type
from outrider.ingest.field_values import one_line
from outrider.ingest.latex import encode
from outrider.state.records import BaseRecord, Paper, web_link

KEY = re.compile(r"[^\s{}()\"'#%,=~\\@]+")
FIELD_NAME = re.compile(r"[a-z][a-z0-9_-]*")
ENTRY_TYPE = re.compile(r"[a-z]+")
AND = re.compile(r"\band\b", re.IGNORECASE)
TYPES = {"paper": "article", "repository": "software", "page": "online", "document": "misc"}
PAPER_TYPES = {
    "conference": "inproceedings",
    "book": "book",
    "chapter": "incollection",
    "dissertation": "phdthesis",
    "report": "techreport",
}
"""Our types -> BibTeX's; all others are articles in journals, or `misc`."""
RESERVED = frozenset({"comment", "string", "preamble"})
RECORD_FIELDS = frozenset({
    "title", "author", "year", "journal", "journaltitle", "booktitle", "volume", "number", "issue", "pages", "doi", "pmid", "pmcid", "isbn",
    "eprint", "archiveprefix", "eprinttype", "arxiv", "url", "abstract", "keywords", "language", "langid", "date", "key",
    "entry_type", "id",
})  # fmt: skip
"""Names that the metadata may not fill: the record's own fields are written there."""
VERBATIM_FIELDS = frozenset({"file", "pdf", "local-url", "link", "issn"})
LINK_FIELDS = frozenset({"pdf", "link", "bdsk-url-1", "bdsk-url-2", "bdsk-url-3", "urls", "ee", "adsurl", "eprinturl"})
"""Metadata that reference managers open as links: only addresses of the web are written."""
FILE_FIELDS = frozenset({"file", "local-url"})
"""Metadata that names files, in forms of each manager's own (`Label:path:type`): an address with a scheme must be one of the web."""
ADDRESS = re.compile(r"\s*[a-z][a-z0-9+.-]*://", re.IGNORECASE)
UNSAFE_IN_LINK = re.compile(r"[\\{}\s]")


class BibtexWriter(Writer):
    """One entry a record, each with a key of its own."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._keys: set[str] = set()

    def record(self, record: BaseRecord) -> None:
        entry_type = record.metadata.get("entry_type")
        if not (isinstance(entry_type, str) and ENTRY_TYPE.fullmatch(entry_type) and entry_type not in RESERVED):
            kind = str(record.model_dump()["kind"])
            known = PAPER_TYPES.get(find_type(record)) if kind == "paper" else None
            entry_type = known or ("misc" if kind == "paper" and not record.venue else TYPES[kind])
        values = _list_fields(record, entry_type)
        texts = {name: value for name, value in record.metadata.items() if isinstance(value, str)}
        for name, text in texts.items():
            is_link = name in LINK_FIELDS or (name in FILE_FIELDS and ADDRESS.match(text))
            if FIELD_NAME.fullmatch(name) and name not in RECORD_FIELDS and name != "note" and (not is_link or web_link(text)):
                values.append((name, _escape_link(text) if name in VERBATIM_FIELDS else _escape(text)))
        own = {name for name, value in values if value}
        values += [(name, value) for name, value in _list_publication(record, entry_type) if name not in own]
        values.append(("note", _escape(make_note(record))))
        fields = [f"  {name} = {{{value}}}" for name, value in values if value]
        self.stream.write(",\n".join([f"@{entry_type}{{{self._make_key(record)}", *fields]) + "\n}\n\n")

    def _make_key(self, record: BaseRecord) -> str:
        """The record's own key, else author, year and the first long word of the title; a number makes it unique in the file."""
        own_key = record.metadata.get("key")
        if isinstance(own_key, str) and KEY.fullmatch(own_key):
            base = own_key
        else:
            family = record.authors[0].partition(",")[0].split() if record.authors else []
            words = [word for word in re.findall(r"\w+", record.title) if len(word) > 3]
            parts = (family[-1] if family else "", str(record.year or ""), words[0] if words else "")
            ascii_only = unicodedata.normalize("NFKD", "".join(parts)).encode("ascii", "ignore").decode()
            base = re.sub(r"[^A-Za-z0-9]", "", ascii_only).lower() or "record"
        key, number = base, 1
        while key.casefold() in self._keys:
            number += 1
            key = f"{base}-{number}"
        self._keys.add(key.casefold())
        return key


def _list_fields(record: BaseRecord, entry_type: str) -> list[tuple[str, str]]:
    keywords = "\n".join(map(_escape, join_keywords(record.tags).split("\n")))
    ids = record.identifiers
    volume, issue, pages = (record.volume, record.issue, record.pages) if isinstance(record, Paper) else (None, None, None)
    schemes = (("doi", ids.doi), ("pmid", ids.pmid), ("pmcid", ids.pmcid), ("isbn", ids.isbn), ("eprint", ids.arxiv))
    return [
        ("title", _escape(record.title)),
        ("author", _join_names(record.authors)),
        ("year", str(record.year) if record.year is not None else ""),
        ("journal" if entry_type == "article" else "booktitle", _escape(record.venue)),
        ("volume", _escape(volume)),
        ("number", _escape(issue)),
        ("pages", re.sub(r"-+", "--", _escape((pages or "").replace("–", "-")))),
        *((name, _escape_link(value)) for name, value in schemes),
        ("archiveprefix", "arXiv" if ids.arxiv else ""),
        ("url", _escape_link(find_link(record, has_arxiv=True))),
        ("abstract", _escape(record.abstract or record.description)),
        ("keywords", keywords),
        ("language", _escape(record.language)),
    ]


def _join_names(names: Iterable[str]) -> str:
    """Braces keep a name whole that holds an `and`, or is the word that stands for more names."""
    escaped = filter(None, map(_escape, names))
    return " and ".join(f"{{{name}}}" if AND.search(name) or name.casefold() == "others" else name for name in escaped)


def _list_publication(record: BaseRecord, entry_type: str) -> list[tuple[str, str]]:
    """Who published it, which the metadata of other formats name otherwise."""
    known = find_publication(record)
    publisher = {"phdthesis": "school", "mastersthesis": "school", "techreport": "institution"}.get(entry_type, "publisher")
    has_location = isinstance(record.metadata.get("location"), str)  # of biblatex; it is written as it is
    return [
        ("editor", _join_names(known.editors)),
        (publisher, _escape(known.publisher)),
        ("address", "" if has_location else _escape(known.place)),
        ("edition", _escape(known.edition)),
        ("series", _escape(known.series)),
    ]


def _escape(text: str | None) -> str:
    return encode(one_line(text or ""))


def _escape_link(text: str | None) -> str:
    """Verbatim, except for characters that would unbalance the entry: they are percent-encoded."""
    return UNSAFE_IN_LINK.sub(lambda match: quote(match.group()), (text or "").strip())

"""BibTeX, UTF-8, one field a line; LaTeX's special characters are escaped, letters of any script stay as they are.

Carried: title, authors, abstract, year, venue, volume, issue (`number`), pages, DOI, PMID, PMCID, ISBN, arXiv (`eprint`), URL,
keywords, language, and texts in the metadata whose names can be BibTeX fields. White space is single blanks, a semicolon within a
keyword becomes a comma, hyphens between pages are single. Lost: text, MeSH terms, counts, edges, other metadata, `doc_id`
(the citation key is the record's own, or made of author, year and title), the kind of repositories and pages except for the type
(`software`, `online`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import TextIO
from urllib.parse import quote

from outrider.ingest.export.writer import Writer, scraps
from outrider.ingest.latex import encode
from outrider.ingest.values import one_line
from outrider.state.records import BaseRecord, Paper

KEY = re.compile(r"[^\s{}()\"'#%,=~\\@]+")
NAME = re.compile(r"[a-z][a-z0-9_-]*")
ENTRY_TYPE = re.compile(r"[a-z]+")
AND = re.compile(r"\band\b", re.IGNORECASE)
TYPES = {"paper": "article", "repository": "software", "page": "online", "document": "misc"}
RESERVED = frozenset({"comment", "string", "preamble"})
OWN = frozenset({
    "title", "author", "year", "journal", "journaltitle", "booktitle", "volume", "number", "issue", "pages", "doi", "pmid", "pmcid", "isbn",
    "eprint", "archiveprefix", "eprinttype", "arxiv", "url", "abstract", "keywords", "language", "langid", "date", "key",
    "entry_type", "id",
})  # fmt: skip
UNSAFE_IN_LINK = re.compile(r"[\\{}\s]")


class BibtexWriter(Writer):
    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._keys: set[str] = set()

    def record(self, record: BaseRecord) -> None:
        fields = [f"  {name} = {{{value}}}" for name, value in _fields(record) if value]
        head = f"@{_type(record)}{{{self._key(record)}"
        self.stream.write(",\n".join([head, *fields]) + "\n}\n\n")

    def _key(self, record: BaseRecord) -> str:
        """The record's own key, or one made for it; a second one of the same name gets a number."""
        given = record.metadata.get("key")
        wanted = given if isinstance(given, str) and KEY.fullmatch(given) else _made(record)
        key, number = wanted, 1
        while key.casefold() in self._keys:
            number += 1
            key = f"{wanted}-{number}"
        self._keys.add(key.casefold())
        return key


def _made(record: BaseRecord) -> str:
    family = record.authors[0].partition(",")[0].split() if record.authors else []
    words = [word for word in re.findall(r"\w+", record.title) if len(word) > 3]
    parts = (family[-1] if family else "", str(record.year or ""), words[0] if words else "")
    plain = unicodedata.normalize("NFKD", "".join(parts)).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9]", "", plain).lower() or "record"


def _type(record: BaseRecord) -> str:
    given = record.metadata.get("entry_type")
    if isinstance(given, str) and ENTRY_TYPE.fullmatch(given) and given not in RESERVED:
        return given
    kind = str(record.model_dump()["kind"])
    return "misc" if kind == "paper" and not record.venue else TYPES[kind]


def _fields(record: BaseRecord) -> Iterator[tuple[str, str]]:
    yield "title", _prose(record.title)
    yield "author", " and ".join(name for given in record.authors if (name := _name(given)))
    yield "year", str(record.year) if record.year is not None else ""
    yield "journal" if _type(record) == "article" else "booktitle", _prose(record.venue)
    if isinstance(record, Paper):
        yield "volume", _prose(record.volume)
        yield "number", _prose(record.issue)
        yield "pages", re.sub(r"-+", "--", _prose((record.pages or "").replace("–", "-")))
    yield from _identifiers(record)
    yield "url", _link(record.url)
    yield "abstract", _prose(record.abstract or record.description)
    yield "keywords", _keywords(record.tags)
    yield "language", _prose(record.language)
    noted = False
    for name, value in record.metadata.items():
        if NAME.fullmatch(name) and name not in OWN and isinstance(value, str):
            noted = noted or name == "note"
            yield name, _link(value) if name in ("file", "pdf", "local-url", "link", "issn") else _prose(value)
    if not noted:
        yield "note", _prose(scraps(record))


def _identifiers(record: BaseRecord) -> Iterator[tuple[str, str]]:
    known = record.identifiers
    for name, value in (("doi", known.doi), ("pmid", known.pmid), ("pmcid", known.pmcid), ("isbn", known.isbn), ("eprint", known.arxiv)):
        yield name, _link(value)
    if known.arxiv:
        yield "archiveprefix", "arXiv"


def _prose(text: str | None) -> str:
    return encode(one_line(text or ""))


def _name(given: str) -> str:
    """A name; in braces where it holds an `and`, or is the word that stands for more names."""
    name = _prose(given)
    return f"{{{name}}}" if AND.search(name) or name.casefold() == "others" else name


def _keywords(tags: tuple[str, ...]) -> str:
    words = [_prose(tag.replace(";", ",")) for tag in tags]
    if not any("," in word for word in words):
        return ", ".join(words)
    return "; ".join(words) + (";" if len(words) == 1 else "")


def _link(text: str | None) -> str:
    """Verbatim, but for what would unbalance the entry, which is percent-encoded."""
    return UNSAFE_IN_LINK.sub(lambda found: quote(found.group()), (text or "").strip())

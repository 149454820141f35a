"""Reader of PDF, with PDFium: one record a file, its text page by page.

Title, authors and abstract: see `front_matter`. Declared values come from the document information, else from XMP. A DOI or arXiv number
counts if the metadata or the first two pages print it with a label, as the document's own. A date of creation is not a year of publication.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from outrider.ingest.entry import Entry, FileNote, Parsed, ReadOptions
from outrider.ingest.field_values import split_name_line
from outrider.ingest.readers.front_matter import HEADING, choose_authors, choose_title, find_abstract, find_title
from outrider.ingest.readers.pdfium import Line, PasswordRequired, PdfError, PdfFile, UnknownEncryption
from outrider.linkage.identifiers import normal_arxiv, normal_doi
from outrider.state.errors import UnreadableFile
from outrider.state.records import Document, Identifiers, Paper

LABELLED_DOI = re.compile(r"(?:\bdoi\s*[:.]?\s*|doi\.org/)(10\.\d{4,9}/[^\s\"]+)", re.IGNORECASE)
LABELLED_ARXIV = re.compile(r"\barXiv:\s?([a-z.-]+/\d{7}|\d{4}\.\d{4,5})(?:v\d+)?", re.IGNORECASE)
DIVIDED = re.compile(r"(?<=[^\W\d_])-\n(?=[a-zà-öø-ÿ])")
WORD_BEFORE, WORD_AFTER = re.compile(r"[^\W\d_]+\Z"), re.compile(r"[^\W\d_]+")
MAX_WORD_CHARS = 60
COMPOUND = re.compile(r"(?<![\w-])[^\W\d_]+(?:-[^\W\d_]+)+(?![\w-])")
HYPHENS = re.compile(r"[\u00ad\u2010]\n")
UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u00ad\ufffe\uffff]|[\ud800-\udfff]")
INFORMATION = {
    "title": "Title", "authors": "Author", "keywords": "Keywords", "subject": "Subject",
    "doi": "doi", "article_doi": "WPS-ARTICLEDOI", "created": "CreationDate",
}  # fmt: skip
FIRST_PAGES = 2
ABSTRACT_PAGES = 12
"""A thesis has its abstract behind a cover, a dedication and acknowledgements."""
GARBLE_SAMPLE, MIN_GARBLE_CHARS = 20_000, 200
LISTED_PAGES = 5
MAX_TEXT_CHARS = 64 * 2**20
MAX_XMP_BYTES = 4 * 2**20
MAX_XMP_PACKETS = 20
"""Of a window. Pictures have packets of their own."""
XMP_WINDOW_BYTES = 16 * 2**20


@dataclass(slots=True)
class PageTexts:
    """Texts of the pages of a document. Pages count from 1; `why` is the first reason of `failed`."""

    total: int
    texts: list[str] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    why: str = ""
    without_text: list[int] = field(default_factory=list)
    """Pages that show something, but no text: scans and drawings."""


def read(path: Path, options: ReadOptions) -> Iterator[Parsed]:
    with path.open("rb") as file:
        if not file.read(1):
            raise UnreadableFile(f"{path}: is empty")
    try:
        with PdfFile(path) as document:
            pages = _read_pages(document, options)
            entry = _make_entry(path, document, pages)
    except PasswordRequired as error:  # the empty password, which many are locked with, was tried
        raise UnreadableFile(f"{path}: encrypted; save a copy without its password first") from error
    except UnknownEncryption as error:
        raise UnreadableFile(f"{path}: encrypted with a certificate or DRM; save a copy without it first") from error
    except PdfError as error:
        raise UnreadableFile(f"{path}: not a readable PDF: {error}") from error
    yield entry
    yield from map(FileNote, _list_unread(pages))


def _list_unread(pages: PageTexts) -> Iterator[str]:
    """What of the file was not read, for a person."""
    if unread := pages.total - len(pages.texts):
        yield f"the last {unread:,} of its {pages.total:,} pages were not read"
    for numbers, why in ((pages.without_text, "without text (OCR scanned pages first)"), (pages.failed, f"not read: {pages.why}")):
        if numbers:
            listed = ", ".join(map(str, numbers[:LISTED_PAGES])) + (", ..." if len(numbers) > LISTED_PAGES else "")
            yield f"{len(numbers):,} of its {pages.total:,} pages {why}: {listed}"


def _make_entry(path: Path, document: PdfFile, pages: PageTexts) -> Entry:
    text = join_divided("\n\n".join(filter(None, pages.texts)))
    if not text:
        if pages.failed:
            raise UnreadableFile(f"{path}: none of its {pages.total} pages can be read: {pages.why}")
        raise UnreadableFile(f"{path}: no text layer (scanned); OCR it first" if pages.total else f"{path}: has no pages")
    if is_garbled(text):
        raise UnreadableFile(f"{path}: its fonts do not tell which characters they show, so the text is not readable; OCR it first")
    information = _read_information(path, document)
    start = "\n".join(pages.texts[:FIRST_PAGES])
    printed_doi, printed_arxiv = LABELLED_DOI.search(start), LABELLED_ARXIV.search(start)
    doi = normal_doi(information.get("doi", "")) or (normal_doi(printed_doi.group(1)) if printed_doi else None)
    identifiers = Identifiers(doi=doi, arxiv=normal_arxiv(printed_arxiv.group(1)) if printed_arxiv else None)
    lines = _read_lines(document, pages)
    authors = choose_authors(split_name_line(information.get("authors", "")), text)
    metadata: dict[str, JsonValue] = {"pages_read": len(pages.texts), "pages_total": pages.total}
    metadata |= {name: information[name] for name in ("subject", "created") if name in information}
    if information.get("authors") and not authors:
        metadata["declared_author"] = information["authors"]
    if pages.failed:
        metadata |= {"pages_failed": list[JsonValue](pages.failed[:100]), "pages_failed_why": pages.why}
    if pages.without_text:
        metadata["pages_without_text"] = list[JsonValue](pages.without_text[:100])
    if attachments := document.list_attachments():
        metadata["attachments_not_read"] = list[JsonValue](attachments)
    common: dict[str, Any] = {
        "doc_id": "",
        "title": choose_title(information.get("title", ""), find_title(lines), start) or path.stem,
        "abstract": find_abstract(lines),
        "text": text,
        "identifiers": identifiers,
        "authors": authors,
        "tags": tuple(filter(None, (word.strip() for word in re.split(r"[;,]", information.get("keywords", ""))))),
        "metadata": metadata,
    }
    return Entry(Paper(**common) if any(identifiers.pairs()) else Document(**common))


def _read_pages(document: PdfFile, options: ReadOptions) -> PageTexts:
    """The text of the pages, up to `max_pages` and a limit on characters. A broken page costs only itself."""
    pages = PageTexts(total=document.pages)
    characters = 0
    for number in range(min(pages.total, options.max_pages)):
        try:
            raw, shows_something = document.read_text(number)
        except PdfError as error:
            pages.failed.append(number + 1)
            pages.why = pages.why or str(error)
            raw, shows_something = "", False
        text = _make_printable(raw)
        pages.texts.append(text)
        if shows_something and not text:
            pages.without_text.append(number + 1)
        characters += len(text)
        if characters > MAX_TEXT_CHARS:
            break
    return pages


def _read_lines(document: PdfFile, pages: PageTexts) -> list[Line]:
    """The lines of the first two pages, and those up to the end of an abstract that begins on a later one."""
    last = next(
        (
            number
            for number, text in enumerate(pages.texts[:ABSTRACT_PAGES])
            if any(HEADING.match(line.strip()) for line in text.split("\n"))
        ),
        0,
    )
    wanted = sorted({0, 1, last, last + 1})
    wanted = [number for number in wanted if number < len(pages.texts) and pages.texts[number]]
    return [line for number in wanted for line in document.read_lines(number)]


def clean(text: str) -> str:
    """The text without lone surrogates, control characters and hyphens at line ends."""
    return join_divided(_make_printable(text))


def _make_printable(text: str) -> str:
    text = HYPHENS.sub("-\n", text.replace("\r\n", "\n").replace("\r", "\n"))
    return UNPRINTABLE.sub("", text).strip()


def is_garbled(text: str) -> bool:
    """Whether the text is mostly symbols and unassigned characters: glyphs of fonts that name other characters than they show."""
    sample = [char for char in text[:GARBLE_SAMPLE] if not char.isspace()]
    odd = sum(unicodedata.category(char) in ("So", "Co", "Cn") for char in sample)
    return len(sample) >= MIN_GARBLE_CHARS and odd > 0.4 * len(sample)


def join_divided(text: str) -> str:
    """Joins words that a line's end divides. A compound that the text also has on one line (`follow-up`) keeps its hyphen."""
    compounds = set(map(str.lower, COMPOUND.findall(text)))

    def join(match: re.Match[str]) -> str:
        before = WORD_BEFORE.search(text[max(0, match.start() - MAX_WORD_CHARS) : match.start()])
        after = WORD_AFTER.match(text[match.end() : match.end() + MAX_WORD_CHARS])
        return "-" if before and after and f"{before[0]}-{after[0]}".lower() in compounds else ""

    return DIVIDED.sub(join, text)


def _read_information(path: Path, document: PdfFile) -> dict[str, str]:
    """Title, authors, keywords, subject, doi, created from the document information, else from XMP; only those present."""
    values = {name: document.read_information(key) for name, key in INFORMATION.items()}
    xmp = _read_xmp(path)
    values |= {name: values[name] or xmp.get(name, "") for name in ("title", "authors")}
    values["doi"] = f"{values['doi'] or values.pop('article_doi') or values['subject']} {xmp.get('doi', '')}"
    lines = {name: " ".join(clean(value).split()) for name, value in values.items()}
    return {name: line for name, line in lines.items() if line}


def _read_xmp(path: Path) -> dict[str, str]:
    """Title, authors and DOI from the last XMP packet that describes a PDF (ISO 16684-1). PDFium does not read XMP.

    A packet is found by its mark, as the standard intends. One that is compressed, encrypted or broken is passed over.
    """
    with path.open("rb") as file:
        for stop in range(path.stat().st_size, 0, -XMP_WINDOW_BYTES):
            file.seek(max(0, stop - XMP_WINDOW_BYTES - MAX_XMP_BYTES))
            window = file.read(stop - file.tell())
            end = len(window)
            for _ in range(MAX_XMP_PACKETS):
                end = window.rfind(b"</x:xmpmeta>", 0, end)
                start = window.rfind(b"<x:xmpmeta", max(0, end - MAX_XMP_BYTES), end) if end >= 0 else -1
                if start < 0:
                    break
                if (values := _parse_xmp(window[start : end + len(b"</x:xmpmeta>")])) is not None:
                    return values
    return {}


def _parse_xmp(packet: bytes) -> dict[str, str] | None:
    """Its values; None if it is broken or describes something else, such as a picture in the document."""
    from xml.etree.ElementTree import ParseError

    from defusedxml.common import DefusedXmlException
    from defusedxml.ElementTree import fromstring

    try:
        root = fromstring(packet)
    except (ParseError, DefusedXmlException, ValueError, LookupError):
        return None
    values: dict[str, list[str]] = {}
    for element in root.iter():
        name = element.tag.rpartition("}")[2].lower()
        items = [item for item in element.iter() if item.tag.endswith("}li")] or [element]
        values.setdefault(name, []).extend(text for item in items if (text := "".join(item.itertext()).strip()))
        for key, value in element.attrib.items():
            values.setdefault(key.rpartition("}")[2].lower(), []).append(value)
    if any("pdf" not in kind for kind in values.get("format", [])):
        return None
    doi = " ".join(values.get("doi", []) + values.get("identifier", []))
    return {"title": next(iter(values.get("title", [])), ""), "authors": "; ".join(values.get("creator", [])), "doi": doi}

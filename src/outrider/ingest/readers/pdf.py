"""Reader of PDF, with pypdf: one record a file, its text page by page.

Title: from the document information or XMP unless it is a file's name, else the lines in the largest type on the
first page, else the file's name. Authors: document information or XMP only. A DOI or arXiv number counts if the metadata or
the first two pages print it with a label, as the document's own. A date of creation is not a year of publication.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from outrider.ingest.entry import Entry, Parsed, ReadOptions
from outrider.ingest.field_values import split_name_line
from outrider.linkage.identifiers import normal_arxiv, normal_doi
from outrider.state.errors import UnreadableFile
from outrider.state.records import Document, Identifiers, Paper

if TYPE_CHECKING:
    from pypdf import PdfReader

LABELLED_DOI = re.compile(r"(?:\bdoi\s*[:.]?\s*|doi\.org/)(10\.\d{4,9}/[^\s\"]+)", re.IGNORECASE)
LABELLED_ARXIV = re.compile(r"\barXiv:\s?([a-z.-]+/\d{7}|\d{4}\.\d{4,5})(?:v\d+)?", re.IGNORECASE)
HYPHENATED = re.compile(r"(?<=[^\W\d_])-\n(?=[a-zà-öø-ÿ])")
UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u00ad\ufffe\uffff]|[\ud800-\udfff]")
NO_TITLE = re.compile(
    r"^(untitled|title|microsoft (word|powerpoint) - .*|.*\.(docx?|dvi|tex|pdf|indd|pptx?|qxd|odt|rtf)"
    r"|slide 1|contents|abstract|introduction|[\W\d_]*)$",
    re.IGNORECASE,
)
INFORMATION = {
    "title": "/Title", "authors": "/Author", "keywords": "/Keywords", "subject": "/Subject",
    "doi": "/doi", "article_doi": "/WPS-ARTICLEDOI", "created": "/CreationDate",
}  # fmt: skip
FIRST_PAGES = 2
MAX_TITLE_CHARS = 300
MAX_TEXT_CHARS = 64 * 2**20
CACHED_PAGES = 50
"""After this many pages pypdf's cache of them is dropped, so that memory does not grow with the document."""


@dataclass(slots=True)
class PageTexts:
    """Texts of the pages of a document. `failed` are pages (from 1) that pypdf could not parse, `why` is the first reason."""

    total: int
    texts: list[str] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    why: str = ""


def read(path: Path, options: ReadOptions) -> Iterator[Parsed]:
    from pypdf import PdfReader
    from pypdf.errors import DependencyError

    with path.open("rb") as file:
        if not file.read(1):
            raise UnreadableFile(f"{path}: is empty")
        file.seek(0)
        try:
            reader = PdfReader(file)
            try:
                if reader.is_encrypted and not reader.decrypt(""):  # many are locked with an empty password only
                    raise UnreadableFile(f"{path}: encrypted; save a copy without its password first")
            except DependencyError as error:
                raise UnreadableFile(f"{path}: encrypted with AES, which needs: pip install cryptography") from error
            entry = _make_entry(path, reader, options)
        except (UnreadableFile, OSError, MemoryError):
            raise
        except RecursionError as error:
            raise UnreadableFile(f"{path}: not a readable PDF: nested too deeply") from error
        except Exception as error:
            raise UnreadableFile(f"{path}: not a readable PDF: {type(error).__name__}: {error}") from error
    yield entry


def _make_entry(path: Path, reader: PdfReader, options: ReadOptions) -> Entry:
    pages = _read_pages(reader, options)
    text = "\n\n".join(filter(None, pages.texts))
    if not text:
        if pages.failed:
            raise UnreadableFile(f"{path}: none of its {pages.total} pages can be read: {pages.why}")
        raise UnreadableFile(f"{path}: no text layer (scanned); OCR it first" if pages.total else f"{path}: has no pages")
    information = _read_information(reader)
    start = "\n".join(pages.texts[:FIRST_PAGES])
    printed_doi, printed_arxiv = LABELLED_DOI.search(start), LABELLED_ARXIV.search(start)
    doi = normal_doi(information.get("doi", "")) or (normal_doi(printed_doi.group(1)) if printed_doi else None)
    identifiers = Identifiers(doi=doi, arxiv=normal_arxiv(printed_arxiv.group(1)) if printed_arxiv else None)
    metadata: dict[str, JsonValue] = {"pages_read": len(pages.texts), "pages_total": pages.total}
    metadata |= {name: information[name] for name in ("subject", "created") if name in information}
    if pages.failed:
        metadata |= {"pages_failed": list[JsonValue](pages.failed[:100]), "pages_failed_why": pages.why}
    common: dict[str, Any] = {
        "doc_id": "",
        "title": information.get("title") or _find_largest_lines(reader) or path.stem,
        "text": text,
        "identifiers": identifiers,
        "authors": split_name_line(information.get("authors", "")),
        "tags": tuple(filter(None, (word.strip() for word in re.split(r"[;,]", information.get("keywords", ""))))),
        "metadata": metadata,
    }
    return Entry(Paper(**common) if any(identifiers.pairs()) else Document(**common))


def _read_pages(reader: PdfReader, options: ReadOptions) -> PageTexts:
    """The text of the pages, up to `max_pages` and a limit on characters. A broken page costs only itself."""
    from pypdf.generic import StreamObject

    pages = PageTexts(total=len(reader.pages))
    characters = 0
    for number in range(min(pages.total, options.max_pages)):
        try:
            text = clean(reader.pages[number].extract_text())
        except (OSError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 - see `read`; the record names the pages that are missing
            pages.failed.append(number + 1)
            pages.why = pages.why or f"{type(error).__name__}: {error}"
            text = ""
        pages.texts.append(text)
        characters += len(text)
        if characters > MAX_TEXT_CHARS:
            break
        if number % CACHED_PAGES == CACHED_PAGES - 1:
            # page contents and fonts, which pypdf can read again
            for key in [key for key, value in reader.resolved_objects.items() if isinstance(value, StreamObject)]:
                del reader.resolved_objects[key]
    return pages


def clean(text: str) -> str:
    """The text without lone surrogates, control characters and hyphens at line ends."""
    return HYPHENATED.sub("", UNPRINTABLE.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))).strip()


def _read_information(reader: PdfReader) -> dict[str, str]:
    """Title, authors, keywords, subject, doi, created from the document information, else from XMP; only those present."""
    from xml.parsers.expat import ExpatError

    from pypdf.errors import PyPdfError

    values: dict[str, Any] = {}
    if information := reader.metadata:
        values = {name: value.get_object() for name, key in INFORMATION.items() if (value := information.get(key)) is not None}
        values["doi"] = values.get("doi") or values.get("article_doi") or values.get("subject")
    try:
        xmp: Any = reader.xmp_metadata
    except (PyPdfError, ExpatError, ValueError, AttributeError, TypeError):
        xmp = None  # a document with broken XMP is read without it
    if xmp:
        values["title"] = values.get("title") or next(iter((xmp.dc_title or {}).values()), None)
        values["authors"] = values.get("authors") or "; ".join(xmp.dc_creator or ())
        values["doi"] = f"{values.get('doi') or ''} {xmp.dc_identifier or ''}"
    lines = {name: " ".join(clean(str(value)).split()) for name, value in values.items() if value}
    if NO_TITLE.match(lines.get("title", "")):
        lines.pop("title", None)
    return {name: line for name, line in lines.items() if line}


def _find_largest_lines(reader: PdfReader) -> str:
    """The lines in the largest type on the first page if they are short enough for a title. Upright text only."""
    runs: list[tuple[float, str]] = []

    def visit(text: str, cm: list[float], tm: list[float], font: object, size: float) -> None:
        if text.strip() and abs(tm[1]) < 1e-3 and abs(cm[1]) < 1e-3:  # arXiv's stamp in the margin runs upwards
            runs.append((round(abs(size) * math.hypot(tm[2], tm[3]) * math.hypot(cm[2], cm[3]), 1), text))

    reader.pages[0].extract_text(visitor_text=visit)
    sizes = [size for size, text in runs if len(text.strip()) > 3]
    if not sizes or max(sizes) <= min(sizes):
        return ""
    first = next(place for place, (size, _) in enumerate(runs) if size == max(sizes))
    last = next((place for place in range(first, len(runs)) if runs[place][0] < max(sizes) * 0.9), len(runs))
    title = " ".join(clean("".join(text for _, text in runs[first:last])).split())
    return title if len(title) <= MAX_TITLE_CHARS and not NO_TITLE.match(title) else ""

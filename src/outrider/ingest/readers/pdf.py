"""PDF by pypdf: one record a file, its text page by page.

Title: the document information or XMP where it is a title and not a file's name, else the lines in the largest type on the
first page, else the file's name. Authors: document information or XMP only. A DOI or arXiv number counts when the metadata or
the first two pages print it as the document's own, labelled; a date of creation is not a year of publication.
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
NAME_GAP = re.compile(r"\s*;\s*|\s*,?\s+and\s+|\s*,\s*")
INFORMATION = {
    "title": "/Title", "authors": "/Author", "keywords": "/Keywords", "subject": "/Subject",
    "doi": "/doi", "article_doi": "/WPS-ARTICLEDOI", "created": "/CreationDate",
}  # fmt: skip
FIRST_PAGES = 2
MAX_TITLE_CHARS = 300
MAX_TEXT_CHARS = 64 * 2**20
FORGET_PAGES = 50
"""After so many pages what pypdf keeps of them is dropped, so that memory does not grow with the document."""


@dataclass(slots=True)
class Content:
    """What a pass over the pages gives. `failed` are pages (from 1) that pypdf could not take apart, with the first reason."""

    total: int
    read: int = 0
    texts: list[str] = field(default_factory=list)
    characters: int = 0
    failed: list[int] = field(default_factory=list)
    why: str = ""


def read(path: Path, options: ReadOptions) -> Iterator[Parsed]:
    with path.open("rb") as file:
        if not file.read(1):
            raise UnreadableFile(f"{path}: is empty")
        file.seek(0)
        try:
            entry = _entry(path, _opened(path, file), options)
        except (UnreadableFile, OSError, MemoryError):
            raise
        except RecursionError as deep:
            raise UnreadableFile(f"{path}: not a readable PDF: nested too deeply") from deep
        except Exception as broken:
            raise UnreadableFile(f"{path}: not a readable PDF: {type(broken).__name__}: {broken}") from broken
    yield entry


def _opened(path: Path, file: Any) -> PdfReader:
    from pypdf import PdfReader
    from pypdf.errors import DependencyError

    reader = PdfReader(file)
    try:
        if reader.is_encrypted and not reader.decrypt(""):  # many are locked with an empty password only
            raise UnreadableFile(f"{path}: encrypted; save a copy without its password first")
    except DependencyError as missing:
        raise UnreadableFile(f"{path}: encrypted with AES, which needs: pip install cryptography") from missing
    return reader


def _entry(path: Path, reader: PdfReader, options: ReadOptions) -> Entry:
    content = _content(reader, options)
    text = "\n\n".join(filter(None, content.texts))
    if not text:
        if content.failed:
            raise UnreadableFile(f"{path}: none of its {content.total} pages can be read: {content.why}")
        raise UnreadableFile(f"{path}: no text layer (scanned); OCR it first" if content.total else f"{path}: has no pages")
    said = _said(reader)
    start = "\n".join(content.texts[:FIRST_PAGES])
    identifiers = Identifiers(doi=_doi(said, start), arxiv=_arxiv(start))
    metadata: dict[str, JsonValue] = {"pages_read": content.read, "pages_total": content.total}
    metadata |= {name: said[name] for name in ("subject", "created") if name in said}
    if content.failed:
        metadata |= {"pages_failed": list[JsonValue](content.failed[:100]), "pages_failed_why": content.why}
    common: dict[str, Any] = {
        "doc_id": "",
        "title": said.get("title") or _largest(reader) or path.stem,
        "text": text,
        "identifiers": identifiers,
        "authors": _people(said.get("authors", "")),
        "tags": tuple(filter(None, (word.strip() for word in re.split(r"[;,]", said.get("keywords", ""))))),
        "metadata": metadata,
    }
    return Entry(Paper(**common) if any(identifiers.pairs()) else Document(**common))


def _content(reader: PdfReader, options: ReadOptions) -> Content:
    """The text of the pages, up to `max_pages` and a bound on characters; a broken page costs only itself."""
    content = Content(total=len(reader.pages))
    for number in range(min(content.total, options.max_pages)):
        try:
            text = clean(reader.pages[number].extract_text())
        except (OSError, MemoryError):
            raise
        except Exception as broken:  # noqa: BLE001 - see `read`; the record names the pages that are missing
            content.failed.append(number + 1)
            content.why = content.why or f"{type(broken).__name__}: {broken}"
            text = ""
        content.texts.append(text)
        content.read += 1
        content.characters += len(text)
        if content.characters > MAX_TEXT_CHARS:
            break
        if number % FORGET_PAGES == FORGET_PAGES - 1:
            _forget(reader)
    return content


def _forget(reader: PdfReader) -> None:
    """Drops the streams that pypdf has cached: page contents and fonts, which it can read again."""
    from pypdf.generic import StreamObject

    for key, kept in list(reader.resolved_objects.items()):
        if isinstance(kept, StreamObject):
            del reader.resolved_objects[key]


def clean(text: str) -> str:
    """Without what cannot be stored or read: lone surrogates, control characters, hyphens at line ends."""
    return HYPHENATED.sub("", UNPRINTABLE.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))).strip()


def _said(reader: PdfReader) -> dict[str, str]:
    """What the document information, then XMP, says: title, authors, keywords, subject, doi, created; only what is there."""
    information, xmp = reader.metadata, _xmp(reader)
    said: dict[str, Any] = {}
    if information:
        said = {name: value.get_object() for name, key in INFORMATION.items() if (value := information.get(key)) is not None}
        said["doi"] = said.get("doi") or said.get("article_doi") or said.get("subject")
    if xmp:
        said["title"] = said.get("title") or next(iter((xmp.dc_title or {}).values()), None)
        said["authors"] = said.get("authors") or "; ".join(xmp.dc_creator or ())
        said["doi"] = f"{said.get('doi') or ''} {xmp.dc_identifier or ''}"
    lines = {name: " ".join(clean(str(value)).split()) for name, value in said.items() if value}
    if NO_TITLE.match(lines.get("title", "")):
        lines.pop("title", None)
    return {name: value for name, value in lines.items() if value}


def _xmp(reader: PdfReader) -> Any:
    """The XMP packet; None where there is none or it is broken, since the document can do without."""
    from xml.parsers.expat import ExpatError

    from pypdf.errors import PyPdfError

    try:
        return reader.xmp_metadata
    except (PyPdfError, ExpatError, ValueError, AttributeError, TypeError):
        return None


def _doi(said: dict[str, str], start: str) -> str | None:
    """The metadata's, else the first that the first pages print after `doi` or as a resolver's address."""
    printed = LABELLED_DOI.search(start)
    return normal_doi(said.get("doi", "")) or (normal_doi(printed.group(1)) if printed else None)


def _arxiv(start: str) -> str | None:
    printed = LABELLED_ARXIV.search(start)
    return normal_arxiv(printed.group(1)) if printed else None


def _people(line: str) -> tuple[str, ...]:
    """Names from one line. `;` separates, where there is one; else ` and ` and commas, unless it is one `Surname, Given`."""
    if ";" in line:
        names = line.split(";")
    elif line.count(",") == 1 and " and " not in line and " " not in line.split(",", maxsplit=1)[0].strip():
        names = [line]
    else:
        names = NAME_GAP.split(line)
    return tuple(filter(None, (name.strip(" ,") for name in names)))


def _largest(reader: PdfReader) -> str:
    """The lines in the largest type on the first page, if they are few enough to be a title; upright text only."""
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

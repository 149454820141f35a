"""Reader of e-books (EPUB 2 and 3, ISO/IEC TS 30135): one record a file.

The package document gives title, authors, year, language, identifiers and the order of the parts; each part is rendered as Markdown like a
saved page. The table of contents, page numbers, pictures and scripts are left out. A book whose parts are encrypted (DRM) is refused;
fonts may be.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from xml.etree.ElementTree import Element  # the type only; defusedxml parses

from pydantic import JsonValue

from outrider.ingest.entry import Entry, FileNote, Parsed, ReadOptions
from outrider.ingest.field_values import one_line, parse_year
from outrider.ingest.readers.packed_file import MAX_TREE_BYTES, PackedFile, open_packed
from outrider.ingest.readers.text_documents import first_heading
from outrider.linkage.identifiers import normal_doi, normal_isbn
from outrider.sources.web.html_page import declared_charset, parse_tree
from outrider.sources.web.page_text import HTML_NAMES, put_before_stop, render_blocks
from outrider.state.errors import Malformed, NothingToRead, UnreadableFile
from outrider.state.records import Document, Identifiers, Paper
from outrider.text.encoding import NotText, decode_text
from outrider.text.languages_and_work_types import normal_language

if TYPE_CHECKING:
    from lxml.html import HtmlElement  # type: ignore[import-untyped]

CONTAINER, ENCRYPTION = "META-INF/container.xml", "META-INF/encryption.xml"
OPF = "{http://www.idpf.org/2007/opf}"
FONT_ALGORITHMS = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")
"""They obfuscate fonts, and protect no text."""
NAMES = {**HTML_NAMES, "aside": "div", "footer": "div", **dict.fromkeys(("rp", "rt", "svg"), "")}
"""Asides are notes and boxes of a book. Of ruby text the base is read, without its pronunciation."""
SELF_CLOSED = re.compile(r"<([A-Za-z][\w:-]*)((?:\s[^<>]*)?)/>")
VOID = frozenset("area base br col embed hr img input link meta source track wbr".split())
"""Elements that HTML closes by itself. It takes `<a id="x"/>` of XHTML as a beginning."""
NO_TITLE = re.compile(r"(?:unknown|untitled|no title|title|cover|\[.*\]|.*\.(?:docx?|x?html?|epub|indd|pdf|rtf|odt))", re.IGNORECASE)
NO_AUTHORS = frozenset(("unknown", "unknown author", "author", "[author]", "calibre", "n/a"))
IS_ISBN = re.compile(r"(?:urn:)?isbn|97[89][\d-]{10,14}$", re.IGNORECASE)
IS_DOI = re.compile(r"(?:urn:|info:)?doi[:/]|https?://(?:dx\.)?doi\.org/|10\.\d{4}", re.IGNORECASE)
PAGE_NUMBERS = frozenset(("pagebreak", "doc-pagebreak", "pagenum"))
NOTE_LINKS = frozenset(("noteref", "doc-noteref", "footnote-ref", "fnanchor"))
"""Types of EPUB, roles of ARIA, and classes of pandoc and Project Gutenberg."""
MAX_NUMBER_CHARS = 10
NOTE_NUMBER = re.compile(r"\d{1,4}|[a-z*†‡§]{1,2}", re.IGNORECASE)
TAG = re.compile(r"<[^<>]*>")
PUBLISHED = ("", "publication", "original-publication", "ops-publication", "epub-publication")
"""Events of a date in EPUB 2; others are those of the file."""
LISTED_PARTS = 5


@dataclass(frozen=True, slots=True)
class Package:
    """The package document: metadata elements by their local names, and the paths of the parts in reading order."""

    metadata: Sequence[Element]
    parts: Sequence[str]
    refinements: Mapping[tuple[str, str], str]
    """What EPUB 3 says of an element in a `meta` element, by the id of the one and the property of the other."""

    def values(self, name: str) -> list[tuple[str, Element]]:
        """The elements of a name with their text as one line; empty ones are left out."""
        elements = [element for element in self.metadata if element.tag == name]
        return [(line, element) for element in elements if (line := one_line("".join(element.itertext())))]

    def refinement(self, element: Element, name: str) -> str:
        """What EPUB 2 says in an attribute and EPUB 3 in a `meta` element that refers to this one."""
        return element.get(f"{OPF}{name}") or self.refinements.get((element.get("id", ""), name), "")


def read(path: Path, options: ReadOptions) -> Iterator[Parsed]:
    with open_packed(path, options, ".epub book") as archive:
        package = _read_package(archive)
        if _list_encrypted(archive) & {*package.parts}:
            raise UnreadableFile(f"{path}: its text is encrypted (DRM); ingest a copy without it")
        texts: list[str] = []
        failed: list[str] = []
        for name in package.parts:
            try:
                texts.append(_read_part(archive, name))
            except (Malformed, UnreadableFile):
                failed.append(name)
    text = "\n\n".join(filter(None, texts))
    if not text and (failed or not package.parts):
        raise UnreadableFile(f"{path}: " + ("none of its parts can be read" if failed else "its reading order names no text"))
    if not text:
        raise NothingToRead(f"{path}: holds no text")
    yield Entry(_make_record(path, package, text))
    if failed:
        listed = ", ".join(failed[:LISTED_PARTS]) + (", ..." if len(failed) > LISTED_PARTS else "")
        yield FileNote(f"{len(failed):,} of its {len(package.parts):,} parts are missing or damaged and were not read: {listed}")


def _read_package(archive: PackedFile) -> Package:
    container = archive.parse(CONTAINER)
    if container is None:
        raise UnreadableFile(f"{archive.path}: not a readable .epub book: it has no {CONTAINER}")
    path = next((root.get("full-path", "") for root in container.iter("rootfile")), "")
    root = archive.parse(path)
    if root is None:
        raise UnreadableFile(f"{archive.path}: not a readable .epub book: it has no package document")
    folder = posixpath.dirname(path)
    items = {item.get("id"): item for item in root.iter("item")}
    parts: dict[str, None] = {}  # each once, however often the order names it
    for reference in root.iter("itemref"):
        item = items.get(reference.get("idref"))
        if item is None or "nav" in item.get("properties", "").split() or item.get("media-type", "").startswith("image/"):
            continue
        parts[_resolve(folder, item.get("href", ""))] = None
    metadata = [element for parent in islice(root.iter("metadata"), 1) for element in parent.iter()]
    refinements: dict[tuple[str, str], str] = {}
    for meta in metadata:
        if meta.tag == "meta" and (refined := meta.get("refines", "")).startswith("#") and (text := one_line("".join(meta.itertext()))):
            refinements.setdefault((refined[1:], meta.get("property", "")), text)
    return Package(metadata, [*parts], refinements)


def _resolve(folder: str, href: str) -> str:
    """The member that an address in the package document names. No `..` leads above the root of the archive, where `/` begins."""
    return posixpath.normpath(posixpath.join("/", folder, unquote(href.partition("#")[0]))).lstrip("/")


def _list_encrypted(archive: PackedFile) -> set[str]:
    """The members that are encrypted, without fonts."""
    root = archive.parse(ENCRYPTION)
    encrypted: set[str] = set()
    for data in root.iter("EncryptedData") if root is not None else ():
        algorithm = next((method.get("Algorithm", "") for method in data.iter("EncryptionMethod")), "")
        if algorithm not in FONT_ALGORITHMS:
            encrypted |= {posixpath.normpath(unquote(reference.get("URI", ""))) for reference in data.iter("CipherReference")}
    return encrypted


def _read_part(archive: PackedFile, name: str) -> str:
    """The text of a part as Markdown. Raises `UnreadableFile` for one that is missing, too large or no text, `Malformed`."""
    member = archive.members.get(name)
    if member is None or member.file_size > MAX_TREE_BYTES:
        raise UnreadableFile(f"{archive.path}: {name}")
    data = archive.read(name)
    if not data.strip():
        return ""
    try:
        html = decode_text(data, declared_charset(data)).text
    except NotText as error:
        raise UnreadableFile(f"{archive.path}: {name}: {error}") from error
    tree = parse_tree(SELF_CLOSED.sub(lambda tag: tag[0] if tag[1].lower() in VOID else f"<{tag[1]}{tag[2]}></{tag[1]}>", html))
    _mark_notes(tree)
    return render_blocks(tree, NAMES).replace("\u00ad", "")  # a soft hyphen would part a word for the search


def _mark_notes(tree: HtmlElement) -> None:
    """Drop numbers of pages, and put the number of a note into brackets, also before the note itself."""
    numbers: dict[str, str] = {}
    removed: set[HtmlElement] = set()
    for element in list(tree.iter("a", "span", "div", "hr")):
        if element in removed:
            continue
        kinds = {*f"{element.get('epub:type') or ''} {element.get('role') or ''} {element.get('class') or ''}".split()}
        if kinds & PAGE_NUMBERS:
            removed.update(element.iterdescendants())
            element.clear(keep_tail=True)  # without it, each tail would join a growing text
            element.tag = "span"
        elif element.tag == "a":
            number = "".join(element.itertext()).strip("[]() \r\n")
            raised = element.getparent().tag == "sup" or (len(element) == 1 and element[0].tag == "sup")
            if number and len(number) <= MAX_NUMBER_CHARS and (kinds & NOTE_LINKS or (raised and NOTE_NUMBER.fullmatch(number))):
                removed.update(element.iterdescendants())
                for child in list(element):
                    element.remove(child)
                element.text = f"[{number}]"
                put_before_stop(element)
                numbers[(element.get("href") or "").partition("#")[2]] = number
    for note in tree.iter("aside", "div", "p", "section"):
        if (number := numbers.get(note.get("id") or "", "")) and not "".join(note.itertext()).lstrip(" \r\n[(").startswith(number):
            first = next(note.iter("p"), note)
            first.text = f"[{number}] {first.text or ''}"


def _make_record(path: Path, package: Package, text: str) -> Paper | Document:
    titles = [
        (line, package.refinement(element, "title-type")) for line, element in package.values("title") if not NO_TITLE.fullmatch(line)
    ]
    title = next((line for line, kind in titles if kind == "main"), titles[0][0] if titles else "")
    creators = [
        (line, package.refinement(element, "role")) for line, element in package.values("creator") if line.lower() not in NO_AUTHORS
    ]
    writers = [line for line, role in creators if role == "aut"] or [line for line, _ in creators]
    dates = [line for line, element in package.values("date") if (element.get(f"{OPF}event") or "").lower() in PUBLISHED]
    identifiers = _read_identifiers(package)
    metadata: dict[str, JsonValue] = {"publication_types": ["Book"]}
    if publisher := next((line for line, _ in package.values("publisher")), ""):
        metadata["publisher"] = publisher
    common: dict[str, Any] = {
        "doc_id": "",
        "title": title or first_heading(text) or path.stem,
        "description": one_line(TAG.sub(" ", next((line for line, _ in package.values("description")), ""))),
        "text": text,
        "identifiers": identifiers,
        "authors": tuple(dict.fromkeys(name.strip() for line in writers for name in line.split(";") if name.strip())),
        "year": next((year for line in dates if (year := parse_year(line)[0])), None),
        "language": next((code for line, _ in package.values("language") if (code := normal_language(line))), None),
        "tags": tuple(dict.fromkeys(line for line, _ in package.values("subject"))),
        "metadata": metadata,
    }
    return Paper(**common) if any(identifiers.pairs()) else Document(**common)


def _read_identifiers(package: Package) -> Identifiers:
    values = package.values("identifier")
    isbns = (line for line, element in values if IS_ISBN.match(line) or (element.get(f"{OPF}scheme") or "").upper() == "ISBN")
    dois = (line for line, element in values if IS_DOI.match(line) or (element.get(f"{OPF}scheme") or "").upper() == "DOI")
    return Identifiers(
        isbn=next((isbn for line in isbns if (isbn := normal_isbn(line))), None),
        doi=next((doi for line in dois if (doi := normal_doi(line))), None),
    )

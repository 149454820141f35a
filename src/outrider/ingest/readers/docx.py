"""Reader of Word documents (.docx, ECMA-376) with mammoth: one record a file.

Mammoth makes HTML from the document; it is rendered as Markdown like that of a page. Mammoth gets a copy of the archive with the checked
XML of the document and its styles, lists and notes: no pictures, comments or macros. Footnotes and endnotes stand at the end, with the
numbers that the text refers to. Deleted text and tables of contents are left out. Title: the declared one as far as it is one (see
`front_matter`), else the first paragraph of the style Title, else the first heading. The dates of the file are no year of publication.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast
from xml.etree.ElementTree import Element  # the type only; defusedxml parses

from pydantic import JsonValue

from outrider.ingest.entry import Entry, FileNote, Parsed, ReadOptions
from outrider.ingest.field_values import one_line, split_name_line
from outrider.ingest.readers.front_matter import INTRODUCTION_HEADING, NO_TITLE, Title, choose_authors, choose_title
from outrider.ingest.readers.packed_file import MAX_TREE_BYTES, PackedFile, open_packed
from outrider.ingest.readers.safe_xml import check_xml, local_name
from outrider.sources.web.html_page import parse_tree
from outrider.sources.web.page_text import HTML_NAMES, put_before_stop, render_blocks
from outrider.state.errors import NothingToRead, UnreadableFile
from outrider.state.records import Document
from outrider.text.languages_and_work_types import normal_language

if TYPE_CHECKING:
    from lxml.html import HtmlElement  # type: ignore[import-untyped]

OLD = "an old .doc or an encrypted document; save it as plain .docx"
MAX_XML_DEPTH = 200
"""Tables within tables have ten levels each; mammoth recurses."""
NOT_READ = re.compile(
    r"customXml/|docProps/|word/(?:(?:theme|glossary|media|embeddings)/"
    r"|(?:comments\w*|fontTable|footer\d*|header\d*|people|settings|stylesWithEffects|webSettings)\.xml)"
)
CORE_PROPERTIES = "/core-properties"
"""The end of the relationship's type, of which there are several."""
STYLES = "\n".join(
    (
        "p[style-name='Title'] => h1.title:fresh",
        *(f"p[style-name='heading {level}'] => h{level}:fresh" for level in range(1, 7)),
        *(f"p[style-name='heading {level}'] => h6:fresh" for level in range(7, 10)),
        *(f"p.Heading{level} => h{level}:fresh" for level in range(1, 7)),
        "p[style-name='Heading'] => h1:fresh",
        "p[style-name^='toc '] => !",
        *(
            f"p:{kind}-list({level}) => {'ul|ol > li > ' * (level - 1)}{tag} > li:fresh"
            for level in range(1, 6)
            for kind, tag in (("unordered", "ul"), ("ordered", "ol"))
        ),
    )
)
"""Styles by the names that Word gives them in every language, and headings of documents without names of styles. Case does not count."""
NOTE_ID = re.compile(r"(?:foot|end)note-[^-]+")
BACK_LINK, LINK_ID = re.compile(r"#(?:foot|end)note-ref-"), re.compile(r"(?:foot|end)note-ref-")
NOTE_MARK = re.compile(r"(?:\s?\[\d+\])+$")
PROGRAMS = frozenset(("python-docx", "apache poi", "docx4j", "un-named", "aspose", "openxml sdk", "google docs"))
"""What libraries write as the author."""
EQUATIONS = ("oMathPara", "oMath")
RENAMED = {
    **dict.fromkeys(("bdo", "dir", "fldSimple", "ruby", "rubyBase"), "smartTag"), "cr": "br", "ptab": "tab", "fldChar": "proofErr",
}  # fmt: skip
"""Elements that mammoth passes over with their text, and those that it reads alike: runs of a direction, results of fields, the base of
ruby text. Of fields that begin and end apart it reads the result in any case, and takes time quadratic in the number of open ones."""
REFERRING = ("blip", "hlinkClick", "hyperlink", "imagedata")
"""Of what these refer to nothing is read, and mammoth fails where it is missing."""
ADAPTED = re.compile(rf"<(?:\w+:)?(?:{'|'.join((*EQUATIONS, *RENAMED, *REFERRING))})\b".encode())
SIMPLE = re.compile(r"[\w.]+")
START_CHARS = 3_000
MAX_HEADING_CHARS = 2_000
"""A longer one is a body in the style of a heading, and no title."""


def read(path: Path, options: ReadOptions) -> Iterator[Parsed]:
    with open_packed(path, options, ".docx document", OLD) as archive:
        declared, problem = _read_properties(archive)
        parts = _copy_parts(archive)
    tree = _convert(path, parts)
    _number_notes(tree)
    text = render_blocks(tree, HTML_NAMES)
    if not any(map(str.isalnum, text)):  # empty cells of tables have marks
        raise NothingToRead(f"{path}: holds no text")
    yield Entry(_make_record(path, text, declared, _find_title(tree)))
    if problem:
        yield FileNote(f"its properties (title, author) are not read: {problem}")


def _read_properties(archive: PackedFile) -> tuple[dict[str, str], str]:
    """The core properties by their local names, in one line each, only those present; and why they cannot be read."""
    relations = archive.parse("_rels/.rels")
    targets = [
        relation.get("Target", "").lstrip("/")
        for relation in ([] if relations is None else relations)
        if relation.get("Type", "").endswith(CORE_PROPERTIES)
    ]
    try:
        root = next((root for target in targets if (root := archive.parse(target)) is not None), None)
    except UnreadableFile as error:
        return {}, str(error).removeprefix(f"{archive.path}: ")
    lines = ((element.tag, one_line("".join(element.itertext()))) for element in ([] if root is None else root))
    return {name: line for name, line in lines if line}, ""


def _copy_parts(archive: PackedFile) -> io.BytesIO:
    """The parts that mammoth is to read, checked, as an archive of their own."""
    names = [name for name in archive.members if name.endswith((".xml", ".rels")) and not NOT_READ.match(name)]
    size = sum(archive.members[name].file_size for name in names)
    if size > MAX_TREE_BYTES:  # mammoth takes up to 70 bytes of memory for one of them
        raise UnreadableFile(
            f"{archive.path}: {size:,} bytes of XML, more than the limit of {MAX_TREE_BYTES:,}; save it in parts or as PDF"
        )
    copy = io.BytesIO()
    with zipfile.ZipFile(copy, "w") as parts:
        for name in names:
            data = archive.read(name)
            check_xml(data, f"{archive.path}: {name}", MAX_XML_DEPTH)
            parts.writestr(name, _adapt(data) if ADAPTED.search(data) else data)
    return copy


def _adapt(data: bytes) -> bytes:
    """The part with what mammoth passes over in a form that it reads. Each equation becomes a run of text."""
    from xml.etree.ElementTree import SubElement, tostring

    from defusedxml.ElementTree import fromstring

    root = fromstring(data)
    namespace = root.tag[: root.tag.rfind("}") + 1]
    for parent in list(root.iter()):
        name = local_name(parent.tag)
        if name in RENAMED and parent.tag.startswith(namespace):
            parent.tag = namespace + RENAMED[name]
        elif name in REFERRING:
            parent.attrib.clear()
        for place, child in enumerate(parent):
            if local_name(child.tag) in EQUATIONS and name not in EQUATIONS:
                run = parent[place] = parent.makeelement(f"{namespace}r", {})
                SubElement(run, f"{namespace}t").text = _linearize(child)
    return cast("bytes", tostring(root, encoding="utf-8"))


def _linearize(element: Element) -> str:
    """An equation in one line: `E=mc^2`, `(a+b)/2`, `x_i`."""
    name = local_name(element.tag)
    if name == "t":
        return element.text or ""
    texts = [(key, _linearize(child)) for child in element if not (key := local_name(child.tag)).endswith("Pr")]
    parts = dict(texts)
    base = parts.get("e", "")
    if name == "f":
        return f"{_group(parts.get('num', ''))}/{_group(parts.get('den', ''))}"
    if name in ("sSup", "sSub", "sSubSup", "nary"):
        marks = "".join(mark + _group(text) for mark, text in (("_", parts.get("sub")), ("^", parts.get("sup"))) if text)
        return f"{_find_operator(element)}{marks} {base}" if name == "nary" else base + marks
    if name == "func":
        return f"{parts.get('fName', '')} {base}"
    if name in ("d", "rad"):
        inner = ", ".join(text for key, text in texts if key == "e")
        return f"{'√' if name == 'rad' else ''}({inner})"
    return "".join(text for _, text in texts)


def _find_operator(element: Element) -> str:
    """The sign of a sum or product; an integral has none."""
    signs = (sign for properties in element if local_name(properties.tag) == "naryPr" for sign in properties)
    declared = (value for sign in signs if local_name(sign.tag) == "chr" for key, value in sign.items() if local_name(key) == "val")
    return next(declared, "∫")


def _group(text: str) -> str:
    return text if SIMPLE.fullmatch(text) else f"({text})"


def _convert(path: Path, parts: io.BytesIO) -> HtmlElement:
    from mammoth import convert_to_html

    try:
        html = convert_to_html(
            parts, style_map=STYLES, include_default_style_map=False, include_embedded_style_map=False, convert_image=lambda image: []
        ).value
    except OSError as error:  # of an archive in memory: a part is missing
        raise UnreadableFile(f"{path}: not a readable .docx document: it has no main part") from error
    except (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError) as error:  # mammoth expects a valid document
        raise UnreadableFile(f"{path}: not a readable .docx document: {type(error).__name__}: {error}") from error
    if not html:
        raise NothingToRead(f"{path}: holds no text")
    return parse_tree(html.replace("\u00ad", ""))  # a soft hyphen would part a word for the search


def _number_notes(tree: HtmlElement) -> None:
    """The list of notes as paragraphs that begin with their number, without the links back."""
    for link in list(tree.iter("a")):
        if BACK_LINK.match(link.get("href") or ""):
            link.drop_tree()
        elif LINK_ID.match(link.get("id") or ""):
            put_before_stop(link)
    notes = [item for item in tree.iter("li") if NOTE_ID.fullmatch(item.get("id") or "")]
    for number, note in enumerate(notes, 1):
        first = note[0] if len(note) and note[0].tag == "p" and not (note.text or "").strip() else note
        first.text = f"[{number}] {(first.text or '').lstrip()}"
        note.tag = note.getparent().tag = "div"


def _find_title(tree: HtmlElement) -> Title:
    """The paragraph of the style Title, else the first heading; one such as Introduction is no title."""
    headings = list(tree.iter("h1", "h2", "h3", "h4", "h5", "h6"))
    titled = [heading for heading in headings if heading.get("class") == "title"]
    for heading, weight in (*((heading, 2.0) for heading in titled), *((heading, 1.0) for heading in headings[:1])):
        text = one_line("".join(heading.itertext()))
        if len(text) > MAX_HEADING_CHARS:
            continue
        text = NOTE_MARK.sub("", text)
        if text and not NO_TITLE.match(text) and not INTRODUCTION_HEADING.match(text):
            return Title(text, weight)
    return Title()


def _make_record(path: Path, text: str, declared: dict[str, str], printed: Title) -> Document:
    creator = declared.get("creator", "")
    names = [name for name in split_name_line(creator) if name.casefold() not in PROGRAMS]
    authors = choose_authors(names, text)
    metadata: dict[str, JsonValue] = {name: declared[name] for name in ("subject", "created") if name in declared}
    if creator and not authors:
        metadata["declared_author"] = creator
    return Document(
        doc_id="",
        title=choose_title(declared.get("title", ""), printed, text[:START_CHARS]) or path.stem,
        text=text,
        authors=authors,
        language=normal_language(declared.get("language", "")),
        tags=tuple(filter(None, (word.strip() for word in re.split(r"[;,]", declared.get("keywords", ""))))),
        metadata=metadata,
    )

"""Choice of the reader for a file, by its suffix and, for text, by its first lines.

Databases and reference managers give their exports suffixes such as `.txt` that say nothing: the content decides among XML, the dialects of
tagged text, BibTeX, tables and plain text. A format that none reads is refused by its name, with what to export instead.
Reader modules are imported when a file first needs them. A reader's `version` is part of the fingerprint of every file that it has
read: raise it when the same bytes would now give other records, and those files are read again.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from outrider.ingest.entry import Parsed, Reader, ReadOptions
from outrider.ingest.row_numbers_in_issue_field import drop_running_numbers
from outrider.state.errors import UnreadableFile

HEAD_BYTES = 64 * 1024
SIGNATURE_CHARS = 8 * 1024
BINARY = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class FileReader:
    """A reader by name. `single` marks formats in which a file is one record, whatever it contains."""

    name: str
    version: int = 1
    single: bool = False
    module: str = ""
    """Below this package; by default `name`, whose function is `read`. A module of several readers has `read_NAME`."""

    def load(self) -> Reader:
        module = importlib.import_module(f"outrider.ingest.readers.{self.module or self.name}")
        return cast("Reader", getattr(module, f"read_{self.name}" if self.module else "read"))

    def read(self, path: Path, options: ReadOptions) -> Iterator[Parsed]:
        """The file's entries, lazily. Raises `UnreadableFile` or `OSError`, at the first entry or at any later one."""
        refuse_blank(path)
        entries = self.load()(path, options)
        return entries if self.single else drop_running_numbers(entries, options.columns)


@dataclass(frozen=True, slots=True)
class NoReader:
    """The file is skipped, for this reason."""

    reason: str


PDF = FileReader("pdf", version=3, single=True)
DOCX = FileReader("docx", version=2, single=True)
EPUB = FileReader("epub", version=3, single=True)
NOTEBOOK = FileReader("notebook", version=2, single=True)
JATS = FileReader("jats", single=True)
PUBMED = FileReader("pubmed")
ENDNOTE = FileReader("endnote", version=2)
MODS = FileReader("mods")
CITATION_FILE = FileReader("citation_file")
RIS = FileReader("ris", version=4, module="tagged")
MEDLINE = FileReader("medline", module="tagged")
WEB_OF_SCIENCE = FileReader("web_of_science", module="tagged")
OVID = FileReader("ovid", module="tagged")
ENDNOTE_REFER = FileReader("endnote_refer", module="tagged")
REFWORKS = FileReader("refworks", module="tagged")
BIBTEX = FileReader("bibtex", version=4)
TABLES = FileReader("tables", version=7)
JSON_LINES = FileReader("json_lines", version=6)
HTML = FileReader("html", version=4, single=True, module="text_documents")
MARKDOWN = FileReader("markdown", single=True, module="text_documents")
PLAIN_TEXT = FileReader("plain_text", single=True, module="text_documents")

BY_SUFFIX = {
    ".pdf": PDF, ".docx": DOCX, ".epub": EPUB, ".ipynb": NOTEBOOK,
    ".bib": BIBTEX, ".bibtex": BIBTEX,
    ".tsv": TABLES, ".tab": TABLES, ".xlsx": TABLES,
    ".json": JSON_LINES, ".jsonl": JSON_LINES, ".ndjson": JSON_LINES, ".csljson": JSON_LINES,
    ".json.gz": JSON_LINES, ".jsonl.gz": JSON_LINES, ".ndjson.gz": JSON_LINES,
    ".html": HTML, ".htm": HTML, ".xhtml": HTML,
    ".md": MARKDOWN, ".markdown": MARKDOWN,
    ".rst": PLAIN_TEXT, ".text": PLAIN_TEXT,
    ".mods": MODS, ".cff": CITATION_FILE,
}  # fmt: skip
BY_CONTENT = {
    ".txt": PLAIN_TEXT, ".csv": TABLES, ".ris": RIS, ".nbib": MEDLINE, ".ciw": WEB_OF_SCIENCE, ".isi": WEB_OF_SCIENCE, ".ovd": OVID,
    ".cgi": OVID, ".enw": ENDNOTE_REFER, ".refer": ENDNOTE_REFER,
}  # fmt: skip
"""Suffixes of text whose first lines decide, and the reader of a file in which they show nothing."""
TAGGED = (RIS, MEDLINE, WEB_OF_SCIENCE, OVID, ENDNOTE_REFER, REFWORKS)
BY_ROOT = {
    "article": JATS, "pmc-articleset": JATS,
    "PubmedArticleSet": PUBMED, "PubmedArticle": PUBMED, "PubmedBookArticleSet": PUBMED, "PubmedBookArticle": PUBMED,
    "xml": ENDNOTE,
    "mods": MODS, "modsCollection": MODS,
    "html": HTML,
}  # fmt: skip
XML_SUFFIXES = (".xml", ".nxml")
OTHER_ROOTS = {
    "collection": "MARCXML; export MODS or RIS", "RDF": "RDF, as Zotero writes it; export RIS, BibTeX or CSL JSON",
    "refworks": "RefWorks XML; export RIS", "Sources": "Word's list of sources; export it from a reference manager",
    "OAI-PMH": "an answer of OAI-PMH; save the records in it as MODS", "eSummaryResult": "PubMed summaries; export MEDLINE or PubMed XML",
}  # fmt: skip
"""Root elements that say what a file is, though nothing reads it: the format, and what to export instead."""
OTHER_TEXTS = (
    ("ProQuest text", "RIS", re.compile(r"\s*Document \d+ of \d+\s|\s*_{20,}[ \t]*\n(?:.*\n){0,200}?.*(?:ProQuest|Document \d+ of \d+)")),
    ("Cochrane Library text", "RIS", re.compile(r"\s*Record #\d+ of \d+\s+ID: ")),
    ("Scopus text", "CSV or RIS", re.compile(r"\s*Scopus\s+EXPORT DATE:")),
    ("EBSCO text", "RIS", re.compile(r"\s*Record: 1\s*\n(?:.*\n){0,3}?\s*(?:Title|Authors?|Source):")),
    ("Embase text", "RIS or CSV", re.compile(r"\s*RECORD 1\s*\n\s*TITLE\s*\n")),
    (
        "Embase's list of fields",
        "CSV with one record a row, or RIS",
        re.compile(r'\s*"TITLE","[^\n]*\n(?:.*\n){0,8}?"(?:AUTHOR NAMES|SOURCE)",'),
    ),
    ("Web of Science's tab-delimited text", "plain text (tagged) or RIS", re.compile(r"\s*PT\tA[UF]\t")),
    ("NoteExpress text", "RIS or EndNote", re.compile(r"\s*\{Reference Type\}:")),
    ("CNKI text", "EndNote or RefWorks", re.compile(r"\s*SrcDatabase-")),
    ("Dialog text", "RIS", re.compile(r"(?:.*\n){0,5}.*DIALOG\(R\) ?File", re.IGNORECASE)),
    ("MARC 21", "MODS or RIS", re.compile(r"\d{5}[acdnp][a-z]{2}.[ a]22\d{5}")),
    (
        "PubMed's abstracts or summaries",
        "the format PubMed (MEDLINE)",
        re.compile(
            r"\s*1[.:] (?=[^\n]*(?:\n[^\n]*)?\b(?:1[89]|20)\d\d[ ;:.])"
            r"(?:.*\n){1,200}?(?:PMID: \d{1,8}(?: |$)|.*[.\]] (?:PubMed )?PMID: \d{1,8}\b)",
            re.MULTILINE,
        ),
    ),
    ("a list of PMIDs", "the format PubMed (MEDLINE)", re.compile(r"\s*(?:\d{5,8}\s*\n){2,}\s*\d{1,8}\s*$|\s*(?:\d{5,8}\s*\n){50}")),
)  # fmt: skip
"""Exports that no reader takes: their name, what to export instead, and how they begin."""
INSTEAD = {
    ".xls": "save it as .xlsx or .csv", ".ods": "save it as .xlsx or .csv",
    **dict.fromkeys((".doc", ".docm", ".odt", ".rtf", ".pages"), "save it as .docx or PDF"),
    **dict.fromkeys((".mobi", ".azw", ".azw3", ".kfx", ".fb2", ".djvu"), "convert it to EPUB or PDF"),
    ".tex": "save it as PDF or text",
    **dict.fromkeys((".ppt", ".pptx", ".odp", ".key"), "save it as PDF"),
    **dict.fromkeys((".org", ".adoc"), "export it as Markdown or HTML"),
    **dict.fromkeys((".eml", ".msg", ".mbox"), "save it as text or HTML"),
    **dict.fromkeys((".mht", ".mhtml", ".webarchive"), "save the page as HTML"),
    ".enl": "export it from EndNote as XML", ".enlx": "export it from EndNote as XML", ".rdf": "export RIS, BibTeX or CSL JSON",
    ".mrc": "export MODS or RIS", ".marc": "export MODS or RIS", ".net": "export NoteExpress as RIS",
    ".zip": "unpack it first", ".gz": "unpack it first", ".tar": "unpack it first", ".7z": "unpack it first",
}  # fmt: skip
BIBTEX_NOTE = r"(?:%|Automatically generated by Mendeley|Any changes to this file|This file was created with JabRef|Encoding: )[^\n]*\n\s*"
BIBTEX_START = re.compile(
    rf"\s*(?:{BIBTEX_NOTE})*@(?:(?:string|preamble|comment)\s*[{{(]|[a-z]+\s*[{{(]\s*[^\s,{{}}()=]*,\s*[\w-]+\s*=)", re.IGNORECASE
)
XML_DECLARATION = re.compile(r"\s*<\?xml\s")


BLANKS = b" \t\r\n\f\v\x00\xef\xbb\xbf\xff\xfe"
"""Bytes of blanks, line ends and byte order marks, also in UTF-16."""


def refuse_blank(path: Path) -> None:
    """Raises `UnreadableFile` for a file with nothing but blanks in it, whatever its format."""
    with path.open("rb") as file:
        if not file.read(HEAD_BYTES).strip(BLANKS) and not file.read(1):
            raise UnreadableFile(f"{path}: is empty")


def select_reader(path: Path) -> FileReader | NoReader:
    """The reader of a file, or why there is none. Opens `.xml` and text whose suffix says too little.

    Raises `OSError` if the file cannot be opened, `UnreadableFile` for XML that cannot be parsed as far as its root.
    """
    double = "".join(path.suffixes[-2:]).lower()
    suffix = double if double in BY_SUFFIX else path.suffix.lower()
    if suffix in BY_SUFFIX:
        return BY_SUFFIX[suffix]
    if suffix in XML_SUFFIXES:
        return _select_by_root(path)
    if suffix in BY_CONTENT:
        return _select_by_content(path, BY_CONTENT[suffix])
    if not suffix:
        return NoReader("no reader for a file without a suffix")
    instead = INSTEAD.get(suffix)
    return NoReader(f"no reader for {suffix}" + (f"; {instead}" if instead else ""))


def _select_by_root(path: Path) -> FileReader | NoReader:
    from outrider.ingest.readers.safe_xml import read_root_name

    refuse_blank(path)
    root = read_root_name(path)
    known = f": {OTHER_ROOTS[root]}" if root in OTHER_ROOTS else ""
    return BY_ROOT.get(root) or NoReader(f"no reader for XML with the root element <{root[:80]}>{known}")


def _select_by_content(path: Path, default: FileReader) -> FileReader | NoReader:
    """Encodings that keep ASCII and UTF-16 can be recognised."""
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if head.startswith(WIDE_MARKS):
        head = head[2:].replace(b"\x00", b"")
    text = head.removeprefix(b"\xef\xbb\xbf").decode("latin-1").replace("\r\n", "\n").replace("\r", "\n")
    for name, instead, start in OTHER_TEXTS:
        if start.match(text):
            return NoReader(f"no reader for {name}; export {instead}")
    if BINARY.search(text) or default is TABLES:
        return default
    if XML_DECLARATION.match(text):
        return _select_by_root(path)
    if BIBTEX_START.match(text):
        return BIBTEX
    from outrider.ingest.readers.tables import is_table
    from outrider.ingest.readers.tagged import DIALECTS

    readers = {reader.name: reader for reader in TAGGED}
    beginning = text[:SIGNATURE_CHARS]
    tagged = next((readers[dialect.name] for dialect in DIALECTS if dialect.starts(beginning)), None)
    names = beginning if beginning.isascii() else beginning.encode("latin-1").decode("utf-8", "replace")
    return tagged or (TABLES if is_table(names) or is_table(beginning) else default)

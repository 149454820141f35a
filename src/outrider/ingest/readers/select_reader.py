"""Choice of the reader for a file, by its suffix.

The content decides for `.xml`, `.nxml` and `.txt` files.
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

HEAD_BYTES = 64 * 1024
RIS_TAG = re.compile(rb"^\s*TY {1,2}- ?[A-Z]", re.MULTILINE)
BINARY = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
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
        return self.load()(path, options)


@dataclass(frozen=True, slots=True)
class NoReader:
    """The file is skipped, for this reason."""

    reason: str


PDF = FileReader("pdf", single=True)
JATS = FileReader("jats", single=True)
PUBMED = FileReader("pubmed")
ENDNOTE = FileReader("endnote")
RIS = FileReader("ris", version=2)
BIBTEX = FileReader("bibtex", version=2)
TABLES = FileReader("tables", version=3)
JSON_LINES = FileReader("json_lines", version=3)
HTML = FileReader("html", version=2, single=True, module="text_documents")
MARKDOWN = FileReader("markdown", single=True, module="text_documents")
PLAIN_TEXT = FileReader("plain_text", single=True, module="text_documents")

BY_SUFFIX = {
    ".pdf": PDF,
    ".bib": BIBTEX, ".bibtex": BIBTEX,
    ".ris": RIS,
    ".csv": TABLES, ".tsv": TABLES, ".tab": TABLES, ".xlsx": TABLES,
    ".json": JSON_LINES, ".jsonl": JSON_LINES, ".ndjson": JSON_LINES,
    ".json.gz": JSON_LINES, ".jsonl.gz": JSON_LINES, ".ndjson.gz": JSON_LINES,
    ".html": HTML, ".htm": HTML, ".xhtml": HTML,
    ".md": MARKDOWN, ".markdown": MARKDOWN,
    ".rst": PLAIN_TEXT, ".text": PLAIN_TEXT,
}  # fmt: skip
BY_ROOT = {
    "article": JATS, "pmc-articleset": JATS,
    "PubmedArticleSet": PUBMED, "PubmedArticle": PUBMED, "PubmedBookArticleSet": PUBMED,
    "xml": ENDNOTE,
    "html": HTML,
}  # fmt: skip
XML_SUFFIXES = (".xml", ".nxml")
INSTEAD = {
    ".enw": "export it as RIS or EndNote XML", ".nbib": "export it as PubMed XML", ".ciw": "export it as RIS",
    ".xls": "save it as .xlsx or .csv", ".doc": "save it as PDF or text", ".docx": "save it as PDF or text",
    ".zip": "unpack it first", ".gz": "unpack it first", ".tar": "unpack it first", ".7z": "unpack it first",
}  # fmt: skip


def select_reader(path: Path) -> FileReader | NoReader:
    """The reader of a file, or why there is none. Opens only `.xml`, `.nxml` and `.txt`.

    Raises `OSError` if the file cannot be opened, `UnreadableFile` for XML that cannot be parsed as far as its root.
    """
    double = "".join(path.suffixes[-2:]).lower()
    suffix = double if double in BY_SUFFIX else path.suffix.lower()
    if suffix in BY_SUFFIX:
        return BY_SUFFIX[suffix]
    if suffix in XML_SUFFIXES:
        from outrider.ingest.readers.safe_xml import read_root_name

        root = read_root_name(path)
        return BY_ROOT.get(root) or NoReader(f"no reader for XML with the root element <{root[:80]}>")
    if suffix == ".txt":
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
        # RIS tags at its start, in any encoding that keeps ASCII or in UTF-16
        if head.startswith(WIDE_MARKS):
            head = head.replace(b"\x00", b"")
        is_ris = RIS_TAG.search(head.removeprefix(b"\xef\xbb\xbf")[: HEAD_BYTES // 8]) and not BINARY.search(head)
        return RIS if is_ris else PLAIN_TEXT
    if not suffix:
        return NoReader("no reader for a file without a suffix")
    instead = INSTEAD.get(suffix)
    return NoReader(f"no reader for {suffix}" + (f"; {instead}" if instead else ""))

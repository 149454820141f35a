"""Which reader takes a file: by suffix, and by a look inside where a suffix says too little (`.xml`, `.txt`).

Readers are named here and imported when a file first needs them. A reader's `version` goes into the fingerprint of every
file it has read: raise it when the same bytes would now give other records, and those files are read again.
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
class KnownReader:
    """A reader by name; `single` marks formats where a file is one record, whatever is inside."""

    name: str
    version: int = 1
    single: bool = False

    def read(self, path: Path, options: ReadOptions) -> Iterator[Parsed]:
        """The file's entries, lazily; raises `UnreadableFile` or `OSError`, at the first entry or at any later one."""
        module = importlib.import_module(f"outrider.ingest.readers.{self.name}")
        return cast("Reader", module.read)(path, options)


@dataclass(frozen=True, slots=True)
class NoReader:
    """The file is passed over, and why."""

    reason: str


PDF = KnownReader("pdf", single=True)
JATS = KnownReader("jats", single=True)
PUBMED = KnownReader("pubmed")
ENDNOTE = KnownReader("endnote")
RIS = KnownReader("ris", version=2)
BIBTEX = KnownReader("bibtex", version=2)
TABLES = KnownReader("tables", version=3)
JSON_LINES = KnownReader("json_lines", version=3)
HTML = KnownReader("html", version=2, single=True)
MARKDOWN = KnownReader("markdown", single=True)
PLAIN_TEXT = KnownReader("plain_text", single=True)

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


def reader_for(path: Path) -> KnownReader | NoReader:
    """The reader of a file, or why there is none. Opens only `.xml`, `.nxml` and `.txt`.

    Raises `OSError` where the file cannot be opened, `UnreadableFile` for XML that cannot be parsed as far as its root.
    """
    suffix = known_suffix(path)
    if suffix in BY_SUFFIX:
        return BY_SUFFIX[suffix]
    if suffix in XML_SUFFIXES:
        return _by_root(path)
    if suffix == ".txt":
        return RIS if looks_like_ris(head(path)) else PLAIN_TEXT
    if not suffix:
        return NoReader("no reader for a file without a suffix")
    instead = INSTEAD.get(suffix)
    return NoReader(f"no reader for {suffix}" + (f"; {instead}" if instead else ""))


def known_suffix(path: Path) -> str:
    """Lower case, with the inner suffix where one reader takes both (`.jsonl.gz`)."""
    double = "".join(path.suffixes[-2:]).lower()
    return double if double in BY_SUFFIX else path.suffix.lower()


def looks_like_ris(start: bytes) -> bool:
    """Whether a text opens with RIS tags, in any encoding that keeps ASCII or in UTF-16."""
    if start.startswith(WIDE_MARKS):
        start = start.replace(b"\x00", b"")
    return RIS_TAG.search(start.removeprefix(b"\xef\xbb\xbf")[: HEAD_BYTES // 8]) is not None and not BINARY.search(start)


def head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(HEAD_BYTES)


def _by_root(path: Path) -> KnownReader | NoReader:
    from outrider.ingest.readers.safe_xml import root_name

    root = root_name(path)
    return BY_ROOT.get(root) or NoReader(f"no reader for XML with the root element <{root[:80]}>")

"""Reader of BibTeX and BibLaTeX, with bibtexparser 2.

An entry that cannot be parsed is reported, the others are read.
The file is parsed in pieces cut at a line that opens a block, which is where bibtexparser itself recovers after a
missing brace; `@string` definitions are carried along. LaTeX is decoded in every field but those that hold paths, links and
code. Names in `author` are decoded one by one. Fields without a field of the record stay in the metadata, with the citation
key as `key` and the type as `entry_type`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from outrider.ingest.column_mapping import NOTHING, has_content
from outrider.ingest.entry import BadEntry, Entry, Parsed, ReadOptions
from outrider.ingest.field_values import clean, format_scalar, one_line
from outrider.ingest.latex import decode
from outrider.ingest.readers.open_text import read_entries
from outrider.ingest.record_draft import Draft, make_paper
from outrider.state.errors import UnreadableFile

PIECE_CHARS = 2**18
BLOCK = re.compile(r"[ \t]*@\w+[ \t]*[{(]")
VERBATIM = frozenset({"file", "url", "doi", "eprint", "pdf", "local-url", "link", "pmid", "pmcid", "isbn", "issn"})
AND_OTHERS = "others"
AND_OR_BRACE = re.compile(r"\\.|[{}]|\s+and(?:\s+(?=\S)|\s*$)", re.IGNORECASE | re.DOTALL)
HASH_OR_ENCLOSING = re.compile(r'\\.|[{}"#]', re.DOTALL)
NAMES = {
    "title": ("title",), "abstract": ("abstract",), "url": ("url",), "year": ("year", "date"),
    "venue": ("journal", "journaltitle", "booktitle"), "volume": ("volume",), "issue": ("number", "issue"), "pages": ("pages",),
    "language": ("language", "langid"), "keywords": ("keywords", "author_keywords", "keywords-plus"),
    "types": ("document_type",), "abbreviation": ("shortjournal", "abbrev_source_title"),
    "doi": ("doi",), "pmid": ("pmid", "pubmed_id"), "pmcid": ("pmcid",), "isbn": ("isbn",), "issn": ("issn", "eissn"),
}  # fmt: skip
"""Field or identifier of a record -> BibTeX fields."""


def read(path: Path, options: ReadOptions) -> Iterator[Parsed]:
    nothing = UnreadableFile(f"{path}: no BibTeX entry in it (nothing like @article{{key, ...}})")
    return read_entries(path, options, _parse, nothing=nothing)


def _parse(stream: Iterable[str]) -> Iterator[Parsed]:
    from bibtexparser.entrypoint import parse_string
    from bibtexparser.library import Library
    from bibtexparser.middlewares.enclosing import REMOVED_ENCLOSING_KEY, RemoveEnclosingMiddleware
    from bibtexparser.model import Entry as Block
    from bibtexparser.model import ParsingFailedBlock

    logger = logging.getLogger("bibtexparser")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())  # its warnings are reported as BadEntry
    library = Library()
    strings: dict[str, str] = {}
    for first_line, piece in _split_pieces(stream):
        library = parse_string(piece, library=Library([*library.strings]))
        for string in library.strings:
            strings.setdefault(string.key.casefold(), _evaluate(string, strings))
        for block in library.blocks:
            where = f"line {(block.start_line or 0) + first_line}"
            if isinstance(block, Block):
                yield _make_entry(block, where, strings)
            elif isinstance(block, ParsingFailedBlock) and isinstance(entry := block.ignore_error_block, Block):
                # an entry that is whole but repeats a key or a field
                bare = REMOVED_ENCLOSING_KEY in entry.parser_metadata
                entry = entry if bare else RemoveEnclosingMiddleware().transform_entry(entry, Library())
                yield _make_entry(entry, where, strings)
            elif isinstance(block, ParsingFailedBlock):
                reason = getattr(block.error, "abort_reason", block.error)
                yield BadEntry(where, f"{one_line(block.raw or '')[:60]!r} cannot be parsed: {reason}")


def _split_pieces(stream: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Parts of the text that start with a block, with the number of their first line."""
    lines: list[str] = []
    size, first = 0, 1
    for number, line in enumerate(stream, 1):
        if size >= PIECE_CHARS and BLOCK.match(line):
            yield first, "".join(lines)
            lines, size, first = [], 0, number
        lines.append(line)
        size += len(line)
    yield first, "".join(lines)


def _evaluate(field: Any, strings: Mapping[str, str]) -> str:
    """The value of a field or `@string`: `jhep # { Reports}` is the string `jhep` and more text. Unknown strings stay as written."""
    text = str(field.value)
    if field.enclosing != "no-enclosing":
        return text
    parts = [part.strip() for part in _split_outside_braces(text, HASH_OR_ENCLOSING)]
    values = [part[1:-1] if part[:1] + part[-1:] in ("{}", '""') else strings.get(part.casefold(), part) for part in parts]
    return text if values == parts else "".join(values)


def _split_outside_braces(text: str, tokens: re.Pattern[str]) -> list[str]:
    """The text cut at those `tokens` that are neither braces nor quotes, nor escaped or between such."""
    parts: list[str] = []
    depth = start = 0
    quoted = False
    for token in tokens.finditer(text):
        match token.group():
            case "{" | "}" as brace:
                depth += 1 if brace == "{" else -1
            case '"':
                quoted ^= depth <= 0
            case separator if depth <= 0 and not quoted and not separator.startswith("\\"):
                parts.append(text[start : token.start()])
                start = token.end()
    return [*parts, text[start:]]


def _make_entry(block: Any, where: str, strings: Mapping[str, str]) -> Parsed:
    raw: dict[str, list[str]] = {}
    for field in block.fields:
        name = str(field.key).casefold()
        text = str(clean(_evaluate(field, strings)))
        raw.setdefault(name, []).append(text if name in VERBATIM or name in ("author", "editor") else decode(text))
    draft = Draft({name: values[0] if len(values) == 1 else list[JsonValue](values) for name, values in raw.items()})
    archives = (format_scalar(value) for _, value in draft.list_values(("archiveprefix", "eprinttype")))
    arxiv = ("eprint", "arxiv") if (next(filter(None, archives), None) or "").casefold() == "arxiv" else ("arxiv",)
    authors = _read_authors(draft)
    paper = make_paper(draft, {**NAMES, "arxiv": arxiv}, commas=True)
    pages = re.sub(r"\s*[–—]\s*|--+", "-", paper.pages) if paper.pages else None
    metadata = {"key": str(clean(block.key)), "entry_type": block.entry_type.casefold(), **paper.metadata}
    paper = paper.model_copy(update={"authors": authors, "pages": pages, "metadata": metadata})
    if not has_content(paper, ignored=("key", "entry_type")):
        return BadEntry(where, NOTHING, empty=True)
    return Entry(paper, block.key or None)


def _read_authors(draft: Draft) -> tuple[str, ...]:
    """Names between `and`s outside braces. `and others` names nobody: then the field also stays as it is."""
    names: list[str] = []
    for _, value in draft.list_values(("author",)):
        for text in map(str, value if isinstance(value, list) else [value]):
            # bibtexparser's own split drops the start of a name that begins with a macro
            names += [name.strip() for name in _split_outside_braces(text, AND_OR_BRACE)]
    if names and AND_OTHERS not in names:
        draft.rest.pop("author")
    return tuple(line for name in names if name != AND_OTHERS and (line := one_line(decode(name))))

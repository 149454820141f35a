"""BibTeX and BibLaTeX, with bibtexparser 2: an entry that cannot be parsed is reported, the others are read.

The file goes through in pieces cut where a line opens a block, which is where bibtexparser itself takes up again after a
missing brace; `@string` definitions are carried along. LaTeX is decoded in every field but those that hold paths, links and
code. Names in `author` stay as they are written. Fields without a place of their own stay in the metadata, with the citation
key as `key` and the type as `entry_type`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from outrider.ingest.entry import BadEntry, Entry, Parsed, ReadOptions
from outrider.ingest.latex import decode
from outrider.ingest.readers.text_files import entries_or_error
from outrider.ingest.record_draft import Draft, identifiers_of
from outrider.ingest.row_columns import NOTHING, has_content
from outrider.ingest.values import clean, one_line, scalar
from outrider.state.errors import UnreadableFile
from outrider.state.records import Paper

PIECE_CHARS = 2**18
BLOCK = re.compile(r"[ \t]*@\w+[ \t]*[{(]")
VERBATIM = frozenset({"file", "url", "doi", "eprint", "pdf", "local-url", "link", "pmid", "pmcid", "isbn", "issn"})
AND_OTHERS = "others"
AND_OR_BRACE = re.compile(r"\\.|[{}]|\s+and(?:\s+(?=\S)|\s*$)", re.IGNORECASE | re.DOTALL)
IDENTIFIERS = {"doi": ("doi",), "pmid": ("pmid",), "pmcid": ("pmcid",), "isbn": ("isbn",)}


def read(path: Path, options: ReadOptions) -> Iterator[Parsed]:
    return entries_or_error(path, options, _parsed, UnreadableFile(f"{path}: no BibTeX entry in it (nothing like @article{{key, ...}})"))


def _parsed(stream: Iterable[str]) -> Iterator[Parsed]:
    from bibtexparser.entrypoint import parse_string
    from bibtexparser.library import Library
    from bibtexparser.model import Entry as Block
    from bibtexparser.model import ParsingFailedBlock

    logger = logging.getLogger("bibtexparser")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())  # what it warns of is reported as BadEntry
    library = Library()
    for first_line, piece in _pieces(stream):
        library = parse_string(piece, library=Library([*library.strings]))
        for block in library.blocks:
            if isinstance(block, Block):
                yield _entry(block, first_line)
            elif isinstance(block, ParsingFailedBlock):
                yield _failed(block, first_line)


def _pieces(stream: Iterable[str]) -> Iterator[tuple[int, str]]:
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


def _failed(block: Any, first_line: int) -> Parsed:
    """A block whose entry is whole but repeats a key or a field is an entry; any other is lost, and named."""
    from bibtexparser.library import Library
    from bibtexparser.middlewares.enclosing import REMOVED_ENCLOSING_KEY, RemoveEnclosingMiddleware
    from bibtexparser.model import Entry as Block

    where = _where(block, first_line)
    entry = block.ignore_error_block
    if isinstance(entry, Block):
        bare = REMOVED_ENCLOSING_KEY in entry.parser_metadata
        return _entry(entry if bare else RemoveEnclosingMiddleware().transform_entry(entry, Library()), first_line)
    head = one_line(block.raw or "")[:60]
    return BadEntry(where, f"{head!r} cannot be parsed: {getattr(block.error, 'abort_reason', block.error)}")


def _where(block: Any, first_line: int) -> str:
    return f"line {(block.start_line or 0) + first_line}"


def _entry(block: Any, first_line: int) -> Parsed:
    raw: dict[str, list[str]] = {}
    for field in block.fields:
        name = str(field.key).casefold()
        text = str(clean(str(field.value)))
        raw.setdefault(name, []).append(text if name in VERBATIM or name in ("author", "editor") else decode(text))
    draft = Draft({name: values[0] if len(values) == 1 else list[JsonValue](values) for name, values in raw.items()})
    paper = _paper(draft, {"key": str(clean(block.key)), "entry_type": block.entry_type.casefold()})
    if not has_content(paper, ignored=("key", "entry_type")):
        return BadEntry(_where(block, first_line), NOTHING, empty=True)
    return Entry(paper, block.key or None)


def _paper(draft: Draft, head: dict[str, JsonValue]) -> Paper:
    arxiv = ("eprint",) if _said(draft, "archiveprefix", "eprinttype") == "arxiv" else ()
    url = draft.line("url")
    authors = _authors(draft)
    return Paper(
        doc_id="",
        url=url,
        identifiers=identifiers_of(draft, {**IDENTIFIERS, "arxiv": (*arxiv, "arxiv")}, url),
        title=draft.line("title") or "",
        abstract=draft.text("abstract"),
        authors=authors,
        year=draft.year("year", "date"),
        venue=draft.line("journal", "journaltitle", "booktitle"),
        volume=draft.line("volume"),
        issue=draft.line("number", "issue"),
        pages=_pages(draft),
        language=draft.line("language", "langid"),
        tags=draft.lines("keywords", commas=True),
        metadata=head | draft.rest,
    )


def _said(draft: Draft, *names: str) -> str:
    return next((text.casefold() for _, value in draft.given(names) if (text := scalar(value))), "")


def _authors(draft: Draft) -> tuple[str, ...]:
    """Names between `and`s, braces respected; `and others` names nobody, so then the field also stays as it is."""
    fields = [value if isinstance(value, list) else [value] for _, value in draft.given(("author",))]
    names = [name.strip() for field in fields for text in field for name in _persons(str(text))]
    if names and AND_OTHERS not in names:
        draft.rest.pop("author")
    return tuple(line for name in names if name != AND_OTHERS and (line := one_line(decode(name))))


def _persons(given: str) -> Iterator[str]:
    """Cuts at each `and` outside braces. (bibtexparser's own cut drops the start of a name that begins with a macro.)"""
    depth = start = 0
    for token in AND_OR_BRACE.finditer(given):
        if token.group() in "{}":
            depth += 1 if token.group() == "{" else -1
        elif depth <= 0 and not token.group().startswith("\\"):
            yield given[start : token.start()]
            start = token.end()
    yield given[start:]


def _pages(draft: Draft) -> str | None:
    pages = draft.line("pages")
    return re.sub(r"\s*[–—]\s*|--+", "-", pages) if pages else None

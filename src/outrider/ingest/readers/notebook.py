"""Reader of Jupyter notebooks (.ipynb, nbformat 3 and 4): one record a file, as Markdown.

Markdown cells are text, code cells are fenced blocks with the language of the kernel. Outputs, pictures in cells, and raw cells of another
format than Markdown are left out. Fields come from the notebook's metadata and from front matter in its first cell; the title else from the
first heading, else from the file's name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from outrider.ingest.entry import FileNote, Parsed, ReadOptions
from outrider.ingest.field_values import SURROGATE, TooDeep, clean, one_line
from outrider.ingest.readers.open_text import read_text, refuse_large
from outrider.ingest.readers.text_documents import parse_markdown
from outrider.state.errors import NothingToRead, UnreadableFile

RAW_TEXT = frozenset(("", "text/markdown", "text/x-rst", "text/plain", "text/restructuredtext"))
PICTURE = re.compile(
    r"!\[([^\[\]\n]*)\]\((?:data|attachment):[^()\n]*(?:\([^()\n]*\)[^()\n]*)*\)|<img\b[^<>]*>|^ {0,3}\[[^\[\]\n]+\]:\s*<?data:\S*",
    re.IGNORECASE | re.MULTILINE,
)
"""A picture whose bytes are in the cell or beside it, or any `img` element."""
OWN_BYTES = re.compile(r"\bsrc\s*=\s*[\"']?(?:data|attachment):", re.IGNORECASE)
"""In an `img` element."""
FILE_NAME = re.compile(r"\S+\.\w{2,5}")
LANGUAGE = re.compile(r"[\w+#.-]{1,30}")
BACKTICKS = re.compile(r"`{3,}")
DECLARED = ("title", "authors", "date", "keywords", "tags")
TOO_DEEP = "nested too deeply"


def read(path: Path, options: ReadOptions) -> Iterator[Parsed]:
    refuse_large(path, options)
    content = read_text(path, options)
    notebook = _parse(path, content.text)
    cells = _list_cells(path, notebook)
    language = _read_language(notebook)
    texts: list[str] = []
    damaged = 0
    for cell in cells:
        text = _render(cell, language) if isinstance(cell, Mapping) else None
        damaged += text is None
        texts += filter(None, [text])
    if not texts:
        raise (UnreadableFile if damaged else NothingToRead)(f"{path}: a notebook without text")
    about = {**content.encoding.metadata(), **({"programming_language": language} if language else {})}
    yield from parse_markdown(path, SURROGATE.sub("\ufffd", "\n\n".join(texts)), about, _read_fields(notebook))
    if damaged:
        yield FileNote(f"{damaged:,} of its {len(cells):,} cells are damaged and were not read")


def _parse(path: Path, text: str) -> Mapping[str, Any]:
    try:
        notebook = json.loads(text, parse_constant=lambda name: None)
    except json.JSONDecodeError as error:
        raise UnreadableFile(f"{path}: not a readable .ipynb notebook: {error.msg} in line {error.lineno}") from error
    except RecursionError as error:
        raise UnreadableFile(f"{path}: not a readable .ipynb notebook: {TOO_DEEP}") from error
    except ValueError as error:  # an integer of more digits than Python converts
        raise UnreadableFile(f"{path}: not a readable .ipynb notebook: {error}") from error
    if not isinstance(notebook, dict):
        raise UnreadableFile(f"{path}: not a Jupyter notebook: it holds no object")
    return notebook


def _list_cells(path: Path, notebook: Mapping[str, Any]) -> Sequence[Any]:
    """The cells; those of version 3 are in worksheets."""
    cells = notebook.get("cells")
    sheets = notebook.get("worksheets")
    if cells is None and isinstance(sheets, list):
        cells = [cell for sheet in sheets if isinstance(sheet, Mapping) for cell in _as_list(sheet.get("cells"))]
    if not isinstance(cells, list):
        raise UnreadableFile(f"{path}: not a Jupyter notebook: it has no list of cells")
    return cells


def _render(cell: Mapping[str, Any], language: str) -> str | None:
    """The cell as Markdown, empty if it is left out; None if it is damaged."""
    kind = cell.get("cell_type")
    source = cell.get("source", cell.get("input"))  # version 3: the input of a code cell
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = ("" if source[:1] and source[0].endswith("\n") else "\n").join(source)  # early notebooks have lines without their ends
    if not isinstance(source, str) or not isinstance(kind, str):
        return None
    source = source.replace("\r\n", "\n").replace("\x00", "")
    if not source.strip():
        return ""
    if kind == "code":
        spoken = cell.get("language")
        name = spoken if isinstance(spoken, str) and LANGUAGE.fullmatch(spoken) else language
        fence = "`" * max(3, 1 + max(map(len, BACKTICKS.findall(source)), default=0))
        source = source.strip("\n")
        return f"{fence}{name}\n{source}\n{fence}"
    if kind == "heading":
        level = cell.get("level")
        return f"{'#' * (level if isinstance(level, int) and 1 <= level <= 6 else 1)} {one_line(source)}"
    if kind == "raw":
        metadata = _as_mapping(cell.get("metadata"))
        form = metadata.get("raw_mimetype") or metadata.get("format") or ""
        return source.strip("\n") if isinstance(form, str) and form in RAW_TEXT else ""
    return PICTURE.sub(_describe_picture, source).strip("\n")


def _describe_picture(match: re.Match[str]) -> str:
    """The description in brackets if it is more than a name of a file; an element whose picture is elsewhere stays."""
    if match[0].startswith("<") and not OWN_BYTES.search(match[0]):
        return match[0]
    description = match[1] or ""
    return "" if FILE_NAME.fullmatch(description) else description


def _read_language(notebook: Mapping[str, Any]) -> str:
    metadata = _as_mapping(notebook.get("metadata"))
    names = (_as_mapping(metadata.get("language_info")).get("name"), _as_mapping(metadata.get("kernelspec")).get("language"))
    return next((name for name in names if isinstance(name, str) and LANGUAGE.fullmatch(name)), "")


def _read_fields(notebook: Mapping[str, Any]) -> Mapping[str, Any]:
    """Fields of the record in the notebook's metadata; one that is nested too deeply is left out."""
    metadata = _as_mapping(notebook.get("metadata"))
    fields: dict[str, Any] = {}
    for name in DECLARED:
        with suppress(TooDeep):
            fields[name] = clean(metadata.get(name))
    return {name: value for name, value in fields.items() if value}


def _as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _as_mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}

"""Readers of Markdown, HTML and plain text: one document a file.

Markdown takes title and other fields from its front matter (YAML between `---` lines), else the title from the first heading, else
the file's name. Front matter that is broken, deeply nested or uses aliases stays in the text, and the record states why.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from outrider.ingest.entry import Entry, FileNote, Parsed, ReadOptions
from outrider.ingest.field_values import one_line, parse_year
from outrider.ingest.readers.open_text import read_text
from outrider.linkage.identifiers import normal_doi
from outrider.sources.web.html_page import declared_charset, parse_page
from outrider.state.errors import Malformed, UnreadableFile
from outrider.state.records import Document, Identifiers

FRONT = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
ATX = re.compile(r"^ {0,3}#{1,6}[ \t]+(.+?)(?:[ \t]+#+)?[ \t]*$")
SETEXT = re.compile(r"^ {0,3}=+[ \t]*$")
MARKUP = re.compile(r"!\[[^\]]*\]\([^)]*\)|[*_`]{1,3}(?=\S)|(?<=\S)[*_`]{1,3}|\]\([^)]*\)|\[(?=[^\]]*\]\()")
MAX_FRONT_CHARS = 64 * 1024
MAX_FRONT_DEPTH = 20
NO_MAPPING = ("empty", "not a mapping")
"""Problems of what is no front matter: text between two rules."""
FIELDS = frozenset("title author authors tags keywords categories date year doi url lang language abstract description".split())
"""Keys of front matter that fill fields of the record. Others go to its metadata."""


def read_plain_text(path: Path, options: ReadOptions) -> Iterator[Parsed]:
    content = read_text(path, options)
    yield Entry(Document(doc_id="", title=path.stem, text=content.text.strip(), metadata={**content.encoding.metadata()}))


def read_html(path: Path, options: ReadOptions) -> Iterator[Parsed]:
    """A saved web page."""
    content = read_text(path, options, declared_charset)
    try:
        page = parse_page(content.text, content.encoding.metadata())
    except Malformed as error:
        raise UnreadableFile(f"{path}: {error}") from error
    if not page.text and not page.title:
        raise UnreadableFile(f"{path}: a page without readable text")
    yield Entry(page if page.title else page.model_copy(update={"title": path.stem}))


def read_markdown(path: Path, options: ReadOptions) -> Iterator[Parsed]:
    content = read_text(path, options)
    return parse_markdown(path, content.text, content.encoding.metadata())


def parse_markdown(path: Path, text: str, about: Mapping[str, JsonValue], declared: Mapping[str, Any] | None = None) -> Iterator[Parsed]:
    """The record of a Markdown text. `about` is added to its metadata; `declared` are further fields, which its front matter overrides."""
    front, body, problem = split_front(text)
    front = {**(declared or {}), **front}
    metadata: dict[str, JsonValue] = {
        **about,
        **{str(key): _to_json(value) for key, value in front.items() if key not in FIELDS},
    }
    if problem:
        metadata["front_matter"] = problem
    if problem and problem not in NO_MAPPING:
        yield FileNote(f"its front matter is not read but kept as text: {problem}")
    authors = front.get("authors") or front.get("author")
    if isinstance(authors, Mapping):
        authors = [authors]
    names = authors if isinstance(authors, list) else _to_line(authors).split(";")
    lists = [front.get(key) for key in ("tags", "keywords", "categories")]
    words = [word for words in lists for word in (words if isinstance(words, list) else _to_line(words).split(","))]
    yield Entry(
        Document(
            doc_id="",
            title=_to_line(front.get("title")) or first_heading(body) or path.stem,
            abstract=_to_line(front.get("abstract")),
            description=_to_line(front.get("description")),
            text=body.strip(),
            url=_to_line(front.get("url")) or None,
            identifiers=Identifiers(doi=normal_doi(_to_line(front.get("doi")))),
            authors=tuple(filter(None, (_to_line(name.get("name") if isinstance(name, Mapping) else name) for name in names))),
            year=_to_year(front.get("year")) or _to_year(front.get("date")),
            language=_to_line(front.get("language") or front.get("lang")) or None,
            tags=tuple(dict.fromkeys(filter(None, map(_to_line, words)))),
            metadata=metadata,
        )
    )


def split_front(text: str) -> tuple[Mapping[str, Any], str, str]:
    """Front matter, the text after it, and the problem with it; the whole text if it has none or cannot be used."""
    match = FRONT.match(text)
    if not match:
        return {}, text, ""
    front, problem = parse_mapping(match.group(1), MAX_FRONT_CHARS)
    return front, text if problem else text[match.end() :], problem


def parse_mapping(source: str, max_chars: int) -> tuple[Mapping[str, Any], str]:
    """The mapping that untrusted YAML holds, and the problem with it; the mapping is empty if there is one."""
    import yaml

    if len(source) > max_chars:
        return {}, f"longer than {max_chars} characters"
    depth = 0
    try:
        for event in yaml.parse(source, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                return {}, "uses aliases"  # they can expand without bound
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_FRONT_DEPTH:  # PyYAML takes quadratic time for depth
                return {}, f"nested more than {MAX_FRONT_DEPTH} deep"
        mapping = yaml.safe_load(source)
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date such as 2020-13-45
        return {}, f"not valid YAML: {' '.join(str(error).split())}"
    if not isinstance(mapping, Mapping):
        return {}, NO_MAPPING[mapping is not None]
    return mapping, ""


def first_heading(body: str) -> str:
    """The first heading outside fenced code, without its markup."""
    fence, before = "", ""
    for line in body.splitlines():
        mark = FENCE.match(line)
        if fence:
            fence = "" if mark and mark.group(1).startswith(fence) else fence
            continue
        if mark:
            fence = mark.group(1)
        elif heading := ATX.match(line):
            return MARKUP.sub("", heading.group(1)).strip()
        elif SETEXT.match(line) and before.strip():
            return MARKUP.sub("", before).strip()
        before = line
    return ""


def _to_line(value: Any) -> str:
    """A value as one line; the items of a list joined by a comma."""
    if value is None or isinstance(value, Mapping):
        return ""
    if isinstance(value, list):
        return ", ".join(filter(None, map(_to_line, value)))
    return one_line(str(value))


def _to_year(value: Any) -> int | None:
    if isinstance(value, dt.date):  # datetime is a date
        return value.year
    return parse_year(_to_line(value))[0]


def _to_json(value: Any) -> JsonValue:
    if isinstance(value, Mapping):
        return {str(key): _to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json(item) for item in value]
    if isinstance(value, bool | int | str) or value is None:
        return value
    return str(value)  # dates, sets, bytes, and floats, which may be no JSON numbers

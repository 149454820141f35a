"""Markdown: one document a file. Front matter (YAML between `---` lines) names it, else the first heading, else the file.

Front matter that is broken, deeply nested or uses aliases is left in the text, and the record says so.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from outrider.ingest.entry import Entry, Parsed, ReadOptions
from outrider.ingest.readers.text_files import decoded
from outrider.ingest.values import one_line, year_of
from outrider.linkage.identifiers import normal_doi
from outrider.state.records import Document, Identifiers

FRONT = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
ATX = re.compile(r"^ {0,3}#{1,6}[ \t]+(.+?)(?:[ \t]+#+)?[ \t]*$")
SETEXT = re.compile(r"^ {0,3}=+[ \t]*$")
MARKUP = re.compile(r"!\[[^\]]*\]\([^)]*\)|[*_`]{1,3}(?=\S)|(?<=\S)[*_`]{1,3}|\]\([^)]*\)|\[(?=[^\]]*\]\()")
MAX_FRONT_CHARS = 64 * 1024
MAX_FRONT_DEPTH = 20
PLACED = (
    "title",
    "author",
    "authors",
    "tags",
    "keywords",
    "categories",
    "date",
    "year",
    "doi",
    "url",
    "lang",
    "language",
    "abstract",
    "description",
)


def read(path: Path, options: ReadOptions) -> Iterator[Parsed]:
    content = decoded(path)
    front, body, problem = split_front(content.text)
    metadata: dict[str, JsonValue] = {**content.said(), **{str(key): _json(value) for key, value in front.items() if key not in PLACED}}
    if problem:
        metadata["front_matter"] = problem
    yield Entry(
        Document(
            doc_id="",
            title=_line(front.get("title")) or first_heading(body) or path.stem,
            abstract=_line(front.get("abstract")),
            description=_line(front.get("description")),
            text=body.strip(),
            url=_line(front.get("url")) or None,
            identifiers=Identifiers(doi=normal_doi(_line(front.get("doi")))),
            authors=_names(front.get("authors") or front.get("author")),
            year=_year(front.get("year")) or _year(front.get("date")),
            language=_line(front.get("language") or front.get("lang")) or None,
            tags=tuple(dict.fromkeys(word for key in ("tags", "keywords", "categories") for word in _words(front.get(key)))),
            metadata=metadata,
        )
    )


def split_front(text: str) -> tuple[Mapping[str, Any], str, str]:
    """Front matter, the text after it, and what is wrong with it; all of the text where there is none or it is wrong."""
    found = FRONT.match(text)
    if not found:
        return {}, text, ""
    try:
        front = _safe_yaml(found.group(1))
    except _NotUsable as problem:
        return {}, text, str(problem)
    return front, text[found.end() :], ""


class _NotUsable(Exception):
    pass


def _safe_yaml(source: str) -> Mapping[str, Any]:
    import yaml

    if len(source) > MAX_FRONT_CHARS:
        raise _NotUsable(f"longer than {MAX_FRONT_CHARS} characters")
    try:
        _check(yaml.parse(source, Loader=yaml.SafeLoader))
        front = yaml.safe_load(source)
    except (yaml.YAMLError, ValueError) as broken:  # ValueError: a date such as 2020-13-45
        raise _NotUsable(f"not valid YAML: {' '.join(str(broken).split())}") from broken
    if not isinstance(front, Mapping):
        raise _NotUsable("not a mapping") if front is not None else _NotUsable("empty")
    return front


def _check(events: Iterator[Any]) -> None:
    """Refuses aliases, which can expand without bound, and depth, which PyYAML takes quadratic time for."""
    depth = 0
    for event in events:
        name = type(event).__name__
        if name == "AliasEvent":
            raise _NotUsable("uses aliases")
        depth += name in ("MappingStartEvent", "SequenceStartEvent")
        depth -= name in ("MappingEndEvent", "SequenceEndEvent")
        if depth > MAX_FRONT_DEPTH:
            raise _NotUsable(f"nested more than {MAX_FRONT_DEPTH} deep")


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


def _line(value: Any) -> str:
    """A value as one line; the items of a list joined by a comma."""
    if value is None or isinstance(value, Mapping):
        return ""
    if isinstance(value, list):
        return ", ".join(filter(None, map(_line, value)))
    return one_line(str(value))


def _names(value: Any) -> tuple[str, ...]:
    """Authors from a string (`;` between them), a list of strings, or a list of mappings with `name`."""
    if isinstance(value, Mapping):
        value = [value]
    if isinstance(value, list):
        return tuple(filter(None, (_line(item.get("name") if isinstance(item, Mapping) else item) for item in value)))
    return tuple(filter(None, (name.strip() for name in _line(value).split(";"))))


def _words(value: Any) -> tuple[str, ...]:
    items = value if isinstance(value, list) else _line(value).split(",")
    return tuple(filter(None, (_line(item) for item in items)))


def _year(value: Any) -> int | None:
    if isinstance(value, dt.date):  # datetime is a date
        return value.year
    return year_of(_line(value))[0]


def _json(value: Any) -> JsonValue:
    if isinstance(value, Mapping):
        return {str(key): _json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json(item) for item in value]
    if isinstance(value, bool | int | str) or value is None:
        return value
    return str(value)  # dates, sets, bytes, and floats that JSON has no word for

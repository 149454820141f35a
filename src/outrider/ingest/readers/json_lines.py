"""JSON and JSON Lines, also gzipped: objects into records, read a value at a time.

`.jsonl` and `.ndjson`: one object a line, a broken line is reported and the next one read. `.json`: a list of objects, an
object that holds such a list, a single record, or several of these one after another (RFC 8259; concatenated texts as jq
reads them). There a syntax error ends the file: what came before it stands. NaN and infinities, which JSON has not, read as
missing. Rows that Outrider itself exported come back as they were, `doc_id` included.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TextIO

from pydantic import JsonValue

from outrider.ingest.entry import BadEntry, Entry, Parsed, ReadOptions
from outrider.ingest.outrider_rows import SCHEMA, NotARecord, from_json
from outrider.ingest.readers.text_files import entries_of
from outrider.ingest.row_columns import CONTENT, FIELD_OF, check_columns, fold, parsed_row
from outrider.ingest.values import TooDeep, clean
from outrider.state.errors import NothingToRead, UnreadableFile

CHUNK_CHARS = 2**16
MAX_RECORD_CHARS = 2**25
"""One record may be this long: a full text is at most a few million characters."""
LOOKED_AT = 100
"""Rows that are looked through for known field names before any is taken."""
CONTAINERS = frozenset(
    {"records", "results", "items", "data", "papers", "documents", "docs", "works", "hits", "entries", "articles", "rows"}
)
TOO_DEEP = "nested too deeply"

Row = tuple[str, JsonValue] | BadEntry
"""A value with the place where it stands."""


def _no_number(name: str) -> None:
    """NaN, Infinity, -Infinity."""


DECODER = json.JSONDecoder(parse_constant=_no_number)


def read(path: Path, options: ReadOptions) -> Iterator[Parsed]:
    return entries_of(path, options, lambda stream: _entries(path, stream, options))


def _entries(path: Path, stream: TextIO, options: ReadOptions) -> Iterator[Parsed]:
    lines = ".jsonl" in path.name.lower() or ".ndjson" in path.name.lower()
    rows = _lines(stream) if lines else _document(_Text(stream))
    try:
        head = list(islice(rows, LOOKED_AT))
    except _Broken as cut:
        raise UnreadableFile(f"{path}: {cut}; no whole record comes before it") from cut
    _check(path, head, options)
    for row in chain(head, rows):
        yield row if isinstance(row, BadEntry) else _parsed(*row, options)


def _parsed(where: str, value: JsonValue, options: ReadOptions) -> Parsed:
    if not isinstance(value, dict):
        return BadEntry(where, "not an object with named fields")
    if value.get("schema") != SCHEMA:
        return parsed_row(value, options.columns, where)
    try:
        record = from_json({name: clean(field) for name, field in value.items()})
    except (NotARecord, TooDeep) as wrong:
        return BadEntry(where, str(wrong))
    assert record is not None  # noqa: S101 - from_json gives None only where the schema is another
    return Entry(record)


def _check(path: Path, head: list[Row], options: ReadOptions) -> None:
    """Refuses a file without an object among its first rows, or whose names say nothing."""
    if not head:
        raise NothingToRead(f"{path}: holds no records")
    objects = [row[1] for row in head if not isinstance(row, BadEntry) and isinstance(row[1], dict)]
    if not objects:
        first = head[0]
        said = f"{first.where}: {first.why}" if isinstance(first, BadEntry) else f"{first[0]}: not an object with named fields"
        raise NothingToRead(f"{path}: no record among its first {len(head)} rows; {said}")
    foreign = [row for row in objects if isinstance(row, dict) and row.get("schema") != SCHEMA]
    if foreign and any(foreign):
        check_columns(path, [name for row in foreign for name in row], options.columns)


def _lines(stream: TextIO) -> Iterator[Row]:
    number = 0
    while line := stream.readline(MAX_RECORD_CHARS + 1):
        number += 1
        if len(line) > MAX_RECORD_CHARS:
            while line and not line.endswith("\n"):
                line = stream.readline(CHUNK_CHARS)
            yield BadEntry(f"line {number}", f"longer than {MAX_RECORD_CHARS:,} characters")
        elif line.strip():
            yield _line(line, f"line {number}")


def _line(line: str, where: str) -> Row:
    try:
        return where, DECODER.decode(line.strip())
    except RecursionError:
        return BadEntry(where, TOO_DEEP)
    except json.JSONDecodeError as broken:
        return BadEntry(where, f"not JSON: {broken.msg} at column {broken.colno}")
    except ValueError as broken:  # an integer of more digits than Python converts
        return BadEntry(where, f"not readable: {broken}")


class _Broken(ValueError):
    """The JSON text goes wrong here, or is cut: ends too early."""

    def __init__(self, said: str, *, cut: bool) -> None:
        super().__init__(said)
        self.cut = cut


class _Text:
    """A JSON text from which whole values are taken, holding no more of it than the value in hand."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._buffer = ""
        self._at = 0
        self._passed = 0

    def peek(self) -> str:
        """The next character that is not white space, empty at the end."""
        while True:
            while self._at < len(self._buffer) and self._buffer[self._at] in " \t\r\n":
                self._at += 1
            if self._at < len(self._buffer):
                return self._buffer[self._at]
            if not self._fill(CHUNK_CHARS):
                return ""

    def expect(self, chars: str) -> str:
        char = self.peek()
        if not char or char not in chars:
            raise self._broken(f"expected one of {' '.join(chars)}", self._at, cut=not char)
        self._at += 1
        return char

    def value(self) -> JsonValue:
        value: JsonValue
        size = CHUNK_CHARS
        self.peek()
        while True:
            try:
                value, end = DECODER.raw_decode(self._buffer, self._at)
            except RecursionError as deep:
                raise self._broken(TOO_DEEP, self._at) from deep
            except json.JSONDecodeError as broken:
                unfinished = broken.msg.startswith("Unterminated string") or broken.pos >= len(self._buffer) - 16
                if not unfinished or not self._fill(size):
                    raise self._broken(broken.msg, broken.pos, cut=unfinished) from broken
            except ValueError as broken:  # an integer of more digits than Python converts
                raise self._broken(str(broken), self._at) from broken
            else:
                if end < len(self._buffer) or not self._fill(size):  # at the very end a number might go on
                    self._at = end
                    return value
            size *= 2

    def _fill(self, size: int) -> bool:
        """Reads on. Positions from `_at` stay valid only where nothing was read, which is what callers rely on."""
        chunk = self._stream.read(size)
        if chunk:
            self._buffer = self._buffer[self._at :] + chunk
            self._passed += self._at
            self._at = 0
        if len(self._buffer) > MAX_RECORD_CHARS:
            raise self._broken(f"a record longer than {MAX_RECORD_CHARS:,} characters", self._at)
        return bool(chunk)

    def _broken(self, why: str, at: int, *, cut: bool = False) -> _Broken:
        return _Broken(f"not JSON at character {self._passed + at + 1}: {why}; the rest of the file is lost", cut=cut)


def _document(text: _Text) -> Iterator[Row]:
    number = 0
    try:
        while char := text.peek():
            for value in _array(text) if char == "[" else _object(text) if char == "{" else iter([text.value()]):
                number += 1
                yield f"record {number}", value
    except _Broken as broken:
        if broken.cut and not number:
            raise
        yield BadEntry(f"after record {number}", str(broken))


def _array(text: _Text) -> Iterator[JsonValue]:
    text.expect("[")
    while text.peek() != "]":
        yield text.value()
        if text.peek() != "]":
            text.expect(",]")
    text.expect("]")


def _object(text: _Text) -> Iterator[JsonValue]:
    """A record, or what its container holds: the list under a name such as `records`, unless a title or text came before it."""
    text.expect("{")
    whole: dict[str, JsonValue] = {}
    contained = False
    while text.peek() != "}":
        if text.peek() != '"':
            text.expect('"')
        name = str(text.value())
        text.expect(":")
        if text.peek() == "[" and name.casefold() in CONTAINERS and not _is_record(whole):
            contained = True
            yield from _array(text)
        else:
            whole[name] = text.value()
        if text.peek() != "}":
            text.expect(",}")
    text.expect("}")
    if not contained:
        yield from _held(whole)


def _held(whole: dict[str, JsonValue]) -> list[JsonValue]:
    lists = [value for value in whole.values() if isinstance(value, list) and value and all(isinstance(item, dict) for item in value)]
    return [whole] if _is_record(whole) or len(lists) != 1 else lists[0]


def _is_record(whole: dict[str, JsonValue]) -> bool:
    return any(FIELD_OF.get(fold(name)) in CONTENT for name in whole)

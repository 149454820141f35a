"""Reader of JSON and JSON Lines, also gzipped: objects into records, one value at a time.

`.jsonl` and `.ndjson`: one object a line; a broken line is reported and the next one read. `.json`: a list of objects, an
object that holds such a list, a single record, or several of these one after another (RFC 8259; concatenated texts as jq
reads them). There a syntax error ends the file, and the records before it are read. A value nested too deeply, an integer of too many
digits and a record that is too long are failures, also where nothing else is in the file. NaN and infinities, which JSON lacks, are read as
missing. Rows of an Outrider export are read as they were, `doc_id` included.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TextIO

from pydantic import JsonValue

from outrider.ingest.column_mapping import CONTENT, FIELD_OF, check_columns, parse_row
from outrider.ingest.entry import BadEntry, Entry, Parsed, ReadOptions
from outrider.ingest.exported_rows import SCHEMA, InvalidRow, parse_json_row
from outrider.ingest.field_values import TooDeep, clean
from outrider.ingest.readers.open_text import read_entries
from outrider.state.errors import NothingToRead, UnreadableFile
from outrider.text.words import fold_name

CHUNK_CHARS = 2**16
MAX_RECORD_CHARS = 2**25
"""One record may be this long: a full text is at most a few million characters."""
CHECKED_ROWS = 100
"""Rows that are checked for known field names before any is read."""
CONTAINERS = frozenset(
    {"records", "results", "items", "data", "papers", "documents", "docs", "works", "hits", "entries", "articles", "rows"}
)
TOO_DEEP = "nested too deeply"

Row = tuple[str, JsonValue] | BadEntry
"""A value with its place in the file."""


class BeyondLimits(BadEntry):
    """An entry that is JSON, and nested too deeply or too long to be read. A file of them is no file without records."""


DECODER = json.JSONDecoder(parse_constant=lambda name: None)
"""NaN, Infinity and -Infinity become None."""


def read(path: Path, options: ReadOptions) -> Iterator[Parsed]:
    return read_entries(path, options, lambda stream: _parse(path, stream, options))


def _parse(path: Path, stream: TextIO, options: ReadOptions) -> Iterator[Parsed]:
    is_lines = ".jsonl" in path.name.lower() or ".ndjson" in path.name.lower()
    rows = _parse_lines(stream) if is_lines else _parse_document(_JsonText(stream))
    try:
        head = list(islice(rows, CHECKED_ROWS))
    except _JsonError as error:
        raise UnreadableFile(f"{path}: {error}; no whole record comes before it") from error
    _check_names(path, head, options)
    for row in chain(head, rows):
        if isinstance(row, BadEntry):
            yield row
            continue
        where, value = row
        if not isinstance(value, dict):
            yield BadEntry(where, "not an object with named fields")
        elif value.get("schema") != SCHEMA:
            yield parse_row(value, options.columns, where)
        else:
            try:
                yield Entry(parse_json_row({name: clean(field) for name, field in value.items()}))
            except (InvalidRow, TooDeep) as error:
                yield BadEntry(where, str(error))


def _check_names(path: Path, head: list[Row], options: ReadOptions) -> None:
    """Refuses a file without an object among its first rows, or without a known field name in them."""
    if not head:
        raise NothingToRead(f"{path}: holds no records")
    objects = [row[1] for row in head if not isinstance(row, BadEntry) and isinstance(row[1], dict)]
    if not objects:
        if excessive := next((row for row in head if isinstance(row, BeyondLimits)), None):
            raise UnreadableFile(f"{path}: {excessive.where}: {excessive.why}")
        first = head[0]
        problem = f"{first.where}: {first.why}" if isinstance(first, BadEntry) else f"{first[0]}: not an object with named fields"
        raise NothingToRead(f"{path}: no record among its first {len(head)} rows; {problem}")
    foreign = [row for row in objects if isinstance(row, dict) and row.get("schema") != SCHEMA]
    if foreign and any(foreign):
        check_columns(path, [name for row in foreign for name in row], options.columns)


def _parse_lines(stream: TextIO) -> Iterator[Row]:
    number = 0
    while line := stream.readline(MAX_RECORD_CHARS + 1):
        number += 1
        where = f"line {number}"
        if len(line) > MAX_RECORD_CHARS:
            while line and not line.endswith("\n"):
                line = stream.readline(CHUNK_CHARS)
            yield BeyondLimits(where, f"longer than {MAX_RECORD_CHARS:,} characters")
        elif line.strip():
            try:
                yield where, DECODER.decode(line.strip())
            except RecursionError:
                yield BeyondLimits(where, TOO_DEEP)
            except json.JSONDecodeError as error:
                yield BadEntry(where, f"not JSON: {error.msg} at column {error.colno}")
            except ValueError as error:  # an integer of more digits than Python converts
                yield BeyondLimits(where, f"not readable: {error}")


class _JsonError(ValueError):
    """A syntax error, a text that is cut short, or a value beyond the limits."""

    def __init__(self, message: str, *, cut: bool, excessive: bool) -> None:
        super().__init__(message)
        self.cut = cut
        self.excessive = excessive


class _JsonText:
    """A JSON text that is read one value at a time. It holds no more of the text than the present value."""

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
            raise self._make_error(f"expected one of {' '.join(chars)}", self._at, cut=not char)
        self._at += 1
        return char

    def value(self) -> JsonValue:
        value: JsonValue
        size = CHUNK_CHARS
        self.peek()
        while True:
            try:
                value, end = DECODER.raw_decode(self._buffer, self._at)
            except RecursionError as error:
                raise self._make_error(TOO_DEEP, self._at, excessive=True) from error
            except json.JSONDecodeError as error:
                unfinished = error.msg.startswith("Unterminated string") or error.pos >= len(self._buffer) - 16
                if not unfinished or not self._fill(size):
                    raise self._make_error(error.msg, error.pos, cut=unfinished) from error
            except ValueError as error:  # an integer of more digits than Python converts
                raise self._make_error(str(error), self._at, excessive=True) from error
            else:
                if end < len(self._buffer) or not self._fill(size):  # at the very end a number might go on
                    self._at = end
                    return value
            size *= 2

    def _fill(self, size: int) -> bool:
        """Reads more of the text; False at its end. Positions from `_at` stay valid only at the end, which callers rely on."""
        chunk = self._stream.read(size)
        if chunk:
            self._buffer = self._buffer[self._at :] + chunk
            self._passed += self._at
            self._at = 0
        if len(self._buffer) > MAX_RECORD_CHARS:
            raise self._make_error(f"a record longer than {MAX_RECORD_CHARS:,} characters", self._at, excessive=True)
        return bool(chunk)

    def _make_error(self, why: str, at: int, *, cut: bool = False, excessive: bool = False) -> _JsonError:
        problem = "not readable" if excessive else "not JSON"
        message = f"{problem} at character {self._passed + at + 1}: {why}; the rest of the file is lost"
        return _JsonError(message, cut=cut, excessive=excessive)


def _parse_document(text: _JsonText) -> Iterator[Row]:
    number = 0
    try:
        while char := text.peek():
            for value in _parse_array(text) if char == "[" else _parse_object(text) if char == "{" else iter([text.value()]):
                number += 1
                yield f"record {number}", value
    except _JsonError as error:
        if error.cut and not number:
            raise
        yield (BeyondLimits if error.excessive else BadEntry)(f"after record {number}", str(error))


def _parse_array(text: _JsonText) -> Iterator[JsonValue]:
    text.expect("[")
    while text.peek() != "]":
        yield text.value()
        if text.peek() != "]":
            text.expect(",]")
    text.expect("]")


def _parse_object(text: _JsonText) -> Iterator[JsonValue]:
    """A record, or the records in a container: the list under a name such as `records`, unless a title or text came before it."""
    text.expect("{")
    whole: dict[str, JsonValue] = {}
    is_container = False
    while text.peek() != "}":
        if text.peek() != '"':
            text.expect('"')
        name = str(text.value())
        text.expect(":")
        if text.peek() == "[" and name.casefold() in CONTAINERS and not _is_record(whole):
            is_container = True
            yield from _parse_array(text)
        else:
            whole[name] = text.value()
        if text.peek() != "}":
            text.expect(",}")
    text.expect("}")
    if not is_container:
        lists = [value for value in whole.values() if isinstance(value, list) and value and all(isinstance(item, dict) for item in value)]
        yield from [whole] if _is_record(whole) or len(lists) != 1 else lists[0]


def _is_record(whole: dict[str, JsonValue]) -> bool:
    return any(FIELD_OF.get(fold_name(name)) in CONTENT for name in whole)

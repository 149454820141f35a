"""CSV, TSV and XLSX: a header line of column names, then one record a row.

Separators `, ; tab | %` are told apart by which makes known names of the header. RFC 4180 quoting. A row with more cells than
the header keeps them in its metadata as `column_<n>`; one with fewer lacks the last columns. XLSX (ECMA-376) is read sheet by
sheet with openpyxl in read-only mode; formulas give the values that were last saved.
"""

from __future__ import annotations

import csv
import datetime as dt
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TextIO

from pydantic import JsonValue

from outrider.ingest.entry import BadEntry, Entry, Parsed, ReadOptions
from outrider.ingest.outrider_rows import COLUMNS, NotARecord, from_cells, unguarded
from outrider.ingest.readers.text_files import entries_of, refuse_large
from outrider.ingest.row_columns import FIELD_OF, NAMES, check_columns, fold, parsed_row
from outrider.state.errors import NothingToRead, UnreadableFile

SEPARATORS = ",;\t|%"
MAX_SHEET_ROWS = 2**20
"""Rows of a sheet in Excel; a file may claim more to keep a reader busy."""
MISSING = "NA"
"""What R writes for a missing value; under names of ours it says nothing."""
MAY_MISS = frozenset(NAMES) - {"id", "title", "authors"}
OLD_OFFICE = b"\xd0\xcf\x11\xe0"


def read(path: Path, options: ReadOptions) -> Iterator[Parsed]:
    if path.suffix.lower() == ".xlsx":
        yield from _workbook(path, options)
        return
    yield from entries_of(path, options, lambda stream: _table(path, stream, options), newline="")


def _table(path: Path, stream: TextIO, options: ReadOptions) -> Iterator[Parsed]:
    lines = _Lines(stream)
    first = next((line for line in lines if line.strip()), None)
    if first is None:
        raise NothingToRead(f"{path}: holds only blank lines")
    csv.field_size_limit(max(options.max_bytes, csv.field_size_limit()))
    lines.put_back(first)
    lines.separator = _separator(first, path)
    rows = csv.reader(lines, delimiter=lines.separator)
    header = [cell.replace("\x00", "") for cell in next(rows)]
    if tuple(header) == COLUMNS:
        yield from _own(rows, lines)
        return
    names = _names(header)
    check_columns(path, names, options.columns)
    empty = True
    for cells in rows:
        if any(cell.strip() for cell in cells):
            empty = False
            yield lines.broken_off() or parsed_row(_row(names, [unguarded(cell) for cell in cells]), options.columns, lines.where)
        lines.forget()
    if empty:
        raise NothingToRead(f"{path}: holds a header but no row")


def _own(rows: Iterable[list[str]], lines: _Lines) -> Iterator[Parsed]:
    for cells in rows:
        try:
            if cells:
                yield lines.broken_off() or Entry(from_cells(cells))
        except NotARecord as wrong:
            yield BadEntry(lines.where, str(wrong))
        lines.forget()


class _Lines:
    """The lines of a file, with those of the row in hand remembered: a quote that is never closed swallows all that follow."""

    def __init__(self, stream: TextIO) -> None:
        self.separator = ","
        self._stream = stream
        self._row: list[str] = []
        self._again: list[str] = []
        self._number = 0
        self._ended = False

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if self._again:
            return self._again.pop()
        line = self._stream.readline()
        if not line:
            self._ended = True
            raise StopIteration
        self._number += 1
        self._row.append(line)
        return line

    def put_back(self, line: str) -> None:
        self._again.append(line)

    def forget(self) -> None:
        self._row.clear()

    @property
    def where(self) -> str:
        return f"line {self._number - len(self._row) + 1}"

    def broken_off(self) -> BadEntry | None:
        """Only the file's last row can be: it ran into the end."""
        if not self._ended:
            return None
        try:
            list(csv.reader(self._row, delimiter=self.separator, strict=True))
        except csv.Error as error:
            if "unexpected end" in str(error):
                return BadEntry(self.where, f"a quote is opened and never closed; {len(self._row)} lines to the end of the file are lost")
        return None


def _separator(header: str, path: Path) -> str:
    """The separator under which most names are known; then the one that cuts most."""

    def known(separator: str) -> tuple[int, int, int]:
        cells = next(csv.reader([header], delimiter=separator), [])
        names = sum(fold(cell) in FIELD_OF for cell in cells)
        frequent = len(cells) if separator != "%" else 0
        return names, frequent, -SEPARATORS.index(separator)

    if path.suffix.lower() in (".tsv", ".tab") and "\t" in header:
        return "\t"
    return max(SEPARATORS, key=known)


def _names(header: Sequence[str]) -> list[str]:
    """Column names, each once; one without a name is called by its place."""
    names: list[str] = []
    for place, cell in enumerate(header, 1):
        name = cell.strip() or f"column_{place}"
        names.append(name if name not in names else f"{name}_{place}")
    return names


def _row(names: Sequence[str], cells: Sequence[JsonValue]) -> dict[str, JsonValue]:
    """The cells that hold something, by name."""
    extra = [f"column_{place}" for place in range(len(names) + 1, len(cells) + 1)]
    given = zip([*names, *extra], cells, strict=False)
    return {name: cell for name, cell in given if cell not in (None, "") and not (cell == MISSING and FIELD_OF.get(fold(name)) in MAY_MISS)}


def _workbook(path: Path, options: ReadOptions) -> Iterator[Parsed]:
    from openpyxl import load_workbook

    _refuse_bomb(path, options)
    with path.open("rb") as stream:  # ours to close: a sheet that was not read to its end would keep openpyxl's own open
        with _whole_workbook(path), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # what openpyxl does not support (styles, validation) is not read anyway
            book = load_workbook(stream, read_only=True, data_only=True, keep_links=False)
        yield from _sheets(path, book, options)


def _sheets(path: Path, book: object, options: ReadOptions) -> Iterator[Parsed]:
    found = False
    problems: list[UnreadableFile] = []
    for sheet in book.worksheets:  # type: ignore[attr-defined]
        sheet.reset_dimensions()  # the size that a file claims is not to be trusted
        rows = _cells(path, sheet)
        try:
            for parsed in _sheet(path, sheet.title, rows, options, scoped=found):
                yield parsed
                found = True
        except UnreadableFile as problem:
            problems.append(problem)
    if not found:
        raise problems[0] if problems else NothingToRead(f"{path}: holds no rows")
    for refused in problems:
        yield BadEntry("sheet", str(refused))


def _sheet(path: Path, title: str, rows: Iterator[tuple[int, list[JsonValue]]], options: ReadOptions, *, scoped: bool) -> Iterator[Parsed]:
    header = next(rows, None)
    if header is None:
        return
    names = _names([str(cell) if cell is not None else "" for cell in header[1]])
    check_columns(path, names, options.columns, where=f", sheet {title!r}")
    for number, cells in rows:
        yield parsed_row(_row(names, cells), options.columns, f"sheet {title!r}, row {number}", scope=f"{title}!" if scoped else "")


def _cells(path: Path, sheet: object) -> Iterator[tuple[int, list[JsonValue]]]:
    """Rows that hold anything, with their numbers."""
    with _whole_workbook(path):
        for number, row in enumerate(islice(sheet.iter_rows(values_only=True), MAX_SHEET_ROWS + 1), 1):  # type: ignore[attr-defined]
            if number > MAX_SHEET_ROWS:
                raise UnreadableFile(f"{path}: a sheet of more than {MAX_SHEET_ROWS:,} rows")
            cells = [_value(cell) for cell in row]
            while cells and cells[-1] in (None, ""):
                cells.pop()
            if cells:
                yield number, cells


def _value(cell: object) -> JsonValue:
    if isinstance(cell, str | bool | int) or cell is None:
        return cell
    if isinstance(cell, float):
        return int(cell) if cell.is_integer() else cell
    if isinstance(cell, dt.datetime | dt.date | dt.time):
        return cell.isoformat().removesuffix("T00:00:00")
    return str(cell)


def _refuse_bomb(path: Path, options: ReadOptions) -> None:
    """The archive's directory bounds what unpacking gives: zipfile reads no member beyond the size stated there."""
    refuse_large(path, options)
    with path.open("rb") as file:
        start = file.read(len(OLD_OFFICE))
    if start == OLD_OFFICE:
        raise UnreadableFile(f"{path}: an old .xls or an encrypted workbook; save it as plain .xlsx")
    with _whole_workbook(path), zipfile.ZipFile(path) as archive:
        unpacked = sum(member.file_size for member in archive.infolist())
    if unpacked > options.max_bytes:
        raise UnreadableFile(f"{path}: {unpacked:,} bytes when unpacked, more than the limit of {options.max_bytes:,} (ingest.max_bytes)")


@contextmanager
def _whole_workbook(path: Path) -> Iterator[None]:
    """Translates what zipfile, the XML parser and openpyxl raise for a workbook that is none, or is broken."""
    from xml.etree.ElementTree import ParseError

    from openpyxl.utils.exceptions import InvalidFileException

    try:
        yield
    except (zipfile.BadZipFile, InvalidFileException, ParseError, ValueError, KeyError, TypeError, EOFError) as error:
        raise UnreadableFile(f"{path}: not a readable .xlsx workbook: {error}") from error

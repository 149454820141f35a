"""Reader of tables (CSV, TSV, XLSX): a header line of column names, then one record a row.

Lines about the export may stand above the header, as Dimensions writes them, and Excel's `sep=;`. Of the separators `, ; tab | %` the one
that gives most known names in the header is used. RFC 4180 quoting. A row with more cells than the header has them in its metadata as
`column_<n>`; one with fewer lacks the last columns. XLSX (ECMA-376) is read sheet by sheet with openpyxl in read-only mode; formulas give
the values that were last saved. `damaged_quotes` finds rows that a damaged quote merges.
"""

from __future__ import annotations

import csv
import datetime as dt
import re
import warnings
import zipfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any, TextIO

from pydantic import JsonValue

from outrider.ingest.column_mapping import CONTENT, FIELD_OF, NAMES, check_columns, find_columns, find_translated, parse_row
from outrider.ingest.entry import BadEntry, Entry, Parsed, ReadOptions
from outrider.ingest.exported_rows import COLUMNS, FORMER_COLUMNS, InvalidRow, parse_csv_cells, unescape_formula
from outrider.ingest.readers.damaged_quotes import Lines, iterate_rows
from outrider.ingest.readers.open_text import read_entries
from outrider.ingest.readers.packed_file import open_packed
from outrider.ingest.translated_columns import translate_columns
from outrider.state.errors import NothingToRead, UnreadableFile
from outrider.text.words import fold_name

SEPARATORS = ",;\t|%"
SEPARATOR_LINE = re.compile(r'"?sep=(.)"?\1*')
MAX_HEAD_LINES = 10
"""Lines among which the header is looked for."""
MAX_SHEET_ROWS = 2**20
"""Rows of a sheet in Excel. A file may claim more to keep a reader busy."""
MISSING = "NA"
"""R's word for a missing value. In the columns `MAY_MISS` it is read as empty."""
MAY_MISS = frozenset(NAMES) - {"id", "title", "authors"}


def read(path: Path, options: ReadOptions) -> Iterator[Parsed]:
    if path.suffix.lower() == ".xlsx":
        return _read_workbook(path, options)
    return read_entries(path, options, lambda stream: _parse_text(path, stream, options), newline="")


def _parse_text(path: Path, stream: TextIO, options: ReadOptions) -> Iterator[Parsed]:
    lines = Lines(stream)
    csv.field_size_limit(max(options.max_bytes, csv.field_size_limit()))
    separator = _go_to_header(lines, path, options)
    header = [cell.replace("\x00", "") for cell in next(csv.reader(lines, delimiter=separator))]
    rows = iterate_rows(lines, header, separator)
    if tuple(header) in (COLUMNS, FORMER_COLUMNS):
        for row in rows:
            if isinstance(row, BadEntry):
                yield row
                continue
            try:
                yield Entry(parse_csv_cells(row[1]))
            except InvalidRow as error:
                yield BadEntry(row[0], str(error))
        return
    names = _make_names(header)
    check_columns(path, names, options.columns)
    translated, may_miss = find_translated(names, options.columns), _list_may_miss(names)
    empty = True
    for row in rows:
        if isinstance(row, BadEntry):
            empty = False
            yield row
        elif any(cell.strip() for cell in row[1]):
            empty = False
            cells = _make_row(names, [unescape_formula(cell) for cell in row[1]], may_miss)
            yield parse_row(cells, options.columns, row[0], translated=translated)
    if empty:
        raise NothingToRead(f"{path}: holds a header but no row")


def _go_to_header(lines: Lines, path: Path, options: ReadOptions) -> str:
    """Skip what stands above the header, and return the separator."""
    head: list[tuple[int, str, list[str]]] = []  # place, separator and cells of the first lines
    declared = ""
    for line in lines:
        if match := SEPARATOR_LINE.fullmatch(line.rstrip("\r\n")):
            declared = match[1]
        elif line.strip():
            separator = declared or _choose_separator(line, path)
            head.append((len(lines.row) - 1, separator, next(csv.reader([line], delimiter=separator))))
            if len(head) == MAX_HEAD_LINES or line.count('"') % 2:  # a cell of several lines
                break
    if not head:
        raise NothingToRead(f"{path}: holds only blank lines")
    place, separator, _ = head[_find_header([cells for *_, cells in head], options)]
    lines.put_back(len(lines.row) - place)
    return separator


def _find_header(rows: Sequence[Sequence[str]], options: ReadOptions) -> int:
    """The place of the header among the first rows: the first one that names what a record is found by; further down, and more."""
    known = [find_columns(cells, options.columns) for cells in rows]
    places = (place for place, names in enumerate(known) if any(FIELD_OF[name] in CONTENT for name in names))
    return next((place for place in places if not place or len(known[place]) > 1), 0)


def is_table(text: str) -> bool:
    """Whether a text whose suffix says nothing starts with names of columns, a title among them, and a row."""
    lines = [line for line in text.split("\n") if line.strip() and not SEPARATOR_LINE.fullmatch(line)]
    header, row = (*lines, "", "")[:2]
    separator = _choose_separator(header, Path())
    cells = next(csv.reader([header], delimiter=separator), [])
    fields = {FIELD_OF.get(fold_name(cell)) for cell in cells} - {None} | {*translate_columns(cells).values()}
    few = 2 if separator == "\t" else 3  # commas and semicolons are in prose, too
    return separator in ",;\t" and separator in row and "title" in fields and len(fields) >= few


def _choose_separator(header: str, path: Path) -> str:
    """The separator that gives most known names; among equals the one that gives most cells."""

    def rate(separator: str) -> tuple[int, int, int]:
        cells = next(csv.reader([header], delimiter=separator), [])
        names = sum(fold_name(cell) in FIELD_OF for cell in cells) + len(translate_columns(cells))
        return names, len(cells) if separator != "%" else 0, -SEPARATORS.index(separator)

    if path.suffix.lower() in (".tsv", ".tab") and "\t" in header:
        return "\t"
    return max(SEPARATORS, key=rate)


def _make_names(header: Sequence[str]) -> list[str]:
    """Column names, each once. A column without a name is named by its place."""
    names: list[str] = []
    taken = set[str]()  # a damaged header may hold a whole file
    for place, cell in enumerate(header, 1):
        name = cell.strip() or f"column_{place}"
        names.append(name if name not in taken else f"{name}_{place}")
        taken.add(names[-1])
    return names


def _list_may_miss(names: Sequence[str]) -> frozenset[str]:
    """The columns in which `MISSING` is no value."""
    field_of = translate_columns(names) | {name: FIELD_OF[folded] for name in names if (folded := fold_name(name)) in FIELD_OF}
    return frozenset(name for name, field in field_of.items() if field in MAY_MISS)


def _make_row(names: Sequence[str], cells: Sequence[JsonValue], may_miss: Collection[str]) -> dict[str, JsonValue]:
    """The cells that hold a value, by name."""
    extra = [f"column_{place}" for place in range(len(names) + 1, len(cells) + 1)]
    row = zip([*names, *extra], cells, strict=False)
    return {name: cell for name, cell in row if cell not in (None, "") and (cell != MISSING or name not in may_miss)}


def _read_workbook(path: Path, options: ReadOptions) -> Iterator[Parsed]:
    from openpyxl import load_workbook

    old = "an old .xls or an encrypted workbook; save it as plain .xlsx"
    with open_packed(path, options, ".xlsx workbook", old) as archive:  # openpyxl would keep it open if a sheet is not read to its end
        archive.stream.seek(0)
        with _workbook_errors(path), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # features that openpyxl does not support (styles, validation) are not read anyway
            book = load_workbook(archive.stream, read_only=True, data_only=True, keep_links=False)
        empty = True
        problems: list[UnreadableFile] = []
        for sheet in book.worksheets:
            try:
                for parsed in _read_sheet(path, sheet, options, scoped=not empty):
                    yield parsed
                    empty = False
            except UnreadableFile as error:
                problems.append(error)
    if empty:
        raise problems[0] if problems else NothingToRead(f"{path}: holds no rows")
    for problem in problems:
        yield BadEntry("sheet", str(problem))


def _read_sheet(path: Path, sheet: Any, options: ReadOptions, *, scoped: bool) -> Iterator[Parsed]:
    sheet.reset_dimensions()  # the size that a file claims is not to be trusted
    rows = _list_rows(path, sheet)
    head = list(islice(rows, MAX_HEAD_LINES))
    if not head:
        return
    texts = [[str(cell) if cell is not None else "" for cell in cells] for _, cells in head]
    place = _find_header(texts, options)
    names = _make_names(texts[place])
    check_columns(path, names, options.columns, where=f", sheet {sheet.title!r}")
    translated, may_miss = find_translated(names, options.columns), _list_may_miss(names)
    for number, cells in chain(head[place + 1 :], rows):
        where, scope = f"sheet {sheet.title!r}, row {number}", f"{sheet.title}!" if scoped else ""
        yield parse_row(_make_row(names, cells, may_miss), options.columns, where, translated=translated, scope=scope)


def _list_rows(path: Path, sheet: Any) -> Iterator[tuple[int, list[JsonValue]]]:
    """Rows that hold a value, with their numbers."""
    with _workbook_errors(path):
        for number, row in enumerate(islice(sheet.iter_rows(values_only=True), MAX_SHEET_ROWS + 1), 1):
            if number > MAX_SHEET_ROWS:
                raise UnreadableFile(f"{path}: a sheet of more than {MAX_SHEET_ROWS:,} rows")
            cells = [_to_json(cell) for cell in row]
            while cells and cells[-1] in (None, ""):
                cells.pop()
            if cells:
                yield number, cells


def _to_json(cell: object) -> JsonValue:
    if isinstance(cell, str | bool | int) or cell is None:
        return cell
    if isinstance(cell, float):
        return int(cell) if cell.is_integer() else cell
    if isinstance(cell, dt.datetime | dt.date | dt.time):
        return cell.isoformat().removesuffix("T00:00:00")
    return str(cell)


@contextmanager
def _workbook_errors(path: Path) -> Iterator[None]:
    """Turns errors of zipfile, the XML parser and openpyxl about a broken workbook into `UnreadableFile`."""
    from xml.etree.ElementTree import ParseError

    from openpyxl.utils.exceptions import InvalidFileException

    try:
        yield
    except (zipfile.BadZipFile, InvalidFileException, ParseError, ValueError, KeyError, TypeError, EOFError) as error:
        raise UnreadableFile(f"{path}: not a readable .xlsx workbook: {error}") from error

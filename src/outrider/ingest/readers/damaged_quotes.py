"""Rows of a CSV file, with those found that a damaged quote would merge or cut.

A quote that is left open swallows the following rows up to the next quote (RFC 4180 allows line ends inside quotes), often without a trace:
the row still has as many cells as the header. Evidence of damage is text right after a closing quote, an end of the file inside quotes,
opening and closing quotes that do not pair, and a row of several lines each of which is a row of its own with the form of its columns.
Such a row is reported with its lines, and reading goes on at the next line that is a row.
"""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO

from outrider.ingest.column_mapping import FIELD_OF
from outrider.ingest.entry import BadEntry
from outrider.text.words import fold_name

Row = tuple[str, list[str]]
"""Where a row begins, and its cells."""
FORMS = {
    "number": re.compile(r"-?\d+(?:[.,]\d+)?"),
    "doi": re.compile(r"(?:https?://(?:dx\.)?doi\.org/|doi:\s*)?10\.\d{4,9}/\S+", re.IGNORECASE),
    "link": re.compile(r"https?://\S+", re.IGNORECASE),
    "code": re.compile(r"[A-Za-z]{0,12}[:_-]?\d[\w.:-]*"),
}
FORM_OF = {"year": "number", "pmid": "number", "citations": "number", "doi": "doi", "url": "link"}
"""Forms of columns that are known before any row is read."""
LEARNED_ROWS = 50
MIN_LEARNED = 3
"""Values that show the form of a column."""
QUOTES = re.compile('"+')
SEARCHED_LINES = 200
"""Lines after an open quote among which the next row is looked for."""
UNBEGUN = "a quote ends a cell that none begins; correct it and ingest again"
MAX_RAGGED = 50
"""Rows with fewer or more cells than the header that are held back until the next row shows whether they are its beginning."""
MISSING = frozenset({"", "NA", "N/A", "null", "None", "nan"})


class Lines:
    """The lines of a file, which may be put back. `row` holds those of the present row."""

    def __init__(self, stream: TextIO) -> None:
        self.row: list[str] = []
        self.number = 0
        self._stream = stream
        self._again: deque[str] = deque()

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._again.popleft() if self._again else self._stream.readline()
        if not line:
            raise StopIteration
        self.number += 1
        self.row.append(line)
        return line

    def put_back(self, count: int) -> None:
        """Give the last lines of the row out again."""
        self._again.extendleft(reversed(self.row[len(self.row) - count :]))
        del self.row[len(self.row) - count :]
        self.number -= count

    def describe(self) -> str:
        """Where the present row is: `line 3`, `lines 3-5`."""
        first = self.number - len(self.row) + 1
        return f"line {first}" if len(self.row) < 2 else f"lines {first}-{self.number}"


@dataclass(frozen=True, slots=True)
class _Row:
    """A row with the numbers of its lines."""

    first: int
    last: int
    cells: list[str]
    quoted: str
    """Its line, if it is one line with quotes; else empty."""

    def closes_more(self, separator: str) -> bool:
        """Whether more of its quotes end a cell than begin one."""
        return bool(self.quoted) and _count_unpaired([self.quoted], separator) < 0


def iterate_rows(lines: Lines, header: Sequence[str], separator: str) -> Iterator[Row | BadEntry]:
    """The rows after the header, without blank lines. A damaged row is a `BadEntry`."""
    ragged: deque[_Row] = deque()  # may be the beginning of a cell of several lines whose opening quote is missing
    for row in _read_rows(lines, header, separator):
        bad: BadEntry | None = None
        fits = not isinstance(row, BadEntry) and len(row.cells) == len(header)
        if isinstance(row, BadEntry):
            bad = row
        elif ragged and len(row.cells) <= len(header) and row.closes_more(separator):
            bad = BadEntry(f"lines {ragged[0].first}-{row.last}", UNBEGUN)
            ragged.clear()
        elif not fits and row.closes_more(separator):
            bad = BadEntry(f"line {row.first}", UNBEGUN)
        elif not fits:
            ragged.append(row)
            if len(ragged) <= MAX_RAGGED:
                continue
        yield from ((f"line {each.first}", each.cells) for each in ragged)
        ragged.clear()
        if bad is not None:
            yield bad
        elif fits and isinstance(row, _Row):
            yield f"line {row.first}", row.cells
    yield from ((f"line {each.first}", each.cells) for each in ragged)


def _read_rows(lines: Lines, header: Sequence[str], separator: str) -> Iterator[_Row | BadEntry]:
    """Rows with as many lines as their quotes say, unless a quote is damaged."""
    forms = _ColumnForms(header)
    # both take no more lines than the row has, and start afresh with each row
    strict, tolerant = csv.reader(lines, delimiter=separator, strict=True), csv.reader(lines, delimiter=separator)
    backslash = csv.reader(lines, delimiter=separator, strict=True, doublequote=False, escapechar="\\")
    while True:
        lines.row.clear()
        is_sound = True
        try:
            cells = next(strict, None)
        except csv.Error:
            try:
                cells = _read_escaped(lines, backslash, len(header))
                is_sound = cells is not None
                if cells is None:
                    lines.put_back(len(lines.row))
                    cells = next(tolerant)
            except csv.Error as error:  # a cell beyond the limit
                yield BadEntry(lines.describe(), str(error))
                continue
        if cells is None:
            return
        lost = _count_lost_lines(lines.row, cells, forms, separator, is_sound=is_sound) if cells else 0
        if lost:
            count = len(lines.row)
            lines.put_back(count - lost)
            yield BadEntry(lines.describe(), _describe_damage(len(cells), len(header), count, after=count > lost))
        elif cells:
            forms.learn(cells)
            quoted = lines.row[0] if len(lines.row) == 1 and '"' in lines.row[0] else ""
            yield _Row(lines.number - len(lines.row) + 1, lines.number, cells, quoted)


def _read_escaped(lines: Lines, reader: Iterator[list[str]], width: int) -> list[str] | None:
    """The present row, if it escapes quotes by a backslash as MySQL and Spark do; else None."""
    if not any('\\"' in line for line in lines.row):
        return None
    lines.put_back(len(lines.row))
    try:
        cells = next(reader)
    except csv.Error:
        return None
    return cells if len(cells) == width else None


def _describe_damage(cells: int, width: int, lines: int, *, after: bool) -> str:
    if after:
        return "a quotation mark in this row is never closed; close it and ingest again (the rows after it were read)"
    merged = f" and runs over {lines} lines" if lines > 1 else ""
    return (
        "a quotation mark is missing or misplaced in this row, which was not read: "
        f"the row has {cells} cells{merged}, and the header has {width}; correct it and ingest again"
    )


def _count_lost_lines(block: list[str], cells: list[str], forms: _ColumnForms, separator: str, *, is_sound: bool) -> int:
    """0 for a row that can be relied on; else how many of its lines are lost. The next line is a row again."""
    fits = len(cells) == forms.width
    if is_sound and len(block) > 1:
        return int(_hides_rows(block, forms, separator, by_form=fits))
    if is_sound:
        return int(not fits and block[0].count('"') % 2 == 1 and _count_unpaired(block, separator) > 0)
    is_single_even = len(block) == 1 and block[0].count('"') % 2 == 0
    if fits and (is_single_even or not _count_unpaired(block, separator)):
        return 0  # quotes inside a cell that were not doubled: `"a "b" c"`, `"a" b`
    following = range(1, min(len(block), SEARCHED_LINES))
    return next((place for place in following if _begins_row(block[place : place + SEARCHED_LINES], forms, separator)), len(block))


def _count_unpaired(block: Iterable[str], separator: str) -> int:
    """How many more quotes begin a cell than end one. A doubled quote does neither, and a cell of two quotes both."""
    text = "".join(block).rstrip("\r\n")
    count = 0
    for run in QUOTES.finditer(text):
        start, end = run.span()
        if (end - start) % 2:
            while start and text[start - 1] == " ":
                start -= 1
            while text.startswith(" ", end):
                end += 1
            if not start or text[start - 1] in {separator, "\n"}:
                count += 1
            elif end == len(text) or text[end] in {separator, "\r", "\n"}:
                count -= 1
    return count


def _hides_rows(block: list[str], forms: _ColumnForms, separator: str, *, by_form: bool) -> bool:
    """Whether each line of a quoted row is a row by itself; `by_form` by the form of its columns, too, not only their number."""

    def is_row(line: str) -> bool:
        row = _split(line, separator)
        return len(row) == forms.width and forms.rate(row) >= int(by_form)

    return all(map(is_row, block[1:])) and is_row(_drop_open_quote(block[0], separator))


def _begins_row(block: list[str], forms: _ColumnForms, separator: str) -> bool:
    """Whether a row begins with these lines, of which the last row may go on behind them."""
    reader = csv.reader(block, delimiter=separator, strict=True)
    try:
        cells = next(reader)
    except csv.Error as error:
        if "unexpected end" in str(error):  # it opens a quote itself, which is looked at when its turn comes
            cells = next(csv.reader(block, delimiter=separator))
            return 1 < len(cells) <= forms.width and forms.rate(cells[:-1]) >= 0
        cells = _split(block[0], separator)
    return len(cells) == forms.width and forms.rate(cells) >= 0


def _split(line: str, separator: str) -> list[str]:
    return next(csv.reader([line], delimiter=separator), [])


def _drop_open_quote(line: str, separator: str) -> str:
    """The line without the quote that opens a cell and is not closed before its end."""
    whole = re.compile(rf'"(?:[^"]|"")*"(?={re.escape(separator)}|\r|\n|$)')
    place = 0
    while 0 <= place < len(line):
        if line[place] == '"':
            cell = whole.match(line, place)
            if cell is None:
                return line[:place] + line[place + 1 :]
            place = cell.end()
        place = line.find(separator, place) + 1 or -1
    return line


class _ColumnForms:
    """The forms of a table's columns, known from their names and learned from the first rows."""

    def __init__(self, header: Sequence[str]) -> None:
        self.width = len(header)
        self._rows = 0
        names = [FORM_OF.get(FIELD_OF.get(fold_name(name), "")) for name in header]
        self._forms = [{name} if name else set(FORMS) for name in names]
        self._known = [MIN_LEARNED if name else 0 for name in names]

    def learn(self, cells: Sequence[str]) -> None:
        if self._rows >= LEARNED_ROWS or len(cells) != self.width:
            return
        self._rows += 1
        for place, cell in enumerate(cells):
            if self._forms[place] and (value := cell.strip()) not in MISSING:
                self._forms[place] = {form for form in self._forms[place] if FORMS[form].fullmatch(value)}
                self._known[place] += 1

    def rate(self, cells: Sequence[str]) -> int:
        """How many cells have the form of their column; -1 if one has another."""
        count = 0
        for cell, forms, known in zip(cells, self._forms, self._known, strict=False):
            if forms and known >= MIN_LEARNED and (value := cell.strip()) not in MISSING:
                if not any(FORMS[form].fullmatch(value) for form in forms):
                    return -1
                count += 1
        return count

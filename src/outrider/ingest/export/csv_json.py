"""CSV, JSON and JSON Lines export, and CSV for screening tools.

`ingest.exported_rows` has the form of exported rows and reads them.

CSV for screening tools such as ASReview has what a person reads to decide, and the label. ASReview reads with Python's csv module, which
stops at a field of more than 131,072 characters, and a spreadsheet cuts a cell after 32,767. So the file has neither body nor metadata, and
a longer cell is cut and counted. It is not read back as the same records.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from typing import Final, TextIO

from outrider.ingest.export.base_writer import Writer, find_link
from outrider.ingest.exported_rows import COLUMNS, LISTS, PLAIN, SCHEMA, SCHEMES, escape_formula
from outrider.ingest.field_values import clean
from outrider.state.notices import describe_notices, list_notices
from outrider.state.records import BaseRecord
from outrider.text.screening_labels import find_label


class CsvWriter(Writer):
    """One line a record, under `COLUMNS`."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._rows = csv.writer(stream, lineterminator="\r\n")

    def begin(self) -> None:
        self._rows.writerow(COLUMNS)

    def record(self, record: BaseRecord) -> None:
        self._rows.writerow(make_csv_cells(record))


class JsonLinesWriter(Writer):
    """One JSON object a line."""

    def record(self, record: BaseRecord) -> None:
        self.stream.write(format_json_row(record) + "\n")


class JsonWriter(Writer):
    """One array, one record a line."""

    _first = True

    def begin(self) -> None:
        self.stream.write("[")

    def record(self, record: BaseRecord) -> None:
        self.stream.write(("\n" if self._first else ",\n") + format_json_row(record))
        self._first = False

    def end(self) -> None:
        self.stream.write("]\n" if self._first else "\n]\n")


def format_json_row(record: BaseRecord) -> str:
    """The record as one JSON object, all fields included."""
    row = {"schema": SCHEMA, **record.model_dump(mode="json")}
    # made from the metadata for programs that do not read each service's form; reading leaves them out
    notices = [notice.model_dump(mode="json", exclude_defaults=True) for notice in list_notices(record)]
    row |= {"notices": notices} if notices else {}
    return json.dumps({**row, "metadata": clean(row["metadata"])}, ensure_ascii=False, allow_nan=False)


def make_csv_cells(record: BaseRecord) -> list[str]:
    """The cells of one line under `COLUMNS`; fields without a column go as JSON into the last one."""
    fields = record.model_dump(mode="json", exclude_defaults=True)
    fields["kind"] = record.model_dump()["kind"]
    identifiers = fields.get("identifiers", {})
    cells = {column: fields.pop(field, None) for column, field in PLAIN.items()}
    for column, field in LISTS.items():
        items = fields.pop(field, [])
        # a lone item with a comma would be cut at the comma when the cell is read
        splittable = all(item and item == item.strip() and not re.search(r"[;\n\r]", item) and not item.startswith("[") for item in items)
        one_with_comma = len(items) == 1 and "," in items[0]
        cells[column] = "; ".join(items) if splittable and not one_with_comma else json.dumps(items, ensure_ascii=False)
    cells |= {scheme: identifiers.pop(scheme, None) for scheme in SCHEMES}
    metadata = fields.pop("metadata", {})
    if not identifiers:
        fields.pop("identifiers", None)
    cells["notices"] = describe_notices(list_notices(record))
    cells |= {name: json.dumps(rest, ensure_ascii=False) for name, rest in (("metadata", metadata), ("other_fields", fields)) if rest}
    return [escape_formula("" if (cell := cells.get(column)) is None else str(cell)) for column in COLUMNS]


MAX_CELL_CHARS: Final = 32_767
"""Excel's own limit ("Excel specifications and limits")."""
CUT: Final = " [...]"
SCREENING_COLUMNS: Final = (
    "title", "abstract", "authors", "year", "keywords", "doi", "url", "included", "journal", "volume", "issue", "pages", "pmid", "pmcid",
    "arxiv", "isbn", "mesh", "language", "kind", "doc_id", "notices",
)  # fmt: skip


class ScreeningWriter(Writer):
    """One line a record, under `SCREENING_COLUMNS` and then `further` columns, which are fields of a record's metadata."""

    def __init__(self, stream: TextIO, further: Sequence[str] = ()) -> None:
        super().__init__(stream)
        self._rows = csv.writer(stream, lineterminator="\r\n")
        self._further = further

    def begin(self) -> None:
        self._rows.writerow([*SCREENING_COLUMNS, *self._further])

    def record(self, record: BaseRecord) -> None:
        identifiers = dict(record.identifiers.pairs())
        cells = {name: getattr(record, name, None) for name in ("title", "year", "volume", "issue", "pages", "language", "doc_id")}
        cells |= {"url": find_link(record, has_arxiv=True), **{name: identifiers.get(name) for name in SCHEMES}}
        cells |= {"abstract": record.abstract or record.description, "journal": record.venue, "included": find_label(record.metadata)}
        cells |= {"authors": _join(record.authors), "keywords": _join(record.tags), "mesh": _join(getattr(record, "mesh", ()))}
        cells["kind"] = record.model_dump(include={"kind"})["kind"]
        cells["notices"] = describe_notices(list_notices(record))
        row = []
        for value in (*map(cells.__getitem__, SCREENING_COLUMNS), *map(record.metadata.get, self._further)):
            cell = escape_formula("" if value is None else str(value).replace("\r\n", "\n").replace("\r", "\n"))
            if len(cell) > MAX_CELL_CHARS:
                self.shortened += 1
                cell = cell[: MAX_CELL_CHARS - len(CUT)] + CUT
            row.append(cell)
        self._rows.writerow(row)


def _join(items: Sequence[str]) -> str:
    """ASReview splits at semicolons and keeps blanks behind them. A semicolon within an item becomes a comma."""
    return ";".join(item.replace(";", ",") for item in items)

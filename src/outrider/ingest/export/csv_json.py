"""CSV (RFC 4180, UTF-8) under `own_rows.COLUMNS`: everything a record says, read back the same.

Lost are null characters and the difference between an empty text and a missing one. Lists are joined with `; `; one whose items hold a
semicolon is written as a JSON list. Cells that would be formulas get a leading apostrophe.

JSON and JSON Lines: everything a record says, with `"schema": "outrider.record/1"`; read back the same, `doc_id` included.

Lost is only what no reader lets in: numbers that JSON has not (NaN, infinities) and null characters.
"""

from __future__ import annotations

import csv
import json
from typing import TextIO

from outrider.ingest.export.writer import Writer
from outrider.ingest.outrider_rows import COLUMNS, to_cells, to_json
from outrider.ingest.values import clean
from outrider.state.records import BaseRecord


class CsvWriter(Writer):
    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._rows = csv.writer(stream, lineterminator="\r\n")

    def begin(self) -> None:
        self._rows.writerow(COLUMNS)

    def record(self, record: BaseRecord) -> None:
        self._rows.writerow(to_cells(record))


class JsonLinesWriter(Writer):
    def record(self, record: BaseRecord) -> None:
        self.stream.write(_text(record) + "\n")


class JsonWriter(Writer):
    """One array, one record a line."""

    _first = True

    def begin(self) -> None:
        self.stream.write("[")

    def record(self, record: BaseRecord) -> None:
        self.stream.write(("\n" if self._first else ",\n") + _text(record))
        self._first = False

    def end(self) -> None:
        self.stream.write("]\n" if self._first else "\n]\n")


def _text(record: BaseRecord) -> str:
    row = to_json(record)
    return json.dumps({**row, "metadata": clean(row["metadata"])}, ensure_ascii=False, allow_nan=False)

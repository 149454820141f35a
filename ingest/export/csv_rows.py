"""CSV (RFC 4180, UTF-8) under `own_rows.COLUMNS`: everything a record says, read back the same.

Lost are null characters and the difference between an empty text and a missing one. Lists are joined with `; `; one whose items hold a
semicolon is written as a JSON list. Cells that would be formulas get a leading apostrophe.
"""

from __future__ import annotations

import csv
from typing import TextIO

from outrider.ingest.export.writer import Writer
from outrider.ingest.own_rows import COLUMNS, to_cells
from outrider.state.records import BaseRecord


class CsvWriter(Writer):
    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._rows = csv.writer(stream, lineterminator="\r\n")

    def begin(self) -> None:
        self._rows.writerow(COLUMNS)

    def record(self, record: BaseRecord) -> None:
        self._rows.writerow(to_cells(record))

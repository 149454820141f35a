"""JSON and JSON Lines: everything a record says, with `"schema": "outrider.record/1"`; read back the same, `doc_id` included.

Lost is only what no reader lets in: numbers that JSON has not (NaN, infinities) and null characters.
"""

from __future__ import annotations

import json

from outrider.ingest.export.writer import Writer
from outrider.ingest.own_rows import to_json
from outrider.ingest.values import clean
from outrider.state.records import BaseRecord


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

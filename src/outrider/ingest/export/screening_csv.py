"""CSV for screening tools such as ASReview: what a person reads to decide, and the label.

ASReview reads with Python's csv module, which stops at a field of more than 131,072 characters, and a spreadsheet cuts a cell after 32,767.
So the file has neither body nor metadata, and a longer cell is cut and counted. It is not read back as the same records: `csv_json` is.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from typing import Final, TextIO

from pydantic import JsonValue

from outrider.ingest.column_mapping import fold_name
from outrider.ingest.export.base_writer import Writer
from outrider.ingest.export.csv_json import SCHEMES, escape_formula
from outrider.state.records import BaseRecord

MAX_CELL_CHARS: Final = 32_767
"""Excel's own limit ("Excel specifications and limits")."""
CUT: Final = " [...]"
COLUMNS: Final = (
    "title", "abstract", "authors", "year", "keywords", "doi", "url", "included", "journal", "volume", "issue", "pages", "pmid", "pmcid",
    "arxiv", "isbn", "mesh", "language", "kind", "doc_id",
)  # fmt: skip
LABELS: Final = (
    "asreview_label", "included", "label", "final_included", "label_included", "included_label", "included_final", "included_flag",
    "include",
)  # fmt: skip
"""Columns that ASReview 3 reads as the label, in its order (`asreview.data.base`). Of a table, they are a record's metadata."""
YES: Final = frozenset({"1", "1.0", "true", "yes", "included", "include"})
NO: Final = frozenset({"0", "0.0", "false", "no", "excluded", "exclude"})


class ScreeningWriter(Writer):
    """One line a record, under `COLUMNS`."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._rows = csv.writer(stream, lineterminator="\r\n")

    def begin(self) -> None:
        self._rows.writerow(COLUMNS)

    def record(self, record: BaseRecord) -> None:
        identifiers = dict(record.identifiers.pairs())
        cells = {name: getattr(record, name, None) for name in ("title", "year", "volume", "issue", "pages", "language", "url", "doc_id")}
        cells |= {name: identifiers.get(name) for name in SCHEMES}
        cells |= {"abstract": record.abstract or record.description, "journal": record.venue, "included": find_label(record.metadata)}
        cells |= {"authors": _join(record.authors), "keywords": _join(record.tags), "mesh": _join(getattr(record, "mesh", ()))}
        cells["kind"] = record.model_dump(include={"kind"})["kind"]
        self._rows.writerow([self._format_cell(cells[column]) for column in COLUMNS])

    def _format_cell(self, value: object) -> str:
        cell = escape_formula("" if value is None else str(value).replace("\r\n", "\n").replace("\r", "\n"))
        if len(cell) > MAX_CELL_CHARS:
            self.shortened += 1
            return cell[: MAX_CELL_CHARS - len(CUT)] + CUT
        return cell


def find_label(metadata: Mapping[str, JsonValue]) -> str:
    """`1` for an included record, `0` for an excluded one, empty for one that nobody has screened."""
    values = {fold_name(name): str(value).strip().lower() for name, value in metadata.items()}
    for name in LABELS:
        if (value := values.get(name, "")) in YES | NO:
            return "1" if value in YES else "0"
    return ""


def _join(items: Sequence[str]) -> str:
    """ASReview splits at semicolons and keeps blanks behind them. A semicolon within an item becomes a comma."""
    return ";".join(item.replace(";", ",") for item in items)

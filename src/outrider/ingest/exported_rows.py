"""Rows of an export to CSV, JSON or JSON Lines, and their parsing.

A record that is exported and read again is the same, `doc_id` included. JSON rows carry `"schema": "outrider.record/1"`. A CSV file
(RFC 4180, UTF-8) is an export if its header is exactly `COLUMNS`; the column names are ones that any table may use, so an edited
file still reads, only without the guarantee.

CSV: list items are joined with `; `, or written as a JSON list if an item holds a semicolon. A cell that a spreadsheet would run as a
formula gets a leading apostrophe (OWASP, "CSV Injection"), which reading removes. Null characters and the difference between an
empty text and a missing one are lost. JSON: null characters and numbers that JSON lacks (NaN, infinities) are lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import JsonValue, ValidationError

from outrider.state.records import RECORD, Record

SCHEMA: Final = "outrider.record/1"
LISTS = {"authors": "authors", "keywords": "tags", "mesh": "mesh"}
PLAIN = {
    "doc_id": "doc_id", "kind": "kind", "title": "title", "year": "year", "journal": "venue", "volume": "volume", "issue": "issue",
    "pages": "pages", "url": "url", "abstract": "abstract", "description": "description", "text": "text", "language": "language",
    "citations": "citations", "stars": "stars", "source": "source",
}  # fmt: skip
SCHEMES = ("doi", "pmid", "pmcid", "arxiv", "isbn")
COLUMNS = (
    "doc_id", "kind", "title", "authors", "year", "journal", "volume", "issue", "pages", *SCHEMES, "url", "abstract",
    "description", "text", "keywords", "mesh", "language", "citations", "stars", "source", "metadata", "other_fields", "notices",
)  # fmt: skip
FORMER_COLUMNS = COLUMNS[:-1]
"""Of exports without notices, which are read as before. Notices are made from the metadata, and reading leaves them out."""
FORMULA = re.compile(r"'*[=+\-@\t\r]")


class InvalidRow(ValueError):
    """A row of an export that cannot be read as a record."""


def parse_json_row(row: Mapping[str, JsonValue]) -> Record:
    """The record of an exported JSON object. Raises `InvalidRow`."""
    return _validate({name: value for name, value in row.items() if name not in ("schema", "notices")})


def parse_csv_cells(cells: Sequence[str]) -> Record:
    """The record of one line below the header `COLUMNS`. Raises `InvalidRow`."""
    if len(cells) not in (len(COLUMNS), len(FORMER_COLUMNS)):
        raise InvalidRow(f"{len(cells)} cells under {len(COLUMNS)} columns")
    values = {column: unescape_formula(cell) for column, cell in zip(COLUMNS, cells, strict=False) if cell}
    try:
        row = json.loads(values.get("other_fields", "{}"))
        row["metadata"] = json.loads(values.get("metadata", "{}"))
        row["identifiers"] = row.get("identifiers", {}) | {scheme: values[scheme] for scheme in SCHEMES if scheme in values}
        for column, field in LISTS.items():
            if cell := values.get(column):
                row[field] = list(json.loads(cell)) if cell.startswith("[") else cell.split("; ")
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidRow(f"a cell that should hold JSON does not: {error}") from error
    return _validate(row | {field: values[column] for column, field in PLAIN.items() if column in values})


def escape_formula(cell: str) -> str:
    """The cell without null characters, and with an apostrophe before what a spreadsheet would run as a formula."""
    cell = cell.replace("\x00", "")
    return "'" + cell if FORMULA.match(cell) else cell


def unescape_formula(cell: str) -> str:
    """The cell without the apostrophe that `escape_formula` adds."""
    return cell[1:] if cell.startswith("'") and FORMULA.match(cell) else cell


def _validate(row: Mapping[str, object]) -> Record:
    try:
        return RECORD.validate_python(row)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise InvalidRow(f"{'.'.join(map(str, first['loc'][:6])) or 'record'}: {first['msg']}") from error

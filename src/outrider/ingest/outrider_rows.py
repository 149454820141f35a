"""Outrider's own rows, in JSON and CSV: a record written with everything it says, and read back the same, `doc_id` included.

JSON rows carry `"schema": "outrider.record/1"`. A CSV file is ours when its header is exactly `COLUMNS`; the columns have
the names that any row may use, so that an edited file still reads, only without the guarantee. In CSV a cell that a
spreadsheet would take for a formula gets a leading apostrophe (OWASP, "CSV Injection"), which reading takes off again, and
an empty text and a missing one are the same, and null characters are dropped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import JsonValue, ValidationError

from outrider.state.records import RECORD, BaseRecord, Record

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
    "description", "text", "keywords", "mesh", "language", "citations", "stars", "source", "metadata", "other_fields",
)  # fmt: skip
FORMULA = re.compile(r"'*[=+\-@\t\r]")


class NotARecord(ValueError):
    """A row says that it is ours but cannot be read as a record."""


def to_json(record: BaseRecord) -> dict[str, JsonValue]:
    return {"schema": SCHEMA, **record.model_dump(mode="json")}


def from_json(row: Mapping[str, JsonValue]) -> Record | None:
    """The record of one of our rows, None for any other row; raises `NotARecord`."""
    if row.get("schema") != SCHEMA:
        return None
    return _record({name: value for name, value in row.items() if name != "schema"})


def to_cells(record: BaseRecord) -> list[str]:
    """The cells of one line, as `COLUMNS` names them; what has no column goes as JSON into the last."""
    said = record.model_dump(mode="json", exclude_defaults=True)
    said["kind"] = record.model_dump()["kind"]
    identifiers = said.get("identifiers", {})
    cells = {column: said.pop(field, None) for column, field in PLAIN.items()}
    cells |= {column: _joined(said.pop(field, [])) for column, field in LISTS.items()}
    cells |= {scheme: identifiers.pop(scheme, None) for scheme in SCHEMES}
    metadata = said.pop("metadata", {})
    if not identifiers:
        said.pop("identifiers", None)
    cells |= {"metadata": _dumped(metadata), "other_fields": _dumped(said)}
    return [guarded("" if cells[column] is None else str(cells[column])) for column in COLUMNS]


def from_cells(cells: Sequence[str]) -> Record:
    """The record of one line under our own header; raises `NotARecord`."""
    if len(cells) != len(COLUMNS):
        raise NotARecord(f"{len(cells)} cells under {len(COLUMNS)} columns")
    given = {column: unguarded(cell) for column, cell in zip(COLUMNS, cells, strict=True) if cell}
    try:
        row = json.loads(given.get("other_fields", "{}"))
        row["metadata"] = json.loads(given.get("metadata", "{}"))
        row["identifiers"] = row.get("identifiers", {}) | {scheme: given[scheme] for scheme in SCHEMES if scheme in given}
        lists = {field: _split(given[column]) for column, field in LISTS.items() if column in given}
    except (ValueError, TypeError, RecursionError) as broken:
        raise NotARecord(f"a cell that should hold JSON does not: {broken}") from broken
    return _record(row | lists | {field: given[column] for column, field in PLAIN.items() if column in given})


def guarded(cell: str) -> str:
    cell = cell.replace("\x00", "")
    return "'" + cell if FORMULA.match(cell) else cell


def unguarded(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and FORMULA.match(cell) else cell


def _record(row: Mapping[str, object]) -> Record:
    try:
        return RECORD.validate_python(row)
    except ValidationError as wrong:
        first = wrong.errors(include_url=False, include_input=False)[0]
        raise NotARecord(f"{'.'.join(map(str, first['loc'][:6])) or 'record'}: {first['msg']}") from wrong


def _dumped(value: Mapping[str, JsonValue]) -> str | None:
    return json.dumps(value, ensure_ascii=False) if value else None


def _joined(items: Sequence[str]) -> str:
    """`; ` between items; JSON where an item would not survive that."""
    plain = all(item and item == item.strip() and not re.search(r"[;\n\r]", item) and not item.startswith("[") for item in items)
    one_with_comma = len(items) == 1 and "," in items[0]
    return "; ".join(items) if plain and not one_with_comma else json.dumps(items, ensure_ascii=False)


def _split(cell: str) -> list[str]:
    return list(json.loads(cell)) if cell.startswith("[") else cell.split("; ")

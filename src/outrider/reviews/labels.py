"""Labels of screening in files: columns and notes of other tools, and lists of decisions

Of a record: those of `text.screening_labels`, or of a column that is named.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from pydantic import JsonValue

from outrider.ingest.field_values import is_absent, one_line
from outrider.state.errors import BadRequest
from outrider.state.records import Record
from outrider.state.reviews import MAX_NAME_CHARS, Verdict
from outrider.text.encoding import NotText, decode_text
from outrider.text.screening_labels import COLUMNS, UNSCREENED, join_notes, list_note_labels, list_noted_reasons, parse_verdict
from outrider.text.words import fold_name

RAYYAN_REASONS = re.compile(r"RAYYAN-EXCLUSION-REASONS:\s*([^|\n]+)")
ID_COLUMNS, VERDICT_COLUMNS = ("id", "record", "number", "doi", "doc_id"), ("decision", "verdict", "label", "included")
"""Not `record_id`: ASReview counts it from 0, and other files by numbers of their own."""
NO_DECISION = frozenset({"", "unscreened", "waiting", "conflict"})
"""What the column `decision` of an exported review has for a record without a verdict."""


class ConflictingLabels(BadRequest):
    pass


class Label(NamedTuple):
    """What a file says of a record. `by` is empty where it does not name the reviewer."""

    verdict: Verdict
    reason: str = ""
    by: str = ""


def read_labels(record: Record, column: str = "") -> tuple[Label, ...]:
    """The labels of a record, which may contradict each other. `column` names the field of the label.

    Raises `BadRequest` for an unknown label in a named column.
    """
    if column:
        value = find_field(record.metadata, column)
        if value is None or not str(value).strip():
            return ()
        if (verdict := parse_verdict(str(value))) is None:
            raise BadRequest(f"{str(value)[:60]!r} in {column} is no label of a screening; it takes include, exclude, maybe, 1 or 0")
        return (Label(verdict, _read_reason(record, verdict)),)
    if verdict := next(filter(None, map(parse_verdict, _list_cells(record))), None):
        return (Label(verdict, _read_reason(record, verdict)),)
    match = RAYYAN_REASONS.search(join_notes(record.metadata))
    reasons: Mapping[Verdict, str] = {"exclude": match[1].strip() if match else "; ".join(list_noted_reasons(record.metadata))}
    labels = (Label(verdict, reasons.get(verdict, ""), by[:MAX_NAME_CHARS]) for by, verdict in list_note_labels(record.metadata))
    return tuple(dict.fromkeys(labels))


def _read_reason(record: Record, verdict: Verdict) -> str:
    """The reason for an exclusion in the column that exports of reviews have, too."""
    reason = find_field(record.metadata, "reason")
    return one_line(reason) if verdict == "exclude" and isinstance(reason, str) else ""


def find_unread_label(record: Record) -> str | None:
    """The text in a column of labels that is no label, such as `x`."""
    return next((cell for cell in _list_cells(record) if cell != UNSCREENED and not is_absent(cell) and parse_verdict(cell) is None), None)


def _list_cells(record: Record) -> Iterator[str]:
    """What stands in the columns of labels."""
    values = (find_field(record.metadata, name) for name in COLUMNS)
    return (str(value).strip() for value in values if isinstance(value, str | int | float))


def find_field(metadata: Mapping[str, JsonValue], name: str) -> JsonValue:
    """A field by its name, however it is written; None if there is none."""
    wanted = fold_name(name)
    return next((value for key, value in metadata.items() if fold_name(key) == wanted), None)


def read_decisions(path: Path, max_bytes: int) -> list[tuple[str, str, str]]:
    """Decisions of a file: a table with the columns `id` and `decision`, and `reason` if it likes; or lines `ID DECISION REASON`.

    Raises `BadRequest`.
    """
    try:
        if path.stat().st_size > max_bytes:
            raise BadRequest(f"{path} has more than {max_bytes:,} bytes (ingest.max_bytes)")
        text = decode_text(path.read_bytes(), None).text
    except (OSError, NotText) as error:
        raise BadRequest(f"{path}: {getattr(error, 'strerror', '') or error}") from error
    numbered = [(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip() and not line.startswith("#")]
    if not numbered:
        raise BadRequest(f"{path} holds no decisions")
    delimiter = max(",;\t", key=numbered[0][1].count)
    header = [name.strip().lower() for name in next(csv.reader([numbered[0][1]], delimiter=delimiter))]
    id_column = next((name for name in ID_COLUMNS if name in header), "")
    verdict_column = next((name for name in VERDICT_COLUMNS if name in header), "")
    if id_column and verdict_column:
        rows = [dict(zip(header, cells, strict=False)) for cells in _read_rows(path, text, delimiter)[1:]]
        cells = [[row.get(column, "").strip() for column in (id_column, verdict_column, "reason")] for row in rows]
        if not (labelled := [(record, verdict, reason) for record, verdict, reason in cells if verdict.lower() not in NO_DECISION]):
            raise BadRequest(f"{path} holds no decisions: its column {verdict_column} has none")
        return labelled
    if verdict_column and len(header) > 1:
        raise BadRequest(
            f"{path} has no column {', '.join(ID_COLUMNS)}, which names the record of each {verdict_column}; nothing was written"
        )
    decisions = []
    for number, line in numbered:
        parts = line.replace("\t", " ").split(maxsplit=2)
        if len(parts) < 2:
            raise BadRequest(
                f"{path}, line {number}: a line is ID DECISION REASON, such as 12 exclude wrong population; nothing was written"
            )
        decisions.append((parts[0], parts[1], parts[2] if len(parts) > 2 else ""))
    return decisions


def _read_rows(path: Path, text: str, delimiter: str) -> list[list[str]]:
    """The rows of a table without blank ones and remarks. A cell may have several lines, of which one may be blank or begin with `#`."""
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        return [row for row in rows if any(cell.strip() for cell in row) and not row[0].startswith("#")]
    except csv.Error as error:  # such as a quote that is never closed, which would swallow the rows behind it
        raise BadRequest(f"{path}, line {rows.line_num}: is no row of a table ({error}); nothing was written") from error

"""The review file: doubtful pairs of records as a table, in which a person decides.

One row a pair. The column `decision` is empty until somebody writes `same` or `different` into it; then the pair is merged or stays apart,
whatever the evidence says. A later run keeps every decided row.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TextIO

from outrider.ingest.export.csv_json import escape_formula, unescape_formula
from outrider.state.duplicate_decisions import NO_DECISIONS, Decision, Decisions, Pair, make_pair
from outrider.state.errors import BadRequest

if TYPE_CHECKING:
    from outrider.ingest.deduplicate_files import FileDeduplication
    from outrider.state.records import Record

FIELDS = ("id", "title", "authors", "year", "venue", "volume", "issue", "pages", "doi", "abstract")
COLUMNS = ("decision", "score", *(f"{name}_{side}" for name in FIELDS for side in (1, 2)), "why")
SAME, DIFFERENT = frozenset("same yes y 1 merge duplicate".split()), frozenset("different no n 0 split distinct".split())
MAX_ABSTRACT_CHARS = 500


@dataclass(frozen=True, slots=True)
class DuplicateReview:
    """The rows of a review file that are decided, and what they decide."""

    rows: tuple[Mapping[str, str], ...] = ()
    decisions: Decisions = field(default=NO_DECISIONS)

    def write(self, deduplication: FileDeduplication, stream: TextIO) -> int:
        """Write the decided rows, then the pairs that nobody decided yet, the likeliest first. Returns the number of the latter."""
        writer = csv.DictWriter(stream, COLUMNS, lineterminator="\r\n")
        stream.write("\ufeff")  # spreadsheets take a file without it for Windows-1252
        writer.writeheader()
        writer.writerows(self.rows)
        waiting = list(_make_rows(deduplication))
        writer.writerows(waiting)
        return len(waiting)


def read_review(path: Path) -> DuplicateReview:
    """The decisions of a review file; none if it does not exist. Raises `BadRequest` for another file, or a decision that is none."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.DictReader(stream, dialect=_sniff(stream))
            missing = [name for name in ("decision", "id_1", "id_2") if name not in (reader.fieldnames or ())]
            if missing:
                raise BadRequest(f"{path} is no review file: it has no column {', '.join(missing)}; give a new name to --review")
            rows = [(reader.line_num, {name: cell or "" for name, cell in row.items() if name in COLUMNS}) for row in reader]
    except FileNotFoundError:
        return DuplicateReview()
    except OSError as error:
        raise BadRequest(f"{path} cannot be read as a review file: {error.strerror or error}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadRequest(f"{path} cannot be read as a review file: {error}; save it as CSV in UTF-8") from error
    decided = [(line, row, what) for line, row in rows if (what := _parse_decision(path, line, row))]
    log: dict[Pair, Decision] = {}
    for line, row, what in decided:
        ids = make_pair(unescape_formula(row["id_1"]), unescape_formula(row["id_2"]))
        earlier = log.setdefault(ids, Decision(what=what, ids=ids, why=f"{path.name}, line {line}"))
        if earlier.what != what:
            raise BadRequest(f"the decisions of {path} contradict each other: {ids[0]} and {ids[1]} in line {line} and in {earlier.why}")
    decisions = Decisions.from_log(log.values())
    if conflicts := decisions.conflicts():
        raise BadRequest(f"the decisions of {path} contradict each other: {conflicts[0]}")
    return DuplicateReview(tuple(row for _, row, _ in decided), decisions)


def _sniff(stream: TextIO) -> type[csv.Dialect]:
    """The dialect of the header: spreadsheets of many countries save CSV with semicolons."""
    header = stream.readline()
    stream.seek(0)

    class Dialect(csv.excel):
        delimiter = max(",;\t", key=header.count)

    return Dialect


def _parse_decision(path: Path, line: int, row: Mapping[str, str]) -> Literal["merge", "split"] | None:
    decision = row["decision"].strip().lower()
    if decision and not (row["id_1"] and row["id_2"] and row["id_1"] != row["id_2"]):
        raise BadRequest(f"{path}, line {line}: a decision needs two ids, not {row['id_1']!r} and {row['id_2']!r}")
    if decision and decision not in SAME | DIFFERENT:
        raise BadRequest(f"{path}, line {line}: {row['decision']!r} is no decision; write same or different, or leave the cell empty")
    return "merge" if decision in SAME else "split" if decision else None


def _make_rows(deduplication: FileDeduplication) -> Iterator[dict[str, str]]:
    for pair in deduplication.unsure_pairs():
        cells = {"why": pair.judgement.why()}
        for side, place in ((1, pair.one), (2, pair.other)):
            record = _make_cells(deduplication.record(place))
            cells |= {f"{name}_{side}": cell for name, cell in {**record, "id": deduplication.ids[place]}.items()}
        yield {"decision": "", "score": f"{pair.judgement.score:.1f}", **{name: escape_formula(cell) for name, cell in cells.items()}}


def _make_cells(record: Record) -> dict[str, str]:
    values = {
        **{name: getattr(record, name, None) for name in FIELDS},
        "authors": "; ".join(record.authors),
        "doi": record.identifiers.doi,
        "abstract": record.abstract[:MAX_ABSTRACT_CHARS],
    }
    return {name: "" if value is None else str(value) for name, value in values.items()}

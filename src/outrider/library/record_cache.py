"""Records that searches have read, kept while their table stays as it is.

Searches of one library find many works again and again, and reading them takes longer than finding them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from outrider.state.records import Record

MOST_RECORDS = 10_000
"""Of 3 to 5 kB each. At least as many of the last ones are kept, and up to twice as many."""
MOST_ROWS = 200_000
MOSTLY_KNOWN = 0.98
"""Share of known rows from which on rows are found alone: a second call for a few others takes nearly as long as reading all with the
first."""


@dataclass(frozen=True, slots=True)
class TableState:
    """What a table holds: a version, and what tells it from another with this version, since it may be deleted and created anew."""

    version: int
    written_ns: int | None = None
    """Of one in a folder: when a version was last written."""
    library_id: str = ""
    """Of one on object storage that is opened for each read."""


def read_times(library: Path) -> dict[str, int]:
    """When a version of each table in the folder of a library was last written or removed, in nanoseconds, by its name."""
    times: dict[str, int] = {}
    with suppress(OSError):  # no folder: no table
        for table in library.glob("*.lance"):
            with suppress(OSError):
                times[table.stem] = (table / "_versions").stat().st_mtime_ns
    return times


@dataclass(slots=True)
class RecordCache:
    """The last records that were read of one state of the table, with cut bodies and without edges, and the ids of its rows.

    Several threads may use it: each step is one operation of a dictionary, and what one loses is read again.
    """

    state: TableState
    rows: dict[int, str] = field(default_factory=dict)
    """The `doc_id` of a row, by row id."""
    knows_rows: bool = False
    """Whether most rows of the last search were known."""
    _last: dict[str, Record] = field(default_factory=dict)
    _before: dict[str, Record] = field(default_factory=dict)

    def find(self, doc_ids: Iterable[str]) -> dict[str, Record]:
        """Those that are kept, by id, in the order of the ids."""
        found: dict[str, Record] = {}
        used_again: list[Record] = []
        for doc_id in doc_ids:
            record = self._last.get(doc_id)
            if record is None and (record := self._before.get(doc_id)) is not None:
                used_again.append(record)
            if record is not None:
                found[doc_id] = record
        self.keep(used_again)
        return found

    def keep(self, records: Sequence[Record]) -> None:
        for record in records[-MOST_RECORDS:]:
            self._last[record.doc_id] = record
            if len(self._last) >= MOST_RECORDS:
                self._before, self._last = self._last, {}

    def note_rows(self, rows: Sequence[int], doc_ids: Sequence[str]) -> None:
        """What a search found, with the ids that it read."""
        self.knows_rows = sum(row in self.rows for row in rows) >= MOSTLY_KNOWN * len(rows)
        if len(self.rows) > MOST_ROWS:
            self.rows = {}
        self.rows.update(zip(rows, doc_ids, strict=True))

"""The table of earlier runs in SQLite: the latest ones, without any text of a query.

Each method blocks, over a connection of its own. An error of the disk or of SQLite is the caller's to handle: no search depends on it.
"""

from __future__ import annotations

import json
import math
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from outrider.planner.run_row import Interval, RunRow

BUSY_S = 5.0
TABLES = (
    """CREATE TABLE IF NOT EXISTS runs (id INTEGER PRIMARY KEY AUTOINCREMENT, begun REAL NOT NULL, ended REAL NOT NULL,
    request INTEGER NOT NULL, features TEXT NOT NULL, outcome TEXT NOT NULL, predicted TEXT NOT NULL)""",
    "CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
)
ERRORS = (sqlite3.Error, OSError, ValueError)
"""What reading or writing raises: a locked, full, damaged or foreign file."""
SELECT = "SELECT id, begun, ended, request, features, outcome, predicted FROM runs WHERE id > ? ORDER BY id"
UPDATE = "UPDATE runs SET features = ?, outcome = ?, predicted = ? WHERE id = ?"
DIGITS = 6


@dataclass(slots=True)
class RunHistory:
    path: Path
    most: int
    """Runs that are kept; the oldest are deleted first."""
    _rows: list[RunRow] = field(default_factory=list)
    _last: int = 0
    _lock: Lock = field(default_factory=Lock)

    def read(self) -> Sequence[RunRow]:
        """All runs, oldest first, by the time when they ended. Reads only what is new since the last call."""
        with self._lock:
            if not self.path.is_file():
                self._rows, self._last = [], 0
                return ()
            with self._connect() as connection:
                self._update(connection)
            return tuple(self._rows)

    def add(self, row: RunRow) -> None:
        with self._lock, self._connect(create=True) as connection:
            insert = "INSERT INTO runs (begun, ended, request, features, outcome, predicted) VALUES (?, ?, ?, ?, ?, ?)"
            connection.execute(insert, (row.begun, row.ended, row.request, *_dump_row(row)))
            connection.execute("DELETE FROM runs WHERE id <= (SELECT MAX(id) FROM runs) - ?", (self.most,))

    def complete(self, rows: Iterable[RunRow]) -> None:
        """Store features, outcome and prediction of runs that were read without a prediction."""
        with self._lock:
            completed = {row.row_id: row for row in rows}
            self._rows = [completed.get(row.row_id, row) for row in self._rows]
            with self._connect() as connection:
                connection.executemany(UPDATE, [(*_dump_row(row), row.row_id) for row in completed.values()])

    def clear(self) -> int:
        """Delete all runs and what else is known; returns how many runs there were."""
        with self._lock:
            self._rows, self._last = [], 0
            if not self.path.is_file():
                return 0
            with self._connect() as connection:
                count = connection.execute("DELETE FROM runs").rowcount
                connection.execute("DELETE FROM facts")
            return int(count)

    def fact(self, name: str) -> str:
        """A stored fact; empty if there is none."""
        if not self.path.is_file():
            return ""
        with self._connect() as connection:
            row = connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else ""

    def store_fact(self, name: str, value: str) -> None:
        with self._connect(create=True) as connection:
            connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    def salt(self, *, create: bool) -> str:
        """What makes the hashes of requests those of this installation alone; empty if there is none and none is created."""
        if not create:
            return self.fact("salt")
        with self._connect(create=True) as connection:
            connection.execute("INSERT OR IGNORE INTO facts VALUES ('salt', ?)", (secrets.token_hex(16),))
            return str(connection.execute("SELECT value FROM facts WHERE name = 'salt'").fetchone()[0])

    def _update(self, connection: sqlite3.Connection) -> None:
        first, last = connection.execute("SELECT COALESCE(MIN(id), 0), COALESCE(MAX(id), 0) FROM runs").fetchone()
        if last < self._last or (not last and self._rows):  # another process cleared it
            self._rows, self._last = [], 0
        fresh = connection.execute(SELECT, (max(self._last, first - 1),)).fetchall()
        self._rows += [loaded for row in fresh if (loaded := _load(row)) is not None]
        self._rows = sorted(self._rows[-self.most :], key=lambda row: row.ended) if fresh else self._rows
        self._last = last

    @contextmanager
    def _connect(self, *, create: bool = False) -> Iterator[sqlite3.Connection]:
        is_new = create and not self.path.is_file()
        if is_new:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.touch(mode=0o600)
        with closing(sqlite3.connect(self.path, timeout=BUSY_S)) as connection, connection:
            connection.execute("PRAGMA synchronous=OFF")  # a lost run costs nothing
            if create:
                for table in TABLES:
                    connection.execute(table)
            yield connection


def _dump(values: object) -> str:
    assert isinstance(values, dict)  # noqa: S101
    return json.dumps({name: round(value, DIGITS) for name, value in values.items()}, separators=(",", ":"))


def _dump_row(row: RunRow) -> tuple[str, str, str]:
    return _dump(row.features), _dump(row.outcome), _dump_intervals(row)


def _dump_intervals(row: RunRow) -> str:
    rounded: Iterable[tuple[str, list[float]]] = (
        (name, [round(value, DIGITS) for value in interval]) for name, interval in row.predicted.items()
    )
    return json.dumps(dict(rounded), separators=(",", ":"))


def _load(row: tuple[int, float, float, int, str, str, str]) -> RunRow | None:
    """None for a damaged row: the others still tell what runs take."""
    row_id, begun, ended, request, *texts = row
    try:
        features, outcome, predicted = map(json.loads, texts)
        intervals = {name: Interval(*values) for name, values in predicted.items()}
        numbers = (begun, ended, *features.values(), *outcome.values(), *(bound for interval in intervals.values() for bound in interval))
        is_sound = all(map(math.isfinite, numbers)) and min(outcome.values(), default=0.0) >= 0.0
    except (AttributeError, RecursionError, TypeError, ValueError):
        return None
    return RunRow(begun, ended, request, features, outcome, intervals, row_id) if is_sound else None

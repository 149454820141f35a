"""The table of runs on disk."""

from __future__ import annotations

import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from outrider.planner.run_history import ERRORS, RunHistory
from outrider.planner.run_row import Interval, RunRow


def make_row(number: int) -> RunRow:
    return RunRow(float(number), number + 0.5, number, {"top_k": 10.0}, {"seconds": 1.5}, {"seconds": Interval(1.0, 1.4, 2.0)})


def test_rows_come_back_as_they_were_oldest_first(tmp_path: Path) -> None:
    history = RunHistory(tmp_path / "data" / "runs.sqlite", 100)
    assert list(history.read()) == []
    assert not history.path.exists(), "reading creates nothing"
    for number in (2, 1, 3):
        history.add(make_row(number))
    assert list(history.read()) == [make_row(1), make_row(2), make_row(3)]
    assert stat.S_IMODE(history.path.stat().st_mode) == 0o600


def test_only_the_latest_rows_are_kept(tmp_path: Path) -> None:
    history = RunHistory(tmp_path / "runs.sqlite", 5)
    for number in range(12):
        history.add(make_row(number))
        history.read()
    assert [row.request for row in history.read()] == [7, 8, 9, 10, 11]
    assert [row.request for row in RunHistory(history.path, 5).read()] == [7, 8, 9, 10, 11]


def test_rows_of_another_process_are_seen_and_its_clearing_too(tmp_path: Path) -> None:
    one, other = (RunHistory(tmp_path / "runs.sqlite", 100) for _ in range(2))
    one.add(make_row(1))
    assert len(other.read()) == 1
    other.add(make_row(2))
    assert len(one.read()) == 2
    assert other.clear() == 2
    assert list(one.read()) == []
    one.add(make_row(3))
    assert [row.request for row in other.read()] == [3]


def test_the_salt_stays_until_the_record_is_cleared(tmp_path: Path) -> None:
    history = RunHistory(tmp_path / "runs.sqlite", 100)
    assert history.salt(create=False) == ""
    salt = history.salt(create=True)
    assert len(salt) == 32
    assert history.salt(create=False) == RunHistory(history.path, 100).salt(create=True) == salt
    history.clear()
    assert history.salt(create=True) != salt


def test_a_file_that_is_no_database_raises_what_callers_expect(tmp_path: Path) -> None:
    (tmp_path / "runs.sqlite").write_text("no database, but text that is long enough to be read as a header of one\n" * 50)
    with pytest.raises(ERRORS):
        RunHistory(tmp_path / "runs.sqlite", 100).read()


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("features", "[]"), ("features", '{"cold": "x"}'), ("features", "[" * 100_000), ("outcome", '{"seconds": -5}'),
        ("outcome", '{"seconds": null}'), ("outcome", '{"seconds": NaN}'), ("predicted", '{"seconds": [1]}'), ("predicted", "[1]"),
        ("begun", "yesterday"), ("ended", ""),
    ],
)  # fmt: skip
def test_a_damaged_row_is_left_out(tmp_path: Path, column: str, value: str) -> None:
    history = RunHistory(tmp_path / "runs.sqlite", 100)
    for number in (1, 2, 3):
        history.add(make_row(number))
    with closing(sqlite3.connect(history.path)) as connection, connection:
        connection.execute(f"UPDATE runs SET {column} = ? WHERE id = 2", (value,))
    assert list(history.read()) == [make_row(1), make_row(3)]

"""Projects of ASReview: read from each version, and written as version 3 reads them (checked with ASReview 3.0.8 by `bench screening`)."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from outrider.reviews.asreview import read_project, write_project
from outrider.reviews.review import NewDecision, NewNote
from outrider.state.errors import UnreadableFile
from support.review_folder import AT, make_review

ROWS = [("Otters in rivers", "Otters eat fish.", '["Doe, J"]', '["fish"]', 2020, "10.5555/w.1"), ("Badgers", "", "[]", "[]", None, None)]


def make_archive(path: Path, members: dict[str, bytes | str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def make_database(path: Path, *statements: str, rows: Any = ()) -> bytes:
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as database:
        for statement in statements:
            database.execute(statement)
        for table, row in rows:
            database.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
        database.commit()
    return path.read_bytes()


RECORD = "CREATE TABLE record (record_id INTEGER, title, abstract, authors, keywords, year, doi, url, duplicate_of)"


def test_versions_1_to_3_are_read_with_their_labels(tmp_path: Path) -> None:
    records = [("record", (place, *row, None, None)) for place, row in enumerate(ROWS)]
    new = make_database(
        tmp_path / "d", RECORD, "CREATE TABLE results (record_id, label, time, note)", rows=[*records, ("results", (0, 1, 5.0, "good"))]
    )
    third = make_archive(tmp_path / "3.asreview", {"project.json": '{"project_file_version": 3}', "results.db": new})
    labels = make_database(tmp_path / "l", "CREATE TABLE results (record_id, label, notes)", rows=[("results", (0, 1, "good"))])
    reviews = {"reviews": [{"id": "abc"}]}
    second = make_archive(
        tmp_path / "2.asreview",
        {
            "project.json": json.dumps({"project_file_version": 2, **reviews}),
            "data_store.db": make_database(tmp_path / "s", RECORD, rows=records),
            "reviews/abc/results.db": labels,
        },
    )
    table = "title,abstract,authors,keywords,year,doi\n" + "\n".join(
        f'"{title}","{text}","{author}","{word}",{year or ""},{doi or ""}'
        for (title, text, _, _, year, doi), author, word in zip(ROWS, ("Doe, J", ""), ("fish", ""), strict=True)
    )
    first = make_archive(
        tmp_path / "1.asreview",
        {"project.json": json.dumps({"dataset_path": "d.csv", **reviews}), "data/d.csv": table, "reviews/abc/results.db": labels},
    )
    for path in (third, second, first):
        otters, badgers = read_project(path, 10**6)
        assert (otters.record.title, otters.record.identifiers.doi, otters.record.year) == ("Otters in rivers", "10.5555/w.1", 2020)
        assert (otters.record.authors, otters.record.tags) == (("Doe, J",), ("fish",))
        assert (otters.included, otters.note, badgers.included) == (True, "good", None)


def test_a_damaged_or_huge_project_is_refused(tmp_path: Path) -> None:
    review = make_review(tmp_path / "otters")
    whole = write_project("otters", [review.view(number, "") for number in range(1, 6)], AT)
    path = tmp_path / "x.asreview"
    for content in (whole[: len(whole) // 2], b"", b"PK\x03\x04 nothing"):
        path.write_bytes(content)
        with pytest.raises(UnreadableFile, match="no whole project"):
            read_project(path, 10**8)
    path.write_bytes(whole)
    with pytest.raises(UnreadableFile, match=r"unpacks to more than 1,000 bytes"):
        read_project(path, 1_000)
    wrong = make_database(tmp_path / "d", RECORD, "CREATE TABLE results (record_id, label)", rows=[("results", (7, 1))])
    make_archive(path, {"project.json": '{"project_file_version": 3}', "results.db": wrong})
    with pytest.raises(UnreadableFile, match="labels of records that it lacks"):
        read_project(path, 10**8)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    review = make_review(tmp_path / "otters")
    review.decide([NewDecision(1, "include", "ann"), NewDecision(2, "exclude", "ann", "wrong animal"), NewDecision(3, "maybe", "ann")], AT)
    review.decide([NewNote(1, "ask Bob", "ann")], AT)
    review.decide([NewDecision(4, "include", "ann"), NewDecision(4, "exclude", "bob", "no data")], AT)
    review.decide([NewDecision(4, "include", "ann", resolves=True)], AT)
    path = tmp_path / "x.asreview"
    path.write_bytes(write_project("otters", [review.view(number, "") for number in range(1, 6)], AT))
    again = read_project(path, 10**8)
    assert [one.record.title for one in again] == [record.title for record in review.all_records()]
    assert [(one.included, one.note) for one in again] == [
        (True, "ask Bob"), (False, "wrong animal"), (None, ""), (True, ""), (None, ""),
    ]  # fmt: skip
    with zipfile.ZipFile(path) as archive:
        config = json.loads(archive.read("project.json"))
        rows = [*csv.DictReader(io.StringIO(archive.read("data/otters.csv").decode()))]
    assert (config["project_file_version"], config["datasets"][0]["name"], len(rows)) == (3, "otters.csv", 5)

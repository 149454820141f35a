"""Projects of ASReview: read from any of its versions, and written as version 3 opens them.

A project is a ZIP file `NAME.asreview` (ASReview 3.0.8, `asreview.project.api` and its migrations):

- version 3: `project.json`, `results.db` with the tables `record` and `results`, `data/` with the imported file;
- version 2: the table `record` in `data_store.db`, `results` in `reviews/ID/results.db`;
- version 1: the records in `data/FILE`, `results` in `reviews/ID/results.db` by the row of the file.
"""

from __future__ import annotations

import io
import json
import sqlite3
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, cast

from outrider.ingest.entry import Entry, ReadOptions
from outrider.ingest.export.csv_json import ScreeningWriter
from outrider.ingest.readers.select_reader import NoReader, select_reader
from outrider.linkage.identifiers import normal_doi
from outrider.state.errors import UnreadableFile
from outrider.state.records import Identifiers, Paper, Record
from outrider.state.reviews import ReviewRecord, list_reasons
from outrider.text.screening_labels import drop_labels

SUFFIX = ".asreview"
CONFIG = "project.json"
WRITES = "3.0.8"
"""The version of ASReview whose format is written."""
TABLES = """
CREATE TABLE record (
  dataset_row INTEGER NOT NULL, dataset_id VARCHAR NOT NULL, title VARCHAR NOT NULL, abstract VARCHAR NOT NULL, authors JSON NOT NULL,
  keywords JSON NOT NULL, year INTEGER, doi VARCHAR, url VARCHAR, included INTEGER, record_id INTEGER NOT NULL, duplicate_of INTEGER,
  group_id INTEGER NOT NULL GENERATED ALWAYS AS (COALESCE(duplicate_of, record_id)) VIRTUAL, PRIMARY KEY (record_id),
  UNIQUE (dataset_row, dataset_id), CONSTRAINT no_self_duplicate CHECK (duplicate_of IS NULL OR duplicate_of != record_id),
  FOREIGN KEY(duplicate_of) REFERENCES record (record_id) ON DELETE SET NULL);
CREATE INDEX idx_record_group_id ON record (group_id);
CREATE TABLE results (record_id INTEGER UNIQUE, label INTEGER, classifier TEXT, querier TEXT, balancer TEXT, feature_extractor TEXT,
  training_set INTEGER, time FLOAT, note TEXT, tags JSON, user_id INTEGER);
CREATE TABLE last_ranking (record_id INTEGER UNIQUE, ranking INT, classifier TEXT, querier TEXT, balancer TEXT, feature_extractor TEXT,
  training_set INTEGER, time FLOAT);
CREATE TABLE decision_changes (record_id INTEGER, label INTEGER, time FLOAT, user_id INTEGER);
CREATE TRIGGER trg_results_delete AFTER DELETE ON results FOR EACH ROW BEGIN
  INSERT INTO decision_changes (record_id, label, time, user_id) VALUES (OLD.record_id, OLD.label, OLD.time, OLD.user_id); END;
CREATE TRIGGER trg_results_label_update AFTER UPDATE OF label ON results FOR EACH ROW WHEN OLD.label IS NOT NEW.label BEGIN
  INSERT INTO decision_changes (record_id, label, time, user_id) VALUES (OLD.record_id, OLD.label, OLD.time, OLD.user_id); END;
PRAGMA user_version = 3;
"""
MODEL = {
    "querier": "max", "classifier": "svm", "balancer": "balanced", "feature_extractor": "tfidf", "stopper": None, "querier_param": {},
    "classifier_param": {"loss": "squared_hinge", "C": 0.11}, "balancer_param": {"ratio": 9.8},
    "feature_extractor_param": {"ngram_range": [1, 2], "sublinear_tf": True, "min_df": 1, "max_df": 0.95}, "stopper_param": {},
    "n_query": 1,
}  # fmt: skip
"""Its default, ELAS u4, with which ASReview goes on."""


@dataclass(frozen=True, slots=True)
class LabelledRecord:
    """A record of a project. `included` is None for an unscreened one."""

    record: Record
    included: bool | None = None
    note: str = ""
    duplicate_of: int | None = None
    """Place (from 0) of the record that stands for it."""


def read_project(path: Path, max_bytes: int) -> list[LabelledRecord]:
    """The records of a project in its order. Raises `UnreadableFile`, also for a file that unpacks to more than `max_bytes`."""
    try:
        with zipfile.ZipFile(path) as archive, tempfile.TemporaryDirectory(prefix="outrider-asreview-") as folder:
            if sum(member.file_size for member in archive.infolist()) > max_bytes:
                raise UnreadableFile(f"{path} unpacks to more than {max_bytes:,} bytes (ingest.max_bytes)")
            config = json.loads(archive.read(CONFIG))
            return _Project(archive, config, Path(folder), max_bytes).read()
    except OSError as error:
        raise UnreadableFile(f"{path}: {error.strerror or error}") from error
    except (zipfile.BadZipFile, EOFError, KeyError, ValueError, TypeError, IndexError, AttributeError, sqlite3.Error) as error:
        raise UnreadableFile(f"{path} is no whole project of ASReview ({error}); nothing was imported") from error


@dataclass(frozen=True, slots=True)
class _Project:
    """An opened archive; members are unpacked into `folder`, under names of ours."""

    archive: zipfile.ZipFile
    config: Mapping[str, Any]
    folder: Path
    max_bytes: int

    def read(self) -> list[LabelledRecord]:
        version = int(self.config.get("project_file_version") or (2 if "data_store.db" in self.archive.namelist() else 1))
        if version >= 3:
            records, results = self._read_records("results.db"), "results.db"
        else:
            results = self._find_results()
            records = self._read_records("data_store.db") if version == 2 else self._read_data()
        labels = self._read_labels(results) if results in self.archive.namelist() else {}
        if unknown := labels.keys() - set(range(len(records))):
            raise ValueError(f"it has labels of records that it lacks, such as {min(unknown)}")
        return [LabelledRecord(record, *labels.get(place, (None, "")), of) for place, (record, of) in enumerate(records)]

    def _find_results(self) -> str:
        """The database of the first review that was begun."""
        reviews = self.config.get("reviews") or [{}]
        return str(PurePosixPath("reviews", str(reviews[0].get("id", "")), "results.db"))

    def _query(self, member: str, query: str) -> list[sqlite3.Row]:
        target = self.folder / PurePosixPath(member).name
        target.write_bytes(self.archive.read(member))
        with closing(sqlite3.connect(f"{target.as_uri()}?mode=ro", uri=True)) as database:
            database.row_factory = sqlite3.Row
            return database.execute(query).fetchall()

    def _read_records(self, member: str) -> list[tuple[Record, int | None]]:
        rows = self._query(member, "SELECT * FROM record ORDER BY record_id")
        if [row["record_id"] for row in rows] != list(range(len(rows))):
            raise ValueError("its records are not numbered from 0")
        return [(_make_record(row), row["duplicate_of"] if "duplicate_of" in row.keys() else None) for row in rows]  # noqa: SIM118

    def _read_data(self) -> list[tuple[Record, int | None]]:
        name = str(self.config["dataset_path"])
        target = self.folder / PurePosixPath(name).name
        target.write_bytes(self.archive.read(f"data/{name}"))
        reader = select_reader(target)
        if isinstance(reader, NoReader):
            raise UnreadableFile(f"{name}: {reader.reason}")
        entries = reader.read(target, ReadOptions(max_bytes=self.max_bytes))
        return [(entry.record, None) for entry in entries if isinstance(entry, Entry)]

    def _read_labels(self, member: str) -> dict[int, tuple[bool | None, str]]:
        rows = self._query(member, "SELECT * FROM results WHERE label IS NOT NULL")
        labels: dict[int, tuple[bool | None, str]] = {}
        for row in rows:
            names = row.keys()
            note = next((str(row[name]) for name in ("note", "notes") if name in names and row[name]), "")
            labels[int(row["record_id"])] = (bool(row["label"]), note)
        return labels


def _make_record(row: sqlite3.Row) -> Record:
    def read_list(name: str) -> tuple[str, ...]:
        value = json.loads(row[name]) if isinstance(row[name], str) and row[name].startswith("[") else row[name]
        items = value if isinstance(value, list) else str(value or "").split(";")
        return tuple(text for item in items if (text := str(item).strip()))

    return Paper(
        doc_id=f"asreview:{row['record_id']}",
        title=row["title"] or "",
        abstract=row["abstract"] or "",
        authors=read_list("authors"),
        tags=read_list("keywords"),
        year=row["year"] if isinstance(row["year"], int) else None,
        url=row["url"] or None,
        identifiers=Identifiers(doi=normal_doi(row["doi"]) or None if row["doi"] else None),
    )


def write_project(name: str, views: Sequence[ReviewRecord], created: str) -> bytes:
    """A project of ASReview 3 with the records and their final verdicts. `maybe` and conflicts stay unlabelled."""
    dataset = f"{name}.csv"
    stream = io.StringIO(newline="")
    writer = ScreeningWriter(stream)
    writer.begin()
    for view in views:
        writer.record(view.record.model_copy(update={"metadata": drop_labels(view.record.metadata)}))
    config = {
        "version": WRITES, "id": name, "mode": "oracle", "name": name, "created_at_unix": int(_to_seconds(created)),
        "feature_matrices": [], "tags": None, "project_file_version": 3, "datasets": [{"id": name, "name": dataset}],
        "review": {"status": "review", "model": {"name": "elas_u4", "current_value": MODEL}},
    }  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="outrider-asreview-") as folder:
        database = Path(folder) / "results.db"
        with closing(sqlite3.connect(database)) as connection:
            connection.executescript(TABLES)
            connection.executemany(
                "INSERT INTO record (dataset_row, dataset_id, title, abstract, authors, keywords, year, doi, url, included, record_id, "
                "duplicate_of) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [_make_row(place, view, name) for place, view in enumerate(views)],
            )
            connection.executemany("INSERT INTO results (record_id, label, time, note) VALUES (?, ?, ?, ?)", list(_list_results(views)))
            connection.commit()
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("data/", "")
            archive.writestr("feature_matrices/", "")
            archive.writestr(CONFIG, json.dumps(config))
            archive.writestr(f"data/{dataset}", stream.getvalue())
            archive.write(database, "results.db")
        return content.getvalue()


def _make_row(place: int, view: ReviewRecord, dataset: str) -> tuple[Any, ...]:
    record = view.record
    keywords = [*record.tags, *(word for word in cast("tuple[str, ...]", getattr(record, "mesh", ())) if word not in record.tags)]
    return (
        place, dataset, record.title, record.abstract or record.description, json.dumps(record.authors, ensure_ascii=False),
        json.dumps(keywords, ensure_ascii=False), record.year, record.identifiers.doi, record.url, None, place,
        None if view.duplicate_of is None else view.duplicate_of - 1,
    )  # fmt: skip


def _list_results(views: Sequence[ReviewRecord]) -> Iterator[tuple[int, int | None, float, str | None]]:
    """Rows of decided records; a duplicate has the label of its work, as ASReview labels groups."""
    for place, view in enumerate(views):
        if view.state in ("include", "exclude"):
            last = max(view.decisions, key=lambda one: one.at)
            texts = [*list_reasons(view.state, view.decisions), *(note.text for note in view.notes)]
            yield place, int(view.state == "include"), _to_seconds(last.at), "; ".join(texts) or None


def _to_seconds(at: str) -> float:
    try:
        return datetime.fromisoformat(at).timestamp()
    except ValueError:
        return datetime.now(UTC).timestamp()

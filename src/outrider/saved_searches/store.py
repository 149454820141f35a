"""The store of saved searches: definitions, runs, and what each run found

A run counts from the one transaction that ends it: a process that dies before leaves the earlier runs as they were. Records are stored once
for all runs, by the hash of their content. Each method blocks, over a connection of its own.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from outrider.jobs.job_table import POSTGRES
from outrider.saved_searches.database import Connection, Database, PostgresDatabase, SqliteFile
from outrider.state.errors import BadRequest, NoSuchSaved, did_you_mean
from outrider.state.saved import RunDifference, SavedRun, SavedSearch

CHUNK = 500
IsDue = Callable[[SavedSearch, SavedRun | None], bool]
"""Whether a saved search is due, by its last run."""


@dataclass(slots=True)
class Work:
    """One work of a run: its leading record first, then the records that were merged into it."""

    members: dict[str, str]
    """Content hash by id; empty where only the id is known."""
    kind: str
    sources: tuple[str, ...]
    versions: tuple[str, ...] = ()
    """Ids of linked preprints and other versions."""
    is_carried: bool = False
    """Its source failed in this run; this is what the last run that read the source found."""
    records: dict[str, dict[str, Any]] = field(default_factory=dict, repr=False)
    """Records by content hash that are to be stored; empty for a work that was read from the store."""

    @property
    def doc_id(self) -> str:
        return next(iter(self.members))

    @property
    def content(self) -> str:
        return next(iter(self.members.values()))


@dataclass(frozen=True, slots=True)
class SavedStore:
    path: Path | str
    """A file, or the postgresql:// address of a database."""

    @property
    def database(self) -> Database:
        return PostgresDatabase(str(self.path)) if str(self.path).startswith(POSTGRES) else SqliteFile(Path(self.path))

    @property
    def exists(self) -> bool:
        """False only for a file that nothing has written yet."""
        return self.database.exists

    def add(self, saved: SavedSearch, *, replace: bool = False) -> None:
        """Raises `BadRequest` for a name that exists, unless it is to be replaced: then its runs stay."""
        with self._write() as connection:
            row = connection.execute("SELECT id FROM saved WHERE name = ?", (saved.name,)).fetchone()
            if row and not replace:
                raise BadRequest(f"there is a saved search {saved.name!r} already; choose another name, or replace it with --replace")
            definition = saved.model_copy(update={"id": row[0]}) if row else saved
            insert = """INSERT INTO saved VALUES (?, ?, ?)
                ON CONFLICT (id) DO UPDATE SET name = excluded.name, definition = excluded.definition"""
            connection.execute(insert, (definition.id, saved.name, definition.model_dump_json()))

    def list_searches(self) -> tuple[SavedSearch, ...]:
        """By name."""
        return tuple(self._parse(SavedSearch, row[0]) for row in self._query("SELECT definition FROM saved ORDER BY name"))

    def get(self, name: str) -> SavedSearch:
        """Raises `NoSuchSaved`."""
        rows = self._query("SELECT definition FROM saved WHERE name = ?", (name,))
        if not rows:
            names = [] if "/" in name else [one for (one,) in self._query("SELECT name FROM saved") if "/" not in one]
            hint = did_you_mean(name, names)  # what owners of keys saved has their name before it, and nobody else is told of it
            raise NoSuchSaved(f"there is no saved search {name[:200]!r}{hint or '; `outrider saved list` shows them'}")
        saved: SavedSearch = self._parse(SavedSearch, rows[0][0])
        return saved

    def remove(self, saved: SavedSearch) -> int:
        """Delete a saved search with its runs; the number of its runs."""
        with self._write() as connection:
            count = connection.execute("DELETE FROM runs WHERE saved = ?", (saved.id,)).rowcount
            connection.execute("DELETE FROM works WHERE saved = ?", (saved.id,))
            connection.execute("DELETE FROM saved WHERE id = ?", (saved.id,))
            _drop_unused_records(connection)
        return int(count)

    def forget_claim(self, saved: SavedSearch) -> None:
        """Delete what is left of the claim of a saved search that was removed."""
        self.database.forget_claim(saved.id)

    def queue(self, saved: SavedSearch, at: float, is_due: IsDue, queue: Callable[[], None]) -> None:
        """Call `queue` and mark the saved search as queued, if it is still due.

        One transaction: of several servers that saw it due, one queues it; if that dies before the end, another one does.
        """
        with self._write() as connection:
            row = connection.execute("SELECT definition FROM saved WHERE id = ?", (saved.id,)).fetchone()
            if row is None:  # removed meanwhile
                return
            definition: SavedSearch = self._parse(SavedSearch, row[0])  # it may have been replaced
            last = connection.execute("SELECT run FROM runs WHERE saved = ? ORDER BY number DESC LIMIT 1", (saved.id,)).fetchone()
            if not is_due(definition, self._parse(SavedRun, last[0]) if last else None):
                return
            queue()
            text = definition.model_copy(update={"queued_at": at}).model_dump_json()
            connection.execute("UPDATE saved SET definition = ? WHERE id = ?", (text, saved.id))

    def runs(self, saved: SavedSearch) -> tuple[SavedRun, ...]:
        """Oldest first."""
        rows = self._query("SELECT run FROM runs WHERE saved = ? ORDER BY number", (saved.id,))
        return tuple(self._parse(SavedRun, row[0]) for row in rows)

    def begin(self, saved: SavedSearch, at: float) -> SavedRun:
        """A new run, or the last one where that was interrupted: a systematic run is then resumed."""
        with self._write() as connection:
            rows = connection.execute("SELECT run FROM runs WHERE saved = ? ORDER BY number DESC LIMIT 1", (saved.id,)).fetchall()
            last: SavedRun | None = self._parse(SavedRun, rows[0][0]) if rows else None
            if last is not None and last.status == "running":
                return last
            run = SavedRun(number=last.number + 1 if last else 1, status="running", started_at=at)
            self._put(connection, saved, run)
        return run

    def update(self, saved: SavedSearch, run: SavedRun) -> None:
        with self._write() as connection:
            self._put(connection, saved, run)

    def finish(self, saved: SavedSearch, run: SavedRun, works: Sequence[Work], difference: RunDifference | None, keep: int) -> None:
        """End a run with what it found, and delete the oldest runs beyond `keep`, in one transaction.

        `difference` is that from the complete run before; None for the first one.
        """
        with self._write() as connection:
            known = _find_known(connection, (content for work in works for content in work.records))
            for work in works:
                for content, record in work.records.items():
                    if content not in known:
                        known.add(content)
                        connection.execute("INSERT INTO records VALUES (?, ?)", (content, zlib.compress(_dump(record).encode(), 1)))
            rows = ((saved.id, run.number, place, _dump_work(work)) for place, work in enumerate(works))
            insert = "INSERT INTO works VALUES (?, ?, ?, ?) ON CONFLICT (saved, run, place) DO UPDATE SET work = excluded.work"
            connection.executemany(insert, rows)
            self._put(connection, saved, run)
            if difference is not None:
                values = (difference.model_dump_json(exclude_defaults=True), saved.id, run.number)
                connection.execute("UPDATE runs SET difference = ? WHERE saved = ? AND number = ?", values)
            complete = "SELECT number FROM runs WHERE saved = ? AND status = 'complete' ORDER BY number DESC LIMIT 1 OFFSET ?"
            if oldest := connection.execute(complete, (saved.id, keep - 1)).fetchone():
                removed = connection.execute("DELETE FROM runs WHERE saved = ? AND number < ?", (saved.id, oldest[0])).rowcount
                connection.execute("DELETE FROM works WHERE saved = ? AND run < ?", (saved.id, oldest[0]))
                if removed:
                    _drop_unused_records(connection)

    def differences(self, saved: SavedSearch, most: int) -> tuple[tuple[SavedRun, RunDifference | None], ...]:
        """The newest complete runs first, each with its difference from the one before."""
        query = "SELECT run, difference FROM runs WHERE saved = ? AND status = 'complete' ORDER BY number DESC LIMIT ?"
        rows = self._query(query, (saved.id, most))
        return tuple((self._parse(SavedRun, run), None if text is None else self._parse(RunDifference, text)) for run, text in rows)

    def works(self, saved: SavedSearch, number: int) -> list[Work]:
        """In the order of the run."""
        rows = self._query("SELECT work FROM works WHERE saved = ? AND run = ? ORDER BY place", (saved.id, number))
        return [_load_work(row[0]) for row in rows]

    def records(self, contents: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Stored records by content hash; the text of a record is its hash."""
        wanted = sorted({content for content in contents if content})
        found: dict[str, dict[str, Any]] = {}
        for start in range(0, len(wanted), CHUNK):
            part = wanted[start : start + CHUNK]
            query = f"SELECT content, record FROM records WHERE content IN ({', '.join('?' * len(part))})"  # noqa: S608 - marks
            for content, packed in self._query(query, part):
                try:
                    found[content] = json.loads(zlib.decompress(packed))
                except (zlib.error, ValueError) as error:
                    raise self.database.make_damage_error("a record cannot be read") from error
        return found

    @contextmanager
    def claim(self, saved: SavedSearch) -> Iterator[None]:
        """One process at a time runs a saved search; the system, or the database, frees the claim when it dies. Raises `SavedBusy`."""
        with self.database.claim(saved.id, saved.name):
            yield

    def _put(self, connection: Connection, saved: SavedSearch, run: SavedRun) -> None:
        text = run.model_dump_json(exclude_defaults=True)
        insert = """INSERT INTO runs (saved, number, status, run) VALUES (?, ?, ?, ?)
            ON CONFLICT (saved, number) DO UPDATE SET status = excluded.status, run = excluded.run"""
        connection.execute(insert, (saved.id, run.number, run.status, text))

    def _query(self, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Rows; none where there is no store yet."""
        if not self.exists:
            return []
        with self.database.connect(writing=False) as connection:
            rows: list[tuple[Any, ...]] = connection.execute(query, tuple(values)).fetchall()
        return rows

    @contextmanager
    def _write(self) -> Iterator[Connection]:
        """A connection whose statements are one transaction."""
        with self.database.connect(writing=True) as connection:
            yield connection

    def _parse(self, model: Any, text: str) -> Any:
        try:
            return model.model_validate_json(text)
        except ValidationError as error:
            raise self.database.make_damage_error("an entry cannot be read") from error


def _find_known(connection: Connection, contents: Iterable[str]) -> set[str]:
    wanted = sorted(set(contents))
    known: set[str] = set()
    for start in range(0, len(wanted), CHUNK):
        part = wanted[start : start + CHUNK]
        query = f"SELECT content FROM records WHERE content IN ({', '.join('?' * len(part))})"  # noqa: S608 - marks
        known.update(row[0] for row in connection.execute(query, part))
    return known


def _drop_unused_records(connection: Connection) -> None:
    used = {content for (text,) in connection.execute("SELECT work FROM works") for content in json.loads(text)["members"].values()}
    unused = [row for row in connection.execute("SELECT content FROM records") if row[0] not in used]
    connection.executemany("DELETE FROM records WHERE content = ?", unused)


def _dump(value: Mapping[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))  # ASCII: a record may hold half a character


def _dump_work(work: Work) -> str:
    fields: dict[str, Any] = {"members": work.members, "kind": work.kind, "sources": work.sources}
    fields |= {"versions": work.versions} if work.versions else {}
    return _dump(fields | ({"carried": True} if work.is_carried else {}))


def _load_work(text: str) -> Work:
    fields = json.loads(text)
    versions = tuple(fields.get("versions", ()))
    return Work(fields["members"], fields["kind"], tuple(fields["sources"]), versions, fields.get("carried", False))

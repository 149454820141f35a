"""Databases of saved searches: an SQLite file, or Postgres for several servers."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from outrider.jobs.job_table import NOTICE_DEATH
from outrider.state.errors import MissingExtra, SavedBusy, SavedError, StoreDamaged
from outrider.text.sanitize import explain_database_error, without_credentials

FORMAT = 1
TABLES = (
    "CREATE TABLE saved (id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, definition TEXT NOT NULL)",
    """CREATE TABLE runs (saved TEXT NOT NULL, number INTEGER NOT NULL, status TEXT NOT NULL, run TEXT NOT NULL,
    difference TEXT, PRIMARY KEY (saved, number))""",
    "CREATE TABLE records (content TEXT PRIMARY KEY, record {binary} NOT NULL)",
    """CREATE TABLE works (saved TEXT NOT NULL, run INTEGER NOT NULL, place INTEGER NOT NULL, work TEXT NOT NULL,
    PRIMARY KEY (saved, run, place))""",
)
SCHEMA = "outrider_saved"
"""Of the tables in Postgres, which may hold tables of other programs."""
WRITE_LOCK = 0x6F75_7472_7361_7665
"""Postgres names a lock by a number: ours is "outrsave" in ASCII. One process writes at a time, as in SQLite."""
BUSY_S = 30.0
CONNECT_S = 10
HEADER = 100
MAGIC = b"SQLite format 3\0"
_created: set[str] = set()
"""Databases whose tables this process has made or seen."""


class Connection(Protocol):
    """Of one transaction. Placeholders are `?`."""

    def execute(self, query: str, values: Sequence[object] = (), /) -> Any: ...
    def executemany(self, query: str, rows: Iterable[Sequence[object]], /) -> Any: ...


class Database(Protocol):
    @property
    def exists(self) -> bool:
        """False only for a file that nothing has written yet."""

    def connect(self, *, writing: bool) -> Any:
        """A context with a connection whose statements are one transaction; tables are made where one writes."""

    def claim(self, number: str, name: str) -> Any:
        """A context in which no other process runs this saved search; it is free when the process dies. Raises `SavedBusy`."""

    def forget_claim(self, number: str) -> None:
        """Delete what is left of the claim of a saved search that was removed."""

    def make_damage_error(self, why: str) -> StoreDamaged: ...


def make_busy_error(name: str) -> SavedBusy:
    return SavedBusy(f"the saved search {name!r} is being run; wait for it to end")


@dataclass(frozen=True, slots=True)
class SqliteFile:
    path: Path

    @property
    def exists(self) -> bool:
        return self.path.exists()

    @contextmanager
    def connect(self, *, writing: bool) -> Iterator[Connection]:
        if writing and not self.exists:
            self._create()
        self._require_whole()
        try:
            with closing(sqlite3.connect(self.path, timeout=BUSY_S)) as connection:
                version = connection.execute("PRAGMA user_version").fetchone()[0]
                if version > FORMAT:
                    raise SavedError(f"{self.path} was written by a newer Outrider; install that, or name another file in saved.uri")
                if writing:
                    connection.execute("BEGIN IMMEDIATE")
                with connection:
                    yield connection
        except sqlite3.OperationalError as error:
            raise SavedError(f"the saved searches in {self.path} cannot be read or written: {error}") from error
        except sqlite3.DatabaseError as error:
            raise self.make_damage_error(str(error)) from error

    @contextmanager
    def claim(self, number: str, name: str) -> Iterator[None]:
        from filelock import FileLock, Timeout

        lock = FileLock(f"{self.path}.{number}.lock", thread_local=False)
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            raise make_busy_error(name) from error
        except OSError as error:
            raise SavedError(f"{self.path} cannot be written: {error.strerror or error}; name another file in saved.uri") from error
        try:
            yield
        finally:
            lock.release()

    def forget_claim(self, number: str) -> None:
        Path(f"{self.path}.{number}.lock").unlink(missing_ok=True)

    def make_damage_error(self, why: str) -> StoreDamaged:
        return StoreDamaged(f"the saved searches in {self.path} are damaged ({why}); restore the file from a backup, or move it away")

    def _create(self) -> None:
        """Make the file with its tables beside its place, and put it there whole: one that is empty or cut off is damaged."""
        part = self.path.with_name(f"{self.path.name}.{os.getpid()}-{time.time_ns()}.part")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            part.touch(mode=0o600)  # queries are private
            with closing(sqlite3.connect(part)) as connection, connection:
                for table in TABLES:
                    rowid = "" if table.startswith("CREATE TABLE saved") else " WITHOUT ROWID"
                    connection.execute(table.format(binary="BLOB") + rowid)
                connection.execute(f"PRAGMA user_version = {FORMAT}")
            with suppress(FileExistsError):  # of another process
                os.link(part, self.path)
        except (OSError, sqlite3.Error) as error:
            raise SavedError(f"searches cannot be saved in {self.path}: {error}; name another file in saved.uri") from error
        finally:
            part.unlink(missing_ok=True)

    def _require_whole(self) -> None:
        """Raise `StoreDamaged` for a file that is shorter than its header says: SQLite reads on until it misses a page."""
        try:
            with self.path.open("rb") as stream:
                header = stream.read(HEADER)
                size = os.fstat(stream.fileno()).st_size
        except OSError as error:
            raise SavedError(f"the saved searches in {self.path} cannot be read: {error.strerror or error}") from error
        page = int.from_bytes(header[16:18], "big")
        pages = int.from_bytes(header[28:32], "big")
        if len(header) < HEADER or not header.startswith(MAGIC) or size < (65_536 if page == 1 else page) * pages:
            raise self.make_damage_error("the file is cut off, or is no store")


@dataclass(frozen=True, slots=True)
class PostgresConnection:
    """psycopg's placeholder is `%s`, and only its cursors execute many rows."""

    connection: Any

    def execute(self, query: str, values: Sequence[object] = (), /) -> Any:
        return self.connection.execute(query.replace("?", "%s"), tuple(values))

    def executemany(self, query: str, rows: Iterable[Sequence[object]], /) -> Any:
        with self.connection.cursor() as cursor:
            cursor.executemany(query.replace("?", "%s"), list(rows))


@dataclass(frozen=True, slots=True)
class PostgresDatabase:
    uri: str

    @property
    def exists(self) -> bool:
        return True

    @contextmanager
    def connect(self, *, writing: bool) -> Iterator[Connection]:
        self._create()
        with self._open() as connection:
            connection.execute(f"SET LOCAL search_path TO {SCHEMA}")
            if writing:
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (WRITE_LOCK,))
            yield PostgresConnection(connection)

    @contextmanager
    def claim(self, number: str, name: str) -> Iterator[None]:
        """A lock of a session, so its connection stays open while it is held."""
        key = int.from_bytes(hashlib.sha256(f"{SCHEMA} {number}".encode()).digest()[:8], "big", signed=True)
        with self._open() as connection:
            connection.execute(NOTICE_DEATH)
            if not connection.execute("SELECT pg_try_advisory_lock(%s)", (key,)).fetchone()[0]:
                raise make_busy_error(name)
            connection.commit()  # else the session would be idle in a transaction
            try:
                yield
            finally:  # the end of a connection frees it too, but some time after it is closed here: the next run would find it held
                with suppress(type(connection).OperationalError):
                    connection.execute("SELECT pg_advisory_unlock(%s)", (key,))

    def forget_claim(self, number: str) -> None:
        """Nothing is left."""

    def make_damage_error(self, why: str) -> StoreDamaged:
        where = without_credentials(self.uri)
        return StoreDamaged(f"the saved searches in {where} are damaged ({why}); restore the schema {SCHEMA} from a backup, or drop it")

    def _create(self) -> None:
        if self.uri in _created:
            return
        with self._open() as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (WRITE_LOCK,))
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
            connection.execute(f"SET LOCAL search_path TO {SCHEMA}")
            connection.execute("CREATE TABLE IF NOT EXISTS format (version INTEGER NOT NULL)")
            row = connection.execute("SELECT version FROM format").fetchone()
            if row is None:
                for table in TABLES:
                    connection.execute(table.format(binary="BYTEA"))
                connection.execute("INSERT INTO format VALUES (%s)", (FORMAT,))
            elif row[0] > FORMAT:
                where = without_credentials(self.uri)
                raise SavedError(f"{where} was written by a newer Outrider; install that, or name another database in saved.uri")
        _created.add(self.uri)

    @contextmanager
    def _open(self) -> Iterator[Any]:
        try:
            import psycopg
        except ImportError as error:
            raise MissingExtra("saved searches in Postgres", "postgres") from error
        try:
            with psycopg.connect(self.uri, connect_timeout=CONNECT_S) as connection:
                yield connection
        except psycopg.Error as error:
            where, reason = without_credentials(self.uri), explain_database_error(error, self.uri)
            raise SavedError(f"the saved searches in {where} cannot be read or written: {reason}; look at saved.uri") from error

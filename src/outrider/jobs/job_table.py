"""The table of background jobs in SQLite or Postgres.

Searches, commands and servers read and write it. It is what a user sees and decides: which jobs there are, their state, which targets are
paused. The worker hands its jobs to DBOS, which runs them (`worker`). Nothing here imports DBOS, so that a search queues a job in a few
milliseconds. See ADR 43.

Each method blocks, over a connection of its own, and raises `JobError`.
"""

from __future__ import annotations

import json
import sqlite3
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import JsonValue

from outrider.state.errors import BadRequest, JobError, MissingExtra, NoSuchJob, TargetPaused
from outrider.state.jobs import Job, JobKind, JobStatus, StopScope
from outrider.text.sanitize import without_password, without_password_of

POSTGRES = ("postgres://", "postgresql://")
TABLES = (
    """CREATE TABLE IF NOT EXISTS outrider_jobs (
    id TEXT PRIMARY KEY, kind TEXT NOT NULL, target TEXT NOT NULL, library TEXT NOT NULL, request TEXT NOT NULL, status TEXT NOT NULL,
    created DOUBLE PRECISION NOT NULL, started DOUBLE PRECISION, finished DOUBLE PRECISION, progress TEXT NOT NULL DEFAULT '',
    result TEXT, error TEXT NOT NULL DEFAULT '', attempts INTEGER NOT NULL DEFAULT 0, round INTEGER NOT NULL DEFAULT 0)""",
    "CREATE INDEX IF NOT EXISTS outrider_jobs_by_status ON outrider_jobs (status, created)",
    "CREATE INDEX IF NOT EXISTS outrider_jobs_by_target ON outrider_jobs (target, created)",
    "CREATE TABLE IF NOT EXISTS outrider_paused_targets (target TEXT PRIMARY KEY, since DOUBLE PRECISION NOT NULL)",
)
COLUMNS = "id, kind, target, library, request, status, created, started, finished, progress, result, error, attempts"
BUSY_S = 30.0
"""Limit on the wait for another process that writes."""
CONNECT_S = 10
MAX_TARGET_CHARS = 200
MAX_REQUEST_CHARS = 1_000_000
MOST_LISTED = 1_000
"""Jobs of one list; it has the newest."""
DAY_S = 86_400.0
LOCK_S = 0.5
"""How long a worker tries to claim the jobs: `is_worked` holds the claim for a moment."""
ADVISORY_LOCK = 0x6F75_7472_6964_6572
"""Postgres names a lock by a number: ours is "outrider" in ASCII."""
SETUP_LOCK = ADVISORY_LOCK + 1
"""Of who makes the tables."""
QUEUE_LOCK = ADVISORY_LOCK + 2
"""Of who queues a job: two processes would both find no equal one."""
NOTICE_DEATH = "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3"
"""Postgres notices within 25 s that the machine of a claim is gone; by default it takes two hours."""
_created: set[str] = set()
"""Databases whose tables this process has made or seen."""


@dataclass(frozen=True, slots=True)
class Handover:
    """A job that the worker has to hand to DBOS. A job that was paused and resumed is handed over again, as its next round."""

    id: str
    kind: JobKind
    round: int
    is_running: bool
    """A worker began it and did not end it."""

    @property
    def workflow(self) -> str:
        return f"{self.id}.{self.round}"


@dataclass(frozen=True, slots=True)
class Claim:
    """The right of one process to work the jobs. The system, or the database, frees it when the process dies."""

    release: Callable[[], None]
    check: Callable[[], None]
    """Raises `JobError` if the claim is lost, as when the database was restarted: another process may have it by now."""


@dataclass(frozen=True, slots=True)
class JobTable:
    uri: str
    """A file's path, or a postgresql:// address."""

    @property
    def is_postgres(self) -> bool:
        return self.uri.startswith(POSTGRES)

    @property
    def exists(self) -> bool:
        """False only for a file that nothing has written yet."""
        return self.is_postgres or Path(self.uri).is_file()

    def create(self) -> None:
        """Make the tables where they are missing; looked at once in a process."""
        if self.uri in _created and self.exists:
            return
        if "://" not in self.uri:
            path = Path(self.uri)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch(mode=0o600)  # queries are private
            except OSError as error:
                raise JobError(f"jobs cannot be saved in {path}: {error.strerror or error}; name another place in jobs.uri") from error
        with self._connect() as connection:
            if self.is_postgres:  # two processes that make a table at once both fail, IF NOT EXISTS or not
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (SETUP_LOCK,))
            else:
                connection.execute("PRAGMA journal_mode=WAL")
            for table in TABLES:
                connection.execute(table)
        _created.add(self.uri)

    def queue(self, kind: JobKind, target: str, library: str, request: dict[str, JsonValue]) -> str:
        """Queue a job and return its number; that of the same job where it is queued already. Raises `TargetPaused`."""
        text = json.dumps(request, ensure_ascii=False, sort_keys=True)
        if not (0 < len(target) <= MAX_TARGET_CHARS and target.isprintable()):
            raise BadRequest(f"a job's target has 1 to {MAX_TARGET_CHARS} printable characters")
        if len(text) > MAX_REQUEST_CHARS:
            raise BadRequest(f"a job's request has at most {MAX_REQUEST_CHARS:,} characters; queue several jobs")
        self.create()
        number = uuid.uuid4().hex[:12]
        same = (kind, target, library, text)
        insert = """INSERT INTO outrider_jobs (id, kind, target, library, request, status, created)
            SELECT ?, ?, ?, ?, ?, 'queued', CAST(? AS DOUBLE PRECISION)
            WHERE NOT EXISTS (SELECT 1 FROM outrider_paused_targets WHERE target = ?) AND NOT EXISTS (
            SELECT 1 FROM outrider_jobs WHERE status = 'queued' AND kind = ? AND target = ? AND library = ? AND request = ?)"""
        with self._connect() as connection:
            if self.is_postgres:
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (QUEUE_LOCK,))
            if self._write(connection, insert, (number, *same, time.time(), target, *same)):
                return number
            if self._read(connection, "SELECT 1 FROM outrider_paused_targets WHERE target = ?", (target,)):
                raise TargetPaused(f"the jobs of {target!r} are paused; to go on: outrider jobs resume {target!r}")
            query = "SELECT id FROM outrider_jobs WHERE kind = ? AND target = ? AND library = ? AND request = ? ORDER BY created DESC, id"
            return str(self._read(connection, query, same)[0][0])

    def list_jobs(
        self, target: str = "", status: JobStatus | None = None, limit: int = MOST_LISTED, *, hidden: Collection[str] = ()
    ) -> tuple[Job, ...]:
        """The newest first; of one target or of one state if they are named, and without those of the `hidden` owners."""
        named = (("target", target), ("status", status))
        conditions: dict[str, tuple[str, ...]] = {f"{name} = ?": (value,) for name, value in named if value}
        if hidden:  # the name of a target begins with that of its owner
            owner = f"SUBSTR(target, 1, {'STRPOS' if self.is_postgres else 'INSTR'}(target, '/'))"
            conditions[f"{owner} NOT IN ({', '.join('?' * len(hidden))})"] = tuple(f"{name}/" for name in hidden)
        return self._list(conditions, limit)

    def list_of_kind(self, kind: JobKind, *, target: str = "", library: str = "") -> tuple[Job, ...]:
        """All jobs of a kind, the newest first; of one target or for one library if they are named."""
        wanted = (("kind", kind), ("target", target), ("library", library))
        return self._list({f"{name} = ?": (value,) for name, value in wanted if value})

    def _list(self, conditions: Mapping[str, Sequence[object]], limit: int | None = None) -> tuple[Job, ...]:
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        query = f"SELECT {COLUMNS} FROM outrider_jobs {where} ORDER BY created DESC, id"  # noqa: S608 - our own words
        values = [value for each in conditions.values() for value in each]
        rows = self._query(query, values) if limit is None else self._query(f"{query} LIMIT ?", [*values, limit])
        return tuple(_make_job(row) for row in rows)

    def get(self, number: str) -> Job:
        """One job by its number. Raises `NoSuchJob`."""
        rows = self._query(f"SELECT {COLUMNS} FROM outrider_jobs WHERE id = ?", (number,))  # noqa: S608
        if not rows:
            raise NoSuchJob(f"there is no job {number!r}; `outrider jobs list` shows them")
        return _make_job(rows[0])

    def count_open(self) -> int:
        """Jobs that a worker has to run or to go on with."""
        return int(self._query("SELECT COUNT(*) FROM outrider_jobs WHERE status IN ('queued', 'running')")[0][0]) if self.exists else 0

    def paused_targets(self) -> tuple[str, ...]:
        return tuple(row[0] for row in self._query("SELECT target FROM outrider_paused_targets ORDER BY target"))

    def pause(self, target: str) -> tuple[Job, ...]:
        """Queue nothing more for a target, and hold its queued jobs besides `citations`, which are returned.

        Jobs that run, and queued `citations` jobs, complete. Raises `NoSuchJob` for a target that never had a job.
        """
        with self._known_target(target) as connection:
            self._write(
                connection, "INSERT INTO outrider_paused_targets VALUES (?, ?) ON CONFLICT (target) DO NOTHING", (target, time.time())
            )
            self._write(
                connection,
                "UPDATE outrider_jobs SET status = 'paused' WHERE target = ? AND kind <> 'citations' AND status = 'queued'",
                (target,),
            )
        return self.list_jobs(target, "paused")

    def resume(self, target: str) -> tuple[Job, ...]:
        """Undo a pause; the jobs that go on."""
        with self._known_target(target) as connection:
            held = {
                row[0] for row in self._read(connection, "SELECT id FROM outrider_jobs WHERE target = ? AND status = 'paused'", (target,))
            }
            self._write(connection, "DELETE FROM outrider_paused_targets WHERE target = ?", (target,))
            self._write(
                connection,
                "UPDATE outrider_jobs SET status = 'queued', round = round + 1 WHERE target = ? AND status = 'paused'",
                (target,),
            )
        return tuple(job for job in self.list_jobs(target) if job.id in held)

    def stop(self, target: str, scope: StopScope) -> tuple[Job, ...]:
        """Cancel jobs that have not ended, and return them: one by its number, or those of a target.

        With `target_queue_only` the `citations` jobs of the target complete. Raises `NoSuchJob`.
        """
        by_number = bool(self._query("SELECT 1 FROM outrider_jobs WHERE id = ?", (target,)))
        column, spared = "id" if by_number else "target", "citations" if scope == "target_queue_only" else ""
        with self._connect() if by_number else self._known_target(target) as connection:
            query = f"SELECT id FROM outrider_jobs WHERE {column} = ? AND kind <> ? AND status IN ('queued', 'running', 'paused')"  # noqa: S608
            numbers = [row[0] for row in self._read(connection, query, (target, spared))]
            cancel = (
                "UPDATE outrider_jobs SET status = 'cancelled', finished = ? WHERE id = ? AND status IN ('queued', 'running', 'paused')"
            )
            cancelled = [number for number in numbers if self._write(connection, cancel, (time.time(), number))]
        return tuple(self.get(number) for number in cancelled)

    # Below: what the worker alone calls.

    def list_handovers(self) -> tuple[Handover, ...]:
        """Jobs that are queued or running, in the order in which they run: `fetch`, `saved`, `full_text`, the others, each by age."""
        query = """SELECT id, kind, round, status FROM outrider_jobs WHERE status IN ('queued', 'running')
            ORDER BY CASE kind WHEN 'fetch' THEN 0 WHEN 'saved' THEN 1 WHEN 'full_text' THEN 2 ELSE 3 END, created, id"""
        return tuple(Handover(row[0], row[1], row[2], row[3] == "running") for row in self._query(query))

    def start(self, number: str, round: int) -> Job | None:  # noqa: A002
        """Mark a job as running; None if that is not to be: it was cancelled, held by a pause, has ended, or has begun another round."""
        start = """UPDATE outrider_jobs SET status = 'running', started = COALESCE(started, ?), attempts = attempts + 1
            WHERE id = ? AND round = ? AND status IN ('queued', 'running')"""
        with self._connect() as connection:
            if not self._write(connection, start, (time.time(), number, round)):
                return None
        return self.get(number)

    def restart(self, number: str, round: int) -> None:  # noqa: A002
        """Queue a job that has not ended as its next round: DBOS ended the workflow of this one, or its steps changed."""
        restart = """UPDATE outrider_jobs SET status = 'queued', round = round + 1
            WHERE id = ? AND round = ? AND status IN ('queued', 'running')"""
        with self._connect() as connection:
            self._write(connection, restart, (number, round))

    def report(self, number: str, progress: str) -> None:
        with self._connect() as connection:
            self._write(
                connection, "UPDATE outrider_jobs SET progress = ? WHERE id = ? AND status = 'running'", (_make_writable(progress), number)
            )

    def finish(self, number: str, status: Literal["done", "failed"], result: dict[str, JsonValue] | None = None, error: str = "") -> bool:
        """End a running job; False if it was cancelled meanwhile."""
        end = "UPDATE outrider_jobs SET status = ?, finished = ?, result = ?, error = ? WHERE id = ? AND status = 'running'"
        text = None if result is None else json.dumps(result, ensure_ascii=False)
        with self._connect() as connection:
            return bool(self._write(connection, end, (status, time.time(), text, _make_writable(error), number)))

    def list_cancelled(self, numbers: Sequence[str]) -> tuple[str, ...]:
        marks = ", ".join("?" * len(numbers))
        query = f"SELECT id FROM outrider_jobs WHERE status = 'cancelled' AND id IN ({marks}) ORDER BY id"  # noqa: S608
        return tuple(row[0] for row in self._query(query, tuple(numbers))) if numbers else ()

    def expire(self, retention_days: float) -> tuple[str, ...]:
        """Delete jobs that ended so long ago, and unrun ones as `forget_unrun`; the names of the workflows of the former."""
        self.forget_unrun(retention_days)
        before = time.time() - retention_days * DAY_S
        old = "finished < ?"  # what waits or is paused stays: a person chose it
        with self._connect() as connection:
            rows = self._read(connection, f"SELECT id, round FROM outrider_jobs WHERE {old}", (before,))  # noqa: S608
            self._write(connection, f"DELETE FROM outrider_jobs WHERE {old}", (before,))  # noqa: S608
        return tuple(f"{number}.{each}" for number, last in rows for each in range(last + 1))

    def try_lock(self, wait_s: float = LOCK_S) -> Claim | None:
        """Claim the jobs for one worker; None while another process works them, on whatever machine."""
        self.create()
        if self.is_postgres:
            return self._try_postgres_lock(wait_s)
        from filelock import FileLock

        lock = FileLock(f"{self.uri}.lock", thread_local=False)
        try:
            lock.acquire(timeout=wait_s)
        except TimeoutError:
            return None
        except OSError as error:
            raise JobError(f"jobs cannot be run: {self.uri}.lock: {error.strerror or error}; name another place in jobs.uri") from error
        return Claim(lock.release, check=lambda: None)

    def is_worked(self) -> bool:
        """Whether a process works the jobs now."""
        claim = self.try_lock(0.0) if self.exists else None
        if claim is not None:
            claim.release()
        return self.exists and claim is None

    def _try_postgres_lock(self, wait_s: float) -> Claim | None:
        """A lock of a session, so its connection stays open while it is held."""
        held = ExitStack()
        connection = held.enter_context(self._connect_postgres())
        connection.execute(NOTICE_DEATH)
        until = time.monotonic() + wait_s
        while not connection.execute("SELECT pg_try_advisory_lock(%s)", (ADVISORY_LOCK,)).fetchone()[0]:
            if time.monotonic() >= until:
                held.close()
                return None
            time.sleep(LOCK_S / 10)
        connection.commit()  # else the session would be idle in a transaction
        connection.autocommit = True

        def check() -> None:
            with self._translate_errors():
                connection.execute("SELECT 1")

        def release() -> None:
            with suppress(JobError):  # a claim that was lost is free
                held.close()

        return Claim(release, check)

    def forget_unrun(self, retention_days: float) -> None:
        """Delete `citations` jobs that waited so long and never began: where nothing runs jobs, searches would queue them for ever."""
        before = time.time() - retention_days * DAY_S
        unrun = "kind = 'citations' AND status = 'queued' AND started IS NULL AND created < ?"
        with self._connect() as connection:
            self._write(connection, f"DELETE FROM outrider_jobs WHERE {unrun}", (before,))  # noqa: S608

    @contextmanager
    def _known_target(self, target: str) -> Iterator[Any]:
        """A connection for a change to a target. Raises `NoSuchJob` where it has no job."""
        if not self._query("SELECT 1 FROM outrider_jobs WHERE target = ? LIMIT 1", (target,)):
            raise NoSuchJob(f"there is no target or job {target!r}; `outrider jobs list` shows them")
        with self._connect() as connection:
            yield connection

    def _query(self, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Rows of one query; none where the table was never made."""
        if not self.exists:
            return []
        self.create()
        with self._connect() as connection:
            return self._read(connection, query, values)

    def _read(self, connection: Any, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in connection.execute(self._mark(query), tuple(values)).fetchall()]

    def _write(self, connection: Any, statement: str, values: Sequence[object]) -> int:
        """The number of changed rows."""
        return int(connection.execute(self._mark(statement), tuple(values)).rowcount)

    def _mark(self, statement: str) -> str:
        """With the placeholders of the database: SQLite's is `?`, psycopg's `%s`."""
        return statement.replace("?", "%s") if self.is_postgres else statement

    @contextmanager
    def _connect(self) -> Iterator[Any]:
        """A connection whose statements are one transaction, unless an error ends it."""
        if "://" in self.uri and not self.is_postgres:
            raise JobError(f"jobs.uri takes a file or an address postgresql://..., not {without_password(self.uri)}")
        if self.is_postgres:
            with self._connect_postgres() as connection:
                yield connection
            return
        try:
            with closing(sqlite3.connect(self.uri, timeout=BUSY_S)) as connection, connection:
                yield connection
        except sqlite3.Error as error:
            raise JobError(f"the jobs in {self.uri} cannot be read or written: {error}; name another file in jobs.uri") from error

    @contextmanager
    def _connect_postgres(self) -> Iterator[Any]:
        try:
            import psycopg
        except ImportError as error:
            raise MissingExtra("jobs in Postgres", "postgres") from error
        with self._translate_errors(), psycopg.connect(self.uri, connect_timeout=CONNECT_S) as connection:
            yield connection

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        import psycopg

        try:
            yield
        except psycopg.Error as error:
            raise JobError(
                without_password_of(self.uri, f"the jobs in {self.uri} cannot be read or written: {str(error)[:200]}")
            ) from error


def _make_writable(text: str) -> str:
    """Without what a database refuses: lone surrogates, and zero bytes in Postgres."""
    return text.replace("\0", " ").encode(errors="replace").decode()


def _make_job(row: Sequence[Any]) -> Job:
    number, kind, target, library, request, status, created, started, finished, progress, result, error, attempts = row
    return Job(
        id=number,
        kind=kind,
        target=target,
        library=library,
        status=status,
        created_at=_format_time(created) or "",
        started_at=_format_time(started),
        finished_at=_format_time(finished),
        progress=progress,
        request=json.loads(request),
        result=None if result is None else json.loads(result),
        error=error,
        attempts=attempts,
    )


def _format_time(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")

"""Ledger of the runs of threads, and the leases that let one process at a time run a thread.

A lease is a row with a token and a time until which it holds. A process renews its leases while it runs; one that died renews none, and
another process takes the thread over. The token guards each write: a process that was stalled, and comes back after its lease was taken,
writes nothing. Times are those of the database, since the clocks of hosts differ.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, Protocol

from outrider.state.errors import ThreadBusy, ThreadError

Status = Literal["begun", "waiting", "ended", "failed"]
Row = tuple[Any, ...]

TABLES = (
    """CREATE TABLE IF NOT EXISTS outrider_runs (
    run TEXT PRIMARY KEY, thread TEXT NOT NULL, query TEXT NOT NULL, asked TEXT NOT NULL, context TEXT NOT NULL, status TEXT NOT NULL,
    holder TEXT NOT NULL, began DOUBLE PRECISION NOT NULL, touched DOUBLE PRECISION NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS outrider_runs_of_thread ON outrider_runs (thread, began)",
    """CREATE TABLE IF NOT EXISTS outrider_answers (
    run TEXT NOT NULL, key TEXT NOT NULL, number INTEGER NOT NULL, answer TEXT NOT NULL, PRIMARY KEY (run, key, number))""",
    """CREATE TABLE IF NOT EXISTS outrider_leases (
    thread TEXT PRIMARY KEY, token TEXT NOT NULL, holder TEXT NOT NULL, place TEXT NOT NULL, until DOUBLE PRECISION NOT NULL)""",
)
COLUMNS = "run, thread, query, asked, context, status, holder, began, touched"
OVERTAKEN = "another process has taken over this thread"
AFTER_LAST_S = 1e-3
"""Between the beginnings of two runs of a thread, whose order is that of these times: the clock of another host may be behind."""


@dataclass(frozen=True, slots=True)
class ThreadRun:
    """One search of a thread. Times are seconds since the epoch."""

    run: str
    thread: str
    query: str
    asked: str
    """The request, as JSON."""
    context: str
    """The run's own settings, as JSON, and whether it is offline and what library it reads (`usecases.threads.RunRow`)."""
    status: Status
    holder: str
    """The process that began or resumed it, as `host:process`."""
    began: float
    touched: float


class Database(Protocol):
    """Statements with `?` for parameters, each its own transaction. Raises `ThreadError`."""

    @property
    def now(self) -> str:
        """Its clock, as an expression: seconds since the epoch."""

    @property
    def share(self) -> str:
        """Ends a query of a row that nobody may change before this statement has ended."""

    @property
    def writes(self) -> str:
        """LangGraph's table of the writes of nodes."""

    async def execute(self, statement: str, values: Sequence[object] = ()) -> list[Row]: ...


@dataclass(frozen=True, slots=True)
class SqliteDatabase:
    """Runs blocking calls in worker threads, one at a time over one connection."""

    connection: sqlite3.Connection
    now: str = "((julianday('now') - 2440587.5) * 86400.0)"
    share: str = ""
    """SQLite has one writer at a time."""
    writes: str = "writes"
    _lock: threading.Lock = field(default_factory=threading.Lock)

    async def execute(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        def execute() -> list[Row]:
            with self._lock:
                try:
                    return self.connection.execute(statement, values).fetchall()
                except sqlite3.Error as error:
                    raise wrap_error(error) from error

        return await asyncio.to_thread(execute)


@dataclass(frozen=True, slots=True)
class PostgresDatabase:
    """Takes a connection of the pool for each statement."""

    pool: Any
    errors: tuple[type[Exception], ...]
    now: str = "EXTRACT(EPOCH FROM clock_timestamp())::DOUBLE PRECISION"
    share: str = "FOR SHARE"
    writes: str = "checkpoint_writes"

    async def execute(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        try:
            async with self.pool.connection() as connection:
                cursor = await connection.execute(statement.replace("?", "%s"), values)
                return [tuple(row.values()) for row in await cursor.fetchall()] if cursor.description else []
        except self.errors as error:
            raise wrap_error(error) from error


def wrap_error(error: Exception) -> ThreadError:
    return ThreadError(f"the threads cannot be read or written: {' '.join(str(error).split())[:200]}; look at threads.uri")


@dataclass(frozen=True, slots=True)
class Lease:
    """The right of one process to run, change or delete a thread, until another one takes it."""

    thread: str
    token: str

    @property
    def values(self) -> tuple[str, str]:
        """Parameters of `ThreadLedger.fence`."""
        return self.thread, self.token

    def make_error(self) -> ThreadBusy:
        return ThreadBusy(f"{OVERTAKEN} ({self.thread!r}), because this one did not renew its lease in time")


@dataclass(frozen=True, slots=True)
class ThreadLedger:
    """Raises `ThreadError`."""

    database: Database
    lease_s: float

    @property
    def fence(self) -> str:
        """A condition that holds as long as the lease does."""
        return f"EXISTS (SELECT 1 FROM outrider_leases WHERE thread = ? AND token = ? {self.database.share})"  # noqa: S608

    async def setup(self) -> None:
        for table in TABLES:
            await self._execute(table)

    async def acquire(self, thread: str, holder: str, place: str) -> Lease:
        """Raises `ThreadBusy` while another run has the thread: one whose lease holds, unless its process died on this host."""
        lease, now = Lease(thread, secrets.token_hex(16)), self.database.now
        statement = f"""INSERT INTO outrider_leases VALUES (?, ?, ?, ?, {now} + ?) ON CONFLICT (thread) DO UPDATE
            SET token = excluded.token, holder = excluded.holder, place = excluded.place, until = excluded.until
            WHERE outrider_leases.until < {now} OR outrider_leases.token = ? RETURNING token"""  # noqa: S608 - our own words
        ended = ""
        for _ in range(2):
            if await self._execute(statement, (*lease.values, holder, place, self.lease_s, ended)):
                return lease
            rows = await self._execute("SELECT token, holder, place FROM outrider_leases WHERE thread = ?", (thread,))
            if rows and (rows[0][2] != place or is_alive(rows[0][1])):
                break
            ended = rows[0][0] if rows else ""
        raise ThreadBusy(f"thread {thread!r} is under way in process {rows[0][1] if rows else holder}; wait for it, or name another")

    async def renew(self, lease: Lease) -> bool:
        """Whether the lease still holds, now for another `lease_s`."""
        statement = f"UPDATE outrider_leases SET until = {self.database.now} + ? WHERE thread = ? AND token = ? RETURNING token"  # noqa: S608
        return bool(await self._execute(statement, (self.lease_s, *lease.values)))

    async def release(self, lease: Lease) -> None:
        await self._execute("DELETE FROM outrider_leases WHERE thread = ? AND token = ?", lease.values)

    async def begin(self, run: ThreadRun, lease: Lease) -> None:
        values = (run.run, run.thread, run.query, run.asked, run.context, run.status, run.holder, run.began, run.touched)
        marks = ", ".join("?" * len(values))
        statement = f"INSERT INTO outrider_runs ({COLUMNS}) SELECT {marks} WHERE {self.fence} RETURNING run"
        if not await self._execute(statement, (*values, *lease.values)):
            raise lease.make_error()

    async def touch(self, run: str, status: Status, holder: str, now: float, lease: Lease) -> None:
        """Update a run, unless the lease was taken; an ended run no longer needs its answers."""
        statement = f"UPDATE outrider_runs SET status = ?, holder = ?, touched = ? WHERE run = ? AND {self.fence} RETURNING run"  # noqa: S608
        is_written = await self._execute(statement, (status, holder, now, run, *lease.values))
        if is_written and status == "ended":
            await self._execute("DELETE FROM outrider_answers WHERE run = ?", (run,))

    async def run(self, run: str) -> ThreadRun | None:
        rows = await self._execute(f"SELECT {COLUMNS} FROM outrider_runs WHERE run = ?", (run,))  # noqa: S608
        return ThreadRun(*rows[0]) if rows else None

    async def runs(self, thread: str | None = None) -> tuple[ThreadRun, ...]:
        """Runs of one thread or of all, oldest first."""
        where, values = ("WHERE thread = ?", (thread,)) if thread is not None else ("", ())
        rows = await self._execute(f"SELECT {COLUMNS} FROM outrider_runs {where} ORDER BY began, run", values)  # noqa: S608
        return tuple(ThreadRun(*row) for row in rows)

    async def forget(self, thread: str) -> None:
        await self._execute("DELETE FROM outrider_answers WHERE run IN (SELECT run FROM outrider_runs WHERE thread = ?)", (thread,))
        await self._execute("DELETE FROM outrider_runs WHERE thread = ?", (thread,))

    async def idle_threads(self, before: float) -> tuple[str, ...]:
        """Threads without a run since then, sorted."""
        rows = await self._execute("SELECT thread FROM outrider_runs GROUP BY thread HAVING MAX(touched) < ? ORDER BY thread", (before,))
        return tuple(row[0] for row in rows)

    async def answer(self, run: str, key: str, number: int, lease: Lease) -> str | None:
        """Raises `ThreadBusy` if the lease was taken: nothing more may be paid for this run here."""
        query = """SELECT answer FROM outrider_leases LEFT JOIN outrider_answers ON run = ? AND key = ? AND number = ?
            WHERE thread = ? AND token = ?"""
        rows = await self._execute(query, (run, key, number, *lease.values))
        if not rows:
            raise lease.make_error()
        answer: str | None = rows[0][0]
        return answer

    async def keep_answer(self, run: str, key: str, number: int, text: str, lease: Lease) -> None:
        statement = f"INSERT INTO outrider_answers SELECT ?, ?, ?, ? WHERE {self.fence} ON CONFLICT DO NOTHING"
        await self._execute(statement, (run, key, number, text, *lease.values))

    async def thin(self, lease: Lease) -> None:
        """Delete all but the last checkpoint of a thread: nothing needs the earlier ones once a run has ended."""
        last = "SELECT MAX(checkpoint_id) FROM checkpoints WHERE thread_id = ?"
        for table in (self.database.writes, "checkpoints"):
            statement = f"DELETE FROM {table} WHERE thread_id = ? AND checkpoint_id < ({last}) AND {self.fence}"  # noqa: S608
            await self._execute(statement, (lease.thread, lease.thread, *lease.values))

    async def _execute(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        return await self.database.execute(statement, values)


@dataclass(frozen=True, slots=True)
class RunAnswers:
    """Storage of the paid answers of one run (`models.chat.journal.AnswerStore`)."""

    ledger: ThreadLedger
    lease: Lease

    async def answer(self, run: str, key: str, number: int) -> str | None:
        return await self.ledger.answer(run, key, number, self.lease)

    async def keep_answer(self, run: str, key: str, number: int, text: str) -> None:
        await self.ledger.keep_answer(run, key, number, text, self.lease)


def name_process() -> str:
    """The name of this process, as `host:process`."""
    return f"{socket.gethostname()}:{os.getpid()}"


@cache
def find_place() -> str:
    """Where numbers of processes mean the same: host name, boot and namespace. Two containers may have one host name; so may two hosts."""
    parts = [socket.gethostname()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip())
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return " ".join(parts)


def is_alive(holder: str) -> bool:
    """Whether that process of this place runs."""
    process = holder.rpartition(":")[2]
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, ValueError):
        return False
    except PermissionError:
        return True
    return True

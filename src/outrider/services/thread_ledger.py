"""Ledger of threads: their runs, and paid answers of unfinished runs."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from outrider.state.errors import ThreadError

Status = Literal["begun", "ended", "failed"]

TABLES = (
    """CREATE TABLE IF NOT EXISTS outrider_runs (
    run TEXT PRIMARY KEY, thread TEXT NOT NULL, query TEXT NOT NULL, asked TEXT NOT NULL, context TEXT NOT NULL, status TEXT NOT NULL,
    holder TEXT NOT NULL, began DOUBLE PRECISION NOT NULL, touched DOUBLE PRECISION NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS outrider_runs_of_thread ON outrider_runs (thread, began)",
    """CREATE TABLE IF NOT EXISTS outrider_answers (
    run TEXT NOT NULL, key TEXT NOT NULL, number INTEGER NOT NULL, answer TEXT NOT NULL, PRIMARY KEY (run, key, number))""",
)
COLUMNS = "run, thread, query, asked, context, status, holder, began, touched"


@dataclass(frozen=True, slots=True)
class ThreadRun:
    """One search of a thread. Times are seconds since the epoch."""

    run: str
    thread: str
    query: str
    asked: str
    """The request, as JSON."""
    context: str
    """The run's own settings, as JSON."""
    status: Status
    holder: str
    """The process that began or resumed it, as `host:process`."""
    began: float
    touched: float


@dataclass(frozen=True, slots=True)
class ThreadLedger:
    """Runs blocking calls in worker threads, one at a time over one connection. Raises `ThreadError`."""

    connection: Any
    """Of DB-API 2.0, each statement its own transaction."""
    mark: str = "?"
    """The placeholder of a parameter: SQLite's is `?`, psycopg's `%s`."""
    error: type[Exception] = sqlite3.Error
    _lock: threading.Lock = field(default_factory=threading.Lock)

    async def setup(self) -> None:
        for table in TABLES:
            await self._execute(table)

    async def begin(self, run: ThreadRun) -> None:
        marks = ", ".join("?" * len(COLUMNS.split(", ")))
        values = (run.run, run.thread, run.query, run.asked, run.context, run.status, run.holder, run.began, run.touched)
        await self._execute(f"INSERT INTO outrider_runs ({COLUMNS}) VALUES ({marks})", values)  # noqa: S608 - our own words

    async def touch(self, run: str, status: Status, holder: str, now: float) -> None:
        """Update a run; an ended run no longer needs its answers."""
        await self._execute("UPDATE outrider_runs SET status = ?, holder = ?, touched = ? WHERE run = ?", (status, holder, now, run))
        if status == "ended":
            await self._execute("DELETE FROM outrider_answers WHERE run = ?", (run,))

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

    async def answer(self, run: str, key: str, number: int) -> str | None:
        query = "SELECT answer FROM outrider_answers WHERE run = ? AND key = ? AND number = ?"
        rows = await self._execute(query, (run, key, number))
        return rows[0][0] if rows else None

    async def keep_answer(self, run: str, key: str, number: int, text: str) -> None:
        await self._execute("INSERT INTO outrider_answers VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", (run, key, number, text))

    async def thin(self, thread: str) -> None:
        """Delete all but the last checkpoint of a thread: nothing needs the earlier ones once a run has ended."""
        last = "SELECT MAX(checkpoint_id) FROM checkpoints WHERE thread_id = ?"
        writes = "writes" if self.mark == "?" else "checkpoint_writes"
        for table in (writes, "checkpoints"):
            await self._execute(f"DELETE FROM {table} WHERE thread_id = ? AND checkpoint_id < ({last})", (thread, thread))  # noqa: S608

    async def _execute(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        def execute() -> list[tuple[Any, ...]]:
            with self._lock:
                try:
                    cursor = self.connection.execute(statement.replace("?", self.mark), values)
                    return [tuple(row) for row in cursor.fetchall()] if cursor.description else []
                except self.error as error:
                    reason = " ".join(str(error).split())[:200]
                    raise ThreadError(f"the threads cannot be read or written: {reason}; look at threads.uri") from error

        return await asyncio.to_thread(execute)

    def close(self) -> None:
        self.connection.close()

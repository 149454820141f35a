"""Beside the checkpoints of a thread: its runs, and the paid answers of a run that has not ended. SQLite or Postgres, by the same words."""

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
class Run:
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
    """Who began or resumed it, as `host:process`."""
    began: float
    touched: float


@dataclass(frozen=True, slots=True)
class Ledger:
    """Blocking calls run in threads, one at a time over one connection. Raises `ThreadError`."""

    connection: Any
    """Of DB-API 2.0, each statement its own transaction."""
    mark: str = "?"
    """That of a parameter: SQLite's is `?`, psycopg's `%s`."""
    failed: type[Exception] = sqlite3.Error
    _lock: threading.Lock = field(default_factory=threading.Lock)

    async def setup(self) -> None:
        for table in TABLES:
            await self._do(table)

    async def begin(self, run: Run) -> None:
        marks = ", ".join("?" * len(COLUMNS.split(", ")))
        values = (run.run, run.thread, run.query, run.asked, run.context, run.status, run.holder, run.began, run.touched)
        await self._do(f"INSERT INTO outrider_runs ({COLUMNS}) VALUES ({marks})", values)  # noqa: S608 - our own words

    async def touch(self, run: str, status: Status, holder: str, now: float) -> None:
        """An ended run needs its answers no more."""
        await self._do("UPDATE outrider_runs SET status = ?, holder = ?, touched = ? WHERE run = ?", (status, holder, now, run))
        if status == "ended":
            await self._do("DELETE FROM outrider_answers WHERE run = ?", (run,))

    async def runs(self, thread: str | None = None) -> tuple[Run, ...]:
        """Of one thread or of all, oldest first."""
        where, values = ("WHERE thread = ?", (thread,)) if thread is not None else ("", ())
        rows = await self._do(f"SELECT {COLUMNS} FROM outrider_runs {where} ORDER BY began, run", values)  # noqa: S608
        return tuple(Run(*row) for row in rows)

    async def forget(self, thread: str) -> None:
        await self._do("DELETE FROM outrider_answers WHERE run IN (SELECT run FROM outrider_runs WHERE thread = ?)", (thread,))
        await self._do("DELETE FROM outrider_runs WHERE thread = ?", (thread,))

    async def untouched(self, before: float) -> tuple[str, ...]:
        """Threads of which no run was touched since then, sorted."""
        rows = await self._do("SELECT thread FROM outrider_runs GROUP BY thread HAVING MAX(touched) < ? ORDER BY thread", (before,))
        return tuple(row[0] for row in rows)

    async def answer(self, run: str, key: str, number: int) -> str | None:
        wanted = "SELECT answer FROM outrider_answers WHERE run = ? AND key = ? AND number = ?"
        rows = await self._do(wanted, (run, key, number))
        return rows[0][0] if rows else None

    async def keep_answer(self, run: str, key: str, number: int, text: str) -> None:
        await self._do("INSERT INTO outrider_answers VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", (run, key, number, text))

    async def thin(self, thread: str) -> None:
        """Of a thread's checkpoints only the last is kept: what came before is needed by nobody once a run has ended."""
        last = "SELECT MAX(checkpoint_id) FROM checkpoints WHERE thread_id = ?"
        writes = "writes" if self.mark == "?" else "checkpoint_writes"
        for table in (writes, "checkpoints"):
            await self._do(f"DELETE FROM {table} WHERE thread_id = ? AND checkpoint_id < ({last})", (thread, thread))  # noqa: S608

    async def _do(self, words: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        return await asyncio.to_thread(self._done, words.replace("?", self.mark), values)

    def _done(self, words: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        with self._lock:
            try:
                cursor = self.connection.execute(words, values)
                return [tuple(row) for row in cursor.fetchall()] if cursor.description else []
            except self.failed as error:
                raise ThreadError(f"the threads cannot be read or written: {_said(error)}; look at threads.uri") from error

    def close(self) -> None:
        self.connection.close()


def _said(error: Exception) -> str:
    return " ".join(str(error).split())[:200]

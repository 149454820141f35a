"""Storage of threads in SQLite or Postgres: LangGraph's checkpoints, and a ledger of runs.

`threads.uri` names the file or database. The ledger also has the paid answers of unfinished runs.

Only types of the state are read back from a checkpoint (https://docs.langchain.com/oss/python/langgraph/persistence): an attacker who can
write to the database can load no other.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, is_dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_type_hints

import platformdirs
from langgraph.checkpoint.serde import _msgpack
from pydantic import BaseModel

from outrider.state.analysis import AnalysisState, AnalyzeRequest
from outrider.state.citations import CitationsRequest, CitationsState
from outrider.state.errors import MissingExtra, ThreadError
from outrider.state.model import STATE_PACKAGE, restore_tuples
from outrider.state.pipeline import ParentState, PipelineState
from outrider.state.request import SearchRequest
from outrider.state.response import SearchResponse
from outrider.text.sanitize import without_password

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    from outrider.settings.model import ThreadSettings


THREADS = (PipelineState, SearchRequest, ParentState)
"""What our own threads hold."""
PARENTS = (*THREADS, SearchResponse, AnalysisState, AnalyzeRequest, CitationsState, CitationsRequest)
"""What the state of a graph with ours in it may hold."""


@cache
def state_types(states: tuple[type, ...] = THREADS) -> tuple[type, ...]:
    """All types of `outrider.state` that these states can hold, by name."""
    types: set[type] = set()
    for state in states:
        _collect_types(state, types)
    return tuple(sorted(types, key=lambda kind: (kind.__module__, kind.__name__)))


def _collect_types(kind: Any, types: set[type]) -> None:
    for part in get_args(kind):
        _collect_types(part, types)
    if kind in types or not (isinstance(kind, type) and kind.__module__.startswith(STATE_PACKAGE)):
        return
    types.add(kind)
    if issubclass(kind, BaseModel) or is_dataclass(kind):
        for part in get_type_hints(kind).values():
            _collect_types(part, types)


class SafeTypes(frozenset[tuple[str, ...]]):
    """LangGraph's safe types, and ours, which are collected when a checkpoint first holds one: that takes longer than many imports."""

    def __contains__(self, key: object) -> bool:
        if frozenset.__contains__(self, key):
            return True
        return isinstance(key, tuple) and str(key[0]).startswith(STATE_PACKAGE) and key in _list_names()


@cache
def _list_names() -> frozenset[tuple[str, ...]]:
    return frozenset((kind.__module__, kind.__name__) for kind in state_types(PARENTS))


def register_state_types() -> None:
    """Let the serializer of every checkpointer read our types back: a graph that has ours as a node brings a checkpointer of its own.

    LangGraph registers only the types that the state of the compiled graph names, and only with LANGGRAPH_STRICT_MSGPACK; a parent with
    `hits: list` names none. Our types hold data and nothing else. See ADR 24.
    """
    _msgpack.SAFE_MSGPACK_TYPES = SafeTypes(_msgpack.SAFE_MSGPACK_TYPES)


Status = Literal["begun", "waiting", "ended", "failed"]

TABLES = (
    """CREATE TABLE IF NOT EXISTS outrider_runs (
    run TEXT PRIMARY KEY, thread TEXT NOT NULL, query TEXT NOT NULL, asked TEXT NOT NULL, context TEXT NOT NULL, status TEXT NOT NULL,
    holder TEXT NOT NULL, began DOUBLE PRECISION NOT NULL, touched DOUBLE PRECISION NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS outrider_runs_of_thread ON outrider_runs (thread, began)",
    """CREATE TABLE IF NOT EXISTS outrider_answers (
    run TEXT NOT NULL, key TEXT NOT NULL, number INTEGER NOT NULL, answer TEXT NOT NULL, PRIMARY KEY (run, key, number))""",
)
COLUMNS = "run, thread, query, asked, context, status, holder, began, touched"
BUSY_S = 30.0
"""Limit on the wait for another process that writes."""
POSTGRES = ("postgres://", "postgresql://")
CONNECT_S = 10
SETUP_LOCK = 0x7468_7265_6164_73
"""Postgres names a lock by a number: ours is "threads" in ASCII."""
SETUP_POLL_S = 0.1


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


@dataclass(frozen=True, slots=True)
class CheckpointStore:
    """Open checkpoints, bound to the loop on which they were opened."""

    saver: BaseCheckpointSaver[Any]
    ledger: ThreadLedger
    errors: tuple[type[Exception], ...]
    """Exceptions of the saver for a failure of the database."""

    @contextmanager
    def raise_thread_errors(self) -> Iterator[None]:
        """Raise failures of the database as `ThreadError`."""
        try:
            yield
        except self.errors as error:
            raise ThreadError(f"the thread's checkpoints cannot be read or written: {' '.join(str(error).split())[:200]}") from error


def serializer() -> JsonPlusSerializer:
    """Reads back the state's own types and no others, without a warning, and each as it was written."""
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    class Serializer(JsonPlusSerializer):
        def loads_typed(self, data: tuple[str, bytes]) -> Any:
            return restore_tuples(super().loads_typed(data))

    return Serializer(allowed_msgpack_modules=[(kind.__module__, kind.__name__) for kind in state_types()])


@asynccontextmanager
async def open_store(settings: ThreadSettings) -> AsyncIterator[CheckpointStore]:
    """The store of `threads.uri`, created where it is missing. Raises `ThreadError`, `MissingExtra`."""
    uri = settings.uri
    async with AsyncExitStack() as stack:
        if uri.startswith(POSTGRES):
            yield await _open_postgres(uri, stack)
        elif "://" in uri:
            raise ThreadError(f"threads.uri takes a file or an address postgresql://..., not {without_password(uri)}")
        else:
            yield await _open_sqlite(_find_file(uri), stack)


def store_exists(settings: ThreadSettings) -> bool:
    """Whether a thread was ever saved here; a database may hold one."""
    return "://" in settings.uri or _find_file(settings.uri).exists()


def _find_file(uri: str) -> Path:
    return Path(uri).expanduser() if uri else platformdirs.user_data_path("outrider", appauthor=False) / "threads.sqlite"


async def _open_sqlite(path: Path, stack: AsyncExitStack) -> CheckpointStore:
    import aiosqlite
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    def connect() -> sqlite3.Connection:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)  # queries are private
        connection = sqlite3.connect(path, timeout=BUSY_S, check_same_thread=False, isolation_level=None)  # the ledger has a lock
        connection.execute("PRAGMA journal_mode=WAL")
        return connection

    try:
        plain = await asyncio.to_thread(connect)
        stack.callback(plain.close)
        connection = await stack.enter_async_context(aiosqlite.connect(path, timeout=BUSY_S))
        saver = AsyncSqliteSaver(connection, serde=serializer())
        await saver.setup()
    except (OSError, sqlite3.Error) as error:
        raise ThreadError(f"threads cannot be saved in {path}: {error}; name another place in threads.uri") from error
    ledger = ThreadLedger(plain)
    await ledger.setup()
    return CheckpointStore(saver, ledger, (sqlite3.Error,))


async def _open_postgres(uri: str, stack: AsyncExitStack) -> CheckpointStore:
    try:
        import psycopg
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
        from psycopg.rows import dict_row
    except ImportError as error:
        raise MissingExtra("threads in Postgres", "postgres") from error
    try:
        connection = await psycopg.AsyncConnection.connect(
            uri, autocommit=True, prepare_threshold=0, row_factory=dict_row, connect_timeout=CONNECT_S
        )
        stack.push_async_callback(connection.close)
        plain: Any = await asyncio.to_thread(lambda: psycopg.connect(uri, autocommit=True, connect_timeout=CONNECT_S))
        stack.callback(plain.close)
        saver, ledger = AsyncPostgresSaver(connection, serde=serializer()), ThreadLedger(plain, "%s", psycopg.Error)
        async with _lock_setup(connection):
            await saver.setup()
            await ledger.setup()
    except psycopg.Error as error:
        reason = " ".join(str(error).split())[:200].replace(uri, without_password(uri))
        raise ThreadError(f"threads cannot be saved in {without_password(uri)}: {reason}") from error
    return CheckpointStore(saver, ledger, (psycopg.Error,))


@asynccontextmanager
async def _lock_setup(connection: Any) -> AsyncIterator[None]:
    """One process at a time makes the tables: two at once fail, `IF NOT EXISTS` or not.

    The lock is polled. A session that waits for it inside a statement would hold up `CREATE INDEX CONCURRENTLY` of the one that has it.
    """
    query = "SELECT pg_try_advisory_lock(%s) AS free"
    while not (await (await connection.execute(query, (SETUP_LOCK,))).fetchone())["free"]:  # noqa: ASYNC110 - another process has it
        await asyncio.sleep(SETUP_POLL_S)
    try:
        yield
    finally:
        await connection.execute("SELECT pg_advisory_unlock(%s)", (SETUP_LOCK,))

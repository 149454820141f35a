"""Storage of threads in SQLite or Postgres: LangGraph's checkpoints, and a ledger of runs.

`threads.uri` names the file or database. A run writes its checkpoints over a saver that its lease guards (`thread_ledger`).

Only types of the state are read back from a checkpoint (https://docs.langchain.com/oss/python/langgraph/persistence): an attacker who can
write to the database can load no other.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, is_dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import platformdirs
from langgraph.checkpoint.serde import _msgpack
from pydantic import BaseModel

from outrider.jobs.job_table import POSTGRES
from outrider.services.thread_ledger import OVERTAKEN, Lease, PostgresDatabase, SqliteDatabase, ThreadLedger
from outrider.state.errors import MissingExtra, ThreadError
from outrider.state.model import STATE_PACKAGE, restore_tuples
from outrider.state.pipeline import ParentState, PipelineState
from outrider.state.request import SearchRequest
from outrider.state.response import SearchResponse
from outrider.text.sanitize import explain_database_error, without_credentials

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
    from psycopg_pool import AsyncConnectionPool

    from outrider.settings.model import ThreadSettings


THREADS = (PipelineState, SearchRequest, ParentState)
"""What our own threads hold."""


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
    return frozenset((kind.__module__, kind.__name__) for kind in state_types(list_parent_states()))


def list_parent_states() -> tuple[type, ...]:
    """What the state of a graph with ours in it may hold. A search needs none of the types that are imported here."""
    from outrider.state.analysis import AnalysisState, AnalyzeRequest
    from outrider.state.citations import CitationsRequest, CitationsState

    return (*THREADS, SearchResponse, AnalysisState, AnalyzeRequest, CitationsState, CitationsRequest)


def register_state_types() -> None:
    """Let the serializer of every checkpointer read our types back: a graph that has ours as a node brings a checkpointer of its own.

    LangGraph registers only the types that the state of the compiled graph names, and only with LANGGRAPH_STRICT_MSGPACK; a parent with
    `hits: list` names none. Our types hold data and nothing else. See ADR 24.
    """
    _msgpack.SAFE_MSGPACK_TYPES = SafeTypes(_msgpack.SAFE_MSGPACK_TYPES)


BUSY_S = 30.0
"""Limit on the wait for another process that writes."""
CONNECT_S = 10
SETUP_LOCK = 0x7468_7265_6164_73
"""Postgres names a lock by a number: ours is "threads" in ASCII."""
SETUP_POLL_S = 0.1
FENCED_TABLES = ("checkpoints", "writes")
FENCE = f"""CREATE TEMP TRIGGER outrider_fence_{{table}} BEFORE INSERT ON main.{{table}}
    WHEN NOT EXISTS (SELECT 1 FROM main.outrider_leases WHERE thread = NEW.thread_id AND token = outrider_token(NEW.thread_id))
    BEGIN SELECT RAISE(ROLLBACK, '{OVERTAKEN}'); END"""  # noqa: S608 - our own words


@dataclass(frozen=True, slots=True)
class CheckpointStore:
    """Open checkpoints, bound to the loop on which they were opened."""

    saver: BaseCheckpointSaver[Any]
    ledger: ThreadLedger
    errors: tuple[type[Exception], ...]
    """Exceptions of the saver for a failure of the database."""
    make_fenced_saver: Callable[[Lease], BaseCheckpointSaver[Any]]
    """A saver for the run that has the lease: it writes nothing once another process has taken the thread over."""

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
async def open_store(settings: ThreadSettings, lease_s: float) -> AsyncIterator[CheckpointStore]:
    """The store of `threads.uri`, created where it is missing. Raises `ThreadError`, `MissingExtra`."""
    uri = settings.uri
    async with AsyncExitStack() as stack:
        if uri.startswith(POSTGRES):
            yield await _open_postgres(settings, lease_s, stack)
        elif "://" in uri:
            raise ThreadError(f"threads.uri takes a file or an address postgresql://..., not {without_credentials(uri)}")
        else:
            yield await _open_sqlite(_find_file(uri), lease_s, stack)


def store_exists(settings: ThreadSettings) -> bool:
    """Whether a thread was ever saved here; a database may hold one."""
    return "://" in settings.uri or _find_file(settings.uri).exists()


def _find_file(uri: str) -> Path:
    return Path(uri).expanduser() if uri else platformdirs.user_data_path("outrider", appauthor=False) / "threads.sqlite"


async def _open_sqlite(path: Path, lease_s: float, stack: AsyncExitStack) -> CheckpointStore:
    import aiosqlite
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    def connect() -> sqlite3.Connection:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)  # queries are private
        connection = sqlite3.connect(path, timeout=BUSY_S, check_same_thread=False, isolation_level=None)  # the ledger has a lock
        connection.execute("PRAGMA journal_mode=WAL")
        return connection

    tokens: dict[str, str] = {}
    try:
        plain = await asyncio.to_thread(connect)
        stack.callback(plain.close)
        ledger = ThreadLedger(SqliteDatabase(plain), lease_s)
        await ledger.setup()
        connection = await stack.enter_async_context(aiosqlite.connect(path, timeout=BUSY_S))
        saver = AsyncSqliteSaver(connection, serde=serializer())
        await saver.setup()
        await connection.create_function("outrider_token", 1, tokens.get)
        for table in FENCED_TABLES:  # of this connection alone
            await connection.execute(FENCE.format(table=table))
    except (OSError, sqlite3.Error) as error:
        raise ThreadError(f"threads cannot be saved in {path}: {error}; name another place in threads.uri") from error

    def fence(lease: Lease) -> BaseCheckpointSaver[Any]:
        tokens[lease.thread] = lease.token
        return saver

    return CheckpointStore(saver, ledger, (sqlite3.Error,), fence)


async def _open_postgres(settings: ThreadSettings, lease_s: float, stack: AsyncExitStack) -> CheckpointStore:
    try:
        import psycopg
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
        from psycopg.rows import dict_row
        from psycopg_pool import AsyncConnectionPool, PoolTimeout
    except ImportError as error:
        raise MissingExtra("threads in Postgres", "postgres") from error
    uri = settings.uri
    options: dict[str, Any] = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row, "connect_timeout": CONNECT_S}
    pool: AsyncConnectionPool[Any] = AsyncConnectionPool(
        uri,
        kwargs=options,
        min_size=1,
        max_size=settings.connections,
        timeout=BUSY_S,
        check=AsyncConnectionPool.check_connection,  # Postgres may have been started again
        open=False,
    )
    errors = (psycopg.Error, PoolTimeout)
    ledger = ThreadLedger(PostgresDatabase(pool, errors), lease_s)
    try:
        async with await psycopg.AsyncConnection.connect(uri, **options) as connection:  # says why it fails; the pool tries again
            await pool.open()
            stack.push_async_callback(pool.close)
            async with _lock_setup(connection):
                await AsyncPostgresSaver(connection).setup()
                await ledger.setup()
    except psycopg.Error as error:
        raise ThreadError(f"threads cannot be saved in {without_credentials(uri)}: {explain_database_error(error, uri)}") from error
    return CheckpointStore(
        AsyncPostgresSaver(pool, serde=serializer()), ledger, errors, lambda lease: _make_fenced_saver(pool, ledger, lease)
    )


def _make_fenced_saver(pool: AsyncConnectionPool[Any], ledger: ThreadLedger, lease: Lease) -> BaseCheckpointSaver[Any]:
    """Each read and write is a transaction that has the lease: who would take it over waits until the write is done."""
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
    from psycopg.rows import dict_row

    query = f"SELECT {ledger.fence} AS holds".replace("?", "%s")

    class FencedSaver(AsyncPostgresSaver):
        @asynccontextmanager
        async def _cursor(self, *, pipeline: bool = False) -> AsyncIterator[Any]:
            async with pool.connection() as connection, connection.transaction():
                if not (await (await connection.execute(query, lease.values)).fetchone())["holds"]:
                    raise lease.make_error()
                async with AsyncExitStack() as stack:
                    if pipeline and self.supports_pipeline:
                        await stack.enter_async_context(connection.pipeline())
                    yield await stack.enter_async_context(connection.cursor(binary=True, row_factory=dict_row))

    return FencedSaver(pool, serde=serializer())


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

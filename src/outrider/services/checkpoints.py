"""Storage of threads: LangGraph's checkpoints and the ledger, in SQLite or Postgres.

`threads.uri` names the file or database.
Only types of the state are read back from a checkpoint (https://docs.langchain.com/oss/python/langgraph/persistence): an attacker who can
write to the database can load no other.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import platformdirs
from pydantic import BaseModel, TypeAdapter

from outrider.services.thread_ledger import ThreadLedger
from outrider.state.errors import MissingExtra, ThreadError
from outrider.state.pipeline import PipelineState
from outrider.state.request import SearchRequest
from outrider.text.sanitize import without_password

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    from outrider.settings.model import ThreadSettings

STATE_PACKAGE = "outrider.state."
BUSY_S = 30.0
"""Limit on the wait for another process that writes."""
POSTGRES = ("postgres://", "postgresql://")
CONNECT_S = 10


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


@cache
def state_types() -> tuple[type, ...]:
    """All types of `outrider.state` that a state can hold, by name."""
    types: set[type] = set()
    for state in (PipelineState, SearchRequest):
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


def serializer() -> JsonPlusSerializer:
    """Reads back the state's own types and no others, without a warning, and each as it was written."""
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    class Serializer(JsonPlusSerializer):
        def loads_typed(self, data: tuple[str, bytes]) -> Any:
            return _restore_tuples(super().loads_typed(data))

    return Serializer(allowed_msgpack_modules=[(kind.__module__, kind.__name__) for kind in state_types()])


def _restore_tuples(value: Any) -> Any:
    """MessagePack has no tuples, and a dataclass is not validated when it is made: its lists become the types of its fields."""
    if isinstance(value, list):
        return [_restore_tuples(item) for item in value]
    if isinstance(value, dict):
        return {name: _restore_tuples(item) for name, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type) and type(value).__module__.startswith(STATE_PACKAGE):
        return _type_adapter(type(value)).validate_python({one.name: _restore_tuples(getattr(value, one.name)) for one in fields(value)})
    return value


@cache
def _type_adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


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
        raise ThreadError(f"threads cannot be kept in {path}: {error}; name another place in threads.uri") from error
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
        saver = AsyncPostgresSaver(connection, serde=serializer())
        await saver.setup()
        plain: Any = await asyncio.to_thread(lambda: psycopg.connect(uri, autocommit=True, connect_timeout=CONNECT_S))
        stack.callback(plain.close)
    except psycopg.Error as error:
        reason = " ".join(str(error).split())[:200].replace(uri, without_password(uri))
        raise ThreadError(f"threads cannot be kept in {without_password(uri)}: {reason}") from error
    ledger = ThreadLedger(plain, "%s", psycopg.Error)
    await ledger.setup()
    return CheckpointStore(saver, ledger, (psycopg.Error,))

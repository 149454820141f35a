"""Where threads are kept: LangGraph's checkpoints and our ledger, in one SQLite file or one Postgres database (`threads.uri`).

Only the types that a state can hold are read back from a checkpoint (https://docs.langchain.com/oss/python/langgraph/persistence): whoever
can write to the database can name no other.
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

from outrider.services.thread_ledger import Ledger
from outrider.state.errors import MissingExtra, ThreadError
from outrider.state.pipeline import PipelineState
from outrider.state.request import SearchRequest
from outrider.text.sanitize import without_password

if TYPE_CHECKING:
    from collections.abc import Iterator

    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    from outrider.settings.model import ThreadSettings

OURS = "outrider.state."
BUSY_S = 30.0
"""How long another process may write."""
POSTGRES = ("postgres://", "postgresql://")
FOREIGN_S = 10


@dataclass(frozen=True, slots=True)
class Store:
    """Open checkpoints, bound to the loop on which they were opened."""

    saver: BaseCheckpointSaver[Any]
    ledger: Ledger
    failed: tuple[type[Exception], ...]
    """What the saver raises where the database fails."""

    @contextmanager
    def told(self) -> Iterator[None]:
        """Errors of the database as ours."""
        try:
            yield
        except self.failed as error:
            raise ThreadError(f"the thread's checkpoints cannot be read or written: {' '.join(str(error).split())[:200]}") from error


@cache
def state_types() -> tuple[type, ...]:
    """Everything of ours that a state can hold, by name."""
    found: set[type] = set()
    for state in (PipelineState, SearchRequest):
        _collect(state, found)
    return tuple(sorted(found, key=lambda kind: (kind.__module__, kind.__name__)))


def _collect(kind: Any, found: set[type]) -> None:
    for part in get_args(kind):
        _collect(part, found)
    if kind in found or not (isinstance(kind, type) and kind.__module__.startswith(OURS)):
        return
    found.add(kind)
    if issubclass(kind, BaseModel) or is_dataclass(kind):
        for part in get_type_hints(kind).values():
            _collect(part, found)


def serializer() -> JsonPlusSerializer:
    """Reads back the state's own types and nothing else, without a warning, and each as it was written."""
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    class Serializer(JsonPlusSerializer):
        def loads_typed(self, data: tuple[str, bytes]) -> Any:
            return _as_written(super().loads_typed(data))

    return Serializer(allowed_msgpack_modules=[(kind.__module__, kind.__name__) for kind in state_types()])


def _as_written(value: Any) -> Any:
    """MessagePack has no tuples, and nobody checks a dataclass when it is made: its lists become what its fields say."""
    if isinstance(value, list):
        return [_as_written(one) for one in value]
    if isinstance(value, dict):
        return {name: _as_written(one) for name, one in value.items()}
    if is_dataclass(value) and not isinstance(value, type) and type(value).__module__.startswith(OURS):
        return _adapter(type(value)).validate_python({one.name: _as_written(getattr(value, one.name)) for one in fields(value)})
    return value


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


@asynccontextmanager
async def opened(settings: ThreadSettings) -> AsyncIterator[Store]:
    """The store that `threads.uri` names, made where there is none. Raises `ThreadError`, `MissingExtra`."""
    uri = settings.uri
    async with AsyncExitStack() as stack:
        if uri.startswith(POSTGRES):
            yield await _postgres(uri, stack)
        elif "://" in uri:
            raise ThreadError(f"threads.uri takes a file or an address postgresql://..., not {without_password(uri)}")
        else:
            yield await _sqlite(_path(uri), stack)


def _path(uri: str) -> Path:
    return Path(uri).expanduser() if uri else platformdirs.user_data_path("outrider", appauthor=False) / "threads.sqlite"


async def _sqlite(path: Path, stack: AsyncExitStack) -> Store:
    import aiosqlite
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    try:
        await asyncio.to_thread(_private, path)
        plain = await asyncio.to_thread(_connected, path)
        stack.callback(plain.close)
        connection = await stack.enter_async_context(aiosqlite.connect(path, timeout=BUSY_S))
        saver = AsyncSqliteSaver(connection, serde=serializer())
        await saver.setup()
    except (OSError, sqlite3.Error) as error:
        raise ThreadError(f"threads cannot be kept in {path}: {error}; name another place in threads.uri") from error
    ledger = Ledger(plain)
    await ledger.setup()
    return Store(saver, ledger, (sqlite3.Error,))


def _private(path: Path) -> None:
    """What was searched for is nobody else's business."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)


def _connected(path: Path) -> sqlite3.Connection:
    """Used from several threads, one at a time."""
    connection = sqlite3.connect(path, timeout=BUSY_S, check_same_thread=False, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    return connection


async def _postgres(uri: str, stack: AsyncExitStack) -> Store:
    try:
        import psycopg
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
        from psycopg.rows import dict_row
    except ImportError as error:
        raise MissingExtra("threads in Postgres", "postgres") from error
    try:
        connection = await psycopg.AsyncConnection.connect(
            uri, autocommit=True, prepare_threshold=0, row_factory=dict_row, connect_timeout=FOREIGN_S
        )
        stack.push_async_callback(connection.close)
        saver = AsyncPostgresSaver(connection, serde=serializer())
        await saver.setup()
        plain: Any = await asyncio.to_thread(lambda: psycopg.connect(uri, autocommit=True, connect_timeout=FOREIGN_S))
        stack.callback(plain.close)
    except psycopg.Error as error:
        said = " ".join(str(error).split())[:200].replace(uri, without_password(uri))
        raise ThreadError(f"threads cannot be kept in {without_password(uri)}: {said}") from error
    ledger = Ledger(plain, "%s", psycopg.Error)
    await ledger.setup()
    return Store(saver, ledger, (psycopg.Error,))

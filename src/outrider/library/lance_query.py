"""LanceDB's queries, which go on where the search that sent them is cancelled.

Where a query of LanceDB 0.40 is cancelled while it loads an index, later ones of the same table may never be answered. After four cancelled
searches of a library that was just opened, the next one hung more often than not. So a query is read to its end, and an answer that nobody
waits for is dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from lancedb.query import AsyncFTSQuery, AsyncQuery, AsyncQueryBase, AsyncTakeQuery, AsyncVectorQuery

from outrider.library.lance_errors import SHUTDOWN_DELAY

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.arrow import AsyncRecordBatchReader

T = TypeVar("T")
Q = TypeVar("Q", bound=AsyncQueryBase)

READING: set[asyncio.Future[Any]] = set()
"""An event loop alone does not keep a task."""


async def outlive(answer: Awaitable[T]) -> T:
    """The answer. It is read to its end, also where its reader is cancelled; not where the event loop ends."""
    reading = asyncio.ensure_future(answer)
    READING.add(reading)
    reading.add_done_callback(_forget)
    return await asyncio.shield(reading)


def _forget(reading: asyncio.Future[Any]) -> None:
    READING.discard(reading)
    if reading.cancelled():  # with its event loop
        SHUTDOWN_DELAY.restart()
    else:
        reading.exception()  # else asyncio reports one that nobody waited for


class OutlivingQuery(AsyncQueryBase):
    """A query whose execution outlives its reader."""

    async def to_batches(self, *, max_batch_length: int | None = None, timeout: timedelta | None = None) -> AsyncRecordBatchReader:  # noqa: ASYNC109 - LanceDB's signature
        return await outlive(super().to_batches(max_batch_length=max_batch_length, timeout=timeout))

    async def to_arrow(self, timeout: timedelta | None = None) -> pa.Table:  # noqa: ASYNC109 - LanceDB's signature
        return await outlive(super().to_arrow(timeout))


class LibraryQuery(OutlivingQuery, AsyncQuery):
    """Of rows."""

    def nearest_to(self, *arguments: Any, **options: Any) -> AsyncVectorQuery:
        return let_outlive(super().nearest_to(*arguments, **options))

    def nearest_to_text(self, *arguments: Any, **options: Any) -> AsyncFTSQuery:
        return let_outlive(super().nearest_to_text(*arguments, **options))


class LibraryTextQuery(OutlivingQuery, AsyncFTSQuery):
    """By words."""


class LibraryVectorQuery(OutlivingQuery, AsyncVectorQuery):
    """By vectors."""


class LibraryTakeQuery(OutlivingQuery, AsyncTakeQuery):
    """Of row ids."""


CLASSES: dict[type[AsyncQueryBase], type[AsyncQueryBase]] = {
    AsyncQuery: LibraryQuery,
    AsyncFTSQuery: LibraryTextQuery,
    AsyncVectorQuery: LibraryVectorQuery,
    AsyncTakeQuery: LibraryTakeQuery,
}


def let_outlive(query: Q) -> Q:
    """The same query as an instance of our class: a table takes no class. One of another kind, as of LanceDB's service, stays as it is."""
    query.__class__ = CLASSES.get(type(query), type(query))  # type: ignore[assignment]
    return query

"""Reads of a table that its copy on this machine may answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from lancedb.table import AsyncTable

T = TypeVar("T")


async def ask_table(table: AsyncTable, read: Callable[[AsyncTable], Awaitable[T]], texts: Sequence[str] = ()) -> T:
    """What `read` answers of the copy, where there is one that can, else of the table. It may be called several times.

    For reads of searches: a writer asks the table. `texts` are the columns whose text indexes are searched.
    """
    copy = getattr(table, "local_copy", None)
    answer: T | None = None if copy is None else await copy.ask(table, read, texts)
    return await read(table) if answer is None else answer

"""Counts of the LanceDB calls that a piece of work makes, by kind and table.

A call is whatever LanceDB's asynchronous connections, tables and queries are asked and await: a query, the schema that a query reads
before it, a version, a count, the opening of a table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

OF_TABLES = ("version", "schema", "count_rows", "list_indices", "list_versions", "checkout", "checkout_latest", "stats")
OF_CONNECTIONS = ("open_table", "table_names", "list_tables")
QUERY = "query"

Calls = Counter[tuple[str, str]]
"""How often each kind was called of each table."""


@contextmanager
def counted() -> Iterator[Calls]:
    """The calls of everything that this process does meanwhile."""
    from lancedb.db import AsyncConnection
    from lancedb.query import AsyncQueryBase
    from lancedb.table import AsyncTable

    calls: Calls = Counter()
    places = [(AsyncTable, name) for name in OF_TABLES] + [(AsyncConnection, name) for name in OF_CONNECTIONS]
    own = {(owner, name): getattr(owner, name) for owner, name in [*places, (AsyncQueryBase, "to_batches")]}
    for (owner, name), method in own.items():
        setattr(owner, name, _counting(QUERY if owner is AsyncQueryBase else name, method, calls))
    try:
        yield calls
    finally:
        for (owner, name), method in own.items():
            setattr(owner, name, method)


def _counting(kind: str, method: Callable[..., Any], calls: Calls) -> Callable[..., Any]:
    async def call(owner: Any, *arguments: Any, **options: Any) -> Any:
        calls[kind, _name_table(kind, owner, arguments)] += 1
        return await method(owner, *arguments, **options)

    return call


def _name_table(kind: str, owner: Any, arguments: tuple[Any, ...]) -> str:
    """A table of vectors has a name of its own in each library."""
    if kind in OF_CONNECTIONS:
        name = str(arguments[0]) if arguments else ""
    else:
        table = owner._table if kind == QUERY else owner  # noqa: SLF001 - a query does not tell its table
        name = table.name if table is not None else ""
    return "vectors" if name.startswith("vectors_") else name

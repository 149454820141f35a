"""Libraries in LanceDB Cloud and Enterprise, at `db://` addresses.

LanceDB's own client speaks to them over HTTP (https://docs.lancedb.com/api-reference/rest). They maintain tables and fold rows into indexes
themselves, so `optimize` is theirs. A lease has no place there: writers are kept apart by the service's commits alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, ClassVar

from lancedb.db import AsyncConnection
from lancedb.table import AsyncTable

from outrider.library.lance_table import LibraryTable, RemoteConnection
from outrider.state.errors import BadRequest

OPTIONS = ("api_key", "region", "host_override")
"""Of `library.storage_options`; `host_override` is the address of an Enterprise deployment."""
INDEXED_WITHIN = timedelta(minutes=5)


class ServiceTable(LibraryTable):
    """A table of the service."""

    has_addresses: ClassVar[bool] = False

    async def optimize(self, **_: Any) -> Any:
        """Nothing: the service does it."""

    async def create_index(self, column: str, **options: Any) -> None:
        """As of a store, ready when it returns: the service only queues it."""
        await super().create_index(column, wait_timeout=INDEXED_WITHIN, **options)


class ServiceConnection(RemoteConnection):
    """A connection to the service."""

    async def open_table(self, *arguments: Any, **options: Any) -> AsyncTable:
        return _as_service_table(await AsyncConnection.open_table(self, *arguments, **options))

    async def create_table(self, *arguments: Any, **options: Any) -> AsyncTable:
        return _as_service_table(await AsyncConnection.create_table(self, *arguments, **options))


def _as_service_table(table: AsyncTable) -> AsyncTable:
    table.__class__ = ServiceTable
    return table


async def connect(uri: str, options: Mapping[str, str], interval: timedelta) -> AsyncConnection:
    """`BadRequest` without a key, or for options of a store."""
    import lancedb

    if unknown := sorted(options.keys() - {*OPTIONS}):
        raise BadRequest(f"library.storage_options: {uri} takes {', '.join(OPTIONS)}, not {', '.join(unknown)}")
    if not options.get("api_key"):
        raise BadRequest(f"library.storage_options.api_key is missing: {uri} is in LanceDB Cloud or Enterprise, which wants a key")
    connection = await lancedb.connect_async(
        uri,
        api_key=options["api_key"],
        region=options.get("region", "us-east-1"),
        host_override=options.get("host_override"),
        read_consistency_interval=interval,
    )
    connection.__class__ = ServiceConnection
    return connection

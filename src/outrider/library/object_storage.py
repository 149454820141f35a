"""Tables of a library on object storage, created by one process at a time.

LanceDB 0.40 writes to a table by conditional requests, so that no commit is lost. Creating one is different: a process that saw no table
writes its own over one that another process has created meanwhile, with all that was added to it. So whoever creates a table claims its
name first, by an object that only one process can create (S3's `If-None-Match`, and its counterparts), and deletes the claim afterwards.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lancedb.db import AsyncConnection

from outrider.state.errors import LibraryError, MissingExtra

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.table import AsyncTable
    from obstore.store import ObjectStore

FOLDER = ".outrider-creating"
POLL_S = 0.2
ABANDONED_S = 60.0
"""A claim that is unchanged for so long is that of a process that died: creating a table takes a few requests."""
CLIENT_OPTIONS = frozenset(
    {"allow_http", "allow_invalid_certificates", "connect_timeout", "http1_only", "http2_only", "proxy_url", "timeout", "user_agent"}
)
"""Options of LanceDB that `obstore` takes apart from those of a service."""
LANCE_OPTIONS = ("new_table_", "client_", "download_retry_count", "request_timeout", "dynamodb_", "headers.")
"""Beginnings of options of LanceDB alone."""


@dataclass(frozen=True)
class CreationClaims:
    """Claims on names of tables of the library at an address, by LanceDB's own storage options."""

    uri: str
    options: Mapping[str, str]

    @cached_property
    def store(self) -> ObjectStore:
        """Opened only to create a table. Raises `MissingExtra`, and `LibraryError` for an address or options that it refuses."""
        try:
            from obstore.exceptions import BaseError
            from obstore.store import from_url
        except ImportError as error:
            raise MissingExtra("creating a library on object storage", "object-storage") from error
        own = {name.lower(): value for name, value in self.options.items()}
        client: Any = {name: value == "true" if name == "allow_http" else value for name, value in own.items() if name in CLIENT_OPTIONS}
        config: Any = {name: value for name, value in own.items() if name not in client and not name.startswith(LANCE_OPTIONS)}
        try:
            return from_url(self.uri, config=config, client_options=client)
        except (BaseError, ValueError) as error:
            raise LibraryError(f"the options of the object store at {self.uri} are refused: {_first_line(error)}") from error

    @asynccontextmanager
    async def claim(self, table: str) -> AsyncIterator[None]:
        """Wait until no other process creates this table. A claim that a dead process left is taken over."""
        path, holder = f"{FOLDER}/{table}", uuid.uuid4().hex
        await asyncio.to_thread(lambda: self.store)
        from obstore.exceptions import BaseError

        try:
            await self._wait_for(path, holder.encode())
            try:
                yield
            finally:
                await asyncio.shield(self._release(path, holder.encode()))
        except BaseError as error:  # as LanceDB's own, which `Location.translate_errors` explains
            raise OSError(str(error)) from error

    async def _wait_for(self, path: str, holder: bytes) -> None:
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        seen, since = b"", time.monotonic()
        while True:
            with suppress(AlreadyExistsError, PreconditionError):  # a service answers with either
                await self.store.put_async(path, holder, mode="create")
                return
            other = await self._read(path)
            if other != seen:
                seen, since = other, time.monotonic()
            elif time.monotonic() - since > ABANDONED_S:
                await self._release(path, other)
            await asyncio.sleep(POLL_S)

    async def _read(self, path: str) -> bytes:
        """The holder of a claim; empty for one that was just given up."""
        try:
            return bytes(await (await self.store.get_async(path)).bytes_async())
        except FileNotFoundError:
            return b""

    async def _release(self, path: str, holder: bytes) -> None:
        """Only the holder's claim: one that was taken over belongs to another process."""
        if await self._read(path) == holder:
            await self.store.delete_async(path)


class ClaimingConnection(AsyncConnection):
    """A connection that creates each table under a claim."""

    claims: CreationClaims

    async def create_table(self, name: str, *, schema: pa.Schema, exist_ok: bool = False) -> AsyncTable:  # type: ignore[override]
        """As `AsyncConnection.create_table` for an empty table: ours are created with a schema alone."""
        async with self.claims.claim(name):
            try:
                table = await self.open_table(name)
            except ValueError as error:
                if "was not found" not in str(error):
                    raise
                return await super().create_table(name, schema=schema)
        if exist_ok:
            return table
        raise ValueError(f"Table '{name}' already exists")


def claim_creations(connection: AsyncConnection, uri: str, options: Mapping[str, str]) -> AsyncConnection:
    """The same connection as a `ClaimingConnection`: `connect_async` takes no class."""
    connection.__class__ = ClaimingConnection
    connection.claims = CreationClaims(uri, options)  # type: ignore[attr-defined]
    return connection


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]

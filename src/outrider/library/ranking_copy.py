"""Copies on this machine of the ranking index of a library on object storage

A copy is a LanceDB table without rows: the manifest of a version, and the files of the index that a query asks for. Files of an index are
named by random identifiers and never change, so each is read from the store once, by whichever process comes first; the manifest is read by
each process. A query of the copy finds places and scores; rows are read from the store. What cannot be answered so (rows outside the index,
too many records, a store that refuses, a damaged file) is read from the store as without a copy.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import re
import shutil
import tempfile
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from outrider.library.address_and_locks import TABLE
from outrider.library.lance_errors import is_lance_error
from outrider.library.object_storage import MOST_ROWS_AT_ONCE
from outrider.library.schema import RANKED_INDEX
from outrider.library.store_errors import read_first_line
from outrider.state.errors import LibraryError, MissingExtra
from outrider.text.sanitize import without_password

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.query import FullTextQuery
    from lancedb.table import AsyncTable

    from outrider.library.object_storage import ObjectStorage

MOST_BYTES = 64 * 2**20
"""Of one file: an index of so few records has no larger one."""
MOST_FILES = 64
"""That one query may ask for, and parts of an index. A part has four files; each version adds lists of the rows that were deleted."""
ANSWER_S, FILE_S, QUERY_S = 5.0, 60.0, 10.0
"""For the first answer of the store, which may refuse this client and not LanceDB; for a file; for a query of the copy, which takes ms."""
AGAIN_S = 300.0
"""After the store failed."""
KEPT_S = 7 * 86_400.0
"""Files and copies that no process has used since are removed."""
MISSING = re.compile(rf"[Nn]ot found: .*?{TABLE}\.lance/((?:_indices/[0-9a-f-]+|_deletions)/\w[\w.-]*)")
"""What LanceDB says of a file that is not there, and the file's place in the table."""
UNINDEXED = re.compile(rf"[Nn]ot found: .*?{TABLE}\.lance/data/")
"""Of rows, which are not copied: it reads those that are not in the index yet."""
SEGMENT = re.compile(rb"\n\x12\n\x10(.{16})\x12.{2,11}?\x1a" + bytes([len(RANKED_INDEX)]) + RANKED_INDEX.encode(), re.DOTALL)
"""A part of the ranking index among the indexes of a manifest, and its identifier: a message with a UUID, columns and a name, as Lance's
`table.proto` has it. The indexes come first in the file, after their length in 4 bytes.
"""
NEWEST = 2**64 - 1
"""A manifest is named by what its version lacks to this, so that the newest comes first (Lance's table format, "V2" names)."""
log = logging.getLogger(__name__)


class DamagedCopy(Exception):
    """A file asks for one that the store does not have, or LanceDB never ends reading it."""


class RankingCopy:
    """The copy of one library, which several processes may use and extend at once."""

    def __init__(self, storage: ObjectStorage, library_id: str) -> None:
        self._storage = storage
        self._folder = find_folder() / hashlib.sha256(f"{library_id} {storage.uri}".encode()).hexdigest()[:32]
        self._version = -1
        self._table: AsyncTable | None = None
        """At `_version`; None where that cannot be searched."""
        self._again_at = 0.0
        self._is_preparing = False

    async def search(self, table: AsyncTable, query: FullTextQuery, limit: int) -> pa.Table | None:
        """`_rowid` and `_score` of the best rows at the version of `table`. None where that must be asked; the log says why."""
        version, rows = int(await table.version()), await table.count_rows()
        while self._is_preparing:  # noqa: ASYNC110 - perhaps on another event loop
            await asyncio.sleep(0.01)
        try:
            if version == self._version:
                return None if self._table is None else await self._search(self._table, query, limit)
            if time.monotonic() < self._again_at or rows > MOST_ROWS_AT_ONCE:
                return None
            return await self._prepare(version, query, limit)
        except UnicodeError:  # a mistake in the query, which the table itself reports
            return None
        except (LibraryError, MissingExtra, TimeoutError) as error:
            self._again_at = time.monotonic() + AGAIN_S
            reason: Exception = error
        except Exception as error:
            if not (isinstance(error, DamagedCopy) or is_lance_error(error)):
                raise
            self._version, self._table, reason = version, None, error
            if not isinstance(error, OSError) and not UNINDEXED.search(str(error)):
                await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)
        told = read_first_line(reason, self._storage.options)
        log.info("the ranking index of %s is read where it lies, not from a copy: %s", without_password(self._storage.uri), told)
        return None

    def close(self) -> None:
        if self._table is not None:
            self._table.close()  # type: ignore[no-untyped-call]
        self._version, self._table = -1, None

    async def _prepare(self, version: int, query: FullTextQuery, limit: int) -> pa.Table:
        self._is_preparing = True
        try:
            table = await self._open(version)
            found = await self._search(table, query, limit)
            self._version, self._table = version, table  # other searches may still use the one before
        finally:
            self._is_preparing = False
        await asyncio.to_thread(self._remove_unused)
        return found

    async def _open(self, version: int) -> AsyncTable:
        import lancedb

        manifest = f"_versions/{NEWEST - version:020}.manifest"
        async with asyncio.timeout(ANSWER_S):
            content = await self._read(manifest)
        await asyncio.to_thread(self._write, manifest, content)
        segments = _list_segments(content)
        if len(segments) > MOST_FILES:
            raise LibraryError(f"the ranking index has {len(segments):,} parts, more than {MOST_FILES}")
        # where a part lacks this file, LanceDB looks for an index of its first format
        await asyncio.gather(*(self._fetch(f"_indices/{segment}/metadata.lance") for segment in segments))
        await asyncio.to_thread(self._touch, segments)
        connection = await lancedb.connect_async(self._folder)
        table = await connection.open_table(TABLE)
        await table.checkout(version)
        return table

    async def _search(self, table: AsyncTable, query: FullTextQuery, limit: int) -> pa.Table:
        """Reads from the store what LanceDB does not find on this machine."""
        asked: set[str] = set()
        while True:
            try:
                async with asyncio.timeout(QUERY_S):
                    return await table.query().nearest_to_text(query).select(["_score"]).with_row_id().limit(limit).to_arrow()
            except TimeoutError as error:
                raise DamagedCopy(f"it gave no answer in {QUERY_S:g} s") from error
            except (RuntimeError, OSError) as error:
                missing = MISSING.search(str(error))
                if missing is None or missing[1] in asked or len(asked) == MOST_FILES:
                    raise
            asked.add(missing[1])
            await self._fetch(missing[1])

    async def _fetch(self, name: str) -> None:
        """Copy a file of the table, unless it is there."""
        if not await asyncio.to_thread((self._folder / f"{TABLE}.lance" / name).exists):
            async with asyncio.timeout(FILE_S):
                content = await self._read(name)
            await asyncio.to_thread(self._write, name, content)

    async def _read(self, name: str) -> bytes:
        """A file of the table in the store."""
        store = await asyncio.to_thread(lambda: self._storage.store)  # the first time it imports its client
        from obstore.exceptions import BaseError

        try:
            response = await store.get_async(f"{TABLE}.lance/{name}")
            if (size := response.meta["size"]) > MOST_BYTES:
                raise LibraryError(f"{name} has {size:,} bytes, more than {MOST_BYTES:,}")
            return (await response.bytes_async()).to_bytes()
        except FileNotFoundError as error:
            raise DamagedCopy(f"the store has no {name}") from error
        except BaseError as error:
            raise LibraryError(f"{name}: {read_first_line(error, self._storage.options)}") from error

    def _write(self, name: str, content: bytes) -> None:
        """It appears whole or not at all. Others may not read it: it holds words of the library."""
        self._folder.parent.mkdir(parents=True, exist_ok=True)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        path = self._folder / f"{TABLE}.lance" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=self._folder, suffix=".part")
        part = Path(temporary)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(handle)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)

    def _touch(self, segments: list[uuid.UUID]) -> None:
        """Mark the files of these parts as used now."""
        for segment in segments:
            for file in (self._folder / f"{TABLE}.lance" / "_indices" / str(segment)).glob("*"):
                with suppress(OSError):
                    os.utime(file)

    def _remove_unused(self) -> None:
        """Files of this copy, and copies of other libraries; another process may remove them at the same time."""
        oldest = time.time() - KEPT_S
        with suppress(OSError):
            os.utime(self._folder)
            for path in [*self._folder.parent.iterdir(), *self._folder.rglob("*.*")]:
                with suppress(OSError):
                    if path.stat().st_mtime < oldest:
                        if path.parent == self._folder.parent:
                            shutil.rmtree(path)
                        elif path.is_file():
                            path.unlink()


def find_folder() -> Path:
    """Where the copies of this user lie."""
    return platformdirs.user_cache_path("outrider", appauthor=False) / "indexes"


def _list_segments(manifest: bytes) -> list[uuid.UUID]:
    indexes = manifest[4 : 4 + int.from_bytes(manifest[:4], "little")]
    return [uuid.UUID(bytes=part) for part in SEGMENT.findall(indexes)]

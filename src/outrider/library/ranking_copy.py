"""Copies of the ranking index of a library on object storage, on this machine: a search then reads it from disk.

A copy is a LanceDB table without rows: the manifest of a version, and the files of the index that a query asks for. A file never changes,
so each is read from the store once, by whichever process comes first. A query of the copy finds places and scores; rows are read from the
store. What cannot be answered so (rows outside the index, too many records, a store that refuses) is read from the store as without a copy.
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
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from outrider.library.address_and_locks import TABLE
from outrider.library.schema import RANKED
from outrider.library.store_errors import read_first_line
from outrider.state.errors import LibraryError, SearchError
from outrider.text.sanitize import without_password

if TYPE_CHECKING:
    import pyarrow as pa
    from lancedb.query import FullTextQuery
    from lancedb.table import AsyncTable

    from outrider.library.object_storage import ObjectStorage

MOST_ROWS = 50_000
"""Records of a library whose index is copied: some 17 MB."""
MOST_BYTES = 256 * 2**20
"""Of one file: an index of so few records has no larger one."""
MOST_FILES = 64
"""That one query may ask for. An index has four to a part; each version adds the lists of rows that were deleted."""
INDEX = f"{RANKED}_idx"
KEPT_S = 7 * 86_400.0
"""Files that no version has asked for since are removed, and copies that nobody has used."""
MISSING = re.compile(rf"[Nn]ot found: \S*?{TABLE}\.lance/((?:_indices/[0-9a-f-]+|_deletions)/\w[\w.-]*)")
"""What LanceDB says of a file that is not there, and the file's place in the table."""
SEGMENT = re.compile(rb"\n\x12\n\x10(.{16})\x12.{2,11}?\x1a" + bytes([len(INDEX)]) + INDEX.encode(), re.DOTALL)
"""A part of the ranking index among the indexes of a manifest, and its identifier: a message with a UUID, columns and a name, as Lance's
`table.proto` has it. The indexes come first in the file, after their length in 4 bytes.
"""
NEWEST = 2**64 - 1
"""A manifest is named by what its version lacks to this, so that the newest comes first (Lance's table format, "V2" names)."""
log = logging.getLogger(__name__)


class RankingCopy:
    """The copy of one library, which several processes may use and extend at once."""

    def __init__(self, storage: ObjectStorage, library_id: str) -> None:
        self._storage = storage
        self._folder = find_folder() / hashlib.sha256(f"{library_id} {storage.uri}".encode()).hexdigest()[:32]
        self._version = -1
        self._table: AsyncTable | None = None
        """At `_version`; None where it cannot be searched."""
        self._is_preparing = False
        """Other searches do not wait for that."""

    async def search(self, version: int, query: FullTextQuery, limit: int) -> pa.Table | None:
        """`_rowid` and `_score` of the best rows of this version. None where the store must be asked; the log says why, once a version."""
        try:
            if version == self._version:
                return None if self._table is None else await self._search(self._table, query, limit)
            return None if self._is_preparing else await self._prepare(version, query, limit)
        except (SearchError, OSError, RuntimeError, ValueError) as error:
            self._version, self._table = version, None
            await asyncio.to_thread(self._give_up, error)
            return None

    async def _prepare(self, version: int, query: FullTextQuery, limit: int) -> pa.Table:
        self._is_preparing = True
        try:
            table = await self._open(version)
            found = await self._search(table, query, limit)
            await asyncio.to_thread(self._remove_unused)
        finally:
            self._is_preparing = False
        self._version, self._table = version, table
        return found

    async def _open(self, version: int) -> AsyncTable:
        import lancedb

        manifest = await self._fetch(f"_versions/{NEWEST - version:020}.manifest")
        for segment in await asyncio.to_thread(_find_segments, manifest):
            await self._fetch(f"_indices/{segment}/metadata.lance")  # where it is missing, LanceDB looks for an index of its first format
        connection = await lancedb.connect_async(self._folder)
        table = await connection.open_table(TABLE)
        await table.checkout(version)
        if (rows := await table.count_rows()) > MOST_ROWS:
            raise LibraryError(f"it has {rows:,} records, more than {MOST_ROWS:,}")
        return table

    def _give_up(self, error: Exception) -> None:
        reason = read_first_line(error, self._storage.options)
        log.info("the ranking index of %s is read where it lies, not from a copy: %s", without_password(self._storage.uri), reason)
        if isinstance(error, RuntimeError | ValueError) and "ot found" not in str(error):  # a file is damaged: all are copied anew
            shutil.rmtree(self._folder, ignore_errors=True)

    async def _search(self, table: AsyncTable, query: FullTextQuery, limit: int) -> pa.Table:
        """Reads from the store what LanceDB does not find on this machine."""
        asked: set[str] = set()
        while True:
            try:
                return await table.query().nearest_to_text(query).select(["_score"]).with_row_id().limit(limit).to_arrow()
            except (RuntimeError, OSError, ValueError) as error:
                missing = MISSING.search(str(error))
                if missing is None or missing[1] in asked or len(asked) == MOST_FILES:
                    raise
            asked.add(missing[1])
            await self._fetch(missing[1])

    async def _fetch(self, name: str) -> Path:
        """Copy a file of the table, unless it is there. It appears whole or not at all."""
        path = self._folder / f"{TABLE}.lance" / name
        if await asyncio.to_thread(_touch, path):
            return path
        store = await asyncio.to_thread(lambda: self._storage.store)  # the first time it imports its client
        from obstore.exceptions import BaseError

        try:
            response = await store.get_async(f"{TABLE}.lance/{name}")
            if (size := response.meta["size"]) > MOST_BYTES:
                raise LibraryError(f"{name} has {size:,} bytes, more than {MOST_BYTES:,}")
            content = await response.bytes_async()
        except BaseError as error:
            raise LibraryError(f"{name}: {read_first_line(error, self._storage.options)}") from error
        await asyncio.to_thread(self._write, path, content.to_bytes())
        return path

    def _write(self, path: Path, content: bytes) -> None:
        """Others may not read it: it holds words of the library."""
        self._folder.parent.mkdir(parents=True, exist_ok=True)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=self._folder, suffix=".part")
        part = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)

    def _remove_unused(self) -> None:
        """Of this copy what no version has asked for lately, and the copies of other libraries that nobody has used."""
        oldest = time.time() - KEPT_S
        for folder in self._folder.parent.iterdir():
            if folder != self._folder and folder.stat().st_mtime < oldest:
                shutil.rmtree(folder, ignore_errors=True)
        for file in [*self._folder.rglob("*.*")]:
            if file.is_file() and file.stat().st_mtime < oldest:
                file.unlink(missing_ok=True)
        os.utime(self._folder)


def find_folder() -> Path:
    """Where the copies of this user lie."""
    return platformdirs.user_cache_path("outrider", appauthor=False) / "indexes"


def _find_segments(manifest: Path) -> list[uuid.UUID]:
    content = manifest.read_bytes()
    indexes = content[4 : 4 + int.from_bytes(content[:4], "little")]
    return [uuid.UUID(bytes=part) for part in SEGMENT.findall(indexes)]


def _touch(path: Path) -> bool:
    """Whether the file is there; it is then marked as used now."""
    try:
        os.utime(path)
    except FileNotFoundError:
        return False
    return True

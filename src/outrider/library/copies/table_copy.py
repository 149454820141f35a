"""A copy on this machine of a table on object storage.

A copy is a LanceDB table that lacks files: it has the manifest of a version, all rows of a small table, and those files of its indexes that
queries ask for. Of a larger library's records it has the ranking index and no rows: it finds places and scores, and rows are read from the
store. These files are named at random and never change, so each is read from the store once, by whichever process comes first; the manifest
is read by each process. What cannot be answered so (rows outside the index of a larger library, too many records, a store that refuses, a
damaged file) is read from the store as without a copy.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from outrider.library.address_and_locks import TABLE
from outrider.library.copies.lance_manifest import Manifest
from outrider.library.lance_errors import OWN_MISTAKE, is_lance_error
from outrider.library.object_storage import MOST_ROWS_AT_ONCE
from outrider.library.store_errors import read_first_line
from outrider.state.errors import LibraryError, MissingExtra
from outrider.text.sanitize import without_password

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from lancedb.table import AsyncTable

    from outrider.library.copies.copy_folder import CopyFolder
    from outrider.library.object_storage import ObjectStorage

T = TypeVar("T")

MOST_ROWS = 500_000
"""Of a table beside the records whose manifest is read, to see how large it is."""
MOST_BYTES_OF_ROWS, MOST_FILES_OF_ROWS = 32 * 2**20, 16
"""Of a table whose rows are copied: some ten thousand abstracts."""
MOST_BYTES = 64 * 2**20
"""Of one file: an index of so few records has no larger one."""
MOST_FILES = 64
"""That one query may ask for, and parts of an index. A part has four files; each version adds lists of the rows that were deleted."""
FIRST_FILE = "metadata.lance"
"""Where a part of a text index lacks it, LanceDB looks for an index of its first format."""
ANSWER_S, FILE_S, QUERY_S = 5.0, 60.0, 10.0
"""For the first answer of the store, which may refuse this client and not LanceDB; for a file; for a query of the copy, which takes ms."""
AGAIN_S = 300.0
"""After the store failed."""
MISSING = re.compile(r"[Nn]ot found: .*?\.lance/((?:_indices/[0-9a-f-]+|_deletions)/\w[\w.-]*)")
"""What LanceDB says of a file that is not there, and the file's place in the table."""
ROWS = re.compile(r"\w[\w-]*\.lance")
"""Name of a file of rows."""
UNINDEXED = re.compile(r"[Nn]ot found: .*?\.lance/data/")
"""Of rows that are not copied: it reads those that are not in the index yet."""
NEWEST = 2**64 - 1
"""A manifest is named by what its version lacks to this, so that the newest comes first (Lance's table format, "V2" names)."""
log = logging.getLogger(__name__)


class DamagedCopy(Exception):
    """A file asks for one that the store does not have, or LanceDB never ends reading it."""


@dataclass(frozen=True, slots=True)
class CopiedVersion:
    """A copy as far as this process knows it."""

    version: int = -1
    table: AsyncTable | None = None
    """None where the version cannot be read from a copy."""
    has_rows: bool = False
    manifest: Manifest | None = None
    texts: set[str] = field(default_factory=set)
    """Columns whose text index has its first files."""


class TableCopy:
    """The copy of one table, which several processes may use and extend at once."""

    def __init__(self, storage: ObjectStorage, folder: CopyFolder, name: str) -> None:
        self._storage = storage
        self._folder = folder
        self._name = f"{name}.lance"
        self._most_rows = MOST_ROWS_AT_ONCE if name == TABLE else MOST_ROWS
        self._copied = CopiedVersion()
        self._again_at = 0.0
        self._is_preparing = False
        self._fetching: set[str] = set()

    async def ask(
        self, table: AsyncTable, read: Callable[[AsyncTable], Awaitable[T]], texts: Sequence[str] = (), *, rows: bool = True
    ) -> T | None:
        """What `read` answers of the copy at the version of `table`. None where `table` must be asked; the log says why.

        `texts` are the columns whose text indexes are searched. Without `rows`, `read` asks for nothing but row ids and scores. It may
        be called several times.
        """
        version = int(await table.version())
        try:
            copied = await self._find(table, version)
            if copied is None or copied.table is None or (rows and not copied.has_rows):
                return None
            await self._fetch_first_files(copied, texts)
            return await self._read_copy(copied.table, read)
        except UnicodeError:  # a mistake in the query, which the table itself reports
            return None
        except (LibraryError, MissingExtra) as error:
            reason: Exception = error
        except Exception as error:
            if OWN_MISTAKE.search(str(error)):
                return None
            if not (isinstance(error, DamagedCopy) or is_lance_error(error)):
                raise
            self._copied, reason = CopiedVersion(version), error
            if not isinstance(error, OSError) and not UNINDEXED.search(str(error)):
                await asyncio.to_thread(self._folder.remove, self._name)
        told = read_first_line(reason, self._storage.options)
        log.info("%s of %s is read where it lies, not from a copy: %s", self._name, without_password(self._storage.uri), told)
        return None

    def close(self) -> None:
        if self._copied.table is not None:
            self._copied.table.close()  # type: ignore[no-untyped-call]
        self._copied = CopiedVersion()

    async def _find(self, table: AsyncTable, version: int) -> CopiedVersion | None:
        """The copy of this version, which is none of too many rows. None for a while after the store failed."""
        while self._copied.version != version and self._is_preparing:  # noqa: ASYNC110 - perhaps on another event loop
            await asyncio.sleep(0.01)
        if self._copied.version == version:
            return self._copied
        if time.monotonic() < self._again_at:
            return None
        self._is_preparing = True
        try:
            is_large = await table.count_rows() > self._most_rows
            copied = CopiedVersion(version) if is_large else await self._open(version)
            self._copied = copied  # other searches may still use the one before
        finally:
            self._is_preparing = False
        await asyncio.to_thread(self._folder.remove_unused)
        return copied

    async def _open(self, version: int) -> CopiedVersion:
        import lancedb

        name = f"_versions/{NEWEST - version:020}.manifest"
        content = await self._read(name, ANSWER_S)
        try:
            manifest = Manifest.parse(content)
        except ValueError as error:
            raise DamagedCopy(str(error)) from error
        await asyncio.to_thread(self._folder.write, f"{self._name}/{name}", content)
        rows = [f"data/{name}" for name, _ in manifest.rows]
        parts = [f"_indices/{part}" for _, part in manifest.indexes]
        has_rows = are_copied(manifest.rows)
        if has_rows:
            await asyncio.gather(*map(self._fetch, rows))
        await asyncio.to_thread(self._folder.keep, self._name, {name, *rows, *parts})
        connection = await lancedb.connect_async(self._folder.path)
        table = await connection.open_table(self._name.removesuffix(".lance"))
        await table.checkout(version)
        return CopiedVersion(version, table, has_rows, manifest)

    async def _fetch_first_files(self, copied: CopiedVersion, texts: Sequence[str]) -> None:
        """Of each part of the indexes of these columns."""
        for column in texts:
            if column in copied.texts or copied.manifest is None:
                continue
            parts = [str(part) for index, part in copied.manifest.indexes if index == f"{column}_idx"]
            if len(parts) > MOST_FILES:
                raise LibraryError(f"the index of {column} has {len(parts):,} parts, more than {MOST_FILES}")
            await asyncio.gather(*(self._fetch(f"_indices/{part}/{FIRST_FILE}") for part in parts))
            copied.texts.add(column)

    async def _read_copy(self, table: AsyncTable, read: Callable[[AsyncTable], Awaitable[T]]) -> T:
        """Reads from the store what LanceDB does not find on this machine."""
        from outrider.library.lance_query import outlive

        asked: set[str] = set()
        while True:
            try:
                async with asyncio.timeout(QUERY_S):
                    return await outlive(read(table))
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
        while name in self._fetching:  # noqa: ASYNC110 - perhaps on another event loop
            await asyncio.sleep(0.01)
        self._fetching.add(name)
        try:
            if not await asyncio.to_thread(self._folder.has, f"{self._name}/{name}"):
                content = await self._read_file(name)
                await asyncio.to_thread(self._folder.write, f"{self._name}/{name}", content)
        finally:
            self._fetching.discard(name)

    async def _read_file(self, name: str) -> bytes:
        """One that may be large; none for a day after one came too slowly."""
        if await asyncio.to_thread(self._folder.is_slow):
            self._again_at = time.monotonic() + AGAIN_S
            raise LibraryError(f"{name} is missing, and a file came too slowly in the last 24 hours")
        try:
            return await self._read(name, FILE_S)
        except LibraryError as error:
            if isinstance(error.__cause__, TimeoutError):
                await asyncio.to_thread(self._folder.mark_slow)
            raise

    async def _read(self, name: str, most_s: float) -> bytes:
        """A file of the table in the store, which is not asked for a while after it failed."""
        if time.monotonic() < self._again_at:
            raise LibraryError(f"{name} is missing, and the store failed less than {AGAIN_S:g} s ago")
        try:
            async with asyncio.timeout(most_s):
                return await self._get(name)
        except (LibraryError, MissingExtra, TimeoutError) as error:
            self._again_at = time.monotonic() + AGAIN_S
            if isinstance(error, TimeoutError):
                raise LibraryError(f"{name} was not read in {most_s:g} s") from error
            raise

    async def _get(self, name: str) -> bytes:
        store = await asyncio.to_thread(lambda: self._storage.store)  # the first time it imports its client
        from obstore.exceptions import BaseError

        try:
            response = await store.get_async(f"{self._name}/{name}")
            if (size := response.meta["size"]) > MOST_BYTES:
                raise LibraryError(f"{name} has {size:,} bytes, more than {MOST_BYTES:,}")
            return (await response.bytes_async()).to_bytes()
        except FileNotFoundError as error:
            raise DamagedCopy(f"the store has no {name}") from error
        except BaseError as error:
            raise LibraryError(f"{name}: {read_first_line(error, self._storage.options)}") from error


def are_copied(rows: Sequence[tuple[str, int]]) -> bool:
    """Whether files of rows, with their sizes, are few and small, and may lie under their names in a folder."""
    sizes = [size for _, size in rows]
    is_small = all(sizes) and sum(sizes) <= MOST_BYTES_OF_ROWS and len(sizes) <= MOST_FILES_OF_ROWS
    return is_small and all(ROWS.fullmatch(name) for name, _ in rows)

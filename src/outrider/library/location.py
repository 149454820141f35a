"""Where a library lies: what stands there, who may write now, and what LanceDB's errors mean there."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from outrider.library.shutdown import SHUTDOWN_DELAY
from outrider.state.errors import BadRequest, LibraryBusy, LibraryCorrupt, LibraryError, LibraryMissing, LibraryReadOnly
from outrider.text.sanitize import without_password

T = TypeVar("T")
Standing = Literal["missing", "empty", "library", "foreign"]

TABLE = "records"
LOCK = ".outrider.lock"
REINDEX_LOCK = ".outrider.reindex.lock"
IGNORED = frozenset({LOCK, REINDEX_LOCK, ".DS_Store", "Thumbs.db", "desktop.ini"})
"""Names that leave a folder empty: our locks, and what file managers put into every folder."""

OBJECT_STORES = ("s3", "gs", "az", "abfs", "abfss")
"""Schemes that LanceDB reads; only s3 was tried."""

LOCK_TIMEOUT_S = 600.0
LOCK_POLL_S = 0.02
ATTEMPTS = 8
"""Tries of one write that another process's commit keeps overtaking (only without the lock: object storage)."""

READ_ONLY = re.compile(r"permission denied|read-only file system|access ?denied|forbidden|os error (?:13|30)\b", re.IGNORECASE)
CONFLICT = re.compile(r"commit conflict|concurrent|incompatible transaction|retryable", re.IGNORECASE)
OURS = re.compile(r"no field named|error parsing|error resolving|invalid user input|error during planning", re.IGNORECASE)
"""LanceDB blames the query: a bug of ours, which must crash."""
PANIC = "RustPanic"
"""What LanceDB raises where damaged bytes make it read out of bounds; the class can be imported from nowhere."""
SOURCE_LINE = re.compile(r",? \S+/\S+\.rs:\d+:\d+\S*$")
RESOURCES = re.compile(r"no space left|too many open files|quota exceeded|os error (?:24|28|122)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Place:
    """A local folder, or an object store (`path` is None)."""

    uri: str
    path: Path | None

    @classmethod
    def of(cls, uri: str | Path) -> Place:
        text = str(uri)
        scheme, separator, _ = text.partition("://")
        if separator and scheme != "file":
            if scheme not in OBJECT_STORES:
                raise BadRequest(
                    f"{without_password(text)}: a library is a folder or in an object store ({', '.join(OBJECT_STORES)}), not at {scheme}://"
                )
            return cls(text.rstrip("/"), None)
        path = Path(text.removeprefix("file://")).expanduser().absolute()
        return cls(str(path), path)

    @property
    def shown(self) -> str:
        """The address for messages."""
        return without_password(self.uri)

    def missing(self) -> LibraryMissing:
        return LibraryMissing(f"no library at {self.shown}; create one with: outrider ingest PATH... --library {self.shown}")

    def foreign(self) -> LibraryMissing:
        return LibraryMissing(f"{self.shown} is no Outrider library and is not empty; choose an empty or a new folder with --library")

    async def standing(self) -> Standing:
        """What is there; of an object store only that it is not known before it is opened ("library")."""
        return await asyncio.to_thread(self._standing)

    def _standing(self) -> Standing:
        if self.path is None:
            return "library"
        try:
            names = sorted(entry.name for entry in self.path.iterdir() if entry.name not in IGNORED)
        except FileNotFoundError:
            return "missing"
        except PermissionError as error:
            raise LibraryError(f"the library at {self.shown} may not be read by this user") from error
        except OSError as error:
            if not os.path.lexists(self.path):  # below a file, or no name that a folder can have
                return "missing"
            if isinstance(error, NotADirectoryError):
                raise self.foreign() from error
            raise LibraryError(f"the library at {self.shown} cannot be read: {error.strerror or error}") from error
        return "library" if f"{TABLE}.lance" in names else "foreign" if names else "empty"

    async def make(self) -> None:
        """The folder of a new library; `LibraryReadOnly` where there can be none."""
        if self.path is not None:
            try:
                await asyncio.to_thread(self.path.mkdir, parents=True, exist_ok=True)
            except OSError as error:
                why = error.strerror or str(error)
                raise LibraryReadOnly(f"no library can be made at {self.shown}: {why}; name another folder with --library") from error

    async def size_bytes(self) -> int | None:
        """Of all files, old versions included; None for an object store."""
        return None if self.path is None else await asyncio.to_thread(_size_bytes, self.path)

    @asynccontextmanager
    async def writing(self, wait_s: float = LOCK_TIMEOUT_S) -> AsyncIterator[None]:
        """One writer at a time among the processes of this machine; object stores rely on LanceDB's commit protocol alone.

        `LibraryBusy` where another one writes for longer than `wait_s`. The lock is polled, so that no thread holds it for a task that
        was cancelled. The system frees it when a process dies.
        """
        if self.path is None:
            yield
            return
        from filelock import FileLock

        lock = FileLock(self.path / LOCK, thread_local=False)
        deadline = time.monotonic() + wait_s
        try:
            while not await asyncio.to_thread(self._locked, lock.acquire):
                if time.monotonic() > deadline:
                    raise LibraryBusy(f"the library at {self.shown} has been written by another process for {wait_s:.3g} s; try later")
                await asyncio.sleep(LOCK_POLL_S)
            yield
        finally:
            await asyncio.shield(asyncio.to_thread(lock.release))

    @asynccontextmanager
    async def changing(self, wait_s: float = LOCK_TIMEOUT_S) -> AsyncIterator[None]:
        """`writing`, with LanceDB's errors as ours."""
        async with self.writing(wait_s):
            with self.translated(writing=True):
                yield

    @asynccontextmanager
    async def reindexing(self) -> AsyncIterator[None]:
        """One reindex at a time among the processes of this machine, `LibraryBusy` at once for another; searches and writes go on.

        An object store has no such lock: two reindexes to one model share their work there, of two to different models the one
        that began last goes on, and the other finds its table gone and says so.
        """
        if self.path is None:
            yield
            return
        from filelock import FileLock

        lock = FileLock(self.path / REINDEX_LOCK, thread_local=False)
        if not await asyncio.to_thread(self._locked, lock.acquire):
            raise LibraryBusy(f"the library at {self.shown} is being reindexed by another process; wait for its end, or stop it first")
        try:
            yield
        finally:
            await asyncio.shield(asyncio.to_thread(lock.release))

    def _locked(self, acquire: Callable[..., object]) -> bool:
        try:
            if self.path is not None:
                self.path.mkdir(parents=True, exist_ok=True)
            acquire(blocking=False)
        except TimeoutError:
            return False
        except OSError as error:  # no permission, or a file system mounted read-only
            raise self.read_only() from error
        return True

    def read_only(self) -> LibraryReadOnly:
        return LibraryReadOnly(f"the library at {self.shown} cannot be written by this user; searching it works")

    @contextmanager
    def translated(self, *, writing: bool = False) -> Iterator[None]:
        """LanceDB's errors as ours; what is our own mistake passes through and crashes."""
        try:
            yield
        except asyncio.CancelledError:
            SHUTDOWN_DELAY.restart()
            raise
        except Exception as error:
            known = isinstance(error, RuntimeError | OSError | ValueError) or type(error).__name__ == PANIC
            found = self._meaning(str(error), writing) if known else None
            if found is None:
                raise
            raise found from error

    def _meaning(self, said: str, writing: bool) -> LibraryError | None:
        first = SOURCE_LINE.sub("", said.splitlines()[0])[:300] if said else "no reason given"
        if OURS.search(said):
            return None
        if READ_ONLY.search(said):
            return self.read_only() if writing else LibraryError(f"the library at {self.shown} may not be read by this user ({first})")
        if RESOURCES.search(said):
            return LibraryError(f"the library at {self.shown} could not be used: {first}")
        if CONFLICT.search(said):
            return LibraryError(f"the library at {self.shown} is being written by other processes; try again ({first})")
        if self.path is None:
            return LibraryError(
                f"the library at {self.shown} could not be reached or read; check the address and the credentials ({first})"
            )
        return LibraryCorrupt(
            f"the library at {self.shown} is damaged: {first}. 'outrider library check' says how far; "
            "restore the folder from a copy, or ingest the files again into a new one"
        )

    async def committed(self, write: Callable[[], Awaitable[T]]) -> T:
        """The result of a write that is tried again when another process's commit came first."""
        for attempt in range(ATTEMPTS):
            try:
                return await write()
            except (RuntimeError, OSError, ValueError) as error:
                if attempt == ATTEMPTS - 1 or not CONFLICT.search(str(error)):
                    raise
                await asyncio.sleep(0.05 * 2**attempt)
        raise AssertionError("unreachable")


def _size_bytes(path: Path) -> int:
    total = 0
    for file in path.rglob("*"):
        try:
            total += file.stat().st_size if file.is_file() else 0
        except FileNotFoundError:  # cleaned up by another process meanwhile
            continue
    return total

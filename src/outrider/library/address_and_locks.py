"""Location of a library: its address, the state of its folder, and the locks of its writers."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from outrider.library import lease
from outrider.library.lance_errors import SHUTDOWN_DELAY, read_only_error, translate_error
from outrider.library.store_errors import hide_secrets
from outrider.runtime.run_reads import read_afresh
from outrider.runtime.threads_and_loops import finish
from outrider.state.errors import BadRequest, LibraryBusy, LibraryError, LibraryMissing, LibraryReadOnly, MissingExtra, explain_limit
from outrider.text.sanitize import without_password

if TYPE_CHECKING:
    from outrider.library.object_storage import ObjectStorage

FolderState = Literal["missing", "empty", "library", "foreign"]

TABLE = "records"
LOCK = ".outrider.lock"
REINDEX_LOCK = ".outrider.reindex.lock"
LEASES = {LOCK: "writes", REINDEX_LOCK: "reindex"}
"""What stands for these files on object storage."""
REINDEX_WAIT_S = 0.5
"""`is_reindexing` holds the lock for a moment."""
IGNORED = frozenset({LOCK, REINDEX_LOCK, ".DS_Store", "Thumbs.db", "desktop.ini"})
"""Names that leave a folder empty: our locks, and what file managers put into every folder."""

OBJECT_STORES = ("s3", "gs", "az", "abfs", "abfss")
"""Schemes that LanceDB reads. `s3` was tried with moto, `az` with Azurite, the others were not."""

SERVICE = "db"
"""Scheme of LanceDB Cloud and Enterprise; only tried with a counterpart of their protocol."""
LEAST_BUCKET = 3
"""Characters of a bucket's or a container's name, at Amazon, Google and Microsoft."""
PROBE_BYTES = 4_096
PROBE = "probe"
LOCK_TIMEOUT_S = 600.0
LOCK_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Location:
    """A local folder, or an object store (`path` is None)."""

    uri: str
    path: Path | None
    storage: ObjectStorage | None = field(default=None, repr=False, compare=False)
    """Of an open library on object storage."""

    @classmethod
    def parse(cls, uri: str | Path) -> Location:
        """`BadRequest` for an address that no library can have."""
        text = str(uri)
        scheme, separator, _ = text.partition("://")
        if separator and scheme != "file":
            if scheme not in (*OBJECT_STORES, SERVICE):
                stores = f"in an object store ({', '.join(OBJECT_STORES)}) or LanceDB Cloud or Enterprise ({SERVICE})"
                raise BadRequest(f"{without_password(text)}: a library is a folder or {stores}, not at {scheme}://")
            host = re.split(r"[/?#]", text)[2]
            bucket = host.rpartition("@")[2] if scheme in ("s3", "gs") else host
            if len(bucket) < LEAST_BUCKET and scheme != SERVICE:
                raise BadRequest(f"{without_password(text)}: the name of a bucket has {LEAST_BUCKET} characters at least")
            return cls(text.rstrip("/"), None)
        path = Path(text.removeprefix("file://")).expanduser().absolute()
        return cls(str(path), path)

    @property
    def is_service(self) -> bool:
        """Whether LanceDB Cloud or Enterprise has it."""
        return self.uri.startswith(f"{SERVICE}://")

    def require_addresses(self, feature: str) -> None:
        """`BadRequest` where rows have no addresses that a feature could rest on."""
        if self.is_service:
            raise BadRequest(
                f"{feature} needs a library in a folder or on object storage: {self.address} is in LanceDB Cloud or Enterprise, "
                "whose rows have no fixed addresses"
            )

    @property
    def address(self) -> str:
        """For messages: without a password."""
        return without_password(self.uri)

    def missing_error(self) -> LibraryMissing:
        return LibraryMissing(f"no library at {self.address}; create one with: outrider ingest PATH... --library {self.address}")

    def foreign_error(self) -> LibraryMissing:
        return LibraryMissing(f"{self.address} is no Outrider library and is not empty; choose an empty or a new folder with --library")

    async def find_state(self) -> FolderState:
        """State of the folder; always "library" for an object store, whose contents are unknown before it is opened."""
        return "library" if self.path is None else await asyncio.to_thread(self._read_folder, self.path)

    def _read_folder(self, path: Path) -> FolderState:
        try:
            names = sorted(entry.name for entry in path.iterdir() if entry.name not in IGNORED)
        except FileNotFoundError:
            return "missing"
        except PermissionError as error:
            raise LibraryError(f"the library at {self.address} may not be read by this user") from error
        except OSError as error:
            if not os.path.lexists(path):  # below a file, or no name that a folder can have
                return "missing"
            if isinstance(error, NotADirectoryError):
                raise self.foreign_error() from error
            reason = explain_limit(error) or error.strerror or str(error)
            raise LibraryError(f"the library at {self.address} cannot be read: {reason}") from error
        return "library" if f"{TABLE}.lance" in names else "foreign" if names else "empty"

    async def create_folder(self) -> None:
        """The folder of a new library; `LibraryReadOnly` where none can be created."""
        if self.path is not None:
            try:
                await asyncio.to_thread(self.path.mkdir, parents=True, exist_ok=True)
            except OSError as error:
                raise self._creation_error(error) from error

    async def size_bytes(self) -> int | None:
        """Of all files, old versions included; None for an object store."""
        return None if self.path is None else await asyncio.to_thread(_sum_sizes, self.path)

    async def list_files(self) -> frozenset[tuple[str, int, int]] | None:
        """Name, size in bytes and time of change in nanoseconds of each file; None for an object store. Locks are left out."""
        return None if self.path is None else await asyncio.to_thread(_list_files, self.path)

    async def require_writable(self) -> None:
        """Write a file without a name, or a small object. Raises `LibraryReadOnly`, and `LibraryError` without space."""
        if self.storage is not None and not self.is_service:
            with self.translate_errors(writing=True), suppress(LibraryBusy):  # another process writes the same one
                async with lease.hold(await self._lease(PROBE, self.storage), 0, "", fences=False):
                    pass
        if self.path is None:
            return
        try:
            await asyncio.to_thread(_write_nameless_file, self.path)
        except OSError as error:
            if remedy := explain_limit(error):
                raise LibraryError(f"the library at {self.address} cannot be written: {remedy}") from error
            raise read_only_error(self.address) from error

    async def require_creatable(self) -> None:
        """Raise `LibraryError` where no library can be created: among other files, or where nothing may be written.

        A file without a name is written to the nearest folder above that exists; an object store is not tried.
        """
        if self.path is None:
            return
        if await self.find_state() == "foreign":
            raise self.foreign_error()
        try:
            await asyncio.to_thread(_write_nameless_file_above, self.path)
        except OSError as error:
            raise self._creation_error(error) from error

    def _creation_error(self, error: OSError) -> LibraryError:
        if reason := explain_limit(error):
            return LibraryError(f"no library can be made at {self.address}: {reason}, and run the command again")
        reason = error.strerror or str(error)
        return LibraryReadOnly(f"no library can be made at {self.address}: {reason}; name another folder with --library")

    def lock_writes(self, wait_s: float = LOCK_TIMEOUT_S) -> AbstractAsyncContextManager[None]:
        """One writer at a time: among the processes of this machine, and on object storage among all machines.

        `LibraryBusy` where another process writes for longer than `wait_s`.
        """
        busy = f"the library at {self.address} has been written by another process for {wait_s:.3g} s; try later"
        return self._lock(LOCK, wait_s, busy)

    def lock_reindex(self) -> AbstractAsyncContextManager[None]:
        """One reindex at a time, among the same processes as writers; `LibraryBusy` for another. Searches and writes continue."""
        busy = f"the library at {self.address} is being reindexed by another process; wait for its end, or stop it first"
        return self._lock(REINDEX_LOCK, REINDEX_WAIT_S, busy)

    def reindex_command(self, model: str = "") -> str:
        """The command that embeds this library's records, for a shell in any folder; with the model of the settings if none is named."""
        command = self.name_library("outrider library reindex")
        return f"{command} --model {shlex.quote(model)}" if model else command

    def name_library(self, command: str) -> str:
        """A command for a shell in any folder, with this library as its option."""
        return f"{command} --library {shlex.quote(str(self.path.absolute() if self.path else self.address))}"

    async def is_reindexing(self) -> bool:
        """Whether another process reindexes. On object storage by the clocks of this machine and the service; unknown, and False, without
        the extra `object-storage`.
        """
        if self.is_service:
            return False
        if self.storage is not None:
            try:
                with self.translate_errors():
                    state = await (await self._lease(LEASES[REINDEX_LOCK], self.storage)).read()
            except MissingExtra:
                return False
            return state is not None and bool(state.holder) and datetime.now(UTC) - state.changed_at < timedelta(seconds=lease.EXPIRY_S)
        try:
            async with self._lock(REINDEX_LOCK, 0, ""):
                return False
        except LibraryBusy:
            return True
        except LibraryError:  # not writable here
            return False

    def _lock(self, name: str, wait_s: float, busy: str) -> AbstractAsyncContextManager[None]:
        if self.path is not None:
            return self._lock_file(self.path, name, wait_s, busy)
        if self.storage is None:
            raise AssertionError("a library on object storage is locked only while it is open")
        return self._hold_lease(self.storage, name, wait_s, busy)

    @asynccontextmanager
    async def _hold_lease(self, storage: ObjectStorage, name: str, wait_s: float, busy: str) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            with self.translate_errors(writing=True):
                if not self.is_service:
                    own = await self._lease(LEASES[name], storage)
                    await stack.enter_async_context(lease.hold(own, wait_s, busy, fences=name == LOCK))
                await storage.refresh()
            try:
                yield
            finally:  # what other handles wrote is then seen by those that searches use; if this fails, they see it later
                with suppress(RuntimeError, OSError, ValueError):
                    await storage.refresh()

    async def _lease(self, name: str, storage: ObjectStorage) -> lease.Lease:
        store = await asyncio.to_thread(lambda: storage.store)  # the first time it imports its client
        return lease.Lease(store, name, self.address, storage.options)

    @asynccontextmanager
    async def _lock_file(self, folder: Path, name: str, wait_s: float, busy: str) -> AsyncIterator[None]:
        """The lock is polled, so that no thread holds it for a task that was cancelled. The system frees it when a process dies."""
        from filelock import FileLock

        lock = FileLock(folder / name, thread_local=False)
        began = time.monotonic()
        report_s = lease.REPORT_S
        try:
            # finished also when cancelled: else its thread may take the lock after the release below, and hold it for good
            while not await finish(asyncio.to_thread(self._try_lock, folder, lock.acquire)):
                waited_s = time.monotonic() - began
                if waited_s >= wait_s:
                    raise LibraryBusy(busy)
                if waited_s >= report_s:
                    report_s *= 2
                    lease.log.warning("waiting for the library at %s: another process is writing (%.0f s so far)", self.address, waited_s)
                await asyncio.sleep(LOCK_POLL_S)
            yield
        finally:
            await asyncio.shield(asyncio.to_thread(lock.release))

    def _try_lock(self, path: Path, acquire: Callable[..., object]) -> bool:
        try:
            path.mkdir(parents=True, exist_ok=True)
            acquire(blocking=False)
        except TimeoutError:
            return False
        except OSError as error:
            if remedy := explain_limit(error):
                raise LibraryError(f"the library at {self.address} could not be locked: {remedy}, and run the command again") from error
            raise read_only_error(self.address) from error  # no permission, or a file system mounted read-only
        return True

    @contextmanager
    def translate_errors(self, *, writing: bool = False) -> Iterator[None]:
        """Raise LanceDB's errors as ours; our own mistakes pass through and crash."""
        try:
            yield
        except asyncio.CancelledError:
            SHUTDOWN_DELAY.restart()
            raise
        except Exception as error:
            options: Mapping[str, str] = {} if self.storage is None else self.storage.options
            translated = translate_error(error, self.address, is_local=self.path is not None, writing=writing, options=options)
            if translated is None:
                raise
            if hide_secrets(str(error), options) != str(error):
                raise translated from None  # else a log with a traceback would show them
            raise translated from error

    @asynccontextmanager
    async def write(self, wait_s: float = LOCK_TIMEOUT_S) -> AsyncIterator[None]:
        """`lock_writes` and `translate_errors` together: what every change of a library runs in. Whatever it reads inside is the latest."""
        async with self.lock_writes(wait_s):
            with self.translate_errors(writing=True), read_afresh():
                yield


def _list_files(path: Path) -> frozenset[tuple[str, int, int]]:
    files = set()
    for file in path.rglob("*"):
        if file.name not in IGNORED:
            with suppress(FileNotFoundError):  # cleaned up by another process meanwhile
                status = file.stat()
                files.add((str(file), status.st_size, status.st_mtime_ns))
    return frozenset(files)


def _write_nameless_file(folder: Path) -> None:
    """Space is reserved when the file is closed, on some file systems, so the bytes are sent to the disk."""
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(bytes(PROBE_BYTES))
        file.flush()
        os.fsync(file.fileno())


def _write_nameless_file_above(folder: Path) -> None:
    _write_nameless_file(next(path for path in (folder, *folder.parents) if os.path.lexists(path)))


def _sum_sizes(path: Path) -> int:
    total = 0
    for file in path.rglob("*"):
        try:
            total += file.stat().st_size if file.is_file() else 0
        except FileNotFoundError:  # cleaned up by another process meanwhile
            continue
    return total

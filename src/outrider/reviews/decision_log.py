"""The log of a review: chained JSON lines, appended under a lock and flushed to the disk.

The first line creates the review; the others are imports, decisions, notes and settings (`review_state`). Lines are chained as those of a
ledger (`systematic_search.ledger`), so a line that was changed or removed from the middle is found. Entries that were appended together
hold together: the first has their number (`together`). What a killed process left of them, or of a line, never was an entry: it is
reported, and the next entry replaces it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from outrider.state.errors import SearchError
from outrider.state.reviews import NoSuchReview, ReviewDamaged
from outrider.systematic_search.ledger import GENESIS, chain_line, check_line

NAME = "decisions.jsonl"
LOCK = ".lock"
WAIT_S = 30.0
"""How long to wait for another process that writes."""
TOGETHER = "together"
Entry = Mapping[str, Any]


class ReviewBusy(SearchError):
    """Another process holds the lock of the review."""

    exit_code = 3


class ReviewUnwritable(SearchError):
    """The disk is full, or the folder is not writable."""

    exit_code = 3


class DecisionLog:
    """The log of a folder. `on_entry` gets each entry once, in order, also those of other processes. Not safe between threads."""

    def __init__(self, folder: Path, on_entry: Callable[[Entry], None]) -> None:
        self.folder = folder
        self.path = folder / NAME
        self._on_entry = on_entry
        self._chain, self._offset, self._lines = GENESIS, 0, 0
        self._head = b""
        """The first line."""
        self.torn = 0
        """Bytes behind the last whole line when the log was last read."""

    def read(self) -> None:
        """Read what was appended since the last time. Raises `NoSuchReview`, `ReviewDamaged`."""
        try:
            with self.path.open("rb") as stream:
                size = os.fstat(stream.fileno()).st_size
                if size < self._offset:
                    raise ReviewDamaged(f"{self.path} was cut: {self._offset:,} bytes of it were read before, and {size:,} are left")
                stream.seek(self._offset)
                raw = stream.read()
        except OSError as error:
            raise NoSuchReview(f"there is no review at {self.folder} ({error.strerror or error})") from error
        lines = raw[: raw.rfind(b"\n") + 1].splitlines(keepends=True)
        self._head = self._head or next(iter(lines), b"")
        start, chain = self._offset, self._chain
        pending: list[tuple[Entry, str, int]] = []
        for number, line in enumerate(lines, start=self._lines + 1):
            following = check_line(line, chain)
            if following is None:
                raise ReviewDamaged(
                    f"{self.path}, line {number:,}: is not the line that was written there, or a line before it is missing; "
                    "restore the file from a copy. Nothing was written"
                )
            chain = following
            pending.append((json.loads(line), chain, len(line)))
            if len(pending) >= pending[0][0].get(TOGETHER, 1):
                for one in pending:
                    self._take(*one)
                pending.clear()
        self.torn = len(raw) - (self._offset - start)
        if not self._lines:
            raise ReviewDamaged(f"{self.path} is cut off in its first line; restore it from a copy, or delete the folder {self.folder}")

    def is_replaced(self) -> bool:
        """Whether the log of another review stands in its place, or none: this one was deleted, and another begun under its name."""
        try:
            with self.path.open("rb") as stream:
                return stream.read(len(self._head)) != self._head
        except OSError:
            return True

    def _take(self, entry: Entry, chain: str, size: int) -> None:
        self._chain = chain
        self._offset += size
        self._lines += 1
        self._on_entry(entry)

    @contextmanager
    def writing(self) -> Iterator[Callable[[Sequence[Entry]], None]]:
        """The lock of the review, with all entries of others read; yields the function that appends entries.

        They are on the disk when it returns. Raises `ReviewBusy`, `ReviewUnwritable` and the errors of `read`.
        """
        from filelock import FileLock, Timeout

        if not self.path.is_file():
            raise NoSuchReview(f"there is no review at {self.folder}")
        try:
            with FileLock(self.folder / LOCK, timeout=WAIT_S):
                self.read()
                yield self._append
        except Timeout as error:
            raise ReviewBusy(f"another process writes to the review {self.folder.name}; try again") from error

    def _append(self, entries: Sequence[Entry]) -> None:
        chain, lines, written = self._chain, [], []
        if len(entries) > 1:
            entries = [{**entries[0], TOGETHER: len(entries)}, *entries[1:]]
        for entry in entries:
            line, chain = chain_line(entry, chain)
            lines.append(line)
            written.append((entry, chain, len(line)))
        try:
            with self.path.open("r+b") as stream:
                stream.truncate(self._offset)
                stream.seek(self._offset)
                stream.write(b"".join(lines))
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            raise ReviewUnwritable(f"{self.path} cannot be written: {error.strerror or error}; the decision was not saved") from error
        self.torn = 0
        for one in written:
            self._take(*one)


def create_log(folder: Path, entry: Entry) -> None:
    """Write the first line of a new log. Raises `ReviewUnwritable`."""
    line, _ = chain_line(entry, GENESIS)
    write_file(folder / NAME, line)


def write_file(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, on the disk when this returns. Raises `ReviewUnwritable`."""
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise ReviewUnwritable(f"{path} cannot be written: {error.strerror or error}") from error


def sync_folder(folder: Path) -> None:
    """Flush the names of a folder, where the system can."""
    if os.name != "nt":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

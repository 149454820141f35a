"""The ledger of a systematic run: chained JSON lines of requests, hits and pages.

Lines, in this order: `asked` (see `manifest.RunRequest`); then for each source its hits, one a line, with a `page` line after the hits of
a page and an `end` line after the last page; then `duplicate` lines; at the very end `done`. A page counts from its `page` line on: what a
killed process left behind it is cut off when the run is resumed. No line holds a time, so an interrupted run leaves the same bytes as an
uninterrupted one.

Each line is one JSON object whose last member is `chain`: sha256 (hex) over the chain of the line before, a line feed, and the bytes of the
object without that member. The first line follows `GENESIS`. The chain covers the bytes as written, so another spelling of the same JSON is
a change, too. No line can be changed, removed or moved unnoticed.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from outrider.state.errors import BadRequest, SearchError
from outrider.state.records import BaseRecord
from outrider.state.systematic import Matched

if TYPE_CHECKING:
    from filelock import FileLock

NAME = "ledger.jsonl"
GENESIS = "0" * 64
COMMITS = ("asked", "page", "end", "done")
"""Kinds of lines that complete the lines before them."""
LONGEST_LINE = 512 * 2**20
"""Bytes; the size of a record is limited where it is ingested."""
_CHAIN_MEMBER = re.compile(rb',"chain":"([0-9a-f]{64})"\}\n')
_CHAIN_BYTES = 77
"""Length of the member at the end of a line; searching whole lines for it would take most of the time of a check."""


class NoSuchRun(BadRequest):
    """There is no run at the given place, or what is there is not a run."""


class RunBusy(SearchError):
    """Another process writes to the run."""

    exit_code = 3


class Tampered(SearchError):
    """A file of a run was changed; the message names the place."""

    exit_code = 3


class LedgerUnwritable(SearchError):
    """The disk is full, or the folder is not writable."""


CLOSED = "{} cannot be written: its run was stopped; resume the run"


class Line(NamedTuple):
    """A checked line of a ledger."""

    number: int
    """From 1."""
    kind: str
    fields: dict[str, Any]
    chain: str
    end: int
    """Offset in bytes of the first byte after the line."""


def chain_line(fields: Mapping[str, Any], previous: str) -> tuple[bytes, str]:
    """The line, with its line feed, that follows the chain `previous`; and its own chain."""
    body = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
    chain = _next_chain(previous, body)
    return body[:-1] + b',"chain":"' + chain.encode() + b'"}\n', chain


def check_line(line: bytes, previous: str) -> str | None:
    """The chain of a whole line; None if the line is not the one that was written after `previous`."""
    member = _CHAIN_MEMBER.fullmatch(line, max(len(line) - _CHAIN_BYTES, 0))
    if member is None:
        return None
    chain = member.group(1).decode()
    return chain if _next_chain(previous, line[: member.start()] + b"}") == chain else None


def _next_chain(previous: str, body: bytes) -> str:
    """Hashed in parts: a line may have megabytes."""
    chain = hashlib.sha256(previous.encode())
    chain.update(b"\n")
    chain.update(body)
    return chain.hexdigest()


def next_hit(previous: str, doc_id: str, content: str) -> str:
    """The chain over hits in their order: sha256 over the chain before, the id and the content hash, one a line."""
    return hashlib.sha256(f"{previous}\n{doc_id}\n{content}".encode()).hexdigest()


def compute_digest(value: object) -> str:
    """Sha-256 (hex) of a value as canonical JSON: keys sorted, no blanks, UTF-8."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()).hexdigest()


def file_digest(path: Path) -> str:
    """Sha-256 (hex) of a file; raises `OSError`."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def make_hit_line(number: int, source: str, hit: Matched) -> dict[str, Any]:
    """The fields of a hit's line: the whole record, and the hash of its content."""
    record = hit.record.model_dump(mode="json", exclude_defaults=True)
    # the same hash as `BaseRecord.content_hash`, without dumping the record twice
    content = {name: value for name, value in record.items() if name not in BaseRecord.NOT_CONTENT}
    return {
        "hit": number,
        "source": source,
        "doc_id": hit.record.doc_id,
        "proof": hit.proof,
        "content": hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=False).encode()).hexdigest(),
        "record": {"kind": hit.record.kind, **record},
    }


def read_lines(path: Path) -> Iterator[Line]:
    """Every line, checked against the chain. `Tampered` at the first that was changed or is unfinished; `NoSuchRun` without a file."""
    chain, offset = GENESIS, 0
    with _open_ledger(path) as stream:
        for number, raw in enumerate(iter(lambda: stream.readline(LONGEST_LINE), b""), 1):
            offset += len(raw)
            after = check_line(raw, chain)
            if after is None:
                problem = "is not the line that was written there" if raw.endswith(b"\n") else "is cut off"
                hit = ""
                with suppress(ValueError, KeyError, TypeError, RecursionError):  # it may be too damaged to name its hit
                    fields = json.loads(raw)
                    hit = f" (hit {fields['hit']:,}, {fields['doc_id']!r})"
                raise Tampered(f"{path.name}, line {number:,}: {problem}, or a line before it is missing{hit}")
            chain = after
            fields = json.loads(raw)
            yield Line(number, next(iter(fields)), fields, chain, offset)


def _open_ledger(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise NoSuchRun(f"there is no ledger at {path} ({error.strerror or error})") from error


@dataclass(slots=True)
class LedgerState:
    """The content of a ledger up to its last whole page."""

    request: dict[str, Any] = field(default_factory=dict)
    hits: int = 0
    chain: str = GENESIS
    size: int = 0
    """Bytes up to the last whole page."""
    lines: int = 0
    pages: int = 0
    source: str = ""
    """The source that is being read: that of the last page."""
    cursor: str = ""
    """The cursor of that source's last page."""
    source_hits: int = 0
    """Hits of that source."""
    fetch_state: dict[str, Any] | None = None
    finished: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Sources that were read to their end, with the fields of their `end` lines."""
    done: bool = False

    def apply(self, line: Line) -> None:
        """Advance to a line of one of the kinds in `COMMITS`."""
        fields = line.fields
        self.chain, self.size, self.lines = line.chain, line.end, line.number
        if line.kind == "asked":
            self.request = fields["asked"]
        elif line.kind == "page":
            self.source, self.cursor, self.fetch_state = fields["source"], fields["cursor"], fields.get("harvest")
            self.hits, self.pages, self.source_hits = fields["total"], fields["page"], fields["of_source"]
        elif line.kind == "end":
            self.finished[fields["end"]] = fields
            self.source, self.cursor, self.source_hits, self.fetch_state = "", "", 0, None
        elif line.kind == "done":
            self.done = True


def read_state(path: Path) -> LedgerState:
    """The state at the last whole page; unfinished lines after it are ignored. `NoSuchRun` if no line is whole."""
    state = LedgerState()
    try:
        for line in read_lines(path):
            if line.kind in COMMITS:
                if line.kind == "end" and line.fields.get("broke_off"):
                    break  # a source that failed is read again from its last page on
                state.apply(line)
    except Tampered:
        # a killed process tears only the line that it was writing: no whole page follows
        with _open_ledger(path) as stream:
            stream.seek(state.size)
            whole = (raw for raw in stream if raw.endswith(b"\n"))
            if any(raw.startswith(b'{"%s":' % kind.encode()) for raw in whole for kind in COMMITS):
                raise
    if not state.request:
        raise NoSuchRun(f"{path} holds no run that began")
    return state


class Ledger:
    """Appends to a ledger; a lock admits one process at a time. Blocking: call it in a thread.

    A cancelled run closes its ledger while a thread may still work on it. That thread then closes it at the end of its work. A call that
    begins later is refused, because nobody would close what it opens.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self._folder = folder
        self._lock: FileLock | None = None
        self._stream: BinaryIO | None = None
        self._turn = threading.Lock()
        self._closed = False
        self.state = LedgerState()

    def begin(self, request: Mapping[str, Any]) -> None:
        """Create the ledger and write its first line. `BadRequest` if the folder holds a run."""
        with self._take_turn():
            self._acquire_lock()
            if self.path.exists():
                raise BadRequest(f"{self._folder} holds a run already; resume it, or choose another folder")
            self._open("xb")
            self._write_in_turn([{"asked": request}])

    def resume(self) -> LedgerState:
        """Open the ledger that is there, and cut it back to its last whole page."""
        with self._take_turn():
            self._acquire_lock()
            self.state = read_state(self.path)
            self._open("r+b")
            if self._stream:
                self._stream.truncate(self.state.size)
                self._stream.seek(self.state.size)
        return self.state

    def append_page(self, source: str, hits: Sequence[Matched], cursor: str, fetch_state: Mapping[str, Any] | None) -> list[dict[str, Any]]:
        """Write a page; its hit lines, which are on disk when this returns."""
        state = self.state
        lines = [make_hit_line(number, source, hit) for number, hit in enumerate(hits, state.hits + 1)]
        source_hits = len(lines) + (state.source_hits if state.source == source else 0)
        closing: dict[str, Any] = {"page": state.pages + 1, "source": source, "cursor": cursor}
        closing |= {"hits": len(lines), "of_source": source_hits, "total": state.hits + len(lines)}
        self._write([*lines, closing | ({} if fetch_state is None else {"harvest": fetch_state})])
        return lines

    def append_end(self, source: str, fields: Mapping[str, Any]) -> None:
        """Write that a source was read to its end, or failed."""
        self._write([{"end": source, **fields}])

    def append_done(self, duplicates: Sequence[Mapping[str, Any]], total: int, method: str) -> None:
        """Write the duplicates and the last line."""
        lines = [{"duplicate": duplicate["hit"], **duplicate} for duplicate in duplicates]
        self._write([*lines, {"done": total, "duplicates": len(duplicates), "by": method}])

    def _write(self, lines: Sequence[Mapping[str, Any]]) -> None:
        """Append lines, of which the last one is of a kind in `COMMITS`, and sync them."""
        with self._take_turn():
            self._write_in_turn(lines)

    def _write_in_turn(self, lines: Sequence[Mapping[str, Any]]) -> None:
        chain, size, parts = self.state.chain, self.state.size, []
        for fields in lines:
            raw, chain = chain_line(fields, chain)
            size += len(raw)
            parts.append(raw)
        if self._stream is None:
            raise LedgerUnwritable(CLOSED.format(self.path))
        try:
            self._stream.writelines(parts)
            self._stream.flush()
            os.fsync(self._stream.fileno())
        except OSError as error:
            raise LedgerUnwritable(f"{self.path} cannot be written: {error.strerror or error}; fix that and resume the run") from error
        last = dict(lines[-1])
        self.state.apply(Line(self.state.lines + len(lines), next(iter(last)), last, chain, size))

    def _open(self, mode: str) -> None:
        try:
            self._stream = self.path.open(mode)  # type: ignore[assignment]
        except OSError as error:
            raise LedgerUnwritable(f"{self.path} cannot be written: {error.strerror or error}") from error

    def _acquire_lock(self) -> None:
        from filelock import FileLock, Timeout

        if self._closed:
            raise LedgerUnwritable(CLOSED.format(self.path))
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._lock = FileLock(self._folder / "lock", timeout=0, thread_local=False)
            self._lock.acquire()
        except Timeout as error:
            raise RunBusy(f"another process writes to the run in {self._folder}; wait for it to end") from error
        except OSError as error:
            raise LedgerUnwritable(f"{self._folder} cannot be written: {error.strerror or error}") from error

    @contextmanager
    def _take_turn(self) -> Iterator[None]:
        with self._turn:
            try:
                yield
            finally:
                if self._closed:
                    self._close_in_turn()

    def close(self, *, waits: bool = True) -> bool:
        """Close the file and release the lock, for good; False if a thread still works on it, and closes it at the end."""
        self._closed = True
        if not self._turn.acquire(blocking=waits):
            return False
        try:
            self._close_in_turn()
        finally:
            self._turn.release()
        return True

    async def aclose(self) -> None:
        """Do the same without holding the event loop; a caller that is cancelled leaves the rest to the thread."""
        if not self.close(waits=False):
            await asyncio.to_thread(self.close)

    def _close_in_turn(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None

"""Lines that each carry a hash over themselves and all before them: none can be changed, left out or moved without being seen.

A line is one JSON object whose last member is `chain`: sha256 (hex) over the chain of the line before, a line feed, and the bytes of
the object without that member. The first line follows on `GENESIS`. What was changed is found by the bytes themselves, so that two
ways to write the same JSON are told apart.

The ledger of a run: JSON lines, chained, written page by page and synced to the disk before anyone sees the page.

Lines, in this order: `asked` (see `Asked`), then for each source its hits, each on a line, a `page` line behind those of a page, and an
`end` line behind its last; then `duplicate` lines; at the very end `done`. A page counts from its `page` line on: what a process
that died left behind is taken off when the run goes on. No line holds a time, so that a run that was interrupted leaves the same bytes
as one that was not.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from outrider.state.errors import BadRequest, SearchError
from outrider.state.records import BaseRecord
from outrider.state.systematic import Matched
from outrider.systematic_search.errors import NoSuchRun, RunBusy, Tampered

if TYPE_CHECKING:
    from filelock import FileLock


GENESIS = "0" * 64
_TAIL = re.compile(rb',"chain":"([0-9a-f]{64})"\}\n\Z')


def canonical(said: object) -> bytes:
    """One way to write a value as JSON: keys sorted, no blanks, UTF-8."""
    return json.dumps(said, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


def linked(said: Mapping[str, Any], before: str) -> tuple[bytes, str]:
    """The line of an object behind `before`, with its line feed, and its own chain."""
    body = json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()
    chain = _hashed(before, body)
    return body[:-1] + b',"chain":"' + chain.encode() + b'"}\n', chain


def follows(line: bytes, before: str) -> str | None:
    """The chain of a whole line, where it is right; None where the line is not what was written behind `before`."""
    found = _TAIL.search(line)
    if found is None:
        return None
    chain = found.group(1).decode()
    return chain if _hashed(before, line[: found.start()] + b"}") == chain else None


def _hashed(before: str, body: bytes) -> str:
    made = hashlib.sha256(before.encode())
    made.update(b"\n")
    made.update(body)
    return made.hexdigest()


def next_hit(before: str, doc_id: str, content: str) -> str:
    """The ordered chain over hits: sha256 over the chain before, the id and the hash of what the record says, a line each."""
    return hashlib.sha256(f"{before}\n{doc_id}\n{content}".encode()).hexdigest()


NAME = "ledger.jsonl"
COMMITS = ("asked", "page", "end", "done")
"""Lines up to which a ledger is whole."""
LONGEST_LINE = 512 * 2**20
"""Bytes; a record is bounded where it is ingested."""


class LedgerUnwritable(SearchError):
    """The disk is full, or the folder may not be written."""


class Line(NamedTuple):
    number: int
    """From 1."""
    kind: str
    said: dict[str, Any]
    chain: str
    end: int
    """The offset behind it, in bytes."""


def hit_line(number: int, source: str, hit: Matched) -> dict[str, Any]:
    """What is kept of a hit: the whole record, and the hash of all that it says."""
    said = hit.record.model_dump(mode="json", exclude_defaults=True)
    content = hashlib.sha256(_content(said)).hexdigest()
    return {
        "hit": number,
        "source": source,
        "doc_id": hit.record.doc_id,
        "proof": hit.proof,
        "content": content,
        "record": {"kind": hit.record.kind, **said},
    }


def _content(said: Mapping[str, Any]) -> bytes:
    """As `BaseRecord.content_hash`, without saying it all twice."""
    told = {name: value for name, value in said.items() if name not in BaseRecord.NOT_CONTENT}
    return json.dumps(told, sort_keys=True, ensure_ascii=False).encode()


def lines(path: Path) -> Iterator[Line]:
    """Every line, checked against the chain; `Tampered` at the first that is not what was written. The last may be unfinished."""
    chain, offset = GENESIS, 0
    with _opened(path) as stream:
        for number, raw in enumerate(iter(lambda: stream.readline(LONGEST_LINE), b""), 1):
            offset += len(raw)
            after = follows(raw, chain)
            if after is None:
                raise Tampered(_odd(path, number, raw))
            chain = after
            said = json.loads(raw)
            yield Line(number, next(iter(said)), said, chain, offset)


def _odd(path: Path, number: int, raw: bytes) -> str:
    what = "is not the line that was written there" if raw.endswith(b"\n") else "is cut off"
    return f"{path.name}, line {number:,}: {what}, or a line before it is missing{_said_in(raw)}"


def _said_in(raw: bytes) -> str:
    """Which hit it is, as far as it still says so."""
    try:
        said = json.loads(raw)
        return f" (hit {said['hit']:,}, {said['doc_id']!r})"
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise NoSuchRun(f"there is no ledger at {path} ({error.strerror or error})") from error


@dataclass(slots=True)
class Standing:
    """What a ledger holds up to its last whole page."""

    asked: dict[str, Any] = field(default_factory=dict)
    hits: int = 0
    chain: str = GENESIS
    size: int = 0
    """Bytes up to there."""
    lines: int = 0
    pages: int = 0
    at_source: str = ""
    """The source of the last page."""
    cursor: str = ""
    """Of that source's last page."""
    of_source: int = 0
    """Its hits up to there."""
    harvest: dict[str, Any] | None = None
    ended: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Sources that were read to their end, with what their line says."""
    done: bool = False

    def take(self, line: Line) -> None:
        """A line that commits what stands before it."""
        said = line.said
        self.chain, self.size, self.lines = line.chain, line.end, line.number
        if line.kind == "asked":
            self.asked = said["asked"]
        elif line.kind == "page":
            self.at_source, self.cursor, self.harvest = said["source"], said["cursor"], said.get("harvest")
            self.hits, self.pages, self.of_source = said["total"], said["page"], said["of_source"]
        elif line.kind == "end":
            self.ended[said["end"]] = said
            self.at_source, self.cursor, self.of_source, self.harvest = "", "", 0, None
        elif line.kind == "done":
            self.done = True


def standing(path: Path) -> Standing:
    """Read to the last line that holds; what is unfinished behind the last whole page is no error. `NoSuchRun` where nothing is whole."""
    found = Standing()
    try:
        for line in lines(path):
            if line.kind in COMMITS:
                if line.kind == "end" and line.said.get("broke_off"):
                    break  # a source that failed is asked again from its last page on
                found.take(line)
    except Tampered:
        if not _only_the_end_is_torn(path, found.size):
            raise
    if not found.asked:
        raise NoSuchRun(f"{path} holds no run that began")
    return found


def _only_the_end_is_torn(path: Path, size: int) -> bool:
    """Whether no whole page follows: a process that died leaves no line behind the one that it was writing."""
    with _opened(path) as stream:
        stream.seek(size)
        whole = (raw for raw in stream if raw.endswith(b"\n"))
        return not any(raw.startswith(b'{"%s":' % kind.encode()) for raw in whole for kind in COMMITS)


class Ledger:
    """Appends to a ledger; only one process at a time. Blocking: call it in a thread."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self._folder = folder
        self._lock: FileLock | None = None
        self._stream: BinaryIO | None = None
        self.at = Standing()

    def begin(self, asked: Mapping[str, Any]) -> None:
        """A new one, with its first line."""
        self._locked()
        if self.path.exists():
            raise BadRequest(f"{self._folder} holds a run already; go on with it, or choose another folder")
        self._open("xb")
        self._write([{"asked": asked}])

    def go_on(self) -> Standing:
        """The one that is there, cut back to its last whole page."""
        self._locked()
        self.at = standing(self.path)
        self._open("r+b")
        if self._stream:
            self._stream.truncate(self.at.size)
            self._stream.seek(self.at.size)
        return self.at

    def page(self, source: str, hits: Sequence[Matched], cursor: str, harvest: Mapping[str, Any] | None) -> list[dict[str, Any]]:
        """The lines of a page's hits; they are on the disk when it returns."""
        first = self.at.hits + 1
        made = [hit_line(number, source, hit) for number, hit in enumerate(hits, first)]
        of_source = len(made) + (self.at.of_source if self.at.at_source == source else 0)
        closing: dict[str, Any] = {"page": self.at.pages + 1, "source": source, "cursor": cursor}
        closing |= {"hits": len(made), "of_source": of_source, "total": self.at.hits + len(made)}
        self._write([*made, closing | ({} if harvest is None else {"harvest": harvest})])
        return made

    def end(self, source: str, said: Mapping[str, Any]) -> None:
        self._write([{"end": source, **said}])

    def done(self, duplicates: Sequence[Mapping[str, Any]], total: int, by: str) -> None:
        """Closes it for good."""
        self._write([*({"duplicate": one["hit"], **one} for one in duplicates), {"done": total, "duplicates": len(duplicates), "by": by}])

    def _write(self, said: Sequence[Mapping[str, Any]]) -> None:
        chain, number, size, parts = self.at.chain, self.at.lines, self.at.size, []
        taken: Line | None = None
        for one in said:
            raw, chain = linked(one, chain)
            number, size = number + 1, size + len(raw)
            parts.append(raw)
            taken = Line(number, next(iter(one)), dict(one), chain, size)
        try:
            self._stream.writelines(parts)  # type: ignore[union-attr]
            self._stream.flush()  # type: ignore[union-attr]
            os.fsync(self._stream.fileno())  # type: ignore[union-attr]
        except OSError as error:
            raise LedgerUnwritable(f"{self.path} cannot be written: {error.strerror or error}; mend it and go on with the run") from error
        if taken is not None:
            self.at.take(taken)

    def _open(self, mode: str) -> None:
        try:
            self._stream = self.path.open(mode)  # type: ignore[assignment]
        except OSError as error:
            raise LedgerUnwritable(f"{self.path} cannot be written: {error.strerror or error}") from error

    def _locked(self) -> None:
        from filelock import FileLock, Timeout

        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._lock = FileLock(self._folder / "lock", timeout=0, thread_local=False)
            self._lock.acquire()
        except Timeout as error:
            raise RunBusy(f"another process writes to the run in {self._folder}; wait for it to end") from error
        except OSError as error:
            raise LedgerUnwritable(f"{self._folder} cannot be written: {error.strerror or error}") from error

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def digest(said: object) -> str:
    """Sha-256 (hex) of a value in its one way to be written."""
    return hashlib.sha256(canonical(said)).hexdigest()


def file_digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()

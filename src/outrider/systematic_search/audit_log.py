"""The audit log: what was run, gone on with, finished, replayed and checked, when; appended to, never rewritten.

`AuditLog` is the port: another service is anything with `append`. The file is JSON lines, chained as `chain` says; it shows that no entry
was changed or taken out of its middle. That entries were cut off its end shows only where its last chain is known from elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from outrider.systematic_search.errors import RunBusy, Tampered
from outrider.systematic_search.ledger import GENESIS, LedgerUnwritable, follows, linked

NAME = "audit.jsonl"
WAIT_S = 30.0
"""For another process that writes an entry."""


class AuditLog(Protocol):
    """Raises `SearchError` where an entry could not be kept: a run that nobody logs is not begun."""

    def append(self, entry: Mapping[str, Any]) -> None:
        """Blocking. `entry` is JSON, with `event` and `at`."""
        ...


@dataclass(frozen=True, slots=True)
class FileAudit:
    """A file of its own, shared by all runs of a folder."""

    path: Path

    def append(self, entry: Mapping[str, Any]) -> None:
        from filelock import FileLock, Timeout

        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(self.path.with_suffix(".lock"), timeout=WAIT_S), self.path.open("a+b") as stream:
                stream.seek(0)
                whole = _whole(stream.read())
                stream.truncate(len(whole))
                raw, _ = linked(entry, _last_chain(whole, self.path))
                stream.write(raw)
                stream.flush()
                os.fsync(stream.fileno())
        except Timeout as error:
            raise RunBusy(f"the audit log {self.path} is held by another process; try again") from error
        except OSError as error:
            raise LedgerUnwritable(f"the audit log {self.path} cannot be written: {error.strerror or error}") from error


def _whole(raw: bytes) -> bytes:
    """Without what a process that died in the middle of a line left: it never was an entry."""
    return raw[: raw.rfind(b"\n") + 1]


def _last_chain(raw: bytes, path: Path) -> str:
    """`Tampered` for a log that does not hold: nothing is appended to it."""
    chain = GENESIS
    for number, line in enumerate(raw.splitlines(keepends=True), 1):
        after = follows(line, chain)
        if after is None:
            raise Tampered(
                f"{path}, line {number:,}: is not the entry that was written there; keep the file as it is, and name another with "
                "systematic.audit_log"
            )
        chain = after
    return chain


def entries(path: Path) -> list[dict[str, Any]]:
    """Every entry, checked; `Tampered` names the first line that does not hold."""
    import json

    raw = path.read_bytes()
    _last_chain(raw, path)
    return [json.loads(line) for line in raw.splitlines()]

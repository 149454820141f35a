"""The audit log: an append-only file of the events of runs.

`AuditLog` is the port: any object with `append` will do. The file holds JSON lines, chained as in the ledger, so a changed entry and an
entry removed from the middle are found. Entries cut off the end are found only by comparing with a chain that was noted elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from outrider.systematic_search.ledger import GENESIS, LedgerUnwritable, RunBusy, Tampered, chain_line, check_line

NAME = "audit.jsonl"
WAIT_S = 30.0
"""How long to wait for another process that writes an entry."""


class AuditLog(Protocol):
    """Raises `SearchError` if an entry cannot be written: no run begins without its entry."""

    def append(self, entry: Mapping[str, Any]) -> None:
        """Blocking. `entry` is JSON, with `event` and `at`."""
        ...


@dataclass(frozen=True, slots=True)
class FileAudit:
    """A file that all runs of a folder share."""

    path: Path

    def append(self, entry: Mapping[str, Any]) -> None:
        """`Tampered` if the file was changed: then nothing is appended. `RunBusy`, `LedgerUnwritable`."""
        from filelock import FileLock, Timeout

        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(self.path.with_suffix(".lock"), timeout=WAIT_S), self.path.open("a+b") as stream:
                stream.seek(0)
                raw = stream.read()
                whole = raw[: raw.rfind(b"\n") + 1]  # a process that was killed may leave part of a line, which never was an entry
                stream.truncate(len(whole))
                line, _ = chain_line(entry, self._check(whole))
                stream.write(line)
                stream.flush()
                os.fsync(stream.fileno())
        except Timeout as error:
            raise RunBusy(f"another process holds the audit log {self.path}; try again") from error
        except OSError as error:
            raise LedgerUnwritable(f"the audit log {self.path} cannot be written: {error.strerror or error}") from error

    def _check(self, raw: bytes) -> str:
        """The chain of the last entry, after checking every entry."""
        chain = GENESIS
        for number, line in enumerate(raw.splitlines(keepends=True), 1):
            after = check_line(line, chain)
            if after is None:
                raise Tampered(
                    f"{self.path}, line {number:,}: is not the entry that was written there; keep the file as it is, and set "
                    "systematic.audit_log to another file"
                )
            chain = after
        return chain


def format_time(seconds: float) -> str:
    """Seconds since the epoch as a UTC time in ISO 8601, as audit logs and manifests write it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")

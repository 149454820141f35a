"""LanceDB's errors: translation into ours, retries of conflicts, and a delay at exit.

LanceDB raises `RuntimeError`, `OSError` and `ValueError` with a text; what went wrong is known from that text alone.

LanceDB 0.40 never ends its threads. If one returns an answer while the interpreter shuts down, the whole process aborts (`FATAL: exception
not rethrown`, SIGABRT). A cancelled call, by Ctrl-C for example, returns within a moment, so the end of the process waits for that.
https://github.com/lancedb/lancedb/pull/4175 fixes it after 0.40; `ShutdownDelay` can go then.
"""

from __future__ import annotations

import asyncio
import atexit
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import TypeVar

from outrider.library.lease import require_held
from outrider.library.store_errors import explain_store, hide_secrets
from outrider.state.errors import LibraryCorrupt, LibraryError, LibraryMissing, LibraryReadOnly, SearchError, explain_limit

T = TypeVar("T")

READ_ONLY = re.compile(r"permission denied|read-only file system|access ?denied|forbidden|os error (?:13|30)\b", re.IGNORECASE)
CONFLICT = re.compile(r"commit conflict|concurrent|incompatible transaction|retryable", re.IGNORECASE)
OWN_MISTAKE = re.compile(r"no field named|error parsing|error resolving|invalid user input|error during planning", re.IGNORECASE)
"""LanceDB blames the query: a bug of ours, which must crash."""
GONE = re.compile(r"not found: \S*\brecords\.lance/_versions\b|table 'records' was not found", re.IGNORECASE)
"""The whole table is missing: nothing of it is damaged."""
PANIC = "RustPanic"
"""Class that LanceDB raises where damaged bytes make it read out of bounds; it cannot be imported from anywhere."""
SOURCE_LINE = re.compile(r",? \S+/\S+\.rs:\d+:\d+\S*$")

ATTEMPTS = 8
"""Tries of one write that another process's commit keeps overtaking: in LanceDB's service, or where a lease was lost."""
DELAY_S = 1.0
"""Without it 4 of 78 interrupted ingestions were aborted on a busy machine, with .3 s 1 of 132, with this none of 84."""


def read_only_error(address: str) -> LibraryReadOnly:
    """The error for a library whose files this user may not change."""
    return LibraryReadOnly(f"the library at {address} cannot be written by this user; searching it works")


def is_lance_error(error: Exception) -> bool:
    return isinstance(error, RuntimeError | OSError | ValueError) or type(error).__name__ == PANIC


def translate_error(
    error: Exception, address: str, *, is_local: bool, writing: bool, options: Mapping[str, str] = MappingProxyType({})
) -> LibraryError | None:
    """The error as ours, without the credentials among the storage options; None for a mistake of ours, which must crash."""
    message = hide_secrets(str(error), options)
    if not is_lance_error(error) or isinstance(error, SearchError) or OWN_MISTAKE.search(message):
        return None
    reason = SOURCE_LINE.sub("", message.splitlines()[0])[:300] if message else "no reason given"
    if not is_local and (remedy := explain_store(message)):
        return LibraryError(f"the library at {address} could not be {'written' if writing else 'reached'}: {remedy}")
    if READ_ONLY.search(message):
        return read_only_error(address) if writing else LibraryError(f"the library at {address} may not be read by this user ({reason})")
    if remedy := explain_limit(error):
        state = "its records are safe, run the command again then" if writing else "it is not damaged"
        return LibraryError(f"the library at {address} could not be {'written' if writing else 'read'}: {remedy} ({state}; {reason})")
    if CONFLICT.search(message):
        return LibraryError(f"the library at {address} is being written by other processes; try again ({reason})")
    if is_local and GONE.search(message):
        return LibraryMissing(
            f"the library at {address} is missing: its folder was deleted, moved or unmounted since it was opened; "
            "restore it there, or ingest the files again"
        )
    if not is_local:
        return LibraryError(f"the library at {address} could not be reached or read; check the address and the credentials ({reason})")
    return LibraryCorrupt(
        f"the library at {address} is damaged: {reason}. 'outrider library check' shows the extent; "
        "restore the folder from a copy, or ingest the files again into a new one"
    )


async def retry_conflicts(write: Callable[[], Awaitable[T]]) -> T:
    """The result of a write, which is repeated when another process's commit came first. None begins without the lock of object storage."""
    for attempt in range(ATTEMPTS):
        require_held()
        try:
            return await write()
        except (RuntimeError, OSError, ValueError) as error:
            if attempt == ATTEMPTS - 1 or not CONFLICT.search(str(error)):
                raise
            await asyncio.sleep(0.05 * 2**attempt)
    raise AssertionError("unreachable")


class ShutdownDelay:
    """Keeps the process alive for `DELAY_S` after its last cancelled call of LanceDB."""

    def __init__(self) -> None:
        self._until: float | None = None

    def restart(self) -> None:
        """Count the delay from now on: a call was just cancelled."""
        if self._until is None:
            atexit.register(self.wait)
        self._until = time.monotonic() + DELAY_S

    def remaining_s(self) -> float:
        return 0.0 if self._until is None else max(0.0, self._until - time.monotonic())

    def wait(self) -> None:
        with suppress(KeyboardInterrupt):  # a second Ctrl-C ends the wait
            time.sleep(self.remaining_s())


SHUTDOWN_DELAY = ShutdownDelay()
"""Of this process."""

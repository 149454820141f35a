"""The end of a process in which a call of LanceDB was broken off, by Ctrl-C for example.

LanceDB 0.40 never ends its threads. One that still comes back with an answer while the interpreter is taken down aborts the whole process
(`FATAL: exception not rethrown`, SIGABRT; mended after 0.40 by https://github.com/lancedb/lancedb/pull/4175, with which this can go). It
comes back within a moment, so the end waits for that.
"""

from __future__ import annotations

import atexit
import time
from contextlib import suppress

MOMENT_S = 1.0
"""Without it 4 of 78 interrupted ingestions were aborted on a busy machine, with .3 s 1 of 132, with this none of 84."""


class Leaving:
    def __init__(self) -> None:
        self._until: float | None = None

    def broken_off(self) -> None:
        """Just now."""
        if self._until is None:
            atexit.register(self.wait)
        self._until = time.monotonic() + MOMENT_S

    def left_s(self) -> float:
        return 0.0 if self._until is None else max(0.0, self._until - time.monotonic())

    def wait(self) -> None:
        with suppress(KeyboardInterrupt):  # once more: then at once
            time.sleep(self.left_s())


LEAVING = Leaving()
"""Of this process."""

"""Delay at the end of a process whose last LanceDB call was cancelled.

LanceDB 0.40 never ends its threads. If one returns an answer while the interpreter shuts down, the whole process aborts (`FATAL: exception
not rethrown`, SIGABRT). A cancelled call, by Ctrl-C for example, returns within a moment, so the end of the process waits for that.
https://github.com/lancedb/lancedb/pull/4175 fixes it after 0.40; this module can go then.
"""

from __future__ import annotations

import atexit
import time
from contextlib import suppress

DELAY_S = 1.0
"""Without it 4 of 78 interrupted ingestions were aborted on a busy machine, with .3 s 1 of 132, with this none of 84."""


class ShutdownDelay:
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

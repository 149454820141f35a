"""A task that reads files, but dies in one named `poison`, and never ends in one named `endless`."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

from outrider.cluster import files


def read_on_worker(reading: files.Reading, parts_before: int) -> Iterator[files.Part]:
    for place, part in enumerate(files.read_parts(reading)):
        if isinstance(part, list) and reading.path.stem == "endless":
            time.sleep(3_600)
        if isinstance(part, list) and reading.path.stem == "poison" and len(part) < 10:
            os.kill(os.getpid(), signal.SIGSEGV)
        if place >= parts_before:
            yield part

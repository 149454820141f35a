"""Tasks for worker processes in tests."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from outrider.runtime.workers import Work, Workers


def doubled(payload: bytes) -> bytes:
    return payload * 2


def pid(_: bytes) -> bytes:
    return str(os.getpid()).encode()


def failing(payload: bytes) -> bytes:
    raise ValueError(payload.decode())


def sleeping(seconds: bytes) -> bytes:
    time.sleep(float(seconds))
    return b""


def touch_and_sleep(name: bytes) -> bytes:
    """Report the start by a file, then sleep."""
    Path(name.decode()).touch()
    return sleeping(b"600")


def ending(path: bytes) -> bytes:
    """Ends the process as soon as that file is there."""
    while not Path(path.decode()).exists():
        time.sleep(0.01)
    os._exit(1)


class Counted(Workers):
    def __init__(self) -> None:
        super().__init__()
        self.runs = 0

    async def run(self, work: Work, payload: bytes) -> bytes:
        self.runs += 1
        return await super().run(work, payload)


async def ready(workers: Workers) -> None:
    async with asyncio.timeout(60):
        while not workers.available():  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)

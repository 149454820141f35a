"""The process that runs a server's background jobs.

It is `outrider jobs run`, with low priority, while there are jobs. In a process of their own, jobs take no time of the server,
and nothing that they do can end the server. The server tells it whether searches run, over its standard input; when that closes, the
process ends and its jobs continue later.
"""

from __future__ import annotations

import asyncio
import io
import logging
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from outrider.services.citation_queue import find_job_table
from outrider.services.saved_queue import find_saved_store, queue_due_searches
from outrider.settings.environment import variable_name
from outrider.settings.redact import Redactor
from outrider.state.errors import SearchError

if TYPE_CHECKING:
    from outrider.jobs.job_table import JobTable
    from outrider.settings.model import Settings

LOOK_S = 2.0
"""How often the server looks for new jobs."""
LOOK_DUE_S = 20.0
"""How often it looks for saved searches that are due."""
SIGNAL_S = 0.005
"""How often it looks whether searches run, while a process runs jobs."""
RETRY_S = 60.0
"""Wait after a process that failed."""
END_S = 5.0
"""Limit on the wait for its end."""
MAX_LINES, MAX_LINE_CHARS, MAX_READ_BYTES = 200, 2_000, 65_536
"""Limits on what is kept of its standard error: the last lines, and the beginning of a long one."""
SEARCHING, IDLE = b"s", b"i"

log = logging.getLogger(__name__)


def _has_unworked_jobs(table: JobTable) -> bool:
    return bool(table.count_open()) and not table.is_worked()


def make_command(library: str) -> list[str]:
    return [sys.executable, "-m", "outrider", "jobs", "run", "--from-server", "--library", library]


@asynccontextmanager
async def run_jobs_beside(settings: Settings, is_searching: Callable[[], bool], *, enabled: bool = True) -> AsyncIterator[None]:
    """Run background jobs in another process while the block runs, unless the server may not change its library."""
    if not enabled or settings.serve.read_only:
        yield
        return
    working = asyncio.create_task(JobProcess(settings, is_searching).supervise())
    try:
        yield
    finally:
        working.cancel()
        await asyncio.wait({working})


@dataclass(slots=True)
class JobProcess:
    settings: Settings
    is_searching: Callable[[], bool]
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _messages: deque[str] = field(default_factory=lambda: deque(maxlen=MAX_LINES), init=False)
    """What the process wrote on standard error, without secrets."""
    _next_look: float = field(default=0.0, init=False)
    """`time.monotonic` from which on it looks again for saved searches that are due."""
    _reader: threading.Thread | None = field(default=None, init=False)

    async def supervise(self) -> None:
        """Start a process whenever there are jobs, until cancelled; then end it."""
        try:
            table = await asyncio.to_thread(find_job_table, self.settings)
            while True:
                await self._queue_due_searches()
                if await self._run_open_jobs(table):
                    await asyncio.sleep(RETRY_S)
                await asyncio.sleep(LOOK_S)
        except SearchError as error:  # the settings allow no contact: that stays so
            log.warning("no background jobs are run: %s", error)
        finally:
            await asyncio.shield(asyncio.to_thread(self._end))

    async def _queue_due_searches(self) -> None:
        if time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + LOOK_DUE_S
        try:
            if count := await asyncio.to_thread(queue_due_searches, self.settings, time.time()):
                log.info("saved searches: %d queued", count)
        except (SearchError, OSError) as error:  # one file that cannot be read stops no other job
            log.warning("saved searches: %s; the next try is in %.0f s", error, LOOK_DUE_S)

    async def _run_open_jobs(self, table: JobTable) -> bool:
        """Run a process if there are jobs that no other process works, such as another server's; whether that failed."""
        try:
            return await asyncio.to_thread(_has_unworked_jobs, table) and await self._run(table)
        except (SearchError, OSError) as error:  # a database that starts later, a limit of processes: it may pass
            log.warning("background jobs: %s; the next try is in %.0f s", error, RETRY_S + LOOK_S)
            return True

    async def _run(self, table: JobTable) -> bool:
        """Run a process to its end; whether it failed."""
        self._process = process = await asyncio.to_thread(self._start, table)
        last = b""
        while process.poll() is None:
            signal_byte = SEARCHING if self.is_searching() else IDLE
            if signal_byte != last and process.stdin is not None:
                with suppress(OSError):  # it has just ended
                    process.stdin.write(signal_byte)  # a byte of a pipe: it does not wait
                last = signal_byte
            await self._queue_due_searches()
            await asyncio.sleep(SIGNAL_S)
        await asyncio.to_thread(self._log_messages)
        if process.returncode:
            log.warning(
                "background jobs: the process ended with %d; the next one starts in %.0f s at most", process.returncode, RETRY_S + LOOK_S
            )
        return process.returncode != 0

    def _start(self, table: JobTable) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(  # noqa: S603 - our own command; without a shell
            make_command(self.settings.library.uri),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,  # the server's log is JSON, and its own
            bufsize=0,
            env=os.environ | {variable_name("jobs.uri"): table.uri, variable_name("saved.uri"): str(find_saved_store(self.settings).path)},
            start_new_session=True,  # Ctrl-C at the server does not reach it: the server ends it
        )
        self._messages.clear()
        self._reader = threading.Thread(target=self._read_messages, args=(process.stderr,), name="job-messages", daemon=True)
        self._reader.start()
        return process

    def _read_messages(self, stderr: io.RawIOBase) -> None:
        """Keep the last lines that the process writes: the traceback of a job that failed by an error of the program."""
        redactor, is_new_line = Redactor.from_settings(self.settings), True
        with io.BufferedReader(stderr) as reader:
            while read := reader.readline(MAX_READ_BYTES):
                if is_new_line:  # the rest of a longer line might begin with half a secret
                    self._messages.append(redactor.redact(read.decode(errors="replace"))[:MAX_LINE_CHARS].rstrip())
                is_new_line = read.endswith(b"\n")

    def _log_messages(self, wait_s: float = END_S) -> None:
        """Log what the process wrote; `wait_s` limits the wait for the end of its output, which a child of it may hold open."""
        if self._reader is not None:
            self._reader.join(wait_s)
        with suppress(IndexError):  # none is left
            while True:
                log.error("background jobs: %s", self._messages.popleft())

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        self._log_messages(0.0 if process.poll() is None else END_S)  # what it says of the interruption below is no news
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:  # its jobs continue later, as after any kill
            process.kill()
            process.wait()

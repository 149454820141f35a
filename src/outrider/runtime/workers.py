"""Worker processes for work that keeps a core busy.

Only one thread of a process computes in Python at a time. Work is a function from bytes to bytes at the top of a module; whoever has the
work decides what the bytes are.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from outrider.runtime.threads_and_loops import before_exit, wait_for_future

if TYPE_CHECKING:
    from concurrent.futures import Future, ProcessPoolExecutor

Work = Callable[[bytes], bytes]

log = logging.getLogger(__name__)

LONGEST_S = 30.0
"""Limit on the wait for a result: work takes a tenth of a second, and only a few can be queued before it."""
ENDING_S = 2.0
"""Limit on the wait for the workers at the end of this process."""


class NoWorker(Exception):
    """The work was not done: a worker process ended or hangs, or there is none. The caller does it itself."""


class Workers:
    """None until `start`. One object for a process; its methods are for the thread of the event loop."""

    def __init__(self) -> None:
        self._count = 0
        self._modules: tuple[str, ...] = ()
        self._busy: Callable[[], bool] = lambda: False
        self._pool: ProcessPoolExecutor | None = None
        self._ready: Future[int] | None = None

    async def start(self, count: int, modules: Sequence[str], busy: Callable[[], bool]) -> None:
        """Start `count` processes and load these modules there. `busy` tells whether this process has enough other work."""
        self._count, self._modules, self._busy = count, tuple(modules), busy
        await self._open_pool()
        # Else the process would wait at its end for their work. After the pool, because the last hook is called first.
        before_exit(partial(self.close, ENDING_S))

    async def wait(self, within_s: float) -> None:
        """Wait until the processes run, or cannot."""
        if self._ready is not None:
            await wait_for_future(self._ready, within_s)

    def available(self) -> bool:
        """Whether a worker is done sooner than this process: this one is busy, and a worker has started."""
        return self._ready is not None and self._ready.done() and self._ready.exception() is None and self._busy()

    async def run(self, work: Work, payload: bytes) -> bytes:
        """Run `work` in a worker. Its own errors are raised as they are. After a `NoWorker` all workers restart."""
        pool = self._pool
        if pool is None:
            raise NoWorker("no worker process is running")
        try:
            async with asyncio.timeout(LONGEST_S):
                return await asyncio.wrap_future(pool.submit(work, payload))
        except BrokenExecutor as error:
            why = str(error)
        except TimeoutError:
            why = f"no answer came within {LONGEST_S:g} s"
        if pool is self._pool:  # the first caller to notice
            log.warning("a worker process is lost: %s; this process does the work of all workers, and they restart", why)
            self.close()
            await self._open_pool()
        raise NoWorker(why)

    def close(self, within_s: float = 0.0) -> None:
        """End the processes. Callers that wait for a result get `NoWorker`.

        Wait so long for the thread that manages the pool: at the end of the process Python writes to a pipe that this thread closes.
        """
        pool, self._pool, self._ready = self._pool, None, None
        if pool is not None:
            _kill(pool, within_s)

    async def _open_pool(self) -> None:
        """Start the processes in a thread: it takes up to 0.2 s. A caller that is cancelled meanwhile ends them again."""
        if self._count < 1:
            return
        opening = asyncio.ensure_future(asyncio.to_thread(_start_processes, self._count, self._modules))
        try:
            opened = await asyncio.shield(opening)
        except asyncio.CancelledError:
            if opened := await opening:
                _kill(opened[0])
            raise
        if opened:
            self._pool, self._ready = opened


def _start_processes(count: int, modules: tuple[str, ...]) -> tuple[ProcessPoolExecutor, Future[int]] | None:
    """A pool of `count` processes, and a future that is done when they run; None on a machine without shared memory, or without room."""
    pool: ProcessPoolExecutor | None = None
    try:
        from concurrent import futures
        from multiprocessing import get_context

        pool = futures.ProcessPoolExecutor(count, get_context("spawn"), _initialize, (modules,))
        with _interrupts_blocked():  # not around the line above, where multiprocessing unblocks them again
            return pool, [pool.submit(os.getpid) for _ in range(count)][-1]
    except (ImportError, NotImplementedError, OSError) as error:
        log.warning("no worker process can be started: %s; this process does their work", error)
        if pool is not None:
            _kill(pool)
        return None


def _kill(pool: ProcessPoolExecutor, within_s: float = 0.0) -> None:
    processes = list((pool._processes or {}).values())  # noqa: SLF001 - `kill_workers` from Python 3.14 on
    thread: Any = pool._executor_manager_thread  # noqa: SLF001
    for process in processes:
        process.kill()
    pool.shutdown(wait=False)
    if thread is not None and within_s:
        thread.join(within_s)


def count_cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Processes that are started within inherit the mask: Ctrl-C in a terminal reaches them as well, but is for this process."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows, where a worker ignores it as soon as it runs
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _initialize(modules: Sequence[str]) -> None:
    """Prepare a worker. It ends when its parent ends, for whatever reason."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, name="end-with-parent", daemon=True).start()
    for name in modules:
        import_module(name)
    gc.collect()
    gc.freeze()  # modules stay loaded: collections need not look at them


def _end_with_parent() -> None:
    from multiprocessing import parent_process

    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(0)

"""Other processes for work that keeps a core busy: of the threads of one process only one computes in Python at a time.

Here because the graph's nodes use them, a server starts them, and neither may import the other. Work is a function of a module that
takes bytes and gives bytes: what goes over and how is for who has the work.
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

from outrider.state.threads import before_exit

if TYPE_CHECKING:
    from concurrent.futures import Future, ProcessPoolExecutor

Work = Callable[[bytes], bytes]

log = logging.getLogger(__name__)


LONGEST_S = 30.0
"""For which an answer is waited for: work takes a tenth of a second, and only a few can stand before it."""
ENDING_S = 2.0
"""For which the end of this process waits for that of its workers."""


class NoWorker(Exception):
    """The work was not done: a worker process ended or is stuck, or there is none. The caller does it itself."""


class Workers:
    """None until `begin`. One object for a process; its methods are for the thread of the event loop."""

    def __init__(self) -> None:
        self._count = 0
        self._modules: tuple[str, ...] = ()
        self._busy: Callable[[], bool] = lambda: False
        self._pool: ProcessPoolExecutor | None = None
        self._ready: Future[int] | None = None

    def begin(self, count: int, modules: Sequence[str], busy: Callable[[], bool]) -> None:
        """Start `count` processes that have these modules loaded. `busy` says whether this process has enough else to do."""
        self._count, self._modules, self._busy = count, tuple(modules), busy
        self._start()
        # Else the process would wait at its end for what they are doing. After `_start`: what is named last is called first.
        before_exit(partial(self.close, ENDING_S))

    def wanted(self) -> bool:
        """Whether work is done sooner there than here: this process is busy, and a worker has started."""
        return self._ready is not None and self._ready.done() and self._ready.exception() is None and self._busy()

    async def run(self, work: Work, given: bytes) -> bytes:
        """What `work` gives. Its own errors are raised as they are; raises `NoWorker`, after which all are started anew."""
        pool = self._pool
        if pool is None:
            raise NoWorker("no worker process is running")
        try:
            async with asyncio.timeout(LONGEST_S):
                return await asyncio.wrap_future(pool.submit(work, given))
        except BrokenExecutor as error:
            why = str(error)
        except TimeoutError:
            why = f"no answer came within {LONGEST_S:g} s"
        if pool is self._pool:  # the first to hear of it
            log.warning("a worker process is lost: %s; what all had to do is done here, and they are started anew", why)
            self._start()
        raise NoWorker(why)

    def close(self, within_s: float = 0.0) -> None:
        """End the processes, and wait so long for the thread that looks after them: at the process's end Python writes to what that thread
        is just closing. Who waits for what they are doing gets `NoWorker`.
        """
        pool, self._pool, self._ready = self._pool, None, None
        if pool is not None:
            processes = list((pool._processes or {}).values())  # noqa: SLF001 - `kill_workers` from Python 3.14 on
            thread: Any = pool._executor_manager_thread  # noqa: SLF001
            for process in processes:
                process.kill()
            pool.shutdown(wait=False)
            if thread is not None and within_s:
                thread.join(within_s)

    def _start(self) -> None:
        self.close()
        if self._count < 1:
            return
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import get_context

        try:
            self._pool = ProcessPoolExecutor(self._count, get_context("spawn"), _begun, (self._modules,))
            with _no_interrupt():  # not around the line above, in which multiprocessing lets interrupts through again
                self._ready = [self._pool.submit(os.getpid) for _ in range(self._count)][-1]
        except (ImportError, NotImplementedError, OSError) as error:  # a machine without shared memory, or without room
            log.warning("no worker process can be started: %s; their work is done here", error)
            self.close()


def cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _no_interrupt() -> Iterator[None]:
    """Processes that are started here never see one: Ctrl-C in a terminal goes to them, too, and this one answers it."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows, where each ignores it as soon as it runs
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begun(modules: Sequence[str]) -> None:
    """In a worker. It ends with the process that it is for, however that ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, name="end-with-parent", daemon=True).start()
    for name in modules:
        import_module(name)
    gc.collect()
    gc.freeze()  # what is loaded stays


def _end_with_parent() -> None:
    from multiprocessing import parent_process

    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(0)

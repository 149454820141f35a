"""Blocking work in threads, and event loops in threads of their own.

Blocking work gives its result on the caller's event loop. The background loop serves callers that are not asynchronous, and clients that
are bound to one loop. An isolated loop runs code of other packages: if that code blocks, it blocks nobody else. ADR 18 explains why this
is not anyio's portal.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from concurrent.futures import CancelledError, Future, wait
from contextlib import suppress
from contextvars import ContextVar, copy_context
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any, Generic, ParamSpec, TypeVar

from outrider.runtime.tape import TAPE

Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")

_modules: dict[str, ModuleType] = {}
_caller_gone: ContextVar[threading.Event | None] = ContextVar("caller_gone", default=None)
BACKGROUND = "background"
WATCH_S = 0.1
CLEANUP_S = 1.0
"""How long a cancelled caller waits for the end of its work, so that what the work wrote is complete."""


class Abandoned(Exception):
    """Ends work whose caller has stopped waiting."""


async def load_module(name: str) -> Any:
    """Import a module. The first import runs in a thread, because a heavy module takes seconds."""
    if name not in _modules:
        _modules[name] = await asyncio.to_thread(import_module, name)
    return _modules[name]


def get_shared(make: Callable[Arguments, Result], *args: Arguments.args, **options: Arguments.kwargs) -> Result:
    """The one result of `make`, an `lru_cache`, for all callers. Concurrent first calls each make one, of which the cache keeps one.

    For objects that hold a loaded model: with two of them, the process would load the model twice.
    """
    make(*args, **options)
    return make(*args, **options)


def before_exit(wait: Callable[[], None]) -> None:
    """Call `wait` at the end of the process while threads still work; `atexit` runs too late for them.

    This is CPython's own hook for `concurrent.futures`; other interpreters wait for nothing.
    """
    if register := getattr(threading, "_register_atexit", None):
        register(wait)


async def run_in_thread(work: Callable[[], Result], name: str = "outrider") -> Result:
    """Run blocking work in a daemon thread. A caller that stops waiting abandons it, and the process may end before it does.

    `asyncio.to_thread` would delay the end of the event loop until a model on a slow machine is done. Work that waits for a lock or has
    several parts calls `stop_if_abandoned` before each, so that abandoned work does not pile up.
    """
    tape = TAPE.get()
    if tape is not None:
        return await tape.run_work(name, work, partial(_run_in_thread, work, name))
    return await _run_in_thread(work, name)


async def _run_in_thread(work: Callable[[], Result], name: str) -> Result:
    future: Future[Result] = Future()
    gone = threading.Event()

    def run() -> None:
        _caller_gone.set(gone)
        complete(future, work)

    threading.Thread(target=copy_context().run, args=(run,), name=name, daemon=True).start()
    try:
        await wait_for_future(future)
        return future.result()
    finally:
        gone.set()


def stop_if_abandoned() -> None:
    """Raise `Abandoned` if the caller of `run_in_thread` was cancelled; in any other thread do nothing."""
    gone = _caller_gone.get()
    if gone is not None and gone.is_set():
        raise Abandoned


def unless_abandoned(items: Iterable[Result]) -> Iterator[Result]:
    """The items; `stop_if_abandoned` before each."""
    for item in items:
        stop_if_abandoned()
        yield item


def complete(future: Future[Result], work: Callable[[], Result]) -> None:
    """Run `work` and store its result, or whatever it raises, in the future."""
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - raised again where the caller waits
        future.set_exception(error)
    else:
        future.set_result(result)


async def wait_for_future(future: Future[Any], within_s: float | None = None) -> bool:
    """Wait on the running loop for a future of another thread, and return whether it is done. Cancelling the wait leaves it alone."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    future.add_done_callback(lambda _: call_on(loop, done.set_result, None))
    await asyncio.wait({done}, timeout=within_s)
    return future.done()


def call_on(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *values: object) -> None:
    """Call a function on a loop from any thread. A loop that has ended meanwhile has no caller left, so nothing happens."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *values)


def run_in_background(work: Coroutine[Any, Any, Result], while_waiting: Callable[[], None] | None = None) -> Result:
    """Run a coroutine from synchronous code, also inside a running loop. An interrupt (Ctrl-C) of the caller cancels it.

    In the thread of `run_in_thread`, so does a caller that stops waiting. `while_waiting` is called ten times a second in this thread; an
    error that it raises cancels the work as well.
    """
    call = _Call(_loop(BACKGROUND), work)
    watches = while_waiting is not None or _caller_gone.get() is not None
    try:
        call.start()  # in here: an interrupt may come before the caller waits
        while watches and not wait({call.future}, timeout=WATCH_S).done:
            stop_if_abandoned()
            if while_waiting:
                while_waiting()
        return call.future.result()
    except asyncio.CancelledError as error:
        raise CancelledError from error  # asyncio's own is no `Exception` and would end the calling thread
    except BaseException:
        call.cancel()
        raise


async def in_background(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine on the background loop, in the caller's context, without blocking the caller's loop."""
    loop = _loop(BACKGROUND)
    if asyncio.get_running_loop() is loop:
        return await work
    call = _Call(loop, work)
    try:
        call.start()
        await wait_for_future(call.future)
    except asyncio.CancelledError:
        call.cancel()
        await wait_for_future(call.future, CLEANUP_S)
        raise
    return call.future.result()


async def finish(work: Coroutine[Any, Any, Result]) -> Result:
    """Await work that must not stop halfway: a cancelled caller waits for its end first, unless it is cancelled again."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # mark as retrieved: the caller gets the cancellation
        raise


def is_cancelled() -> bool:
    """Whether the current task itself is to end, not only one that it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def run_isolated(name: str, work: Callable[[], Awaitable[Result]], within_s: float) -> Future[Result]:
    """Run `work` on the loop of this name, in the caller's context, and return the future when it is done.

    Its exception is whatever `work` raised, `CancelledError` included: the caller itself was not cancelled. Raises `TimeoutError` after
    `within_s`. The work is then cancelled and left behind whether it ends or not, because a thread cannot be stopped from outside.
    """

    async def coroutine() -> Result:
        return await work()

    call = _Call(_loop(name), coroutine())
    try:
        call.start()
        if await wait_for_future(call.future, max(within_s, 0.0)):
            return call.future
    finally:
        call.cancel()
    raise TimeoutError(
        f"did not answer within the {within_s:.3g} s that it may take" if call.begun else "is still held up by an earlier search"
    )


class _Call(Generic[Result]):
    """A coroutine on the loop of another thread. Its future completes when the coroutine has ended, cleanup included."""

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Result]) -> None:
        self.future: Future[Result] = Future()
        self.begun = False
        self._loop = loop
        self._work = work
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._loop.call_soon_threadsafe(self._begin)  # in the caller's context

    def cancel(self) -> None:
        self._loop.call_soon_threadsafe(self._cancel)

    def _begin(self) -> None:
        self.begun = True
        self._task = self._loop.create_task(self._run())
        self._task.add_done_callback(self._close)

    def _cancel(self) -> None:
        if self._task is None:  # an interrupt came before the start: a loop runs callbacks in the order of scheduling
            self._close()
        else:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            result = await self._work
        except BaseException as error:  # noqa: BLE001 - a `SystemExit` would end the loop, which serves others as well
            self.future.set_exception(error)
        else:
            self.future.set_result(result)

    def _close(self, _: asyncio.Task[None] | None = None) -> None:
        """Complete the future of work that was cancelled before its first step."""
        if not self.future.done():
            self._work.close()
            self.future.set_exception(asyncio.CancelledError())


_loops: dict[str, asyncio.AbstractEventLoop] = {}
_starting = threading.Lock()
"""Without it two threads could start two loops of one name at once, and clients of the first would fail on the second."""


def _loop(name: str) -> asyncio.AbstractEventLoop:
    """Start a loop at first use. It lives as long as the process, so that clients bound to it stay valid between calls."""
    with _starting:
        if name not in _loops:
            loop = _loops[name] = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name=f"outrider-{name}", daemon=True).start()
        return _loops[name]

"""Blocking work in threads, with its result on the caller's event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import ContextVar, copy_context
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

Result = TypeVar("Result")

_modules: dict[str, ModuleType] = {}
_caller_gone: ContextVar[threading.Event | None] = ContextVar("caller_gone", default=None)


class Abandoned(Exception):
    """Ends work whose caller has stopped waiting."""


async def load_module(name: str) -> Any:
    """Import a module. The first import runs in a thread, because a heavy module takes seconds."""
    if name not in _modules:
        _modules[name] = await asyncio.to_thread(import_module, name)
    return _modules[name]


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
    """Raise `Abandoned` where the caller of `run_in_thread` has gone; in any other thread do nothing."""
    gone = _caller_gone.get()
    if gone is not None and gone.is_set():
        raise Abandoned


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

"""Blocking work beside the event loop, for callers who wait only so long.

Here because the graph's nodes and the retrieval engine both need it and may not import each other.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar, copy_context
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

Result = TypeVar("Result")

_imported: dict[str, ModuleType] = {}
_left: ContextVar[threading.Event | None] = ContextVar("left", default=None)


class NobodyWaits(Exception):
    """Ends work whose caller has stopped waiting."""


async def imported(name: str) -> Any:
    """The module of that name. The first time it is read beside the event loop: heavy ones take seconds."""
    if name not in _imported:
        _imported[name] = await asyncio.to_thread(import_module, name)
    return _imported[name]


def at_the_end(wait: Callable[[], None]) -> None:
    """Called when the process ends, while threads can still work: `atexit` comes too late for what they have to finish.

    CPython's own for `concurrent.futures`; elsewhere nothing is waited for.
    """
    if register := getattr(threading, "_register_atexit", None):
        register(wait)


async def in_a_thread_of_its_own(work: Callable[[], Result], name: str = "outrider") -> Result:
    """The result of blocking work. A caller that stops waiting leaves it behind, and the process may end before it does.

    `asyncio.to_thread` would hold up the end of the event loop until a model on a slow machine is done. Work that waits for its
    turn or has several parts calls `go_on_only_if_wanted` before each, so that what was left behind does not pile up.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Result] = loop.create_future()
    left = threading.Event()

    def run() -> None:
        _left.set(left)
        settle: Callable[[], None]
        try:
            settle = partial(done.set_result, work())
        except BaseException as error:  # noqa: BLE001 - handed on whole to who waits
            settle = partial(done.set_exception, error)
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(lambda: None if done.done() else settle())

    threading.Thread(target=copy_context().run, args=(run,), name=name, daemon=True).start()
    try:
        return await done
    finally:
        left.set()


def go_on_only_if_wanted() -> None:
    """Raises `NobodyWaits` where the caller of `in_a_thread_of_its_own` has gone; does nothing in any other thread."""
    left = _left.get()
    if left is not None and left.is_set():
        raise NobodyWaits

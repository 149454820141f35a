"""Reads that a run makes once: later ones of the same run have the first one's result.

A search asks a library again and again for what cannot change under it: which tables there are, the latest versions, the model of its
vectors. Every run reads anew, so it sees whatever other processes wrote before it. Work outside a run reads each time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")
Reads = dict[Hashable, Any]
"""Of one run, by what was read: a future, done once it has the result, or a dictionary of `get_run_dict`. A run has one event loop."""
_reads: ContextVar[Reads | None] = ContextVar("run_reads", default=None)


@contextmanager
def share_reads(reads: Reads | None = None) -> Iterator[None]:
    """Work inside, in this context, belongs to one run. `reads` are its results so far; without them, those of a run around it count."""
    around = _reads.get()
    before = _reads.set(reads if reads is not None else {} if around is None else around)
    try:
        yield
    finally:
        _reads.reset(before)


@contextmanager
def read_afresh() -> Iterator[None]:
    """Work inside, in this context, reads each time: it must see the latest. The run reads anew afterwards."""
    around = _reads.get()
    before = _reads.set(None)
    try:
        yield
    finally:
        _reads.reset(before)
        if around is not None:
            around.clear()


def find_read(key: Hashable) -> asyncio.Future[Any] | None:
    """What this run has read, or is reading, under a key; None if it has not begun to."""
    reads = _reads.get()
    return None if reads is None else reads.get(key)


def get_run_dict(key: Hashable) -> dict[Any, Any]:
    """A dictionary that the parts of a run share; an empty one outside a run."""
    reads = _reads.get()
    shared: dict[Any, Any] = {} if reads is None else reads.setdefault(key, {})
    return shared


async def read_once(key: Hashable, read: Callable[[], Awaitable[T]]) -> T:
    """The run's one result of `read`. Concurrent callers wait for the first; if it fails or is cancelled, the next one reads itself."""
    reads = _reads.get()
    if reads is None:
        return await read()
    while (known := reads.get(key)) is not None:
        if not known.done():
            await asyncio.wait({known})
        if not known.cancelled():
            answer: T = known.result()
            return answer
    own = reads[key] = asyncio.get_running_loop().create_future()
    try:
        answer = await read()
    except BaseException:
        if reads.get(key) is own:
            del reads[key]
        own.cancel()  # those who wait read themselves
        raise
    own.set_result(answer)
    return answer

"""The tape of a run, which records what comes from outside or plays it back

Without a tape, everything here is the real thing. The module is here because the graph, the nodes and the services all read clocks and may
not import each other.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

Result = TypeVar("Result")


class Tape(Protocol):
    """Records the readings of a run, or returns recorded ones."""

    def read(self, name: str, live: Callable[[], float]) -> float:
        """A reading of a clock; `name` says which."""
        ...

    async def run_work(self, name: str, work: Callable[[], Result], live: Callable[[], Awaitable[Result]]) -> Result:
        """Blocking `work` of a node, which `live` runs in a thread."""
        ...

    def begin_run(self, state: Any) -> Any:
        """The state that the first node of a search is given."""
        ...

    def add_update(self, node: str, state: Any, update: Any) -> None:
        """What a node was given and what it wrote."""
        ...

    def leave_unwritten(self, why: str) -> None:
        """The run cannot be replayed, so that no recording of it is written."""
        ...


TAPE: ContextVar[Tape | None] = ContextVar("tape", default=None)
NODE: ContextVar[str] = ContextVar("node", default="")
"""The node that runs, for the names of its readings and calls."""


@contextmanager
def use_tape(tape: Tape | None, node: str = "") -> Iterator[None]:
    """Work inside, in this context, is on this tape; None leaves it off every tape."""
    before, node_before = TAPE.set(tape), NODE.set(node or NODE.get())
    try:
        yield
    finally:
        TAPE.reset(before)
        NODE.reset(node_before)


def read_monotonic(name: str) -> float:
    """`time.monotonic`, as a reading of this name. Readings of one name come in one order: concurrent tasks need names of their own."""
    tape = TAPE.get()
    return time.monotonic() if tape is None else tape.read(f"{NODE.get()}: {name}", time.monotonic)


class Proxy:
    """Stands before an adapter."""

    adapter: Any
    """None in a replayed run."""


def without_port(adapter: Any) -> Any:
    """The adapter itself, where a port may stand before it."""
    return adapter.adapter if isinstance(adapter, Proxy) else adapter


class WallClock:
    """A clock whose readings are on the tape of the run that reads it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock

    def __call__(self) -> float:
        tape = TAPE.get()
        return self.clock() if tape is None else tape.read(f"{NODE.get()}: time of day", self.clock)

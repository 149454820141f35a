"""Which run something belongs to, and spans around its nodes and calls. Nothing happens here until `services.tracing` installs a tracer.

Here because the graph, the models and the sources all have spans and may not import each other.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Protocol

RUN: ContextVar[str] = ContextVar("run", default="")
"""The run's id, in logs and spans."""
Value = str | int | float | bool


class Tracer(Protocol):
    def span(self, name: str, attributes: Mapping[str, Value]) -> AbstractContextManager[None]: ...


_installed: list[Tracer] = []


def install(tracer: Tracer | None) -> None:
    """For this process; None for no tracer."""
    _installed[:] = [tracer] if tracer else []


@contextmanager
def run_named(name: str = "") -> Iterator[str]:
    """Whatever is done meanwhile, in this context, belongs to that run; a run within a run keeps its name."""
    before = RUN.set(RUN.get() or name or uuid.uuid4().hex[:12])
    try:
        yield RUN.get()
    finally:
        RUN.reset(before)


@contextmanager
def span(name: str, **attributes: Value) -> Iterator[None]:
    """Costs next to nothing where no tracer is installed."""
    if not _installed:
        yield
        return
    with _installed[0].span(name, {"outrider.run": RUN.get(), **attributes}):
        yield

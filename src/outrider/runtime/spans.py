"""The run that work belongs to, and spans around nodes and calls.

Nothing is recorded until `services.tracing` installs a tracer. The module is here because the graph, the models and the sources all have
spans and may not import each other.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Protocol

PLACE = re.compile(r"in the node (\S*) of the run (.*)")
RUN: ContextVar[str] = ContextVar("run", default="")
"""The run's id, in logs and spans."""
Value = str | int | float | bool
_installed: list[Tracer] = []
_unrecorded: ContextVar[bool] = ContextVar("unrecorded", default=False)


class OpenSpan(Protocol):
    """A span that work in other contexts belongs to: a run is a stream, whose parts run in the contexts of its readers."""

    def within(self) -> AbstractContextManager[None]:
        """Spans inside belong to this one."""
        ...

    def end(self, error: BaseException | None = None) -> None: ...


class Tracer(Protocol):
    def span(self, name: str, attributes: Mapping[str, Value]) -> AbstractContextManager[None]: ...

    def begin(self, name: str, attributes: Mapping[str, Value]) -> OpenSpan: ...


def install(tracer: Tracer | None) -> None:
    """Set the tracer of this process; None removes it."""
    _installed[:] = [tracer] if tracer else []


@contextmanager
def run_named(name: str = "") -> Iterator[str]:
    """Work inside, in this context, belongs to the run of this name; a run inside a run keeps the outer name."""
    before = RUN.set(RUN.get() or name or uuid.uuid4().hex[:12])
    try:
        yield RUN.get()
    finally:
        RUN.reset(before)


@contextmanager
def record_no_spans() -> Iterator[None]:
    """Work inside, in this context, has no spans and no recording: it is nobody's search."""
    before = _unrecorded.set(True)
    try:
        yield
    finally:
        _unrecorded.reset(before)


def is_nobodys_search() -> bool:
    """Whether work here, such as a server's first search, has no spans."""
    return _unrecorded.get()


@contextmanager
def span(name: str, **attributes: Value) -> Iterator[None]:
    """Almost free without a tracer."""
    if not _installed or _unrecorded.get():
        yield
        return
    with _installed[0].span(name, {"outrider.run": RUN.get(), **attributes}):
        yield


def begin_span(name: str, run: str) -> OpenSpan | None:
    """A span of a whole run, which the caller ends; None without a tracer."""
    return _installed[0].begin(name, {"outrider.run": run}) if _installed and not _unrecorded.get() else None


def note_place(error: BaseException, node: str) -> None:
    """Have an error say in which node and run it was raised, since it is met outside both."""
    error.add_note(f"in the node {node} of the run {RUN.get()}")


def find_place(error: BaseException) -> tuple[str, str]:
    """The run and the node of `note_place`; empty where there are none."""
    notes = (PLACE.fullmatch(note) for note in getattr(error, "__notes__", ()))
    return next(((place[2], place[1]) for place in notes if place), ("", ""))

"""Calls to services that a run makes, by service. Work outside a run counts nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass(slots=True)
class RunTally:
    """What a run did so far, for the planner."""

    calls: dict[str, int] = field(default_factory=dict)
    begun: object = None
    """What was known when it began, if it is to be recorded (`services.planner.BegunRun`)."""


_tally: ContextVar[RunTally | None] = ContextVar("run_tally", default=None)


@contextmanager
def count_into(tally: RunTally) -> Iterator[None]:
    """Work inside, in this context, belongs to the run of this tally."""
    before = _tally.set(tally)
    try:
        yield
    finally:
        _tally.reset(before)


def count_call(service: str) -> None:
    """One request is sent, whether it is answered or not."""
    tally = _tally.get()
    if tally is not None:
        tally.calls[service] = tally.calls.get(service, 0) + 1


def get_tally() -> RunTally:
    """That of this run; an empty one outside a run."""
    return _tally.get() or RunTally()

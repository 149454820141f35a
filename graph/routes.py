"""Where a run goes on, read from what its nodes wrote."""

from __future__ import annotations

from collections.abc import Callable

from outrider.state.errors import KeyRejected
from outrider.state.pipeline import PipelineState


def failed(name: str) -> Callable[[PipelineState], str]:
    """A route: "failed" where the node of that name failed in this run, else "ok"."""

    def route(state: PipelineState) -> str:
        return "failed" if any(failure.node == name for failure in state.failures) else "ok"

    return route


def accepted(state: PipelineState) -> str:
    """Gives "rejected" where the model's key was: every later call would be, too."""
    return "rejected" if any(failure.error == KeyRejected.__name__ for failure in state.failures) else "ok"


def scored(state: PipelineState) -> str:
    """Gives "ok" where a model scored works, "failed" where it scored none or there is none."""
    if accepted(state) == "rejected":
        return "rejected"
    return "ok" if any(one.scored_by == "model" for one in state.candidates) else "failed"

"""Where a run goes on, read from what its nodes wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig

from outrider.state.errors import KeyRejected
from outrider.state.pipeline import PipelineState


class Route(Runnable[PipelineState, str]):
    """A choice with both sides: LangGraph would hand a plain function to a thread, which takes longer than most nodes."""

    def __init__(self, name: str, choose: Callable[[PipelineState], str]) -> None:
        self.name = name
        self._choose = choose

    def invoke(self, input: PipelineState, config: RunnableConfig | None = None, **kwargs: Any) -> str:  # noqa: A002
        return self._choose(input)

    async def ainvoke(self, input: PipelineState, config: RunnableConfig | None = None, **kwargs: Any) -> str:  # noqa: A002
        return self._choose(input)


def failed(name: str) -> Route:
    """Gives "failed" where the node of that name failed in this run, else "ok"."""
    return Route(f"{name}_failed", lambda state: "failed" if any(one.node == name for one in state.failures) else "ok")


def _read(state: PipelineState) -> str:
    if any(one.node == "translator" for one in state.failures):
        return "failed"
    return "systematic" if state.mode == "systematic" else "ok"


def _accepted(state: PipelineState) -> str:
    return "rejected" if any(failure.error == KeyRejected.__name__ for failure in state.failures) else "ok"


def _scored(state: PipelineState) -> str:
    if _accepted(state) == "rejected":
        return "rejected"
    return "ok" if any(one.scored_by == "model" for one in state.candidates) else "failed"


read = Route("read", _read)
"""Behind the translator: "failed" where it did, "systematic" for an exact run, else "ok"."""
accepted = Route("accepted", _accepted)
"""Gives "rejected" where the model's key was: every later call would be, too."""
scored = Route("scored", _scored)
"""Gives "ok" where a model scored works, "failed" where it scored none or there is none, and "rejected" as above."""

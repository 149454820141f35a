"""Settings that one run may override."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeVar

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

    from outrider.state.pipeline import RunContext

Number = TypeVar("Number", int, float)


def run_setting(
    runtime: Runtime[RunContext] | None, name: Literal["run_timeout_s", "relevance_threshold", "max_context_tokens"], default: Number
) -> Number:
    """What the run's context says, else the setting."""
    given: Number | None = getattr(runtime.context, name, None) if runtime is not None else None
    return default if given is None else given

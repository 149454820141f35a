"""Whom a search asks, and how its rows say so.

Settings that one run may override.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, TypeVar

from outrider.state.chat import Budget
from outrider.state.intent import SearchStrategy
from outrider.state.ports import Source
from outrider.state.response import Failure, Usage

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

    from outrider.settings.model import LlmSettings, RunSettings
    from outrider.state.errors import KeyRejected
    from outrider.state.pipeline import PipelineState, RunContext, Update
    from outrider.state.ports import Clock


def select_sources(strategy: SearchStrategy, sources: Sequence[Source]) -> Sequence[Source]:
    """Whom the strategy asks. Of one whose sources are none of these, all are: only the caller narrows a search, and was refused before."""
    return [source for source in sources if source.name in strategy.sources] or sources


def format_time(at: float | None) -> str | None:
    """Seconds since the epoch as ISO 8601, UTC."""
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


Number = TypeVar("Number", int, float, float | None)


Name = Literal["run_timeout_s", "relevance_threshold", "max_context_tokens", "max_calls", "max_cost_usd"]


def run_setting(runtime: Runtime[RunContext] | None, name: Name, default: Number) -> Number:
    """What the run's context says, else the setting."""
    given: Number | None = getattr(runtime.context, name, None) if runtime is not None else None
    return default if given is None else given


def time_left(runtime: Runtime[RunContext] | None, settings: RunSettings, clock: Clock, state: PipelineState) -> float:
    """Seconds that the run may still take, 0 where its time is over."""
    limit_s = run_setting(runtime, "run_timeout_s", settings.run_timeout_s)
    return max(0.0, limit_s - (clock() - state.started_at))


def end_rejected_run(state: PipelineState, node: str, error: KeyRejected, spent: Usage) -> Update:
    """What a node writes where the model's key is not accepted: the run ends, and what it spent is told all the same."""
    failure = Failure(node=node, error=type(error).__name__, message=str(error))
    return {"failures": (*state.failures, failure), "usage": spent}


def run_budget(runtime: Runtime[RunContext] | None, llm: LlmSettings, usage: Usage) -> Budget:
    """What the run may still spend on models: 0 is nothing, and only a `max_cost_usd` of None is no bound."""
    return Budget(run_setting(runtime, "max_calls", llm.max_calls), run_setting(runtime, "max_cost_usd", llm.max_cost_usd), usage)

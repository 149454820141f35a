"""Settings that a run may override, and its remaining time, budget and sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

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
    """The strategy's sources, or all if it names none of these: a caller's unknown sources were refused before."""
    return [source for source in sources if source.name in strategy.sources] or sources


def format_time(at: float | None) -> str | None:
    """Seconds since the epoch as ISO 8601, UTC."""
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


Number = TypeVar("Number", int, float, float | None)
Name = Literal["run_timeout_s", "relevance_threshold", "max_context_tokens", "max_calls", "max_cost_usd"]


def run_setting(runtime: Runtime[RunContext] | None, name: Name, default: Number) -> Number:
    """The value in the run's context, else the setting. A parent graph passes its own context, which is no `RunContext`."""
    context: Any = runtime.context if runtime is not None else None
    value = context.get(name) if isinstance(context, Mapping) else getattr(context, name, None)
    return cast("Number", value) if isinstance(value, int | float) and not isinstance(value, bool) else default


def time_left(runtime: Runtime[RunContext] | None, settings: RunSettings, clock: Clock, state: PipelineState) -> float:
    """Seconds that the run may still take, 0 when its time is over."""
    limit_s = run_setting(runtime, "run_timeout_s", settings.run_timeout_s)
    return max(0.0, limit_s - (clock() - state.started_at))


def end_rejected_run(state: PipelineState, node: str, error: KeyRejected, usage: Usage) -> Update:
    """The update that ends a run whose key the provider rejects; its usage is still reported."""
    failure = Failure(node=node, error=type(error).__name__, message=str(error))
    return {"failures": (*state.failures, failure), "usage": usage}


def run_budget(runtime: Runtime[RunContext] | None, llm: LlmSettings, usage: Usage) -> Budget:
    """The rest of the run's budget for models: 0 allows no call, and a `max_cost_usd` of None means no limit."""
    return Budget(run_setting(runtime, "max_calls", llm.max_calls), run_setting(runtime, "max_cost_usd", llm.max_cost_usd), usage)

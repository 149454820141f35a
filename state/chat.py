"""Interface of chat models: the request, the shape of the answer, and the budget of a run."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from outrider.state.errors import BudgetSpent
from outrider.state.model import Model
from outrider.state.response import NodeUsage, Usage

Shape = TypeVar("Shape", bound=Model)


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One request. Untrusted text is in `user`, between fences (see `prompts.fence`)."""

    node: str
    """The node that asks, for the usage figures."""
    system: str
    user: str
    max_output_tokens: int
    """The provider cuts a longer answer, which then counts as invalid."""


class Chat(Protocol):
    """A chat model with structured answers. Raises `ChatError`; the budget counts the cost in any case."""

    @property
    def name(self) -> str:
        """Model and host, for answers and the provenance hash."""
        ...

    async def answer(self, request: ChatRequest, shape: type[Shape], budget: Budget) -> Shape:
        """May take several calls: for another mode of structured output, or to repair an answer."""
        ...


@dataclass(slots=True)
class Call:
    """One call under way; the caller fills in the provider's usage figures."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    """None also if the model's price is unknown."""

    @property
    def has_usage(self) -> bool:
        return self.input_tokens is not None and self.output_tokens is not None


@dataclass(slots=True)
class Budget:
    """Limits of what one run may spend on models, and what it has spent.

    The limits are hard: a call under way counts with the most that it can cost, and so does a call that ended without the provider's
    figures.
    """

    max_calls: int | None = None
    max_cost_usd: float | None = None
    spent: Usage = field(default_factory=Usage)
    _begun: int = field(init=False)
    _held_usd: float = field(default=0.0, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        self._begun = self.spent.calls

    @contextmanager
    def call(self, node: str, most_usd: float | None) -> Iterator[Call]:
        """Count one call, and its cost when it ends in any way; raises `BudgetSpent` if it might exceed a limit.

        `most_usd` is None if the model's price is unknown.
        """
        with self._lock:
            if self.max_calls is not None and self._begun >= self.max_calls:
                raise BudgetSpent(f"the {self.max_calls:,} model calls of this run (llm.max_calls) are spent")
            if self.max_cost_usd is not None:
                if most_usd is None or self.spent.cost_usd is None:
                    raise BudgetSpent("the model's price is unknown, so llm.max_cost_usd cannot be enforced; set it under llm.prices")
                if self.spent.cost_usd + self.spent.untold_usd + self._held_usd + most_usd > self.max_cost_usd:
                    raise BudgetSpent(f"a further model call could exceed the ${self.max_cost_usd:g} of this run (llm.max_cost_usd)")
            self._begun += 1
            self._held_usd += most_usd or 0.0
        call = Call()
        try:
            yield call
        finally:
            with self._lock:
                self._held_usd -= most_usd or 0.0
                here = self.spent.by_node.get(node, NodeUsage())
                by_node = {**self.spent.by_node, node: here.model_copy(update=_add_call(here, call, most_usd))}
                self.spent = self.spent.model_copy(update={**_add_call(self.spent, call, most_usd), "by_node": by_node})


def _add_call(usage: NodeUsage, call: Call, most_usd: float | None) -> dict[str, object]:
    unknown = call.cost_usd is None if call.has_usage else most_usd is None
    return {
        "calls": usage.calls + 1,
        "untold_calls": usage.untold_calls + (not call.has_usage),
        "untold_usd": usage.untold_usd + (0.0 if call.has_usage else most_usd or 0.0),
        "input_tokens": usage.input_tokens + (call.input_tokens or 0),
        "output_tokens": usage.output_tokens + (call.output_tokens or 0),
        "cost_usd": None if usage.cost_usd is None or unknown else usage.cost_usd + (call.cost_usd or 0.0),
    }

"""One run in the planner's record: features, outcome, prediction; no text of a query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

Values = Mapping[str, float]

SECONDS, CALLS, COST = "seconds", "calls", "cost_usd"
CALLS_TO, HITS_OF, TOOK, TASKS, ASKED = "calls:", "hits:", "took:", "tasks:", "asked:"
"""Prefixes before a source's name: calls to it, results of it, seconds until its last result; before the run, its searches and results
that they request."""
MODEL = "model"


class Interval(NamedTuple):
    low: float
    middle: float
    high: float

    def covers(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class RunRow:
    """`features` are known before the run. `outcome` has quantities by name, and `took:` of each source."""

    begun: float
    ended: float
    request: int
    """A short hash of the request: equal for equal requests, and for one in 65,536 others."""
    features: Values
    outcome: Values
    predicted: Mapping[str, Interval] = field(default_factory=dict)
    """Empty until a plan needs the run."""
    row_id: int = field(default=0, compare=False)
    """In the table; 0 before it is stored."""

"""One run as the planner remembers it: what was known before, what came out, what was predicted. No text of a query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from outrider.planner.intervals import Interval

Values = Mapping[str, float]

SECONDS, CALLS, COST = "seconds", "calls", "cost_usd"
CALLS_TO, HITS_OF, TOOK, TASKS, ASKED = "calls:", "hits:", "took:", "tasks:", "asked:"
"""Prefixes before a source's name: calls to it, results of it, seconds until its last result; before the run, its searches and results
that they request."""
MODEL = "model"


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

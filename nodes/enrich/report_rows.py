"""Progress of enrichment, and the rows of the response that report it."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field

from outrider.state.errors import SearchError, SourceError
from outrider.state.response import SourceReport

NODE = "enrich"
REASONS = {
    "rate_limited": "rate-limited",
    "unauthorized": "refused",
    "forbidden": "refused",
    "timeout": "did not answer in time",
    "malformed": "could not be read",
}
"""A row's words for the status of an error; `OTHER_REASON` for all others."""
OTHER_REASON = "could not be reached"


@dataclass(slots=True)
class Progress:
    """Progress of one part: lookups by identifier, or visits of pages."""

    requests: int = 0
    returned: int = 0
    """Works that got an abstract or a text."""
    left_out: int = 0
    """Works beyond the budget."""
    under_way: int = 0
    """Works that were abandoned when the time was over."""
    why: Counter[str] = field(default_factory=Counter)
    """Works without a result, by reason: "3 not allowed by robots.txt"."""
    calls: Counter[str] = field(default_factory=Counter)
    """Failed calls by service and reason, if a work is looked up at several: "pubmed did not answer in time (2)"."""
    statuses: set[str] = field(default_factory=set)
    """Statuses of the failures."""
    ended: float = field(default_factory=time.monotonic)

    def begin(self, most: int) -> bool:
        """Count one more work; False if the budget has no room for it."""
        if self.requests >= most:
            self.left_out += 1
            return False
        self.requests += 1
        self.under_way += 1
        return True

    def end(self, returned: bool) -> None:
        self.under_way -= 1
        self.returned += returned
        self.ended = time.monotonic()

    def stop(self) -> None:
        """The time is over; works under way used all of it."""
        if self.under_way:
            self.ended = time.monotonic()

    def count_failure(self, source: str, status: str) -> None:
        self.statuses.add(status)
        self.calls[f"{source} {REASONS.get(status, OTHER_REASON)}"] += 1

    @property
    def status(self) -> str:
        if self.returned:
            return "partial" if self.left_out or self.under_way or self.statuses else "ok"
        if self.under_way:
            return "timeout"
        return min(self.statuses) if len(self.statuses) == 1 else "unavailable" if self.statuses else "empty"

    def make_row(self, strategy: str, budget: str, setting: str, stopped_by: str, started: float) -> SourceReport | None:
        """None if nothing was requested. `setting` names the budget, `stopped_by` the setting that ended the part."""
        if not self.requests:
            return None
        parts = [budget]
        parts += [f"{count} {reason}" for reason, count in _most_frequent_first(self.why)]
        parts += [f"{call} ({count})" for call, count in _most_frequent_first(self.calls)]
        parts += [f"{self.left_out} left out (enrich.{setting})"] if self.left_out else []
        parts += [f"{self.under_way} given up (enrich.{stopped_by})"] if self.under_way else []
        row = {"source": NODE, "strategy": strategy, "asked": self.requests, "returned": self.returned, "message": "; ".join(parts)}
        return SourceReport.model_validate({**row, "status": self.status, "took_ms": round((self.ended - started) * 1000, 1)})


def _most_frequent_first(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def read_status(error: SearchError | TimeoutError) -> str:
    if isinstance(error, TimeoutError):
        return "timeout"
    return error.status if isinstance(error, SourceError) else "unavailable"

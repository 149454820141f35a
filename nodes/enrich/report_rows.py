"""How the parts of enriching fared, as rows of the answer: what was asked, what came, what did not and why."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from outrider.state.errors import SearchError, SourceError
from outrider.state.response import SourceReport

NODE = "enrich"
REASONS = {
    "rate_limited": "could not be asked yet",
    "unauthorized": "refused",
    "forbidden": "refused",
    "timeout": "did not answer in time",
    "malformed": "could not be read",
}
"""What a status means in a row's message ..."""
OTHER_REASON = "could not be reached"
"""... and what all others do."""


@dataclass(slots=True)
class Progress:
    """How one part fared: identifiers asked for, or pages fetched."""

    asked: int = 0
    returned: int = 0
    """Works that have an abstract or a text by it."""
    left_out: int = 0
    """Works that the budget left no room for."""
    under_way: int = 0
    """When the time was over: they were given up."""
    why: Counter[str] = field(default_factory=Counter)
    """What did not come, by reason: "3 not allowed by robots.txt"."""
    calls: Counter[str] = field(default_factory=Counter)
    """Calls that failed, by service and reason, where one work is asked of several: "pubmed did not answer in time (2)"."""
    statuses: set[str] = field(default_factory=set)
    """Of what failed."""
    ended: float = field(default_factory=time.monotonic)

    def begin(self, most: int) -> bool:
        """Whether there is room for one more."""
        if self.asked >= most:
            self.left_out += 1
            return False
        self.asked += 1
        self.under_way += 1
        return True

    def end(self, returned: bool) -> None:
        self.under_way -= 1
        self.returned += returned
        self.ended = time.monotonic()

    def stop(self) -> None:
        """The time is over: what is under way took all of it."""
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

    def make_row(self, strategy: str, budget: str, setting: str, stopped: str, started: float) -> SourceReport | None:
        """None where nothing was asked at all. `setting` is the one that bounds it, `stopped` the one that ended it."""
        if not self.asked:
            return None
        left = [
            f"{self.left_out} left out (enrich.{setting})" if self.left_out else "",
            f"{self.under_way} given up (enrich.{stopped})" if self.under_way else "",
        ]
        message = "; ".join(filter(None, (budget, *self._said(), *left)))
        row = {"source": NODE, "strategy": strategy, "asked": self.asked, "returned": self.returned, "message": message}
        return SourceReport.model_validate({**row, "status": self.status, "took_ms": round((self.ended - started) * 1000, 1)})

    def _said(self) -> Iterator[str]:
        """What did not come, most frequent first."""
        yield from (f"{count} {what}" for what, count in _most(self.why))
        yield from (f"{what} ({count})" for what, count in _most(self.calls))


def read_status(error: SearchError | TimeoutError) -> str:
    if isinstance(error, TimeoutError):
        return "timeout"
    return error.status if isinstance(error, SourceError) else "unavailable"


def _most(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))

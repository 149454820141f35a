"""How well the predictions of earlier runs held, by quantity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from outrider.planner.run_row import CALLS, CALLS_TO, COST, HITS_OF, SECONDS, RunRow

GROUPS = {SECONDS: "seconds", CALLS: "calls", CALLS_TO: "calls by service", HITS_OF: "hits by source", COST: "cost"}


@dataclass(frozen=True, slots=True)
class Calibration:
    """`covered` of `predictions` outcomes lay in their 80 % interval."""

    quantity: str
    predictions: int
    covered: int
    median_width: float

    @property
    def coverage(self) -> float:
        return self.covered / self.predictions


def calibrate(rows: Sequence[RunRow]) -> tuple[Calibration, ...]:
    """For each group of quantities that was predicted; services and sources are pooled."""
    widths: dict[str, list[float]] = {}
    covered: dict[str, int] = {}
    for row in rows:
        for name, interval in row.predicted.items():
            if name not in row.outcome:
                continue
            group = name if name in GROUPS else f"{name.partition(':')[0]}:"
            widths.setdefault(group, []).append(interval.high - interval.low)
            covered[group] = covered.get(group, 0) + interval.covers(row.outcome[name])
    return tuple(
        Calibration(title, len(widths[group]), covered[group], median(widths[group])) for group, title in GROUPS.items() if group in widths
    )

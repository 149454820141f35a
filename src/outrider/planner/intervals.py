"""Conformal prediction intervals from weighted residuals, with levels that adapt to drift.

The interval of a new case are quantiles of the residuals of earlier cases, weighted by their likeness (Tibshirani, Barber, Candès and
Ramdas 2019, "Conformal prediction under covariate shift"). The new case itself counts as one more residual of unknown size; it stands on
a prior. The levels follow the share of misses (Gibbs and Candès 2021, "Adaptive conformal inference under distribution shift"), so that
the long-run coverage holds for any sequence of runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from outrider.planner.run_row import Interval

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MISSES = 0.2
"""Share of outcomes outside an 80 % interval."""
STEP = 0.02
LEAST_MISSES, MOST_MISSES = 0.02, 0.5
SPLITS = 9
"""Ways to divide the misses between both ends; the narrowest interval is taken, since what runs take is skewed."""
PRIOR_NODES = 9
PRIOR_WEIGHT, PRIOR_FADES_AFTER = 2.0, 5.0
"""Weight of the prior without any case, besides that of the new case; halved once the cases weigh as much as the second number."""


def adapt_misses(outcomes: Iterable[tuple[Interval, float]]) -> float:
    """The level after these predictions and outcomes, oldest first: a miss widens the next interval, a success narrows it a little."""
    level = MISSES
    for predicted, value in outcomes:
        level = min(MOST_MISSES, max(LEAST_MISSES, level + STEP * (MISSES - (not predicted.covers(value)))))
    return level


def weighted_quantiles(values: Floats, weights: Floats, levels: tuple[float, ...]) -> list[float]:
    """The least value at which the cumulative share of the weights reaches each level."""
    order = np.argsort(values, kind="stable")
    shares = np.cumsum(weights[order])
    places = np.searchsorted(shares, np.asarray(levels) * shares[-1] - 1e-12)
    return [float(values[order[min(place, len(order) - 1)]]) for place in places]


def find_interval(
    residuals: Floats, weights: Floats, prior_middle: float, prior_sigma: float, misses: float, value: Callable[[float], float]
) -> Interval:
    """The narrowest interval of a new case; `value` is its quantity for a residual."""
    total = float(weights.sum())
    prior = 1.0 + PRIOR_WEIGHT / (1.0 + total / PRIOR_FADES_AFTER)
    normal = NormalDist(prior_middle, prior_sigma)
    nodes = np.array([normal.inv_cdf((place + 0.5) / PRIOR_NODES) for place in range(PRIOR_NODES)])
    values = np.concatenate([residuals, nodes])
    both = np.concatenate([weights, np.full(PRIOR_NODES, prior / PRIOR_NODES)])
    lows = [misses * place / (SPLITS - 1) for place in range(SPLITS)]
    half, *ends = map(value, weighted_quantiles(values, both, (0.5, *lows, *(low + 1.0 - misses for low in lows))))
    low, high = min(zip(ends[:SPLITS], ends[SPLITS:], strict=True), key=lambda pair: pair[1] - pair[0])
    return Interval(low, min(max(half, low), high), high)


def baseline_interval(values: Iterable[float]) -> Interval:
    """10 %, 50 % and 90 % of all values, whatever the case."""
    sample = np.asarray(list(values), dtype=float)
    return Interval(*weighted_quantiles(sample, np.ones(len(sample)), (MISSES / 2, 0.5, 1.0 - MISSES / 2)))

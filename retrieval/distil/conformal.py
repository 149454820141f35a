"""Which threshold keeps everything that answers in at least a stated share of the cases.

Split conformal prediction (Vovk, Gammerman and Shafer 2005; Angelopoulos and Bates 2021, "A Gentle Introduction to Conformal
Prediction"). A case is a query with one text and the units of it that answer. Its score is that of the weakest of these units, so that
the case is kept whole by every threshold up to there. The threshold is one of the smallest of n such scores: that of rank k keeps
1 - k / (n + 1) of new cases whole on the mean over all that might have been drawn, whatever the engine is worth. A poor engine only
keeps more text.

For the cases that were drawn it may be less, the more so the fewer they are. `rank` therefore takes a k that is smaller (Vovk 2012,
"Conditional validity of inductive conformal predictors").
"""

from __future__ import annotations

import math
from collections.abc import Sequence

KEEP_RATE = 0.95
CONFIDENCE = 0.8
"""That the promise holds for the cases that happened to be drawn; without it, it would hold on the mean and fail every second time."""
FAR_BELOW = 0.04
"""A share of new cases this much below the promise breaks it for anyone who looks."""
LOOKS = 20
RARE = 0.1
"""That any of so many looks, each at as many new cases as were fitted on, finds it that far below."""
MOST_ABOVE = 0.015
"""Of the mean share above the promise: beyond it, too much text is kept. With fewer than about 270 cases this and `RARE` cannot both hold,
and this one counts."""


def conformal_threshold(weakest: Sequence[float], keep_rate: float) -> float:
    """The score with the rank that `rank` gives; 0, which keeps everything, where there are too few to leave one out."""
    place = rank(len(weakest), keep_rate)
    return sorted(weakest)[place - 1] if place else 0.0


def rank(cases: int, keep_rate: float) -> int:
    """The largest k with which the promise holds with `CONFIDENCE`; smaller where `FAR_BELOW` would not be `RARE`, down to `MOST_ABOVE`."""
    found = _confident(cases, keep_rate)
    fewest = max(0, math.ceil((1 - keep_rate - MOST_ABOVE) * (cases + 1) - 1e-9))
    rare = 1 - (1 - RARE) ** (1 / LOOKS)
    while found > fewest and chance_below(keep_rate - FAR_BELOW, found, cases, cases) > rare:
        found -= 1
    return found


def chance_below(share: float, k: int, cases: int, new: int) -> float:
    """That of `new` cases less than `share` are kept whole, by the score of rank `k` of `cases`.

    Those lost follow the negative hypergeometric distribution, where no two scores are equal.
    """
    most = new - math.ceil(share * new - 1e-9)
    every = _log_chosen(cases + new, new)
    lost = range(most + 1, new + 1)
    return sum(math.exp(_log_chosen(one + k - 1, one) + _log_chosen(cases - k + new - one, new - one) - every) for one in lost)


def _confident(cases: int, keep_rate: float) -> int:
    """The largest k for which at least k of `cases` are expected to lie below the `1 - keep_rate` quantile, with `CONFIDENCE`.

    That is P(Binomial(cases, 1 - keep_rate) >= k) >= CONFIDENCE: then the k-th smallest score lies below that quantile as surely.
    """
    lost, below = 1 - keep_rate, 0.0
    for k in range(cases + 1):
        below += math.exp(_log_chosen(cases, k) + k * math.log(lost) + (cases - k) * math.log(keep_rate))
        if 1 - below < CONFIDENCE:  # of k + 1 or more
            return k
    return cases


def _log_chosen(of: int, many: int) -> float:
    return math.lgamma(of + 1) - math.lgamma(many + 1) - math.lgamma(of - many + 1)

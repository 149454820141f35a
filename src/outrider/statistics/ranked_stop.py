"""Hypergeometric test on the ranked order: advice when screening may stop

Callaghan MW, Müller-Hansen F. Statistical stopping criteria for automated screening in systematic reviews. Syst Rev 2020;9:273. The records
read last are taken for a random sample of those not read before them. A ranking puts relevant records first, so the p-value is mostly too
large; an order that hides relevant records at its end makes it too small, and so does looking often. It is no proof: see
`recall_certificate`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
NEGLIGIBLE = 1e-17
"""Share of a sum below which its further terms, each smaller than the one before, change nothing."""


def compute_ranked_p_value(labels_in_order: Sequence[bool], total: int, target_recall: float) -> float:
    """The p-value of "recall is below the target" after these labels, of `total` records; 1 without evidence.

    `labels_in_order` tells for each record in the order of reading whether it is relevant. The p-value is the least one of all runs of last
    records, as the paper and `buscarpy` have it; it is not corrected for their number. Of runs with the same number of relevant records the
    longest has the least one, so that a run for each relevant record is enough.
    """
    positions = np.flatnonzero(np.asarray(labels_in_order, dtype=bool))
    read, relevant = len(labels_in_order), len(positions)
    least = count_least_total(relevant, target_recall)
    p_value = 1.0
    for inside in range(relevant + 1):
        start = int(positions[relevant - inside - 1]) + 1 if inside < relevant else 0
        population, hidden = total - start, least - (relevant - inside)
        if hidden > population:
            return 0.0  # there are not enough records left to miss the target
        if p_value <= 0.5 and inside > hidden * (read - start) / population + 1:
            continue  # the median lies within one of the mean (a sum of independent trials; Vatutin and Mikhailov 1982): no less than .5
        p_value = min(p_value, compute_hypergeometric_cdf(inside, population, hidden, read - start))
    return p_value


def count_least_total(included: int, target_recall: float) -> int:
    """The least number of relevant records of which so many included ones are less than the target's share."""
    return included * to_fraction(target_recall).denominator // to_fraction(target_recall).numerator + 1


@lru_cache(maxsize=64)
def to_fraction(share: float) -> Fraction:
    """The share as it is written: .95 is 19/20, so that 19 of 20 reach it."""
    return Fraction(str(share))


def compute_hypergeometric_cdf(at_most: int, population: int, marked: int, drawn: int) -> float:
    """The probability of at most so many marked ones among the drawn ones, without replacement."""
    least, most = max(0, drawn - (population - marked)), min(drawn, marked)
    if at_most < least:
        return 0.0
    if at_most >= most:
        return 1.0
    unmarked = population - marked
    is_low = at_most * population < marked * drawn  # sums the tail that falls away from the mean, from its largest term on
    count = at_most if is_low else at_most + 1
    term = math.exp(_log_choose(marked, count) + _log_choose(unmarked, drawn - count) - _log_choose(population, drawn))
    total = 0.0
    while term > total * NEGLIGIBLE:
        total += term
        if is_low:
            term *= count * (unmarked - drawn + count) / ((marked - count + 1) * (drawn - count + 1))
            count -= 1
        else:
            term *= (marked - count) * (drawn - count) / ((count + 1) * (unmarked - drawn + count + 1))
            count += 1
    return min(1.0, total) if is_low else max(0.0, 1.0 - total)


def _log_choose(pool: int, chosen: int) -> float:
    return math.lgamma(pool + 1) - math.lgamma(chosen + 1) - math.lgamma(pool - chosen + 1)


@lru_cache(maxsize=8)
def _factorials_below(size: int) -> Floats:
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, size)))])


def log_factorials(largest: int) -> Floats:
    """Logarithms of 0! to at least `largest`!"""
    return _factorials_below(1 << (largest + 1).bit_length())

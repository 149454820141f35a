"""How many candidates a model must read: in rule order, until the top k can no longer change but for a stated risk.

A score counts as the anchor of the rubric next to it, its grade: smaller differences are mostly the judge's noise, and their exact order
would need nearly all calls. The top k change when an unread work gets a relevant grade that is better than that of the k-th best relevant
one, or any relevant grade while there are fewer than k. A work that only ties stands behind, in rule order, so that k works of the best
grade are final. Nothing is said of works below `RELEVANT`, nor of the order within a grade.

Such works, hits, are taken for a Poisson process along the rule order, whose rate at place i falls as i^-e. How steeply (e, one of
`EXPONENTS`, all as likely before anything was read) and how many there are (a Gamma prior) is learned from those seen in the same query.
The chance that the unread places hold none is ((b + rate read) / (b + rate of all))^(a + hits), the negative binomial's term for zero,
averaged over e. A judge that errs scatters its hits, the rate is found to be flat, and more is read.

`python -m bench adaptive` fits and tests it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

BATCH = 10
"""Works a call."""
WAVE = 30
"""Works that are read at once, at most. A wave takes as long as its slowest call, so that few are wanted; but each may be the last."""
ANCHORS = (1.0, 0.7, 0.3, 0.0)
RELEVANT = 0.7
"""The grade that counts; the anchor below it, 0.3, is tangential."""

EXPONENTS = (0.0, 0.5, 1.0, 2.0)
SCALE = 100
"""Rates add up to 1 over so many places."""


@dataclass(frozen=True, slots=True)
class Prior:
    """A Gamma distribution of the number of hits in the first `SCALE` places; its mean is `shape / rate`."""

    shape: float
    rate: float


PRIOR = Prior(1.28, 0.123)
"""Fitted on SciFact, Cranfield, CISI and CACM with judges of four levels of noise, least log loss: `python -m bench adaptive`."""


@dataclass(frozen=True, slots=True)
class Observations:
    """What is known of a query after some of its candidates were read; places count from 1."""

    candidates: int
    read: int
    scored: tuple[int, ...]
    """Places that were read and got a score: one that got none says nothing."""
    hits: tuple[int, ...]
    """Places of the works over the bar."""
    final: bool = False
    """Nothing can stand over the bar."""


def estimate_risk(rules: Sequence[float], judged: Sequence[float | None], top_k: int, prior: Prior = PRIOR) -> float:
    """The chance, in [0, 1], that the top k would change if the rest were read; 0 when all was read.

    `rules` are the candidates' rule scores, best first; only their number counts, as rates by score predicted worse than by place.
    `judged` are the scores in [0, 1] of the first so many of them, None for one that could not be scored.
    """
    return estimate_change(observe(len(rules), judged, top_k), prior)


def choose_next_wave(
    rules: Sequence[float], judged: Sequence[float | None], top_k: int, max_risk: float, prior: Prior = PRIOR, first: int = WAVE
) -> int:
    """How many more to read at once: 0 where `risk` is at most `max_risk`, else a multiple of `BATCH`, or all that is left.

    At first it is `first`, or `top_k` if that is more; then what would suffice if it held no hit, at most `WAVE`.
    """
    left = len(rules) - len(judged)
    if left <= 0:
        return 0
    if not judged:
        return min(left, max(first, math.ceil(top_k / BATCH) * BATCH))
    if estimate_risk(rules, judged, top_k, prior) <= max_risk:
        return 0
    waves = range(BATCH, WAVE, BATCH)
    enough = (more for more in waves if more < left and estimate_risk(rules, [*judged, *[0.0] * more], top_k, prior) <= max_risk)
    return next(enough, min(left, WAVE))


def to_grade(score: float) -> float:
    """The anchor next to a score, the upper of two as near."""
    return min(ANCHORS, key=lambda anchor: (abs(anchor - score), -anchor))


def observe(candidates: int, judged: Sequence[float | None], top_k: int) -> Observations:
    grades = {place: to_grade(score) for place, score in enumerate(judged, start=1) if score is not None}
    relevant = sorted((one for one in grades.values() if one >= RELEVANT), reverse=True)
    kth = relevant[top_k - 1] if len(relevant) >= top_k else 0.0
    hits = tuple(place for place, one in grades.items() if one >= RELEVANT and one > kth)
    return Observations(candidates, len(judged), tuple(grades), hits, final=kth == max(ANCHORS))


def estimate_change(seen: Observations, prior: Prior) -> float:
    """That an unread place holds a hit."""
    if seen.final or seen.read >= seen.candidates:
        return 0.0
    count = prior.shape + len(seen.hits)
    log_weights: list[float] = []
    none: list[float] = []
    for exponent in EXPONENTS:
        rate = expected_rates(exponent, seen.candidates)
        exposed = prior.rate + math.fsum(rate[place - 1] for place in seen.scored)
        log_weights.append(math.fsum(math.log(rate[place - 1]) for place in seen.hits) - count * math.log(exposed))
        none.append((exposed / (exposed + math.fsum(rate[seen.read :]))) ** count)
    best = max(log_weights)
    weights = [math.exp(one - best) for one in log_weights]
    mean = math.fsum(weight * one for weight, one in zip(weights, none, strict=True)) / math.fsum(weights)
    return min(1.0, max(0.0, 1.0 - mean))


@lru_cache(maxsize=256)
def expected_rates(exponent: float, places: int) -> tuple[float, ...]:
    """Of so many places from the first on, each a share of the sum over `SCALE` places."""
    total = math.fsum(place**-exponent for place in range(1, SCALE + 1))
    return tuple(place**-exponent / total for place in range(1, places + 1))

"""Estimate of how many candidates a model must read until the top k are settled.

A score counts as the nearest anchor of the rubric, its grade: smaller differences are mostly noise of the judge, and their exact order
would need nearly all calls. The top k change if an unread work gets a relevant grade better than that of the k-th best relevant work, or
any relevant grade while there are fewer than k. A work with an equal grade ranks behind, in rule order, so that k works of the best
grade are final. Works below `RELEVANT`, and the order within a grade, are not covered.

Such works, hits, are modelled as a Poisson process along the rule order, whose rate at place i falls as i^-e. The exponent e, one of
`EXPONENTS`, all equally likely at first, and the number of hits (a Gamma prior) are learned from the hits so far in the same query. The
chance that the unread places hold no hit is ((b + rate read) / (b + rate of all))^(a + hits), the negative binomial's term for zero,
averaged over e. A noisy judge scatters its hits, the estimated rate becomes flat, and more is read.

`python -m bench adaptive` fits and tests it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

BATCH = 10
"""Works per call."""
WAVE = 30
"""Works read at once, at most. A wave takes as long as its slowest call, so few waves are better; but a smaller wave may suffice."""
ANCHORS = (1.0, 0.7, 0.3, 0.0)
RELEVANT = 0.7
"""The grade that counts; the anchor below it, 0.3, is tangential."""

EXPONENTS = (0.0, 0.5, 1.0, 2.0)
SCALE = 100
"""Expected rates add up to 1 over so many places."""


@dataclass(frozen=True, slots=True)
class Prior:
    """A Gamma distribution of the number of hits in the first `SCALE` places; its mean is `shape / rate`."""

    shape: float
    rate: float


PRIOR = Prior(1.28, 0.123)
"""Fitted on SciFact, Cranfield, CISI and CACM with judges of four levels of noise, least log loss: `python -m bench adaptive`."""


@dataclass(frozen=True, slots=True)
class Observations:
    """What reading a part of the candidates showed; places count from 1."""

    candidates: int
    read: int
    scored: tuple[int, ...]
    """Places with a score; a work that was read without one gives no information."""
    hits: tuple[int, ...]
    """Places of the works over the bar."""
    final: bool = False
    """No work can be over the bar."""


def estimate_risk(rules: Sequence[float], judged: Sequence[float | None], top_k: int, prior: Prior = PRIOR) -> float:
    """The chance, in [0, 1], that the top k would change if the rest were read; 0 when all was read.

    `rules` are the candidates' rule scores, best first; only their number counts, since rates by score predicted worse than by place.
    `judged` are the scores in [0, 1] of the works read so far, None for a work that could not be scored.
    """
    return estimate_change(observe(len(rules), judged, top_k), prior)


def choose_next_wave(
    rules: Sequence[float], judged: Sequence[float | None], top_k: int, max_risk: float, prior: Prior = PRIOR, first: int = WAVE
) -> int:
    """How many more to read at once: 0 if the risk is at most `max_risk`, else a multiple of `BATCH`, or all that is left.

    The first wave is `first`, or `top_k` if that is more; later waves are as large as would suffice without a hit, at most `WAVE`.
    """
    remaining = len(rules) - len(judged)
    if remaining <= 0:
        return 0
    if not judged:
        return min(remaining, max(first, math.ceil(top_k / BATCH) * BATCH))
    if estimate_risk(rules, judged, top_k, prior) <= max_risk:
        return 0
    for more in range(BATCH, WAVE, BATCH):
        if more < remaining and estimate_risk(rules, [*judged, *[0.0] * more], top_k, prior) <= max_risk:
            return more
    return min(remaining, WAVE)


def to_grade(score: float) -> float:
    """The nearest anchor; of two equally near the upper one."""
    return min(ANCHORS, key=lambda anchor: (abs(anchor - score), -anchor))


def observe(candidates: int, judged: Sequence[float | None], top_k: int) -> Observations:
    grades = {place: to_grade(score) for place, score in enumerate(judged, start=1) if score is not None}
    relevant = sorted((grade for grade in grades.values() if grade >= RELEVANT), reverse=True)
    kth = relevant[top_k - 1] if len(relevant) >= top_k else 0.0
    hits = tuple(place for place, grade in grades.items() if grade >= RELEVANT and grade > kth)
    return Observations(candidates, len(judged), tuple(grades), hits, final=kth == max(ANCHORS))


def estimate_change(observations: Observations, prior: Prior) -> float:
    """The chance that an unread place holds a hit."""
    if observations.final or observations.read >= observations.candidates:
        return 0.0
    count = prior.shape + len(observations.hits)
    log_weights: list[float] = []
    none: list[float] = []
    for exponent in EXPONENTS:
        rates = expected_rates(exponent, observations.candidates)
        exposed = prior.rate + math.fsum(rates[place - 1] for place in observations.scored)
        log_weights.append(math.fsum(math.log(rates[place - 1]) for place in observations.hits) - count * math.log(exposed))
        none.append((exposed / (exposed + math.fsum(rates[observations.read :]))) ** count)
    best = max(log_weights)
    weights = [math.exp(log_weight - best) for log_weight in log_weights]
    mean = math.fsum(weight * chance for weight, chance in zip(weights, none, strict=True)) / math.fsum(weights)
    return min(1.0, max(0.0, 1.0 - mean))


@lru_cache(maxsize=256)
def expected_rates(exponent: float, places: int) -> tuple[float, ...]:
    """The rates of the first places, each as a share of the sum over `SCALE` places."""
    total = math.fsum(place**-exponent for place in range(1, SCALE + 1))
    return tuple(place**-exponent / total for place in range(1, places + 1))

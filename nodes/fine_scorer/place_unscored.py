"""Scores for works that the model did not score, by their places in rule order.

Such a work is not irrelevant, so it keeps its place by the rules: it gets the score that the model would probably give at that place.
That is the antitonic fit of the scores to the rule order (pool adjacent violators; Ayer et al. 1955, "An empirical distribution function
for sampling with incomplete information"): the falling step function with the least squared distance, on which a single outlier has
little effect. Between two scored places the value falls evenly from one fit to the other, and after the last one towards 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

STEP = 1e-6
"""Difference between neighbouring unscored works, so that a later tie-break cannot change their order."""


def place_unscored(judged: Sequence[float | None], unread_from: int | None = None) -> list[float]:
    """Scores in [0, 1] for all works in rule order. `judged` are the model's scores, None for a work without one; one at least is given.

    Given scores do not change. The others fall strictly in rule order, and none reaches an earlier work whose score is as high as that
    of anything after it. Unread works, from the place `unread_from` on, score no higher than any work that was read.
    """
    likely = _interpolate(judged)
    scores: list[float] = []
    left = sum(score is None for score in judged[:unread_from])
    last = math.inf
    for score, guess in zip(judged[:unread_from], likely, strict=False):
        if score is None:
            last = max(min(guess, last - STEP), left * STEP)
            left -= 1
        scores.append(last if score is None else score)
    lowest = min(scores)
    return [*scores, *(min(guess, lowest) for guess in likely[len(scores) : len(judged)])]


def fit_antitonic(scores: Sequence[float]) -> list[float]:
    """The falling sequence with the least squared distance."""
    blocks: list[tuple[float, int]] = []
    for score in scores:
        total, count = score, 1
        while blocks and blocks[-1][0] / blocks[-1][1] < total / count:
            before, many = blocks.pop()
            total, count = total + before, count + many
        blocks.append((total, count))
    return [total / count for total, count in blocks for _ in range(count)]


def _interpolate(judged: Sequence[float | None]) -> list[float]:
    """The likely score of each place; before the first scored place, just above its fit."""
    fit = iter(fit_antitonic([score for score in judged if score is not None]))
    likely: list[float] = []
    before: float | None = None
    for length, after in _gaps(judged, fit):
        for at in range(1, length + 1):
            high = before - STEP if before is not None else min(1.0, after + length * STEP)
            likely.append(high - (high - min(high, after)) * at / (length + 1))
        likely.append(after)
        before = after
    return likely


def _gaps(judged: Sequence[float | None], fit: Iterator[float]) -> Iterator[tuple[int, float]]:
    """The number of unscored places before each scored one, with its fit; the end counts as a scored place of 0."""
    length = 0
    for score in judged:
        if score is None:
            length += 1
        else:
            yield length, next(fit)
            length = 0
    yield length, 0.0

"""Where a work stands that the model did not score, among those that it did.

It is not irrelevant, so it keeps its place by the rules: it gets the score that the model is likely to give at that place. That is the
antitonic fit of the scores to the order of the rules (pool adjacent violators; Ayer et al. 1955, "An empirical distribution function
for sampling with incomplete information"): the falling step function nearest to them, which one odd neighbour does not move much.
Between two scored places the value falls evenly from the one's fit to the other's, and after the last one towards 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

STEP = 1e-6
"""What keeps unscored works apart, so that a later tie-break cannot change their order."""


def place_unscored(judged: Sequence[float | None], unread_from: int | None = None) -> list[float]:
    """Scores in [0, 1] for all works, given in rule order with the model's scores; None where it gave none. One at least was given.

    Scores that were given stay as they are. The others fall strictly in rule order, and none of them reaches a work that is before
    it by the rules and that the model scored as high as anything after it. What was left unread, from the place `unread_from` on,
    scores no higher than anything that was read.
    """
    likely = _between(judged)
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


def _between(judged: Sequence[float | None]) -> list[float]:
    """The likely score of each place; before the first scored one, just above its fit."""
    fit = iter(fit_antitonic([score for score in judged if score is not None]))
    likely: list[float] = []
    before: float | None = None
    for length, after in _runs(judged, fit):
        for at in range(1, length + 1):
            high = before - STEP if before is not None else min(1.0, after + length * STEP)
            likely.append(high - (high - min(high, after)) * at / (length + 1))
        likely.append(after)
        before = after
    return likely


def _runs(judged: Sequence[float | None], fit: Iterator[float]) -> Iterator[tuple[int, float]]:
    """How many unscored places come before each scored one, with its fit; the end counts as a scored place of 0."""
    length = 0
    for score in judged:
        if score is None:
            length += 1
        else:
            yield length, next(fit)
            length = 0
    yield length, 0.0

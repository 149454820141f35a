"""What every engine of the distiller is: P(relevant | unit, query) for each unit of some texts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from outrider.retrieval.distil.units import Cut

MOST = 15.0
"""A logit beyond this says no more."""
FLOOR = 1 / (1 + math.exp(MOST))

Scores = list[list[float]]
"""For each text, for each of its units, a number in [0, 1]."""


class Engine(Protocol):
    """Its calls block and may load a model at first use; safe to share between threads."""

    @property
    def name(self) -> str:
        """With the model, where there is one; a calibration holds for one name and revision."""
        ...

    @property
    def revision(self) -> str: ...

    def scores(self, query: str, cuts: Sequence[Cut]) -> Scores:
        """Raises `ModelError`, `MissingExtra`."""
        ...


def probability(logit: float) -> float:
    return 1 / (1 + math.exp(-max(-MOST, min(MOST, logit))))


def logit(probability: float) -> float:
    """In [-MOST, MOST]."""
    clipped = min(max(probability, FLOOR), 1 - FLOOR)
    return math.log(clipped / (1 - clipped))

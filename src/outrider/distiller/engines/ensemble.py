"""Engine interface of the distiller, and ensembles of engines.

An engine gives P(relevant | unit, query) for each unit. An ensemble combines the logits of several: their mean, or a fitted weighted sum.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from outrider.distiller.units import SegmentedText
from outrider.state.errors import BadRequest

MAX_LOGIT = 15.0
"""A logit beyond this says no more."""
MIN_PROBABILITY = 1 / (1 + math.exp(MAX_LOGIT))

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

    def scores(self, query: str, cuts: Sequence[SegmentedText]) -> Scores:
        """Raises `ModelError`, `MissingExtra`."""
        ...


def probability(logit: float) -> float:
    return 1 / (1 + math.exp(-max(-MAX_LOGIT, min(MAX_LOGIT, logit))))


def logit(probability: float) -> float:
    """In [-MOST, MOST]."""
    clipped = min(max(probability, MIN_PROBABILITY), 1 - MIN_PROBABILITY)
    return math.log(clipped / (1 - clipped))


@dataclass(frozen=True, slots=True)
class EnsembleWeights:
    """P = sigmoid(intercept + sum of weight x logit + sum of weight x (logit - the best of its text))."""

    each: tuple[float, ...]
    intercept: float = 0.0
    behind: tuple[float, ...] = ()
    """Of what each is behind the best of its text; none counts where it is empty."""

    def probabilities(self, of_each: Sequence[Sequence[float]]) -> list[float]:
        """Of one text's units, from what each engine gave them."""
        logits = [[logit(one) for one in many] for many in of_each]
        behind = self.behind or (0.0,) * len(self.each)
        best = sum(weight * max(many, default=0.0) for weight, many in zip(behind, logits, strict=True))
        weights = [one + other for one, other in zip(self.each, behind, strict=True)]
        return [
            probability(self.intercept - best + sum(w * z for w, z in zip(weights, unit, strict=True)))
            for unit in zip(*logits, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Ensemble:
    """`weights` of the engines in their order; without them each counts alike."""

    engines: tuple[Engine, ...]
    weights: EnsembleWeights | None = None

    def __post_init__(self) -> None:
        if not self.engines:
            raise BadRequest("an ensemble of the distiller needs at least one engine")
        if self.weights is not None and len(self.weights.each) != len(self.engines):
            raise BadRequest(f"{len(self.engines)} engines of the distiller need as many weights, not {len(self.weights.each)}")

    @property
    def name(self) -> str:
        return " + ".join(engine.name for engine in self.engines)

    @property
    def revision(self) -> str:
        weights = self._weights()
        parts = [
            [engine.revision for engine in self.engines],
            weights.each,
            weights.intercept,
            *([weights.behind] if weights.behind else []),
        ]
        said = json.dumps(parts)
        return hashlib.sha256(said.encode()).hexdigest()[:16]

    def scores(self, query: str, cuts: Sequence[SegmentedText]) -> Scores:
        of_each = [engine.scores(query, cuts) for engine in self.engines]
        weights = self._weights()
        return [weights.probabilities(text) for text in zip(*of_each, strict=True)]

    def _weights(self) -> EnsembleWeights:
        return self.weights or EnsembleWeights((1 / len(self.engines),) * len(self.engines))


def fit_weights(logits: Sequence[Sequence[float]], relevant: Sequence[bool], ridge: float = 1.0) -> EnsembleWeights:
    """Logistic regression by Newton's method: `logits` hold for each unit one of each engine. `ridge` holds back the weights only.

    The cases must be none that an engine was trained on, else its weight is too high.
    """
    import numpy as np

    x = np.column_stack([np.ones(len(logits)), np.asarray(logits, dtype=np.float64)])
    y = np.asarray(relevant, dtype=np.float64)
    if len(set(relevant)) < 2:
        raise BadRequest("weights can be fitted only where some units answer and others do not")
    penalty = ridge * np.diag([0.0, *np.ones(x.shape[1] - 1)])
    found = np.zeros(x.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-np.clip(x @ found, -30, 30)))
        step = np.linalg.solve(x.T @ (x * (p * (1 - p))[:, None]) + penalty + 1e-9 * np.eye(len(found)), x.T @ (y - p) - penalty @ found)
        found = found + np.clip(step, -5, 5)
        if np.abs(step).max() < 1e-8:
            break
    return EnsembleWeights(tuple(float(one) for one in found[1:]), float(found[0]))

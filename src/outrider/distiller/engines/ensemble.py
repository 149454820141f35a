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
"""Logits are clipped to this magnitude."""
MIN_PROBABILITY = 1 / (1 + math.exp(MAX_LOGIT))

Scores = list[list[float]]
"""One list per text with a number in [0, 1] for each unit."""


class Engine(Protocol):
    """Scores units. Calls block and may load a model at first use; an engine can be shared between threads."""

    @property
    def name(self) -> str:
        """Name, including that of the model if there is one. A calibration is valid for one name and revision."""
        ...

    @property
    def revision(self) -> str: ...

    def scores(self, query: str, cuts: Sequence[SegmentedText]) -> Scores:
        """Raises `ModelError`, `MissingExtra`."""
        ...


def probability(logit: float) -> float:
    return 1 / (1 + math.exp(-max(-MAX_LOGIT, min(MAX_LOGIT, logit))))


def logit(probability: float) -> float:
    """The log-odds, clipped to [-MAX_LOGIT, MAX_LOGIT]."""
    clipped = min(max(probability, MIN_PROBABILITY), 1 - MIN_PROBABILITY)
    return math.log(clipped / (1 - clipped))


@dataclass(frozen=True, slots=True)
class EnsembleWeights:
    """P = sigmoid(intercept + sum of weight x logit + sum of weight x (logit - the best of its text))."""

    each: tuple[float, ...]
    intercept: float = 0.0
    behind: tuple[float, ...] = ()
    """Weights of the differences from the best unit of the text; empty to ignore them."""

    def probabilities(self, of_each: Sequence[Sequence[float]]) -> list[float]:
        """Probabilities of one text's units from the probabilities of each engine."""
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
    """Several engines with `weights` in their order; without weights all count equally."""

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
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]

    def scores(self, query: str, cuts: Sequence[SegmentedText]) -> Scores:
        of_each = [engine.scores(query, cuts) for engine in self.engines]
        weights = self._weights()
        return [weights.probabilities(text) for text in zip(*of_each, strict=True)]

    def _weights(self) -> EnsembleWeights:
        return self.weights or EnsembleWeights((1 / len(self.engines),) * len(self.engines))


def fit_weights(logits: Sequence[Sequence[float]], relevant: Sequence[bool], ridge: float = 1.0) -> EnsembleWeights:
    """Logistic regression by Newton's method: `logits` has one row per unit with one value per engine.

    `ridge` penalises the weights, not the intercept. No engine may have been trained on the cases, otherwise its weight is too high.
    """
    import numpy as np

    x = np.column_stack([np.ones(len(logits)), np.asarray(logits, dtype=np.float64)])
    y = np.asarray(relevant, dtype=np.float64)
    if len(set(relevant)) < 2:
        raise BadRequest("weights can only be fitted if some units answer and others do not")
    penalty = ridge * np.diag([0.0, *np.ones(x.shape[1] - 1)])
    coefficients = np.zeros(x.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-np.clip(x @ coefficients, -30, 30)))
        gradient = x.T @ (y - p) - penalty @ coefficients
        step = np.linalg.solve(x.T @ (x * (p * (1 - p))[:, None]) + penalty + 1e-9 * np.eye(len(coefficients)), gradient)
        coefficients = coefficients + np.clip(step, -5, 5)
        if np.abs(step).max() < 1e-8:
            break
    return EnsembleWeights(tuple(float(one) for one in coefficients[1:]), float(coefficients[0]))

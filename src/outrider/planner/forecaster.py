"""Forecast of a run's seconds, calls, cost and hits from earlier runs.

A light regression moves the outcome of each earlier run to the present request: a structural estimate (such as: the slowest source of the
last runs, and what this kind of run computes itself) times a ridge regression over features of the plan. Its leave-one-out errors,
weighted by likeness and age, give the interval (`intervals`; Barber, Candès, Ramdas and Tibshirani 2021, "Predictive inference with the
jackknife+").
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from outrider.planner.intervals import adapt_misses, find_interval
from outrider.planner.run_row import ASKED, CALLS, CALLS_TO, COST, HITS_OF, MODEL, SECONDS, TASKS, TOOK, Interval, RunRow, Values
from outrider.state.records import LIBRARY

if TYPE_CHECKING:
    from outrider.planner.intervals import Floats

MOST_ROWS = 200
"""Latest runs that a forecast reads."""
FLAGS = ("systematic", "model", "cold", "repeated", "remote", "answer")
"""What makes two runs alike."""
NUMBERS = (
    "distill", "rerank", "enrich", "expansion", "words", "top_k", "candidates", "records", "tasks", "wait_s", "load", "last_hour",
    "matches",
)  # fmt: skip
"""Further features of the regression, as logarithms."""
UNLIKE = 0.3
"""Weight of a run for each flag that differs."""
UNLIKE_SOURCE = 0.8
"""The same for each source that only one of them searches."""
AGE_HALVES = 60
"""Runs after which a run counts half."""
RECENT_HALVES = 6
"""The same for the structural estimate, which follows a service that has become slower."""
MOST_RECENT = 20 * RECENT_HALVES
"""Latest runs that tell what we compute ourselves."""
RIDGE = 4.0
MOST_LEVERAGE = 0.75
FURTHEST = 5.0
"""An interval ends at this many times the largest outcome so far: few runs give slopes that lead anywhere."""
SOURCE_S, OWN_S, COLD_S, MODEL_S = 1.0, 0.4, 3.0, 4.0
"""Priors: seconds of a service's answer, of our own work, of loading, and of a chat model in one run."""
MODEL_CALLS = 8.0
SMALLEST_S = 0.01


@dataclass(frozen=True, slots=True)
class Quantity:
    """How one quantity is modelled: log(value + shift) - log(estimate + shift) is what the regression explains."""

    name: str
    shift: float
    feature: str
    """The feature that is the structural estimate ..."""
    default: float
    """... or this where a run lacks it ..."""
    for_model: float
    """... and this besides where a chat model is asked."""
    prior_sigma: float
    prior_middle: float = 0.0
    is_count: bool = True

    def estimate_log(self, features: Values) -> float:
        return math.log(features.get(self.feature, self.default) + self.for_model * features.get(MODEL, 0.0) + self.shift)

    def to_value(self, logarithm: float, most: float) -> float:
        value = min(most, max(0.0, math.exp(logarithm) - self.shift))
        return math.floor(value + 0.5) if self.is_count else value


@dataclass(frozen=True, slots=True)
class Forecast:
    interval: Interval
    runs: int
    """Earlier runs that had this quantity."""
    alike: float
    """Their weight by likeness and age."""


class Forecaster:
    """Over runs, oldest first."""

    def __init__(self, rows: Sequence[RunRow]) -> None:
        self.rows = rows[-MOST_ROWS:]

    @cached_property
    def _flags(self) -> Floats:
        return np.array([[row.features.get(name, 0.0) for name in FLAGS] for row in self.rows]).reshape(len(self.rows), len(FLAGS))

    @cached_property
    def _names(self) -> list[str]:
        """All sources that a run searched."""
        return sorted({name for row in self.rows for name in list_sources(row.features)})

    @cached_property
    def _asks(self) -> Floats:
        """Which sources each run searched."""
        return np.array([self._list_asks(row.features) for row in self.rows]).reshape(len(self.rows), len(self._names))

    @cached_property
    def _columns(self) -> Floats:
        numbers = np.array([_list_numbers(row.features) for row in self.rows]).reshape(len(self.rows), len(NUMBERS))
        return np.hstack([self._flags, numbers, self._asks])

    def _list_asks(self, features: Values) -> list[float]:
        return [float(TASKS + name in features) for name in self._names]

    def forecast(self, features: Values, names: Iterable[str]) -> dict[str, Forecast]:
        """A forecast for each quantity. `features` come from `complete_features`."""
        flags = np.array([features.get(name, 0.0) for name in FLAGS])
        asks = np.array(self._list_asks(features))
        likeness = UNLIKE ** (self._flags != flags).sum(axis=1) * UNLIKE_SOURCE ** (self._asks != asks).sum(axis=1)
        return {name: self._forecast(make_quantity(name), features, likeness) for name in names}

    def _forecast(self, quantity: Quantity, features: Values, likeness: Floats) -> Forecast:
        name = quantity.name
        # where it was known, such as no cost without a model, a run tells nothing
        places = [place for place, row in enumerate(self.rows) if name in row.outcome and name in row.predicted]
        known = [self.rows[place] for place in places]
        outcomes = np.array([row.outcome[name] for row in known])
        targets = np.log(outcomes + quantity.shift) - np.array([quantity.estimate_log(row.features) for row in known])
        ages = np.arange(len(known) - 1, -1, -1.0)
        weights = likeness[places] * 0.5 ** (ages / AGE_HALVES) if known else np.empty(0)
        middle, residuals = self._regress(quantity, features, places, targets, weights)
        misses = adapt_misses((row.predicted[name], row.outcome[name]) for row in known)
        most = find_most(name, features)
        if known:
            most = min(most, FURTHEST * (float(outcomes.max()) + quantity.shift))
        start = middle + quantity.estimate_log(features)
        interval = find_interval(
            residuals, weights, 0.0, quantity.prior_sigma, misses, lambda residual: quantity.to_value(start + residual, most)
        )
        return Forecast(interval, len(known), float(weights.sum()))

    def _regress(
        self, quantity: Quantity, features: Values, places: Sequence[int], targets: Floats, weights: Floats
    ) -> tuple[float, Floats]:
        """The expected target, and the leave-one-out errors of the runs."""
        total = float(weights.sum())
        if not places or not total:
            return quantity.prior_middle, np.empty(0)
        columns = self._columns[places]
        new = np.array([*(features.get(name, 0.0) for name in FLAGS), *_list_numbers(features), *self._list_asks(features)])
        centre = weights @ columns / total
        spread = np.sqrt(weights @ (columns - centre) ** 2 / total)
        varies = spread > 1e-9
        scaled = (columns[:, varies] - centre[varies]) / spread[varies]
        # a feature beyond what the runs had moves the estimate no further than they did
        point = np.clip((new[varies] - centre[varies]) / spread[varies], -3.0, 3.0)
        prior = 1.0 / (1.0 + total)
        level = (float(weights @ targets) + prior * quantity.prior_middle) / (total + prior)
        inverse = np.linalg.inv((scaled.T * weights) @ scaled + RIDGE * np.eye(scaled.shape[1]))
        slopes = inverse @ (scaled.T * weights) @ (targets - level)
        errors = targets - level - scaled @ slopes
        leverage = np.minimum(MOST_LEVERAGE, weights * (1.0 / total + np.einsum("ij,jk,ik->i", scaled, inverse, scaled)))
        return level + float(point @ slopes), errors / (1.0 - leverage)


def _list_numbers(features: Values) -> list[float]:
    return [math.log1p(max(0.0, features.get(name, 0.0))) for name in NUMBERS]


def make_quantity(name: str) -> Quantity:
    """The model of a quantity."""
    if name == SECONDS:
        return Quantity(name, 0.02, "base_s", OWN_S, 0.0, 0.7, is_count=False)
    if name == COST:
        return Quantity(name, 1e-5, "", 1e-3, 0.0, 1.5, is_count=False)
    if name == CALLS:
        return Quantity(name, 1.0, "tasks", 0.0, MODEL_CALLS, 0.8)
    if name.startswith(HITS_OF):
        return Quantity(name, 1.0, ASKED + name.removeprefix(HITS_OF), 0.0, 0.0, 1.0, -0.7)
    return Quantity(name, 1.0, name, MODEL_CALLS if name == CALLS_TO + MODEL else 0.0, 0.0, 0.8)


def find_most(name: str, features: Values) -> float:
    """The largest value that is possible: rules' searches return no more than they request."""
    if name.startswith(HITS_OF) and not (features.get("systematic") or features.get(MODEL)):
        return features.get(ASKED + name.removeprefix(HITS_OF), 0.0)
    return math.inf


def complete_features(features: Values, begun: float, request: int, rows: Sequence[RunRow], fresh_s: float) -> dict[str, float]:
    """The features with what the runs before tell: repeats whose answers are cached, the load of the hour, the estimate of seconds."""
    recent = rows[-MOST_ROWS:]
    repeated = any(row.request == request and begun - row.begun < fresh_s for row in recent)
    hour = sum(begun - row.begun < 3_600.0 for row in recent)
    complete = {**features, "repeated": float(repeated), "last_hour": float(hour)}
    complete["base_s"] = estimate_seconds(complete, recent)
    return complete


def estimate_seconds(features: Values, rows: Sequence[RunRow]) -> float:
    """The slowest source that is asked, as it was in its last runs, and what runs of this kind take besides."""
    waits = [_estimate_source_s(name, features, rows) for name in list_sources(features)]
    prior = OWN_S + COLD_S * features.get("cold", 0.0) + MODEL_S * features.get(MODEL, 0.0)
    total, logs = 0.3, 0.3 * math.log(prior)
    for age, row in enumerate(reversed(rows[-MOST_RECENT:])):
        unlike = sum(row.features.get(name, 0.0) != features.get(name, 0.0) for name in FLAGS)
        weight = 0.5 ** (age / (2 * RECENT_HALVES)) * UNLIKE ** (2 * unlike)
        own = row.outcome.get(SECONDS, 0.0) - max((took for name, took in row.outcome.items() if name.startswith(TOOK)), default=0.0)
        total, logs = total + weight, logs + weight * math.log(max(SMALLEST_S, own))
    return max(waits, default=0.0) + math.exp(logs / total)


def _estimate_source_s(name: str, features: Values, rows: Sequence[RunRow]) -> float:
    is_library = name == LIBRARY
    total, logs = (0.2, 0.2 * math.log(SMALLEST_S if is_library or features["repeated"] else SOURCE_S))
    age = 0
    for row in reversed(rows):
        took = row.outcome.get(TOOK + name)
        if took is None or row.features.get("repeated") != features["repeated"] or (is_library and row.features.get("cold")):
            continue
        weight = 0.5 ** (age / RECENT_HALVES)
        total, logs, age = total + weight, logs + weight * math.log(max(SMALLEST_S, took)), age + 1
        if weight < 0.01:
            break
    return math.exp(logs / total)


def list_sources(features: Values) -> list[str]:
    """The sources that are searched."""
    return [name.removeprefix(TASKS) for name in features if name.startswith(TASKS)]


def list_quantities(features: Values, rows: Sequence[RunRow]) -> list[str]:
    """The quantities that are uncertain for a request with these features; what is left out is known."""
    sources = list_sources(features)
    # a plan counts the matches of an exact query in the library
    counted = {LIBRARY} if features.get("systematic") else set()
    names = [SECONDS, *(f"{HITS_OF}{name}" for name in sources if features[ASKED + name] and name not in counted)]
    if features.get("remote") or features.get(MODEL):
        names.append(CALLS)
    services = [name.removeprefix(CALLS_TO) for name in features if name.startswith(CALLS_TO)]
    if features.get("remote"):
        # pages and look-ups of abstracts lead to services that no search of this request asks
        seen = {name.removeprefix(CALLS_TO) for row in rows[-MOST_ROWS:] for name in row.outcome if name.startswith(CALLS_TO)}
        services += sorted(seen - {*services, MODEL}) if features.get("enrich") else []
    names += [f"{CALLS_TO}{name}" for name in services]
    if features.get(MODEL):
        names += [f"{CALLS_TO}{MODEL}", *([COST] if features.get("priced") else [])]
    return names

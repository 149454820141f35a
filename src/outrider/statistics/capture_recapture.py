"""Capture-recapture over independent routes: a lower bound of the recall of searches

Works that several routes find (databases, queries, citation links) tell how many none of them finds. The counts by route follow a log-
linear model with a main effect for each route and an interaction for each pair (Fienberg 1972, Biometrika 59:591; for searches of reviews
Kastner et al. 2009, J Clin Epidemiol 62:149). Routes of searches are rarely independent: what one finds easily, another finds, too, and
counts alone cannot tell dependence from a complete search. So the interactions have a normal prior, with a part that all pairs share. The
bound is the end of the profile likelihood of the number missed (Cormack 1992, Biometrics 48:567), of one side: dependence that is
stronger than the prior, and works that no route can find, make each estimate too low, so a two-sided interval covers less than it says.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from itertools import combinations
from math import lgamma, log
from statistics import NormalDist

import numpy as np
from pydantic import Field

from outrider.state.errors import BadRequest
from outrider.state.model import Model
from outrider.statistics.ranked_stop import Floats

MAX_ROUTES = 4
"""Of more, the smallest are pooled: many sparse counts bring no information and cost time."""
PRIOR_MEAN, PRIOR_SHARED_SD, PRIOR_OWN_SD = 1.6, 0.7, 0.8
"""Of the log odds ratio of two routes: the true ones of 923 pairs of routes in SYNERGY, CACM and CISI have means of 1.05, .71 and 1.62, and
standard deviations of .85, 1.19 and 1.25. The prior lies at the upper end, since the bound must hold for each (ADR 51)."""
LEAST_FOUND = 5
GRID, LARGEST = 60, 200
"""Numbers of missed works that are tried, and the largest one in multiples of those found: a bound beyond it is none."""
STEPS, STEP_LIMIT, TOLERANCE = 60, 1.5, 1e-6


class RecaptureBound(Model):
    """What independent routes tell of the works that none of them found."""

    routes: tuple[str, ...] = Field(description="Those that counted; pooled ones are joined by +, those with the same works by =.")
    found: int = Field(ge=0, description="Works that at least one route found.")
    most: int | None = Field(None, description="Upper bound of all works that routes like these can find; None where there is no bound.")
    recall: float | None = Field(None, ge=0, le=1, description="Lower bound of the recall of all routes together; None as above.")
    confidence: float = Field(gt=0, lt=1)
    method: str = "capture-recapture, log-linear model with dependent routes, one-sided profile likelihood"
    refused: str = Field("", description="Why there is no bound.")
    sentence: str


def bound_recall_of_routes(routes: Mapping[str, Collection[Hashable]], confidence: float = 0.95) -> RecaptureBound:
    """A lower bound of the recall of several routes from the works of each, or why there is none. Raises `BadRequest`."""
    if not 0 < confidence < 1:
        raise BadRequest(f"the confidence lies between 0 and 1, not at {confidence}")
    sets = _pool(routes)
    names = tuple(sets)
    found = frozenset[Hashable]().union(*sets.values())
    refused = _refuse(routes, sets, len(found))
    missed = None if refused else _bound_missed(_count_cells(list(sets.values())), len(sets), confidence)
    if missed is None:
        refused = refused or "the overlap is too small to bound the number missed"
        sentence = f"The recall of the searches cannot be bounded: {refused}."
        return RecaptureBound(routes=names, found=len(found), confidence=confidence, refused=refused, sentence=sentence)
    most = len(found) + int(np.ceil(missed))
    recall = len(found) / most
    sentence = (
        f"The {len(sets)} routes together found at least {int(recall * 1000) / 10:.1f}% of what such routes can find (one-sided, "
        f"confidence {confidence:.0%}, capture-recapture by a log-linear model with dependent routes): {len(found):,} works are found, and "
        f"at most {most:,} exist. Works that no such route can find are not counted."
    )  # fmt: skip
    return RecaptureBound(routes=names, found=len(found), most=most, recall=recall, confidence=confidence, sentence=sentence)


def _pool(routes: Mapping[str, Collection[Hashable]]) -> dict[str, frozenset[Hashable]]:
    """Routes that found something, each set of works once, the largest first; of more than `MAX_ROUTES` the smallest are pooled."""
    names: dict[frozenset[Hashable], str] = {}
    for name in sorted(routes):
        if works := frozenset(routes[name]):
            names[works] = f"{names[works]} = {name}" if works in names else name

    def sort(pairs: Collection[tuple[str, frozenset[Hashable]]]) -> list[tuple[str, frozenset[Hashable]]]:
        return sorted(pairs, key=lambda one: (-len(one[1]), one[0]))

    pooled = sort([(name, works) for works, name in names.items()])
    while len(pooled) > MAX_ROUTES:
        (first, some), (second, others) = pooled[-2:]
        pooled = sort([*pooled[:-2], (f"{first} + {second}", some | others)])
    return dict(pooled)


def _refuse(routes: Mapping[str, Collection[Hashable]], sets: Mapping[str, frozenset[Hashable]], works: int) -> str:
    """Why these routes allow no bound; empty if they do."""
    if sum(bool(route) for route in routes.values()) < 2:
        return "fewer than two routes found works"
    if len(sets) < 2:
        return "the routes found the same works, as one route would"
    if works < LEAST_FOUND:
        return f"fewer than {LEAST_FOUND} works are found"
    if not any(one & other for one, other in combinations(sets.values(), 2)):
        return "no work was found by two routes"
    alone = [name for name in sets if sets[name] - frozenset[Hashable]().union(*(sets[other] for other in sets if other != name))]
    if len(alone) < 2:
        # a route that only repeats another one does not tell a complete search from a dependent route
        return "fewer than two routes found works of their own"
    return ""


def _count_cells(sets: Collection[frozenset[Hashable]]) -> Floats:
    """Works by the routes that found them, one bit a route; nothing is known of those without one."""
    counts = np.zeros(1 << len(sets))
    for work in frozenset[Hashable]().union(*sets):
        counts[sum(1 << at for at, works in enumerate(sets) if work in works)] += 1
    return counts


def _bound_missed(counts: Floats, routes: int, confidence: float) -> float | None:
    """The number of missed works at the end of the profile likelihood; None if it lies beyond the grid."""
    found = float(counts.sum())
    missed = np.concatenate([[0.0], np.geomspace(0.25, LARGEST * found, GRID)])
    logs = _profile(np.concatenate([missed[:, None], np.tile(counts[1:], (len(missed), 1))], axis=1), routes)
    totals = missed + found
    # from independent Poisson counts, which the model fits, to a population of a fixed size: the profile must not fall with the size alone
    logs += [lgamma(total + 1) - total * log(total) + total for total in totals]
    drop = 2 * (logs.max() - logs)
    limit = NormalDist().inv_cdf(confidence) ** 2 if confidence > 0.5 else 0.0
    last = int(np.flatnonzero(drop <= limit)[-1])
    if last == len(missed) - 1:
        return None
    share = (limit - drop[last]) / (drop[last + 1] - drop[last])
    return float(missed[last] + (missed[last + 1] - missed[last]) * share)


def _profile(tables: Floats, routes: int) -> Floats:
    """The largest penalised log-likelihood of each table of counts, by Newton's method on all at once."""
    cells = np.arange(1 << routes)
    pairs = list(combinations(range(routes), 2))
    bits = [(cells >> at) & 1 for at in range(routes)]
    design = np.stack([np.ones(len(cells)), *bits, *(bits[one] * bits[other] for one, other in pairs)], axis=1)
    own = len(pairs)
    precision = 1e-4 * np.eye(design.shape[1])  # keeps a route without works of its own from running off
    precision[-own:, -own:] = np.linalg.inv(PRIOR_OWN_SD**2 * np.eye(own) + PRIOR_SHARED_SD**2)
    mean = np.concatenate([np.zeros(routes + 1), np.full(own, PRIOR_MEAN)])
    weights = np.tile(mean, (len(tables), 1))
    weights[:, 0] = np.log(tables.mean(axis=1)) - PRIOR_MEAN * own / 4
    for _ in range(STEPS):
        expected = np.exp(np.clip(weights @ design.T, -30, 30))
        gradient = (tables - expected) @ design - (weights - mean) @ precision
        curvature = np.einsum("tc,ci,cj->tij", expected, design, design) + precision
        step = np.clip(np.linalg.solve(curvature, gradient[..., None])[..., 0], -STEP_LIMIT, STEP_LIMIT)
        weights += step
        if np.abs(step).max() < TOLERANCE:
            break
    logs = np.clip(weights @ design.T, -30, 30)
    penalty = 0.5 * np.einsum("ti,ij,tj->t", weights - mean, precision, weights - mean)
    factorials = np.array([lgamma(number + 1) for number in tables[:, 0]])  # those of the other cells are the same in each table
    profile: Floats = (tables * logs - np.exp(logs)).sum(axis=1) - penalty - factorials
    return profile

"""Adaptive scoring on recorded judgements: calls, nDCG@10, and calibration of the risk.

A call is a batch of ten. Unread works are not shown, so that only reading earns nDCG. Held out: each collection is read with a prior fitted
on the three others. Shipped: all are read with the package's prior, which is fitted on all four.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from statistics import mean

from bench.data import COLLECTIONS, Absent, collection
from bench.judged import CANDIDATES, JUDGES, TOP_K, Query, Recorded, record
from bench.quality import each_score
from bench.report import Cell, Report, progress
from outrider.nodes.fine_scorer.adaptive_stopping import BATCH, PRIOR, Observations, Prior, choose_next_wave, estimate_change, observe

FIXED = 60
"""Works read of every query by the baseline, which does not adapt."""
RISKS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
DETAIL_RISK = 0.4
"""The risk for which each collection and the mean of all queries have rows of their own."""
NDCG_SHARE, CALLS = 0.95, 0.6
"""Target: this share of score-all's nDCG@10 with at most this share of its calls."""
COLUMNS = (
    "judge", "prior", "collection", "queries", "risk allowed", "calls", "waves", "nDCG@10", "to score-all", "risk stated",
    "top 10 changed", "exact order changed",
)  # fmt: skip
BINS = (0.0, 0.05, 0.2, 0.4, 0.6, 0.8, 1.01)

FITTED_ON = tuple(JUDGES)[:4]
"""A kind of error that the prior was not fitted on."""
FITTED_AT = (10, 30, 50, 70, 90)
MAX_FITTED = 113
"""Queries per collection for fitting a prior; only SciFact has more."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One query, read up to the limit, compared with reading all of it."""

    calls: float
    """To score-all's."""
    waves: int
    ndcg: float
    ndcg_of_all: float
    stated: float
    changed: bool
    exactly_changed: bool


ByCollection = Mapping[str, Sequence[Outcome]]
ByRisk = Mapping[float | None, ByCollection]
"""By the risk allowed; None: `FIXED`."""
ByPrior = Mapping[str, ByRisk]
"""By prior."""


def run() -> Report:
    try:
        recorded = [asyncio.run(record(collection(name))) for name in COLLECTIONS]
    except Absent as absent:
        return Report("adaptive", COLUMNS, (), (f"skipped: {absent}",))
    observed_points = {one.source.name: observed(one) for one in recorded}
    priors = {name: fitted([other for key, other in observed_points.items() if key != name]) for name in observed_points}
    results = {judge: read_by(recorded, judge, priors) for judge in JUDGES}
    rows = [row for judge, by_prior in results.items() for row in _rows(judge, by_prior)]
    notes = (*fits(priors, fitted(list(observed_points.values()))), *calibration(observed_points, priors), *checks(results))
    return Report("adaptive", COLUMNS, tuple(rows), notes)


def read_by(recorded: Sequence[Recorded], judge: str, priors: Mapping[str, Prior]) -> ByPrior:
    progress(f"judge: {judge}")

    def at(risk: float | None, of: Mapping[str, Prior]) -> dict[str, list[Outcome]]:
        return {one.source.name: outcomes(one, judge, risk, of[one.source.name]) for one in recorded}

    shipped = dict.fromkeys(priors, PRIOR)
    return {
        "held out": {risk: at(risk, priors) for risk in RISKS},
        "shipped": {risk: at(risk, shipped) for risk in RISKS},
        "none": {None: at(None, shipped)},
    }


def _rows(judge: str, by_prior: ByPrior) -> Iterable[tuple[Cell, ...]]:
    for prior, by_risk in by_prior.items():
        for risk, by_collection in by_risk.items():
            yield _row((judge, prior, "mean"), risk, by_collection)
            if risk == DETAIL_RISK:
                yield _row((judge, prior, "all queries"), risk, _pooled(by_collection))
                for name, of in by_collection.items() if prior == "held out" else ():
                    yield _row((judge, prior, name), risk, {name: of})


def _pooled(by_collection: ByCollection) -> dict[str, list[Outcome]]:
    """Each query has the same weight, so that four of five are SciFact's."""
    return {"all": [one for of in by_collection.values() for one in of]}


def fits(priors: Mapping[str, Prior], of_all: Prior) -> list[str]:
    fitted_without = [f"{name} {prior.shape:.2f}, {prior.rate:.3f}" for name, prior in priors.items()]
    return [
        f"Prior (shape, rate) fitted without {'; without '.join(fitted_without)}.",
        f"Fitted on all: {of_all.shape:.2f}, {of_all.rate:.3f}; the package has {PRIOR.shape}, {PRIOR.rate}.",
    ]


def calibration(observed_points: Mapping[str, Observed], priors: Mapping[str, Prior]) -> list[str]:
    """Estimated chance compared with frequency, over all points of all judges, by the prior of the other collections."""
    lines = [
        f"Estimated chance -> how often the top {TOP_K} changed, at {', '.join(map(str, FITTED_AT))} read, by the prior of the others:"
    ]
    for name, of_judges in observed_points.items():
        points = [(estimate_change(at, priors[name]), changed, n) for of in of_judges.values() for (at, changed), n in of.items()]
        lines.append(f"{name}: " + ", ".join(filter(None, (_bin(points, low, high) for low, high in pairwise(BINS)))))
    return lines


def _bin(points: Sequence[tuple[float, bool, int]], low: float, high: float) -> str:
    """Empty for a bin without points."""
    inside = [(chance * n, changed * n, n) for chance, changed, n in points if low <= chance < high]
    stated, changed, total = (sum(column) for column in zip(*inside, strict=True)) if inside else (0, 0, 0)
    return f"{stated / total:.2f} -> {changed / total:.2f} (of {total:,})" if total else ""


def checks(results: Mapping[str, ByPrior]) -> list[str]:
    of = [(judge, prior, by_risk) for judge, by_prior in results.items() for prior, by_risk in by_prior.items() if prior != "none"]
    return [line for judge, prior, by_risk in of for line in (_enough(f"{judge}, {prior}", by_risk), _holds(f"{judge}, {prior}", by_risk))]


def _enough(name: str, by_risk: ByRisk) -> str:
    """The risks at which the target is reached, by the mean of collections and by that of queries."""
    bound = f"{name}: {NDCG_SHARE} of score-all's nDCG@10 or more for {CALLS} of its calls or fewer"
    by_query = {risk: _pooled(by_collection) for risk, by_collection in by_risk.items()}
    return f"{bound}: by collection {_reached(by_risk)}; by query {_reached(by_query)}"


def _reached(by_risk: ByRisk) -> str:
    reached = [risk for risk, of in by_risk.items() if _ndcg_share(of) >= NDCG_SHARE and _average(of, lambda one: one.calls) <= CALLS]
    return f"at risk {', '.join(map(str, reached))}" if reached else "at no risk"


def _holds(name: str, by_risk: ByRisk) -> str:
    cells = [(key, risk, mean(one.changed for one in of)) for risk, by_name in by_risk.items() if risk for key, of in by_name.items()]
    over = [f"{key} {changed:.3f} at {risk}" for key, risk, changed in cells if changed > risk]
    return (
        f"{name}: the top {TOP_K} change at most as often as allowed on {'each collection' if not over else 'each but ' + ', '.join(over)}"
    )


def outcomes(recorded: Recorded, judge: str, max_risk: float | None, prior: Prior) -> list[Outcome]:
    """Of each query; without a risk, `FIXED` works are read."""
    reads = [(FIXED, 1) if max_risk is None else _read(one, judge, max_risk, prior) for one in recorded.queries]
    whole = _ndcg(recorded, judge, [CANDIDATES for _ in reads])
    part = _ndcg(recorded, judge, [read for read, _ in reads])
    results: list[Outcome] = []
    for one, (read, waves), ndcg, ndcg_of_all in zip(recorded.queries, reads, part, whole, strict=True):
        total = len(one.doc_ids)
        results.append(
            Outcome(
                calls=math.ceil(min(read, total) / BATCH) / math.ceil(total / BATCH),
                waves=waves,
                ndcg=ndcg,
                ndcg_of_all=ndcg_of_all,
                stated=estimate_change(observe(total, one.judged[judge][:read], TOP_K), prior),
                changed=one.best_grades(judge, read) != one.best_grades(judge, total),
                exactly_changed=one.rank_passing(judge, read)[:TOP_K] != one.rank_passing(judge, total)[:TOP_K],
            )
        )
    return results


def _read(one: Query, judge: str, max_risk: float, prior: Prior) -> tuple[int, int]:
    """The number of works read, and of waves."""
    read = waves = 0
    while more := choose_next_wave(one.rules, one.judged[judge][:read], TOP_K, max_risk, prior):
        read, waves = read + more, waves + 1
    return read, waves


def _ndcg(recorded: Recorded, judge: str, reads: Sequence[int]) -> list[float]:
    rankings = {
        one.key: [one.doc_ids[at] for at in one.rank_passing(judge, read)] for one, read in zip(recorded.queries, reads, strict=True)
    }
    return [ndcg for ndcg, _ in each_score(recorded.source, rankings).values()]


Observed = Mapping[str, Counter[tuple[Observations, bool]]]
"""By judge: the observations at a point of a query, whether the top k changed later, and how often both occurred."""


def observed(recorded: Recorded) -> Observed:
    step = math.ceil(len(recorded.queries) / MAX_FITTED)
    return {judge: Counter(_points(recorded.queries[::step], judge)) for judge in JUDGES}


def _points(queries: Iterable[Query], judge: str) -> Iterable[tuple[Observations, bool]]:
    for one, read in product(queries, FITTED_AT):
        total = len(one.doc_ids)
        if read < total:
            point = observe(total, one.judged[judge][:read], TOP_K)
            if not point.final:
                yield point, one.best_grades(judge, read) != one.best_grades(judge, total)


def fitted(collections: Sequence[Observed]) -> Prior:
    """Minimum log loss, with equal weight for each collection and judge; by a search on ever finer grids, to 2 %."""
    cells = [observed_points[judge] for observed_points in collections for judge in FITTED_ON if observed_points[judge]]
    best, width = (0.0, -2.0), 2.0
    losses: dict[tuple[float, float], float] = {}
    while width > math.log(1.02):
        near = [(best[0] + across * width, best[1] + up * width) for across, up in product((-1, 0, 1), repeat=2)]
        for point in near:
            if point not in losses:
                losses[point] = mean(log_loss(cell, Prior(math.exp(point[0]), math.exp(point[1]))) for cell in cells)
        closest = min(near, key=lambda point: (losses[point], point))
        best, width = closest, width if closest != best else width / 2
    return Prior(math.exp(best[0]), math.exp(best[1]))


def log_loss(points: Counter[tuple[Observations, bool]], prior: Prior) -> float:
    """Of the estimated chances, in nats."""
    lost = 0.0
    for (point, changed), times in points.items():
        chance = min(1 - 1e-4, max(1e-4, estimate_change(point, prior)))
        lost -= times * math.log(chance if changed else 1 - chance)
    return lost / points.total()


def _row(names: tuple[str, str, str], max_risk: float | None, by_collection: ByCollection) -> tuple[Cell, ...]:
    return (
        *(*names, sum(map(len, by_collection.values())), f"first {FIXED}" if max_risk is None else max_risk),
        _average(by_collection, lambda one: one.calls),
        _average(by_collection, lambda one: one.waves),
        _average(by_collection, lambda one: one.ndcg),
        _ndcg_share(by_collection),
        None if max_risk is None else _average(by_collection, lambda one: one.stated),
        _average(by_collection, lambda one: one.changed),
        _average(by_collection, lambda one: one.exactly_changed),
    )


def _ndcg_share(by_collection: ByCollection) -> float:
    return _average(by_collection, lambda one: one.ndcg) / _average(by_collection, lambda one: one.ndcg_of_all)


def _average(by_collection: ByCollection, of: Callable[[Outcome], float]) -> float:
    """The mean of the collections' means."""
    return mean(mean(map(of, outcomes)) for outcomes in by_collection.values())

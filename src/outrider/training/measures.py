"""nDCG, recall and reciprocal rank of rankings, and bootstrap intervals of their means.

The measures are those of trec_eval: nDCG with linear gain (Jarvelin and Kekalainen, "Cumulated gain-based evaluation of IR techniques",
ACM TOIS 20(4), 2002), a record is relevant from grade 1, and an unjudged one counts as grade 0. The interval is the percentile bootstrap
over queries (Sakai, "Evaluating evaluation metrics based on the bootstrap", SIGIR 2006).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

CUT = 10
"""Ranks that nDCG looks at, and the shorter of the two recalls."""
DEPTH = 100
"""Ranks that the longer recall and the reciprocal rank look at."""
CONFIDENCE = 0.95
ROUNDS = 10_000
BLOCK = 2**20
"""Resampled queries per batch: 8 MiB of numbers."""


class Scores(NamedTuple):
    """The measures of one ranking, or their means, each from 0 to 1."""

    ndcg: float
    """nDCG@10."""
    recall_10: float
    recall_100: float
    reciprocal_rank: float
    """1 over the rank of the first relevant record within the first 100."""


def score_ranking(ranking: Iterable[str], grades: Mapping[str, int]) -> Scores:
    """The measures of a ranking of ids, best first, by the grades of one query. All are 0 if no record is relevant."""
    ranked = [grades.get(doc_id, 0) for doc_id in islice(ranking, DEPTH)]
    relevant = sum(grade > 0 for grade in grades.values()) or 1
    first = next((1 / rank for rank, grade in enumerate(ranked, start=1) if grade > 0), 0.0)
    recall_10, recall_100 = (sum(grade > 0 for grade in ranked[:depth]) / relevant for depth in (CUT, DEPTH))
    return Scores(ndcg(ranked, grades.values()), recall_10, recall_100, first)


def mean_scores(scores: Sequence[Scores]) -> Scores:
    """The mean of each measure; 0 for no scores."""
    columns = zip(*scores, strict=True) if scores else [[0.0]] * len(Scores._fields)
    return Scores._make(math.fsum(column) / max(len(scores), 1) for column in columns)


def ndcg(ranked: Iterable[int], every: Iterable[int]) -> float:
    """nDCG@10 as trec_eval computes it, from 0 to 1; 0 if no record is relevant.

    `ranked` has the relevance at each rank, `every` that of all records, retrieved or not.
    """
    best = _gain(sorted(every, reverse=True))
    return _gain(ranked) / best if best else 0.0


def _gain(relevance: Iterable[int]) -> float:
    return sum(value / math.log2(place + 2) for place, value in enumerate(islice(relevance, CUT)))


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over queries with its 95 % interval."""

    mean: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0


def bootstrap_interval(values: Sequence[float], seed: int = 0, rounds: int = ROUNDS) -> Interval:
    """The mean of one value per query, and the percentile interval of the means of resampled queries; of no values 0.

    The same seed draws the same queries, so that intervals of several stages are of the same samples. With few values it is too narrow.
    """
    import numpy as np

    if not values:
        return Interval(0.0, 0.0, 0.0)
    sample = np.asarray(values, dtype=np.float64)
    draw = np.random.default_rng(seed)
    at_once = max(1, BLOCK // sample.size)
    means = [
        sample[draw.integers(0, sample.size, (min(at_once, rounds - start), sample.size))].mean(axis=1)
        for start in range(0, rounds, at_once)
    ]
    low, high = np.quantile(np.concatenate(means), [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Interval(math.fsum(values) / len(values), float(low), float(high))

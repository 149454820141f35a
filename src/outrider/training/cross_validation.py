"""Cross-validated choice among settings.

Each query is scored with the setting that was chosen without it. The best of many settings is better than today's on the very queries
that chose it, by chance alone. On held-out queries it is not.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

FOLDS = 5


@dataclass(frozen=True, slots=True)
class Choice:
    """Positions of settings; 0 is today's."""

    best: int
    """Of all queries."""
    by_query: tuple[int, ...]
    """The best of the other folds, for each query."""

    def held_out(self, values: Sequence[Sequence[float]]) -> list[float]:
        """The value of each query with the setting that was chosen without it."""
        return [values[setting][query] for query, setting in enumerate(self.by_query)]


def choose(values: Sequence[Sequence[float]], seed: int = 0, folds: int = FOLDS) -> Choice:
    """The setting with the highest mean; of equal ones the first. `values` has for each setting one value per query, in the same order."""
    queries = list(range(len(values[0])))
    random.Random(seed).shuffle(queries)  # noqa: S311 - reproducible, no secret
    by_query = [0] * len(queries)
    for fold in range(folds):
        held_out = set(queries[fold::folds])
        best = _find_best(values, [query for query in queries if query not in held_out])
        for query in held_out:
            by_query[query] = best
    return Choice(_find_best(values, queries), tuple(by_query))


def _find_best(values: Sequence[Sequence[float]], queries: Sequence[int]) -> int:
    means = [math.fsum(row[query] for query in queries) for row in values]
    return max(range(len(values)), key=lambda setting: (means[setting], -setting))

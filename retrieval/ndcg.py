"""nDCG@10 with linear gain: Jarvelin and Kekalainen, "Cumulated gain-based evaluation of IR techniques", ACM TOIS 20(4), 2002."""

from __future__ import annotations

import math
from collections.abc import Iterable

CUT = 10


def ndcg(ranked: Iterable[int], every: Iterable[int]) -> float:
    """How near a ranking comes to the best one, from 0 to 1, as trec_eval counts; 0 where nothing is relevant.

    `ranked` is the relevance at each place, `every` that of all records, found or not.
    """
    best = _gain(sorted(every, reverse=True))
    return _gain(list(ranked)) / best if best else 0.0


def _gain(relevance: list[int]) -> float:
    return sum(value / math.log2(place + 2) for place, value in enumerate(relevance[:CUT]))

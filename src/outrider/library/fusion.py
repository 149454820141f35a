"""Several ranked lists made one: by ranks alone, by scores, or not at all. A work is named once, whoever found it.

The order of a list always stands: its scores only say how far its places lie apart. So a work that every list puts at least
as high as another, and one list higher, never comes below it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from outrider.settings.model import RankingSettings
from outrider.state.hits import Ranked, RankedList
from outrider.state.ports import Fusion
from outrider.state.records import LIBRARY
from outrider.state.request import RetrieverType

Heights = Callable[[Sequence[float]], Sequence[float]]
"""What each place of a list is worth, first place first, from its scores: positive, and falling from place to place."""
K = 60
ORDER_SHARE = 0.1
"""How much of `min_max` is rank: a found work beats one that is not in the list, and a tie of scores leaves the order alone."""


def fusion_of(settings: RankingSettings) -> Fusion:
    """The fusion that the settings name, with their weights."""
    weights: dict[str, float] = {
        RetrieverType.LANCE_DENSE: settings.dense_weight,
        RetrieverType.LANCE_FTS: settings.sparse_weight,
        RetrieverType.GRAPH_NEIGHBOR: settings.graph_weight,
    }
    if settings.fusion == "rrf":
        return partial(reciprocal_rank_fusion, k=settings.rrf_k, weights=weights)
    return partial(min_max, weights=weights)


def reciprocal_rank_fusion(lists: Sequence[RankedList], k: int = K, weights: Mapping[str, float] | None = None) -> Mapping[str, float]:
    """`sum over lists of weight / (k + rank)` by doc_id, rank from 1.

    Cormack, Clarke and Buettcher, "Reciprocal Rank Fusion outperforms Condorcet and individual rank learning methods", SIGIR 2009.
    `weights` are positive and by strategy, 1 where none is given. The order of the lists does not matter.
    """
    return _summed(lists, weights or {}, lambda scores: _reciprocal_ranks(len(scores), k))


def min_max(lists: Sequence[RankedList], weights: Mapping[str, float] | None = None) -> Mapping[str, float]:
    """Weighted sum of scores by doc_id, each list's scores moved into [0, 1]; nine parts score, one part reciprocal rank.

    CombSUM (Fox and Shaw, TREC-2, 1994) over min-max scores (Bruch, Gai and Ingber, "An Analysis of Fusion Functions for Hybrid
    Retrieval", ACM TOIS 42(1), 2023); a work that a list lacks gets 0 from it. Scale and shift of a list's scores do not matter,
    nor does the order of the lists. `weights` are positive and by strategy, 1 where none is given.
    """
    return _summed(lists, weights or {}, _mixed)


def interleaved(lists: Sequence[RankedList]) -> Mapping[str, float]:
    """Scores that keep each list's own order: first of every list, second of every list, and so on, a work at its best rank."""
    place: dict[str, tuple[int, int]] = {}
    for order, listed in enumerate(lists):
        for rank, ranked in enumerate(listed.results, start=1):
            place[ranked.doc_id] = min(place.get(ranked.doc_id, (rank, order)), (rank, order))
    by_place = sorted(place, key=lambda doc_id: (place[doc_id], doc_id))
    return {doc_id: 1.0 / at for at, doc_id in enumerate(by_place, start=1)}


def across_sources(lists: Sequence[RankedList], own: Fusion, k: int = K) -> Mapping[str, float]:
    """Every source counts once, however many lists it gave: its lists made one, then the sources by reciprocal rank.

    The library's lists are fused by `own`, those of another source interleaved. Scores of different sources do not compare, and a
    source that may be asked more often, or gives scores that lie close together, would crowd the others out. The lists of one source
    alone keep what `own` (or the interleaving) makes of them.
    """
    by_source: dict[str, list[RankedList]] = {}
    for listed in lists:
        by_source.setdefault(listed.source, []).append(listed)
    made = {source: own(each) if source == LIBRARY else interleaved(each) for source, each in by_source.items()}
    if len(made) == 1:
        return next(iter(made.values()))
    return reciprocal_rank_fusion([_ordered(source, scores) for source, scores in sorted(made.items())], k)


def _ordered(source: str, scores: Mapping[str, float]) -> RankedList:
    best = sorted(scores, key=lambda doc_id: (-scores[doc_id], doc_id))
    return RankedList(source=source, strategy="", query="", results=tuple(Ranked(doc_id, scores[doc_id]) for doc_id in best))


def _summed(lists: Sequence[RankedList], weights: Mapping[str, float], heights: Heights) -> dict[str, float]:
    """A work that one list names twice counts there at its better place. `fsum` rounds once, so that no order of lists shows."""
    worth: list[dict[str, float]] = []
    for listed in lists:
        weight = weights.get(listed.strategy, 1.0)
        first: dict[str, float] = {}
        for place in listed.results:
            first.setdefault(place.doc_id, place.score)
        worth.append({doc_id: weight * height for doc_id, height in zip(first, heights(list(first.values())), strict=True)})
    found = dict.fromkeys(doc_id for each in worth for doc_id in each)
    return {doc_id: math.fsum([each.get(doc_id, 0.0) for each in worth]) for doc_id in found}


def _mixed(scores: Sequence[float]) -> list[float]:
    order = _reciprocal_ranks(len(scores), K)
    return [(1 - ORDER_SHARE) * score + ORDER_SHARE * (K + 1) * rank for score, rank in zip(_unit(scores), order, strict=True)]


def _reciprocal_ranks(count: int, k: int) -> list[float]:
    return [1 / (k + rank) for rank in range(1, count + 1)]


def _unit(scores: Sequence[float]) -> list[float]:
    """Scores moved into [0, 1], the best at 1, the last at 0; all 1 where they are equal or there is one only."""
    falling = [score / 2 for score in _falling(scores)]  # halved, since the span of two huge scores would overflow
    if not falling or falling[0] == falling[-1]:
        return [1.0] * len(falling)
    best, last = falling[0], falling[-1]
    return [(score - last) / (best - last) for score in falling]


def _falling(scores: Sequence[float]) -> Iterator[float]:
    """Scores that never rise: one above the place before it, or one that is no finite number, counts as that place's."""
    level = next(filter(math.isfinite, scores), 0.0)
    for score in scores:
        level = min(level, score) if math.isfinite(score) else level
        yield level

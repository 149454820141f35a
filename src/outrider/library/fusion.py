"""Fusion of ranked lists: by reciprocal ranks, by scores, interleaved, or across sources.

A work has one place in the result, however many lists hold it. The order of a list always stands: its scores only say how far its places
lie apart. So a work that every list puts at least as high as another, and one list higher, never comes below it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from outrider.settings.model import RankingSettings
from outrider.state.hits import Ranked, RankedList
from outrider.state.ports import CompareAgain, Fusion
from outrider.state.records import LIBRARY
from outrider.state.request import RetrieverType

Heights = Callable[[Sequence[float]], Sequence[float]]
"""Weights of a list's places, first place first, from its scores: positive, and falling from place to place."""
WEIGHTS = ("dense_weight", "sparse_weight", "graph_weight")
log = logging.getLogger(__name__)
K = 60
ORDER_SHARE = 0.1
"""Share of rank in `min_max`: a work in the list beats one that is not, and equal scores leave the order as it is."""

FEEDBACK_WORKS = 3
"""First works that the results of vectors are compared with again; five were no better (ADR 37)."""


def build_fusion(settings: RankingSettings) -> Fusion:
    """The fusion of the settings: `rrf` is the plain formula without weights, `min_max` uses the weights."""
    if settings.fusion == "rrf":
        changed = [name for name in WEIGHTS if getattr(settings, name) != RankingSettings.model_fields[name].default]
        if changed:
            log.warning(
                "%s: no effect with ranking.fusion: rrf, which takes no weights; min_max does",
                ", ".join(f"ranking.{name}" for name in changed),
            )
        return partial(reciprocal_rank_fusion, k=settings.rrf_k)
    weights: dict[str, float] = {
        RetrieverType.LANCE_DENSE: settings.dense_weight,
        RetrieverType.LANCE_FTS: settings.sparse_weight,
        RetrieverType.GRAPH_NEIGHBOR: settings.graph_weight,
    }
    return partial(min_max, weights=weights)


def reciprocal_rank_fusion(lists: Sequence[RankedList], k: int = K, weights: Mapping[str, float] | None = None) -> Mapping[str, float]:
    """`sum over lists of weight / (k + rank)` by doc_id, rank from 1.

    Cormack, Clarke and Buettcher, "Reciprocal Rank Fusion outperforms Condorcet and individual rank learning methods", SIGIR 2009.
    `weights` are positive and by strategy, 1 where none is given. The order of the lists does not matter.
    """
    return _sum_places(lists, weights or {}, lambda scores: _reciprocal_ranks(len(scores), k))


def min_max(lists: Sequence[RankedList], weights: Mapping[str, float] | None = None) -> Mapping[str, float]:
    """Weighted sum of scores by doc_id, each list's scores moved into [0, 1]; nine parts score, one part reciprocal rank.

    CombSUM (Fox and Shaw, TREC-2, 1994) over min-max scores (Bruch, Gai and Ingber, "An Analysis of Fusion Functions for Hybrid
    Retrieval", ACM TOIS 42(1), 2023); a work that a list lacks gets 0 from it. Scale and shift of a list's scores do not matter,
    nor does the order of the lists. `weights` are positive and by strategy, 1 where none is given.
    """
    return _sum_places(lists, weights or {}, _mix_scores_and_ranks)


def interleave(lists: Sequence[RankedList]) -> Mapping[str, float]:
    """Scores that keep each list's own order: first of every list, second of every list, and so on, a work at its best rank."""
    places: dict[str, tuple[int, int]] = {}
    for order, ranked_list in enumerate(lists):
        for rank, ranked in enumerate(ranked_list.results, start=1):
            places[ranked.doc_id] = min(places.get(ranked.doc_id, (rank, order)), (rank, order))
    by_place = sorted(places, key=lambda doc_id: (places[doc_id], doc_id))
    return {doc_id: 1.0 / at for at, doc_id in enumerate(by_place, start=1)}


def fuse_sources(lists: Sequence[RankedList], own: Fusion, k: int = K) -> Mapping[str, float]:
    """Every source counts once, however many lists it gave: the lists of a source are fused, then the sources by reciprocal rank.

    The library's lists are fused by `own`, those of another source interleaved. Scores of different sources do not compare, and a
    source with more lists, or with scores that lie close together, would crowd the others out. The lists of one source alone keep the
    result of `own` (or of the interleaving).
    """
    by_source: dict[str, list[RankedList]] = {}
    for ranked_list in lists:
        by_source.setdefault(ranked_list.source, []).append(ranked_list)
    fused = {source: own(group) if source == LIBRARY else interleave(group) for source, group in by_source.items()}
    if len(fused) == 1:
        return next(iter(fused.values()))
    ordered = []
    for source, scores in sorted(fused.items()):
        best = order_by_score(scores)
        results = tuple(Ranked(doc_id, scores[doc_id]) for doc_id in best)
        ordered.append(RankedList(source=source, strategy="", query="", results=results))
    return reciprocal_rank_fusion(ordered, k)


def fuse_with_feedback(lists: Sequence[RankedList], again: Sequence[CompareAgain | None], fuse: Fusion) -> Mapping[str, float]:
    """Fuse; where words or the graph took part, let each list of vectors be ordered again by the first works of the library; fuse again.

    `again` has what orders a list again, or None, for each list. The works of the result are the same.
    """
    own = [ranked_list for ranked_list in lists if ranked_list.source == LIBRARY and ranked_list.results]
    if len(own) < 2 or not any(again):  # a single list keeps its order
        return fuse(lists)
    fused = fuse(own)
    first = order_by_score(fused)[:FEEDBACK_WORKS]
    return fuse(
        [_order_again(ranked_list, compare(first)) if compare else ranked_list for ranked_list, compare in zip(lists, again, strict=True)]
    )


def order_by_score(scores: Mapping[str, float]) -> list[str]:
    """The ids, best first, ties by id."""
    return sorted(scores, key=lambda doc_id: (-scores[doc_id], doc_id))


def _order_again(ranked_list: RankedList, compared: Sequence[Ranked]) -> RankedList:
    """The list in the order of `compared`, which may hold works that were left out since; unchanged where a work of the list is missing."""
    doc_ids = {ranked.doc_id for ranked in ranked_list.results}
    results = tuple(ranked for ranked in compared if ranked.doc_id in doc_ids)
    return ranked_list.model_copy(update={"results": results}) if len(results) == len(doc_ids) else ranked_list


def _sum_places(lists: Sequence[RankedList], weights: Mapping[str, float], heights: Heights) -> dict[str, float]:
    """A work that one list names twice counts there at its better place. `fsum` rounds once, so that the order of lists does not matter."""
    worth: dict[str, list[float]] = {}
    for ranked_list in lists:
        weight = weights.get(ranked_list.strategy, 1.0)
        first: dict[str, float] = {}
        for ranked in ranked_list.results:
            first.setdefault(ranked.doc_id, ranked.score)
        for doc_id, height in zip(first, heights(list(first.values())), strict=True):
            worth.setdefault(doc_id, []).append(weight * height)
    return {doc_id: places[0] if len(places) == 1 else math.fsum(places) for doc_id, places in worth.items()}


def _mix_scores_and_ranks(scores: Sequence[float]) -> list[float]:
    """Nine parts of the scores moved into [0, 1], the best at 1, the last at 0 (all 1 where they are equal), and one part of the ranks.

    Scores never rise: one above the place before it, or one that is no finite number, counts as that place's.
    """
    falling: list[float] = []
    level = next(filter(math.isfinite, scores), 0.0)
    for score in scores:
        level = min(level, score) if math.isfinite(score) else level
        falling.append(level / 2)  # halved, since the span of two huge scores would overflow
    span = falling[0] - falling[-1] if falling else 0.0
    unit = [(score - falling[-1]) / span if span else 1.0 for score in falling]
    ranks = _reciprocal_ranks(len(scores), K)
    return [(1 - ORDER_SHARE) * score + ORDER_SHARE * (K + 1) * rank for score, rank in zip(unit, ranks, strict=True)]


def _reciprocal_ranks(count: int, k: int) -> list[float]:
    return [1 / (k + rank) for rank in range(1, count + 1)]

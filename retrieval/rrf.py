"""Fusion of ranked lists by rank alone: Cormack, Clarke and Buettcher 2009, "Reciprocal Rank Fusion outperforms Condorcet..."."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from outrider.state.hits import RankedList


def reciprocal_rank_fusion(lists: Sequence[RankedList], k: int = 60) -> Mapping[str, float]:
    """`sum over lists of 1 / (k + rank)` by doc_id, rank from 1; the order of the lists does not matter beyond rounding."""
    fused: dict[str, float] = {}
    for listed in lists:
        for rank, place in enumerate(listed.results, start=1):
            fused[place.doc_id] = fused.get(place.doc_id, 0.0) + 1 / (k + rank)
    return fused


def interleaved(lists: Sequence[RankedList]) -> Mapping[str, float]:
    """Scores that keep each list's own order: first of every list, second of every list, and so on, a work at its best rank."""
    place: dict[str, tuple[int, int]] = {}
    for order, listed in enumerate(lists):
        for rank, ranked in enumerate(listed.results, start=1):
            place[ranked.doc_id] = min(place.get(ranked.doc_id, (rank, order)), (rank, order))
    by_place = sorted(place, key=lambda doc_id: (place[doc_id], doc_id))
    return {doc_id: 1.0 / at for at, doc_id in enumerate(by_place, start=1)}

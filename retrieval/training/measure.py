"""nDCG@10 of candidate lists: as a model orders them, and as word matching does, which is what it must improve on."""

from __future__ import annotations

import math
from collections.abc import Sequence

from outrider.retrieval.training.groups import Group
from outrider.state.reranking import blended
from outrider.text.words import stems

CUT = 10


def ndcg(relevance: Sequence[int], scores: Sequence[float]) -> float:
    """nDCG@10 with linear gain (Jarvelin and Kekalainen 2002, as in trec_eval); equal scores keep the worse order."""
    best = _gain(sorted(relevance, reverse=True))
    order = sorted(range(len(scores)), key=lambda at: (-scores[at], relevance[at], at))
    return _gain([relevance[at] for at in order]) / best if best else 0.0


def mean_ndcg(groups: Sequence[Group], scores: Sequence[Sequence[float]]) -> float:
    return sum(ndcg(group.relevance, given) for group, given in zip(groups, scores, strict=True)) / len(groups)


def word_matching(groups: Sequence[Group]) -> list[list[float]]:
    """BM25 over the very texts that the model sees, terms weighted by all texts of all lists.

    The library's own index would not do: it holds the part that the query was taken from.
    """
    from rank_bm25 import BM25Okapi

    engine = BM25Okapi([stems(text) or [""] for group in groups for text in group.texts])
    scores: list[list[float]] = []
    start = 0
    for group in groups:
        end = start + len(group.texts)
        scores.append([float(score) for score in engine.get_batch_scores(stems(group.query), list(range(start, end)))])
        start = end
    return scores


def half_and_half(first: Sequence[Sequence[float]], second: Sequence[Sequence[float]]) -> list[list[float]]:
    """As a search blends them by default (`reranker.weight`)."""
    return [blended(one, other, 0.5) for one, other in zip(first, second, strict=True)]


def _gain(relevance: Sequence[int]) -> float:
    return sum(value / math.log2(place + 2) for place, value in enumerate(relevance[:CUT]))

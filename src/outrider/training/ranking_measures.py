"""Ranking measures: nDCG@10 of candidate lists, and the word-matching baseline.

nDCG with linear gain: Jarvelin and Kekalainen, "Cumulated gain-based evaluation of IR techniques", ACM TOIS 20(4), 2002.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from outrider.state.reranking import blend_scores
from outrider.text.words import stems
from outrider.training.training_set import Group

CUT = 10


def ndcg(ranked: Iterable[int], every: Iterable[int]) -> float:
    """nDCG@10 as trec_eval computes it, from 0 to 1; 0 if no record is relevant.

    `ranked` has the relevance at each rank, `every` that of all records, retrieved or not.
    """
    best = _gain(sorted(every, reverse=True))
    return _gain(list(ranked)) / best if best else 0.0


def _gain(relevance: list[int]) -> float:
    return sum(value / math.log2(place + 2) for place, value in enumerate(relevance[:CUT]))


def mean_ndcg(groups: Sequence[Group], scores: Sequence[Sequence[float]]) -> float:
    return sum(ordered_ndcg(group.relevance, row) for group, row in zip(groups, scores, strict=True)) / len(groups)


def ordered_ndcg(relevance: Sequence[int], scores: Sequence[float]) -> float:
    """nDCG@10 of the order by score; ties are put in the worse order."""
    order = sorted(range(len(scores)), key=lambda at: (-scores[at], relevance[at], at))
    return ndcg((relevance[at] for at in order), relevance)


def score_by_words(groups: Sequence[Group]) -> list[list[float]]:
    """BM25 scores of the texts that the model reads; term weights come from all texts of all lists.

    The library's own index is not used, because it contains the part that the query was taken from.
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


def blend_equally(first: Sequence[Sequence[float]], second: Sequence[Sequence[float]]) -> list[list[float]]:
    """Blend two score lists with weight 0.5, as a search does by default (`reranker.weight`)."""
    return [blend_scores(one, other, 0.5) for one, other in zip(first, second, strict=True)]

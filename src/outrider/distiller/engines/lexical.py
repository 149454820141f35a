"""Words alone: how much of what the query asks for does a unit say, with a little of what stands beside it. Needs no model.

A unit's raw score is its BM25 (Robertson and Zaragoza 2009, "The Probabilistic Relevance Framework") against the query's stems, as a
share of the most that any unit could get, so that it means the same for long queries and short ones.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from outrider.distiller.engines.ensemble import Scores, probability
from outrider.distiller.units import SegmentedText
from outrider.text.words import stems

K1, B = 1.2, 0.3
"""Units are short: a word seldom stands twice in one, and a long sentence is hardly less about it."""
NEIGHBOUR_SHARE = 0.2
"""Of a neighbour's score that counts for a unit; on SciFact's rationales units alone find fewer of them."""
MIN_BEST = 0.25
"""A text whose best unit says less than this of what is asked is not taken to answer because its others say still less."""
WEIGHTS = (3.509, 3.835, -1.291)
"""Of a unit's raw score, of how far it is behind the best of its text, and the intercept: logistic regression on half of SciFact's claims
(`python -m bench.train_distiller`)."""

Bag = dict[str, int]


@dataclass(frozen=True, slots=True)
class Lexical:
    name: str = "lexical"
    revision: str = "1"

    def scores(self, query: str, cuts: Sequence[SegmentedText]) -> Scores:
        """A query without words, and a text without the query's, give the same low number to every unit."""
        return [compare_with_best(many, MIN_BEST, WEIGHTS) for many in compute_raw_scores(query, cuts)]


def compute_raw_scores(query: str, cuts: Sequence[SegmentedText]) -> Scores:
    """In [0, 1], before they are made probabilities."""
    wanted = dict.fromkeys(stems(query))
    bags = [[_bag(wanted, stemmed) for stemmed in one.stems()] for one in cuts]
    lengths = [[unit.end - unit.start for unit in one.units] for one in cuts]
    idf = _idf(wanted, [bag for many in bags for bag in many])
    most = sum(idf.values())
    mean = _mean(length for many in lengths for length in many)
    alone = [
        [_share(bag, idf, most, length / mean) for bag, length in zip(many, sizes, strict=True)]
        for many, sizes in zip(bags, lengths, strict=True)
    ]
    return [smooth_with_neighbours(many, NEIGHBOUR_SHARE) for many in alone]


def compare_with_best(raw: Sequence[float], least_best: float, weights: tuple[float, float, float]) -> list[float]:
    """Probabilities from the scores of one text's units, each by itself and as it compares with the best of them."""
    of_it, behind, intercept = weights
    best = max([least_best, *raw])
    return [probability(of_it * one + behind * (one - best) + intercept) for one in raw]


def smooth_with_neighbours(scores: Sequence[float], share: float) -> list[float]:
    """The weighted mean of each score and of those before and after it, which weigh `share` each."""
    found = []
    for at, one in enumerate(scores):
        beside = [*scores[max(0, at - 1) : at], *scores[at + 1 : at + 2]]
        found.append((one + share * sum(beside)) / (1 + share * len(beside)))
    return found


def _bag(wanted: dict[str, None], stemmed: Sequence[str]) -> Bag:
    found = [stem for stem in stemmed if stem in wanted]
    return {stem: found.count(stem) for stem in found}


def _idf(wanted: Iterable[str], bags: Sequence[Bag]) -> dict[str, float]:
    seen = Counter(stem for bag in bags for stem in bag)
    return {stem: math.log(1 + (len(bags) + 1) / (seen[stem] + 0.5)) for stem in wanted}


def _mean(lengths: Iterable[int]) -> float:
    known = list(lengths)
    return sum(known) / len(known) if known else 1.0


def _share(bag: Bag, idf: dict[str, float], total: float, length: float) -> float:
    if not total or not bag:
        return 0.0
    slack = K1 * (1 - B + B * length)
    most = 1 + K1
    return min(1.0, sum(idf[stem] * min(1.0, count * most / (count + slack)) for stem, count in bag.items()) / total)

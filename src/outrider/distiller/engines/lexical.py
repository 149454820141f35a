"""Lexical engine: the query's words in a unit and its neighbours, by BM25.

A unit's raw score is its BM25 (Robertson and Zaragoza 2009, "The Probabilistic Relevance Framework") against the query's stems, as a
share of the highest possible score, so that scores of long and short queries compare.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from outrider.distiller.engines.ensemble import Scores, probability
from outrider.distiller.units import SegmentedText
from outrider.text.words import stems

K1, B = 1.2, 0.3
"""Units are short: a word seldom occurs twice in one, and a long sentence is hardly less relevant."""
NEIGHBOUR_SHARE = 0.2
"""Weight of a neighbour's score; on SciFact units without their neighbours match fewer rationales."""
MIN_BEST = 0.25
"""Least best score to compare with: a text does not answer only because its other units match still less."""
WEIGHTS = (3.509, 3.835, -1.291)
"""Weights of a unit's raw score and of its distance from the best of its text, and the intercept.

From a logistic regression on half of SciFact's claims (`python -m bench.train_distiller`).
"""


@dataclass(frozen=True, slots=True)
class Lexical:
    name: str = "lexical"
    revision: str = "1"

    def scores(self, query: str, cuts: Sequence[SegmentedText]) -> Scores:
        """All units score equally low if the query has no words or the text has none of them."""
        return [compare_with_best(many, MIN_BEST, WEIGHTS) for many in compute_raw_scores(query, cuts)]


def compute_raw_scores(query: str, cuts: Sequence[SegmentedText]) -> Scores:
    """Scores in [0, 1], before they are made probabilities."""
    wanted = dict.fromkeys(stems(query))
    counts = [[Counter(stem for stem in stemmed if stem in wanted) for stemmed in segmented.stems()] for segmented in cuts]
    containing = Counter(stem for text in counts for bag in text for stem in bag)
    total = sum(map(len, counts))
    idf = {stem: math.log(1 + (total + 1) / (containing[stem] + 0.5)) for stem in wanted}
    highest = sum(idf.values())
    lengths = [[unit.end - unit.start for unit in segmented.units] for segmented in cuts]
    mean = sum(map(sum, lengths)) / total if total else 1.0
    raw: Scores = []
    for bags, sizes in zip(counts, lengths, strict=True):
        own = []
        for bag, length in zip(bags, sizes, strict=True):
            slack = K1 * (1 - B + B * length / mean)
            gain = sum(idf[stem] * min(1.0, count * (1 + K1) / (count + slack)) for stem, count in bag.items())
            own.append(min(1.0, gain / highest) if highest else 0.0)
        raw.append(smooth_with_neighbours(own, NEIGHBOUR_SHARE))
    return raw


def compare_with_best(raw: Sequence[float], least_best: float, weights: tuple[float, float, float]) -> list[float]:
    """Probabilities from the raw scores of one text's units and their distances from the best of them."""
    own_weight, distance_weight, intercept = weights
    best = max([least_best, *raw])
    return [probability(own_weight * score + distance_weight * (score - best) + intercept) for score in raw]


def smooth_with_neighbours(scores: Sequence[float], share: float) -> list[float]:
    """The weighted mean of each score and its two neighbours, which weigh `share` each."""
    smoothed = []
    for at, score in enumerate(scores):
        neighbours = [*scores[max(0, at - 1) : at], *scores[at + 1 : at + 2]]
        smoothed.append((score + share * sum(neighbours)) / (1 + share * len(neighbours)))
    return smoothed

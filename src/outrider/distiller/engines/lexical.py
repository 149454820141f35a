"""Lexical and rhetoric engines: BM25 of the query's words, and signs of a result or method.

The lexical engine's raw score of a unit is its BM25 (Robertson and Zaragoza 2009, "The Probabilistic Relevance Framework") against the
query's stems, as a share of the highest possible score, so that scores of long and short queries are comparable. Neighbours count, too.

The rhetoric engine scores whether a unit states a result or a method, and its position in the text; Teufel and Moens 2002, "Summarizing
Scientific Articles", call this argumentative zoning. It ignores the query and is not useful alone. In an ensemble it adds what similarity
to the query misses: an abstract's aim and conclusion use the same words, but only the conclusion answers. Its weights come from a
logistic regression on half of SciFact's claims (`bench/distil`). Position counts only in texts as short as an abstract; a book has no
such order.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from outrider.distiller.engines.ensemble import Scores, probability
from outrider.distiller.units import MAX_ABSTRACT_UNITS, SegmentedText
from outrider.text.words import stems

RESULT = re.compile(
    r"\b(?=[acdfhirs])(?:conclu\w+|results?|show(?:s|n|ed|ing)?|suggest\w*|demonstrat\w+|found|find(?:s|ings?)|indicat\w+|reveal\w*|associated"
    r"|significan\w+|reduc\w+|increas\w+|decreas\w+|identif\w+|report here|here,? we)\b"
)
"""For lower-case text: a case-insensitive search takes twice as long."""
METHOD = re.compile(
    r"\b(?=[abdhmopsuw])(?:methods?|design|objectives?|backgrounds?|aims?|settings?|participants|unknown|unclear|however"
    r"|we (?:performed|used|conducted|recruited|examined|investigated|sought|aimed|assessed|studied))\b"
)
PER_UNIT = (0.386, -1.254, 1.524)
"""Weights of stating a result, of stating an aim or method, and of the log length."""
PLACE = (2.916, -0.892, -0.327)
"""Weights of the position from 0 to 1, of its square, and of being the last."""
INTERCEPT = -10.522
K1, B = 1.2, 0.3
"""Units are short: a word rarely occurs twice in one, and a long sentence is hardly less relevant."""
NEIGHBOUR_SHARE = 0.2
"""Weight of a neighbour's score; on SciFact units without their neighbours match fewer rationales."""
MIN_BEST = 0.25
"""Minimum of the best score used for comparison, so that a poor unit does not score high only because the others are worse."""
WEIGHTS = (3.509, 3.835, -1.291)
"""Weights of a unit's raw score and of its distance from the best of its text, and the intercept.

From a logistic regression on half of SciFact's claims (`python -m bench.train_distiller`).
"""


@dataclass(frozen=True, slots=True)
class Rhetoric:
    """Engine of results and methods; `scores` are probabilities, the query is ignored."""

    name: str = "rhetoric"
    revision: str = "1"

    def scores(self, query: str, cuts: Sequence[SegmentedText]) -> Scores:
        return [list(its.once(self.name, partial(compute_rhetoric, its))) for its in cuts]


def compute_rhetoric(segmented: SegmentedText) -> list[float]:
    """The probability of each unit."""
    weights = (*PER_UNIT, *PLACE)
    return [probability(INTERCEPT + sum(w * f for w, f in zip(weights, one, strict=True))) for one in features(segmented)]


def features(segmented: SegmentedText) -> list[tuple[float, ...]]:
    """The feature values of each unit, in the order of the weights."""
    count = len(segmented.units)
    rows: list[tuple[float, ...]] = []
    for at, unit in enumerate(segmented.units):
        text, position = segmented.text(at).lower(), (0.5, 0.25, 0.0)
        if count <= MAX_ABSTRACT_UNITS:
            place = at / (count - 1) if count > 1 else 1.0
            position = place, place * place, float(at == count - 1)
        length = math.log1p(unit.end - unit.start)
        rows.append((float(RESULT.search(text) is not None), float(METHOD.search(text) is not None), length, *position))
    return rows


@dataclass(frozen=True, slots=True)
class Lexical:
    """Engine that matches the query's words; `scores` are probabilities."""

    name: str = "lexical"
    revision: str = "1"

    def scores(self, query: str, cuts: Sequence[SegmentedText]) -> Scores:
        """Scores are equally low for all units if the query has no words or the text has none of them."""
        return [compare_with_best(many, MIN_BEST, WEIGHTS) for many in compute_raw_scores(query, cuts)]


def compute_raw_scores(query: str, cuts: Sequence[SegmentedText]) -> Scores:
    """Scores in [0, 1], before the conversion to probabilities."""
    query_stems = dict.fromkeys(stems(query))
    counts = [[Counter(stem for stem in stemmed if stem in query_stems) for stemmed in segmented.stems()] for segmented in cuts]
    containing = Counter(stem for text in counts for bag in text for stem in bag)
    total = sum(map(len, counts))
    idf = {stem: math.log(1 + (total + 1) / (containing[stem] + 0.5)) for stem in query_stems}
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

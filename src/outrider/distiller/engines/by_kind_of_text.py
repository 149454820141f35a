"""One engine for abstracts and another for all other texts.

An abstract's engine only orders its sentences: the best of an abstract on another subject scores as high as that of one that answers. What
tells them apart is how many words of the question the abstract and its title have (`python -m bench abstracts`). Whether a README answers
is told best by its sentences and its place among the hits together (`python -m bench.fit_answering`).
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from outrider.distiller.engines.ensemble import Engine, Scores, logit, probability
from outrider.distiller.engines.question_cues import ASKS_CONDITION, find_quantity
from outrider.distiller.selection import CLOSE, NOISE, THRESHOLD
from outrider.distiller.units import SegmentedText
from outrider.text.words import stems

NONE_KNOWN, FEW_KNOWN = 0.3, 0.5
"""Shares of the question's words that an abstract has: below the first nothing answers, up to the second an answer is uncertain. One
sentence with more than the second may answer, however short the abstract is.
"""
WELL_KNOWN = 2 / 3
"""Share that one sentence exceeds: it answers for certain. Two words of three are often chance. Five times as many abstracts with evidence
for a claim of SciFact have such a sentence as others that a search by words ranks first.
"""
MANY_WORDS = 8
"""Of a question with more words, the shares are of so many: no abstract has all words of a long description."""

FIRST, TYPICAL = 1.1, 0.457
"""Log-odds that the first place of a search adds to those that a text answers, and the mean of 1 / place of the first five, which adds
none. With them .90 of the packages that are the right first hit are certain, instead of .77, and no more of the others (ADR 42).
"""


@dataclass(frozen=True, slots=True)
class ByKindOfText:
    """In an abstract, place and rhetoric tell the result from the aim; in a README or a full paper they do not, and sections do."""

    abstracts: Engine
    others: Engine

    @property
    def name(self) -> str:
        return f"{self.abstracts.name} / {self.others.name}"

    @property
    def revision(self) -> str:
        return hashlib.sha256(f"{self.abstracts.revision} {self.others.revision}".encode()).hexdigest()[:16]

    def scores(self, query: str, cuts: Sequence[SegmentedText]) -> Scores:
        """Raises what the engines raise."""
        own: list[list[float] | None] = [None] * len(cuts)
        for engine, wanted in ((self.abstracts, True), (self.others, False)):
            places = [at for at, segmented in enumerate(cuts) if segmented.is_abstract() is wanted]
            if places:
                for at, scores in zip(places, engine.scores(query, [cuts[at] for at in places]), strict=True):
                    own[at] = scores
        return [scores or [] for scores in own]

    def judge_texts(self, query: str, cuts: Sequence[SegmentedText], scores: Scores) -> Scores:
        """The scores with those of each abstract scaled by the words that it shares with the question, and those of other hits by their
        place: for a selection of the best few. A selection by a calibrated threshold needs the scores that it was fitted on.

        Where the question asks for a quantity and no unit that would be kept has one, nothing is certain.
        """
        query_stems = frozenset(stems(query))
        judged = [
            _scale(query_stems, its, own) if its.is_abstract() else shift_by_rank(its.reading.rank, own)
            for its, own in zip(cuts, scores, strict=True)
        ]
        quantity = None if ASKS_CONDITION.match(query) else find_quantity(query)
        if quantity is None:
            return judged
        return [_doubt_without(quantity, its, own) for its, own in zip(cuts, judged, strict=True)]


def shift_by_rank(rank: int, scores: list[float]) -> list[float]:
    """The scores of a text by its place among the hits, from 1; a given text, with rank 0, counts as the first. The place decides whether
    an answer is certain, not whether anything is kept.
    """
    best = max(scores, default=0.0)
    if best < NOISE:
        return scores
    judged = max(NOISE, probability(logit(best) + FIRST * (1 / max(1, rank) - TYPICAL)))
    return [score * judged / best for score in scores]


def _doubt_without(quantity: re.Pattern[str], segmented: SegmentedText, scores: list[float]) -> list[float]:
    best = max(scores, default=0.0)
    if best < THRESHOLD:
        return scores
    plain = segmented.plain_texts()
    if any(score >= CLOSE * best and quantity.search(text) for score, text in zip(scores, plain, strict=True)):
        return scores
    doubted = math.nextafter(THRESHOLD, 0)
    return [score * doubted / best for score in scores]


def _scale(query_stems: frozenset[str], segmented: SegmentedText, scores: list[float]) -> list[float]:
    best = max(scores, default=0.0)
    if not query_stems or best <= 0:
        return scores
    shared = [query_stems.intersection(bag) for bag in segmented.stems()]
    known = query_stems.intersection(stems(segmented.reading.title)).union(*shared)
    size = min(len(query_stems), MANY_WORDS)
    if len(known) < NONE_KNOWN * size:
        judged = min(best, NOISE / 2)
    elif max(map(len, shared)) > WELL_KNOWN * size:
        judged = max(best, THRESHOLD)
    else:
        judged = min(best, math.nextafter(THRESHOLD, 0)) if len(known) <= FEW_KNOWN * size else best
        if max(map(len, shared)) > FEW_KNOWN * size:  # its place and length alone do not make it noise
            judged = max(judged, NOISE)
    return [score * judged / best for score in scores]

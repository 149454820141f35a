"""One engine for abstracts and another for all other texts.

An abstract's engine only orders its sentences: the best of an abstract on another subject scores as high as that of one that answers. What
tells them apart is how many words of the question the abstract and its title have (`python -m bench abstracts`).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

from outrider.distiller.engines.ensemble import Engine, Scores
from outrider.distiller.selection import NOISE, THRESHOLD
from outrider.distiller.units import SegmentedText
from outrider.text.words import stems

NONE_KNOWN, FEW_KNOWN = 0.3, 0.5
"""Shares of the question's words that an abstract has: below the first nothing answers, up to the second an answer is uncertain."""
WELL_KNOWN = 2 / 3
"""Share that one sentence has: it answers for certain. Five times as many abstracts with evidence for a claim of SciFact have such a
sentence as others that a search by words ranks first.
"""
MANY_WORDS = 8
"""Of a question with more words, the shares are of so many: no abstract has all words of a long description."""


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

    def judge_abstracts(self, query: str, cuts: Sequence[SegmentedText], scores: Scores) -> Scores:
        """The scores with those of each abstract scaled by the words that it shares with the question: for a selection of the best few. A
        selection by a calibrated threshold needs the scores that it was fitted on.
        """
        query_stems = frozenset(stems(query))
        return [_scale(query_stems, its, own) if its.is_abstract() else own for its, own in zip(cuts, scores, strict=True)]


def _scale(query_stems: frozenset[str], segmented: SegmentedText, scores: list[float]) -> list[float]:
    best = max(scores, default=0.0)
    if not query_stems or best <= 0:
        return scores
    shared = [query_stems.intersection(bag) for bag in segmented.stems()]
    known = query_stems.intersection(stems(segmented.reading.title)).union(*shared)
    size = min(len(query_stems), MANY_WORDS)
    if len(known) < NONE_KNOWN * size:
        judged = min(best, NOISE / 2)
    elif max(map(len, shared)) >= WELL_KNOWN * size:
        judged = max(best, THRESHOLD)
    else:
        judged = min(best, math.nextafter(THRESHOLD, 0)) if len(known) <= FEW_KNOWN * size else best
    return [score * judged / best for score in scores]

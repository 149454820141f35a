"""What a unit does in its text, whatever the query: does it state a result, or tell what was asked and how it was done, and where does it
stand. (Teufel and Moens 2002, "Summarizing Scientific Articles", call this argumentative zoning.)

Alone it answers no question. In an ensemble it makes up for what likeness to the query cannot see: an abstract's aim says the same words
as its conclusion, and only the conclusion answers. Weights are of a logistic regression on half of SciFact's claims (`bench/distil`).
Place counts in texts as short as an abstract only; a book has no such order.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from outrider.distiller.engines.ensemble import Scores, probability
from outrider.distiller.units import SegmentedText

RESULT = re.compile(
    r"\b(?=[acdfhirs])(?:conclu\w+|results?|show(?:s|n|ed|ing)?|suggest\w*|demonstrat\w+|found|find(?:s|ings?)|indicat\w+|reveal\w*|associated"
    r"|significan\w+|reduc\w+|increas\w+|decreas\w+|identif\w+|report here|here,? we)\b"
)
"""Of lower-case text: a search that ignores case takes twice as long."""
METHOD = re.compile(
    r"\b(?=[abdhmopsuw])(?:methods?|design|objectives?|backgrounds?|aims?|settings?|participants|unknown|unclear|however"
    r"|we (?:performed|used|conducted|recruited|examined|investigated|sought|aimed|assessed|studied))\b"
)
SHORT_TEXT = 40
"""Units up to which a text is read as one argument with an end."""
PER_UNIT = (0.386, -1.254, 1.524)
"""Weights of stating a result, of telling aim or method, and of the log of its length."""
PLACE = (2.916, -0.892, -0.327)
"""Weights of its place from 0 to 1, of the square of it, and of being the last."""
INTERCEPT = -10.522


@dataclass(frozen=True, slots=True)
class Rhetoric:
    name: str = "rhetoric"
    revision: str = "1"

    def scores(self, query: str, cuts: Sequence[SegmentedText]) -> Scores:
        return [
            [probability(INTERCEPT + sum(w * f for w, f in zip((*PER_UNIT, *PLACE), one, strict=True))) for one in features(its)]
            for its in cuts
        ]


def features(its: SegmentedText) -> list[tuple[float, ...]]:
    """For each unit what the weights stand for, in their order."""
    sentences = [at for at, unit in enumerate(its.units) if unit.kind != "heading"]
    rank = {at: number for number, at in enumerate(sentences)}
    return [(*_said(its.text(at)), *_place(rank.get(at, 0), len(sentences))) for at in range(len(its.units))]


def _said(text: str) -> tuple[float, float, float]:
    lower = text.lower()
    return float(RESULT.search(lower) is not None), float(METHOD.search(lower) is not None), math.log1p(len(text))


def _place(rank: int, of: int) -> tuple[float, float, float]:
    if of > SHORT_TEXT:
        return 0.5, 0.25, 0.0
    place = rank / (of - 1) if of > 1 else 1.0
    return place, place * place, float(rank == of - 1)

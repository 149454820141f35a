"""Rhetoric engine: whether a unit states a result or a method, and its position in the text.

Teufel and Moens 2002, "Summarizing Scientific Articles", call this argumentative zoning. It ignores the query and answers none alone;
in an ensemble it adds what similarity to the query misses: an abstract's aim uses the words of its conclusion, and only the conclusion
answers. Weights are of a logistic regression on half of SciFact's claims (`bench/distil`). Position counts only in texts as short as
an abstract; a book has no such order.
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
"""For lower-case text: a case-insensitive search takes twice as long."""
METHOD = re.compile(
    r"\b(?=[abdhmopsuw])(?:methods?|design|objectives?|backgrounds?|aims?|settings?|participants|unknown|unclear|however"
    r"|we (?:performed|used|conducted|recruited|examined|investigated|sought|aimed|assessed|studied))\b"
)
SHORT_TEXT = 40
"""Most units of a text that counts as one argument with an end."""
PER_UNIT = (0.386, -1.254, 1.524)
"""Weights of stating a result, of stating an aim or method, and of the log length."""
PLACE = (2.916, -0.892, -0.327)
"""Weights of the position from 0 to 1, of its square, and of being the last."""
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


def features(segmented: SegmentedText) -> list[tuple[float, ...]]:
    """For each unit the values that the weights apply to, in their order."""
    count = sum(unit.kind != "heading" for unit in segmented.units)
    rows: list[tuple[float, ...]] = []
    rank = 0
    for at, unit in enumerate(segmented.units):
        text, position = segmented.text(at).lower(), (0.5, 0.25, 0.0)
        own_rank = 0 if unit.kind == "heading" else rank
        if count <= SHORT_TEXT:
            place = own_rank / (count - 1) if count > 1 else 1.0
            position = place, place * place, float(own_rank == count - 1)
        length = math.log1p(unit.end - unit.start)
        rows.append((float(RESULT.search(text) is not None), float(METHOD.search(text) is not None), length, *position))
        rank += unit.kind != "heading"
    return rows

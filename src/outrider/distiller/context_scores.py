"""Scores of units in their text: a unit is worth what must stand beside it to be understood.

A sentence that begins with "this" or a pronoun needs the one before; a kept one is easier to place under its heading. Both are done
before any threshold, by lifting a score to that of the unit that needs it. So a higher threshold never keeps a unit more, and a
threshold that is fitted on lifted scores is fitted on what is really kept.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from outrider.distiller.units import Cut
from outrider.state.distilling import Why

REFERS = re.compile(
    r"""["'“‘(\[]*(?:
      (?:this|these|that|those)\b(?!\s+(?:study|paper|article|work|review|trial|report|survey|thesis|book|chapter|section|document)\b)
    | (?:it|its|they|them|their|he|his|him|she|her|hers|such|both|neither|either|which)\b
    | the\s+(?:former|latter|same)\b
    )""",
    re.IGNORECASE | re.VERBOSE,
)
"""Begins a unit that points back at the one before it, and not at the whole work ("this study")."""
MOST_BACK = 2
"""Units before one that are lifted for its sake, where the one before points back as well."""


def lifted(cut: Cut, scores: Sequence[float]) -> tuple[list[float], list[Why]]:
    """Scores not below those given, and why each is what it is."""
    found = list(scores)
    why: list[Why] = ["relevant"] * len(found)
    _lift_what_is_referred_to(cut, scores, found, why)
    _lift_headings(cut, found, why)
    return found, why


def _lift_what_is_referred_to(cut: Cut, scores: Sequence[float], found: list[float], why: list[Why]) -> None:
    refers = [bool(REFERS.match(cut.reading.text, unit.start, unit.end)) and unit.kind == "sentence" for unit in cut.units]
    for at, score in enumerate(scores):
        back = at
        while refers[back] and back > 0 and at - back < MOST_BACK and cut.units[back - 1].kind in ("sentence", "item"):
            back -= 1
            if score > found[back]:
                found[back], why[back] = score, "context"


def _lift_headings(cut: Cut, found: list[float], why: list[Why]) -> None:
    """Each heading to the best score of its section, that of a part of the section included."""
    open_headings: list[int] = []
    for at, unit in enumerate(cut.units):
        if unit.kind == "heading":
            while open_headings and cut.units[open_headings[-1]].level >= unit.level:
                open_headings.pop()
        for heading in open_headings:
            if found[at] > found[heading]:
                found[heading], why[heading] = found[at], "heading"
        if unit.kind == "heading":
            open_headings.append(at)

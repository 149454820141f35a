"""The most promising units of a text, which an embedding model reads.

A model takes about .3 ms for a token on one core, so a long text as a whole would take seconds. Units that share a word with the question
come first. What room they leave goes to openings of paragraphs, spread over the text: there an answer in other words is as likely here as
there.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence

from outrider.distiller.units import SegmentedText

CHARS_PER_TOKEN, SPECIAL_TOKENS = 4, 2
MAX_CHARS = 256
"""Characters of a unit, and `MAX_TITLE_CHARS` of a title, that the model reads."""
MAX_TITLE_CHARS = 80
TYPICAL_TOKENS = 25


def estimate_tokens(text: str) -> int:
    return len(text) // CHARS_PER_TOKEN + 1 + SPECIAL_TOKENS


def share_tokens(budget: int, texts: int, least: int, most: int) -> Generator[int, int, None]:
    """Tokens for each text in order: half of what is left, since the first is the best hit, and at least `least` while there are as many.
    The generator is sent what each one used.
    """
    for left in range(texts, 0, -1):
        used = yield min(most, max(budget // min(2, left), min(least, budget)))
        budget -= used


def choose_units(segmented: SegmentedText, logits: Sequence[float], shares_word: Sequence[bool], tokens: int) -> tuple[list[int], int]:
    """The places of the chosen units in order, and the tokens that they and their titles take."""
    plain, units = segmented.plain_texts(), segmented.units
    chosen: list[int] = []
    titles: set[str] = set()
    used = 0
    for at in _rank(segmented, logits, shares_word, tokens):
        new = {title for title in titles_of(segmented, at) if title not in titles}
        cost = estimate_tokens(plain[at][:MAX_CHARS]) + sum(map(estimate_tokens, new))
        if used + cost <= tokens:
            chosen.append(at)
            titles |= new
            used += cost
        if used + SPECIAL_TOKENS >= tokens or len(chosen) == len(units):
            break
    return sorted(chosen), used


def titles_of(segmented: SegmentedText, at: int) -> list[str]:
    """The heading above a unit and what introduces it, as far as the model reads them."""
    unit = segmented.units[at]
    return [title[:MAX_TITLE_CHARS] for title in (*unit.section[-1:], unit.introduced_by) if title]


def _rank(segmented: SegmentedText, logits: Sequence[float], shares_word: Sequence[bool], tokens: int) -> list[int]:
    units = segmented.units
    by_logit = sorted(range(len(units)), key=lambda at: (-logits[at], at))
    openings = [at for at, unit in enumerate(units) if not shares_word[at] and (at == 0 or unit.block != units[at - 1].block)]
    spread = openings[:: max(1, math.ceil(len(openings) / max(1, tokens // TYPICAL_TOKENS)))]
    taken = set(spread)
    return [
        *(at for at in by_logit if shares_word[at]),
        *spread,
        *(at for at in by_logit if not shares_word[at] and at not in taken),
    ]

"""Direction of a conversion: a text on B to A does not answer a question on A to B."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from outrider.text.words import STOP_WORDS, stem, words

ASKS_CONVERSION = re.compile(
    r"\b(?:convert|turn|transl|transform|transpil|compil|port(?:ing)?\b|migrat|render|export|chang|pars)\w*", re.IGNORECASE
)
NAMES_ALONE = re.compile(r"\s*[\w.+#-]+ (?:in)?to [\w.+#-]+(?: (?:convert\w*|conversion|tool|library|package|python))?\W*", re.IGNORECASE)
TOWARDS, BACKWARDS = frozenset({"to", "into"}), frozenset({"from"})
NEAR = 4
"""Words on each side of `to` or `from` that may name an end."""
MAX_QUESTION_CHARS = 300
REVERSED = 0.35
"""Factor of the scores of a text that converts the other way: its best unit is no certain answer."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """The stems that name its two ends."""

    source: frozenset[str]
    target: frozenset[str]

    def compare(self, text: str) -> int:
        """1 where the text converts this way, -1 where it does so the other way, 0 where it says neither or both."""
        parted = [word if word in TOWARDS | BACKWARDS else stem(word) for word in words(text)]
        seen = set()
        for at, word in enumerate(parted):
            if word in TOWARDS or word in BACKWARDS:
                left, right = set(parted[max(0, at - NEAR) : at]), set(parted[at + 1 : at + 1 + NEAR])
                if word in BACKWARDS:
                    left, right = right, left
                seen.add((bool(left & self.source and right & self.target)) - bool(left & self.target and right & self.source))
        return sum(seen)

    def weigh(self, texts: Iterable[str]) -> list[float]:
        """A factor for the score of each unit: `REVERSED` for one of the other way, and for all of a text where none is of this one."""
        ways = [self.compare(text) for text in texts]
        is_reversed = -1 in ways and 1 not in ways
        return [REVERSED if is_reversed or way < 0 else 1.0 for way in ways]


@lru_cache(maxsize=4)
def read_conversion(question: str) -> Conversion | None:
    """The conversion that a question asks for, such as `convert html to markdown`; None for any other question."""
    asked = question[:MAX_QUESTION_CHARS]
    verb = ASKS_CONVERSION.search(asked)
    if verb is None and not NAMES_ALONE.fullmatch(asked):
        return None
    parted = words(asked[verb.end() :] if verb else asked)
    for at, word in enumerate(parted):
        if word in ("to", "into"):
            source, target = (
                frozenset(stem(one) for one in part if one not in STOP_WORDS)
                for part in (parted[max(0, at - 3) : at], parted[at + 1 : at + 3])
            )
            source, target = source - target, target - source
            return Conversion(source, target) if source and target else None
    return None

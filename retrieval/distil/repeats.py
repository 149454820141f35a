"""The same said again, in another text or further down in the same: it counts once, and where else it stands is told.

Two units say the same where they share at least four fifths of their content stems, and all numbers and negations. Pairs are found by
prefix filtering (Chaudhuri, Ganti and Kaushik 2006, "A Primitive Operator for Similarity Joins"), without comparing each with each.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from itertools import chain

from outrider.text.words import stems

ALIKE = 0.8
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
NEGATION = re.compile(
    r"\b(?:not|no|nor|never|neither|none|without|cannot|fail(?:s|ed)?|lack(?:s|ed|ing)?|unlike|un(?:able|affected|changed|related|likely))\b"
    r"|n['’]t\b",
    re.IGNORECASE,
)
DIRECTION = re.compile(r"\b(?:in|de)creas\w*|\b(?:higher|lower|more|less|fewer|greater|smaller|up|down)\b", re.IGNORECASE)
"""Words that turn a fact round though little else differs."""


def repeats(texts: Sequence[str], stemmed: Sequence[Iterable[str]] | None = None) -> list[int]:
    """For each text the place of the first one that says the same: its own where there is none before it.

    `stemmed` are their content stems, where they are known already.
    """
    bags = [frozenset(one) for one in (map(stems, texts) if stemmed is None else stemmed)]
    common = Counter(chain.from_iterable(bags))
    by_word: dict[tuple[Hashable, str], list[int]] = defaultdict(list)
    found: list[int] = []
    for at, (text, bag) in enumerate(zip(texts, bags, strict=True)):
        same = None
        if rare := _prefix(bag, common):  # few have one, and only theirs are worth the look at numbers and negations
            facts = _facts(text)
            same = _first(by_word, facts, rare, bag, bags)
            if same is None:
                for word in rare:
                    by_word[facts, word].append(at)
        found.append(at if same is None else same)
    return found


def numbers_and_negations(text: str) -> list[str]:
    """In their order, in lower case."""
    return [*NUMBER.findall(text), *(found.group().lower() for found in NEGATION.finditer(text))]


def _facts(text: str) -> Hashable:
    """What must be the same in both."""
    turned = Counter(found.group().lower() for found in DIRECTION.finditer(text))
    return tuple(sorted(Counter(numbers_and_negations(text)).items())), tuple(sorted(turned.items()))


def _prefix(bag: frozenset[str], common: Counter[str]) -> list[str]:
    """The rarest words, so many that two alike units share one of them; without those that no other unit has."""
    shared = [word for word in bag if common[word] > 1]
    many = len(shared) - math.ceil(ALIKE * len(bag)) + 1
    return sorted(shared, key=lambda word: (common[word], word))[:many] if many > 0 else []


def _first(
    by_word: dict[tuple[Hashable, str], list[int]],
    facts: Hashable,
    rare: Sequence[str],
    bag: frozenset[str],
    bags: Sequence[frozenset[str]],
) -> int | None:
    candidates = {at for word in rare for at in by_word.get((facts, word), ())}
    return min((at for at in candidates if _alike(bag, bags[at])), default=None)


def _alike(one: frozenset[str], other: frozenset[str]) -> bool:
    both = len(one & other)
    return both >= ALIKE * (len(one) + len(other) - both)

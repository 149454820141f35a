"""Terms that mark a query's first hits off from the later ones: pseudo-relevance feedback.

A term's weight is its share of the first hits times the log of how much larger that is than its share of the others
(the Kullback-Leibler term weighting of Carpineto et al., ACM TOIS 19(1), 2001, over documents instead of tokens).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from outrider.state.records import Record
from outrider.text.words import STOP_WORDS, stem, words

FIRST = 10
POOL = 30
MIN_HITS = 3
"""A term must stand in this many of the first hits, or in two where they are fewer than `FIRST`: one document's habits are no topic."""
MIN_LETTERS = 3
MAX_LETTERS = 30
MAX_CHARS = 600
"""Of each hit's title, abstract and body: the topic stands at the beginning, and time counts."""


def related_terms(query: str, hits: Sequence[Record], limit: int) -> tuple[str, ...]:
    """The best terms, each as its most frequent word form in the first hits, without those of the query; ties by word.

    A term must stand in the title or description of some hit: those say what a text is about, bodies also say "overall".
    The other hits are searched for the forms that stand in the first ones; further forms of a word are not looked up.
    """
    asked = frozenset(map(stem, words(query)))
    first = [_plain_words(record) for record in hits[:FIRST]]
    forms = Counter(word for document in first for word in document if _says_something(word))
    stems = {word: stem(word) for word in forms}
    hit = _documents(first, stems)
    others = [_plain_words(record) for record in hits[FIRST:POOL]]
    other = _documents(others, stems)
    headlined = _documents([_headline(record) for record in hits[:POOL]], stems)
    enough = MIN_HITS if len(first) == FIRST else 2
    common = _common_forms(forms, stems)
    best = sorted(
        (-_weight(count, len(first), other[term], len(others)), common[term])
        for term, count in hit.items()
        if count >= enough and term not in asked and headlined[term]
    )
    return tuple(word for weight, word in best[:limit] if weight < 0)


def _plain_words(record: Record) -> list[str]:
    text = "\n".join((record.title, record.abstract or record.description, record.text))
    return words(text[:MAX_CHARS])


def _headline(record: Record) -> list[str]:
    return words(f"{record.title}\n{record.description}")


def _says_something(word: str) -> bool:
    return MIN_LETTERS <= len(word) <= MAX_LETTERS and word.isalpha() and word not in STOP_WORDS


def _documents(documents: Iterable[Sequence[str]], stems: Mapping[str, str]) -> Counter[str]:
    """In how many documents each stem stands."""
    return Counter(term for document in documents for term in dict.fromkeys(stems[word] for word in document if word in stems))


def _weight(hit: int, first: int, other: int, others: int) -> float:
    return hit / first * math.log((hit / first) / ((other + 0.5) / (others + 1)))


def _common_forms(forms: Mapping[str, int], stems: Mapping[str, str]) -> dict[str, str]:
    """The most frequent form of each stem; of equally frequent ones the shortest, then the first in the alphabet."""
    order = sorted(forms, key=lambda word: (-forms[word], len(word), word))
    return {stems[word]: word for word in reversed(order)}

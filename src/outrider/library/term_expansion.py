"""Expansion of a query by terms that distinguish its first hits: pseudo-relevance feedback.

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
"""First hits that must hold a term, or two where they are fewer than `FIRST`: one document's habits are no topic."""
MIN_LETTERS = 3
MAX_LETTERS = 30
MAX_CHARS = 600
"""Of each hit's title, abstract and body: the topic is named at the beginning, and a search must be quick."""


def related_terms(query: str, hits: Sequence[Record], limit: int) -> tuple[str, ...]:
    """The best terms, each as its most frequent word form in the first hits, without those of the query; ties by word.

    A term must occur in the title or description of some hit: those name the topic, bodies also say "overall".
    In the other hits only the forms of the first hits are counted, not further forms of a word.
    """
    own = frozenset(map(stem, words(query)))
    first = [_read_beginning(record) for record in hits[:FIRST]]
    forms = Counter(word for document in first for word in document if _may_be_term(word))
    stems = {word: stem(word) for word in forms}
    in_first = _count_documents(first, stems)
    others = [_read_beginning(record) for record in hits[FIRST:POOL]]
    in_others = _count_documents(others, stems)
    in_headlines = _count_documents([words(f"{record.title}\n{record.description}") for record in hits[:POOL]], stems)
    least = MIN_HITS if len(first) == FIRST else 2
    # The most frequent form of each stem; of equally frequent ones the shortest, then the first in the alphabet.
    common = {stems[word]: word for word in sorted(forms, key=lambda word: (-forms[word], len(word), word), reverse=True)}
    ranked = []
    for term, count in in_first.items():
        if count >= least and term not in own and in_headlines[term]:
            share = count / len(first)
            weight = share * math.log(share / ((in_others[term] + 0.5) / (len(others) + 1)))
            ranked.append((-weight, common[term]))
    return tuple(word for negative, word in sorted(ranked)[:limit] if negative < 0)


def _read_beginning(record: Record) -> list[str]:
    text = "\n".join((record.title, record.abstract or record.description, record.text))
    return words(text[:MAX_CHARS])


def _may_be_term(word: str) -> bool:
    return MIN_LETTERS <= len(word) <= MAX_LETTERS and word.isalpha() and word not in STOP_WORDS


def _count_documents(documents: Iterable[Sequence[str]], stems: Mapping[str, str]) -> Counter[str]:
    """How many documents hold each stem."""
    return Counter(term for document in documents for term in dict.fromkeys(stems[word] for word in document if word in stems))

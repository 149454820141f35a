"""Which works look so alike that a model should say whether they are one: blocks of titles that share rare words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations

from outrider.identity.groups import Groups
from outrider.identity.works import likely_same_work, read_title
from outrider.state.records import Record
from outrider.text.injection import suspicious
from outrider.text.words import stem

RARE = 8
"""A word in more titles than these tells none of them apart."""
BLOCK = 10
"""Titles of a block at most, so that one block fits into one look."""
ALL_ASKED = 60
"""Up to so many works a block is asked about whole; of more, only the pairs that share two rare words and could be joined."""

Pair = tuple[int, int]


def suspicious_blocks(records: Sequence[Record]) -> list[list[int]]:
    """Disjoint blocks of two to `BLOCK` places, in order of the first; each holds a pair that the evidence allows to join.

    Where it allows none, no answer could change anything, and nothing is asked. A title that carries instructions is in no block.
    Time and memory grow with the number of pairs that share a rare word, at most 28 for each such word.
    """
    few = len(records) <= ALL_ASKED
    shared = {pair: count for pair, count in _sharing(records).items() if few or count > 1}
    likely = {pair for pair in shared if likely_same_work(records[pair[0]], records[pair[1]])}
    joined = Groups(len(records))
    for one, other in sorted(shared if few else likely, key=lambda pair: (pair not in likely, -shared[pair], pair)):
        if not joined.together(one, other) and joined.size(one) + joined.size(other) <= BLOCK:
            joined.join(one, other)
    asked = {joined.root(one) for one, other in likely if joined.together(one, other)}
    return [block for block in joined.members() if block[0] in asked]


def _sharing(records: Sequence[Record]) -> Counter[Pair]:
    """How many rare keys two records share."""
    holders: dict[str, list[int]] = {}
    for at, record in enumerate(records):
        for key in _keys(record):
            holders.setdefault(key, []).append(at)
    return Counter(pair for places in holders.values() if len(places) <= RARE for pair in combinations(places, 2))


def _keys(record: Record) -> Iterator[str]:
    """The stems of the title's content words, and the title with and without its subtitle: equal titles of frequent words are alike too."""
    if record.kind == "repository" or suspicious(record.title):
        return
    title = read_title(record.title)
    yield from sorted({stem(word) for word in title.content})
    yield f"= {title.whole}"
    yield f": {title.main}"

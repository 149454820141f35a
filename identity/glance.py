"""Which of some hundred records could belong with another: a look at identifiers, words of titles and pages, before any key is made.

A search finds mostly works that have nothing to do with each other. Making the keys of all of them takes ten times as long as this.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain, combinations
from math import ceil

from outrider.identity.groups import Groups
from outrider.identity.identifiers import canonical_url, normal_doi
from outrider.identity.titles import MAX_TITLE_CHARS, article_title, normal_title
from outrider.state.records import Paper, Record
from outrider.text.words import STOP_WORDS

SHARED = 0.6
"""Of the shorter title's different content words, how many the other must have; titles that are one share more."""
ALIKE = 0.85
"""Who shares fewer must have an author in common."""
MOST_AUTHORS = 20
CROWD = 12
"""Records that share one page and year, at most; of more it says nothing."""
WORD = re.compile(r"[a-z0-9]+")
FIRST_PAGE = re.compile(r"\d+")


def prefilter(records: Sequence[Record], of: Sequence[int]) -> list[list[int]]:
    """Owners, in order, that could be one with another, or belong with it, by the chains that connect them; `of` names each record's."""
    groups = Groups(max(of, default=-1) + 1)
    for one, other in _pairs(records):
        groups.join(of[one], of[other])
    return [members for members in groups.members() if len(members) > 1]


def _pairs(records: Sequence[Record]) -> Iterator[tuple[int, int]]:
    known, likely = dict[object, int](), defaultdict[object, list[int]](list)
    for at, record in enumerate(records):
        for name in _names(record):
            if (first := known.setdefault(name, at)) != at:
                yield first, at
        if page := _page(record):
            likely[page].append(at)
    people = _People(records)
    for places in likely.values():
        if 1 < len(places) <= CROWD:
            yield from ((one, other) for one, other in combinations(places, 2) if people.meet((one,), (other,)))
    titled = defaultdict[frozenset[str], list[int]](list)
    for at, record in enumerate(records):
        titled[_words(article_title(record.title[: 2 * MAX_TITLE_CHARS]))].append(at)
    for title, places in titled.items():
        if title:
            yield from ((places[0], other) for other in places[1:])
    for one, other in _by_title(list(titled)):
        mine, theirs = titled[one], titled[other]
        if len(one & other) >= ALIKE * min(len(one), len(other)) or people.meet(mine, theirs):
            yield mine[0], theirs[0]


class _People:
    """Whether records may have an author in common; words of names are read when asked for."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = records
        self._words: dict[int, frozenset[str]] = {}

    def meet(self, some: Sequence[int], others: Sequence[int]) -> bool:
        """Whether any of some and any of the others do, also where one says no author."""
        mine, theirs = ([self._of(at) for at in places] for places in (some, others))
        return not all(mine) or not all(theirs) or not frozenset().union(*mine).isdisjoint(frozenset().union(*theirs))

    def _of(self, at: int) -> frozenset[str]:
        if at not in self._words:
            self._words[at] = frozenset(word for word in _words(" ".join(self._records[at].authors[:MOST_AUTHORS])) if len(word) > 2)
        return self._words[at]


def _names(record: Record) -> Iterator[object]:
    """What two records of one work, or of two that belong together, have in common beside their titles."""
    yield from ((scheme, value) for scheme, value in vars(record.identifiers).items() if value)
    yield record.doc_id
    if record.url:
        yield "url", (canonical_url(record.url) if record.kind == "page" else None) or record.url
    for name in ("update_to", "updated_by"):
        said = record.metadata.get(name)
        for update in said if isinstance(said, list) else ():
            if isinstance(update, dict) and (doi := normal_doi(str(update.get("doi") or ""))):
                yield "doi", doi
    if record.kind == "repository" or "github.com/" in record.abstract:
        yield "code"


def _page(record: Record) -> tuple[str, int | None] | None:
    found = FIRST_PAGE.search(record.pages) if isinstance(record, Paper) and record.pages else None
    return (found.group(), record.year) if found else None


def _words(title: str) -> frozenset[str]:
    title = title[:MAX_TITLE_CHARS]
    if "<" in title or "&" in title or not title.isascii():
        return frozenset(normal_title(title).split()) - STOP_WORDS
    return frozenset(WORD.findall(title.lower())) - STOP_WORDS


def _by_title(titles: Sequence[frozenset[str]]) -> Iterator[tuple[frozenset[str], frozenset[str]]]:
    """Different titles that share enough words. Who shares enough shares one of the rarest (prefix filter, Chaudhuri et al. 2006)."""
    common = Counter(chain.from_iterable(titles))
    holders: dict[str, list[frozenset[str]]] = {}
    for title in sorted(titles, key=len):
        for other in {other for word in title if word in holders for other in holders[word]}:
            if len(title & other) >= SHARED * len(other):
                yield other, title
        shared = [word for word in title if common[word] > 1]
        if shared and len(shared) >= SHARED * len(title):  # the others share too little with any longer title
            tried = len(shared) - ceil(SHARED * len(title)) + 1
            for word in sorted(shared, key=lambda word: (common[word], word))[:tried]:
                holders.setdefault(word, []).append(title)

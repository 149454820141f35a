"""Prefilter: a cheap test for records that might be one work, before any keys are made.

It reads identifiers, title words and pages of some hundred records. Most hits of a search are unrelated works, and making the keys of all
of them takes ten times as long as this test.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain, combinations
from math import ceil

from outrider.linkage.clustering import Groups
from outrider.linkage.identifiers import canonical_url, normal_doi
from outrider.linkage.titles import MAX_TITLE_CHARS, article_title, normal_title
from outrider.state.records import Paper, Record
from outrider.text.words import STOP_WORDS

MIN_SHARED = 0.6
"""Least share of the shorter title's distinct content words that the other title has; titles of one work share more."""
ALIKE = 0.85
"""Titles that share less than this must also have an author in common."""
MAX_AUTHORS = 20
MAX_SAME_PAGE = 12
"""Largest group of records with one page and year that is compared; a larger one is chance."""
WORD = re.compile(r"[a-z0-9]+")
FIRST_PAGE = re.compile(r"\d+")


def prefilter(records: Sequence[Record], owners: Sequence[int]) -> list[list[int]]:
    """Groups of owners whose records might be one work, or related works, in order.

    `owners` is parallel to `records`: several records may have one owner. Chains of similar records form a group.
    """
    groups = Groups(max(owners, default=-1) + 1)
    for one, other in _pairs(records):
        groups.join(owners[one], owners[other])
    return [members for members in groups.members() if len(members) > 1]


def _pairs(records: Sequence[Record]) -> Iterator[tuple[int, int]]:
    first_with, same_page = dict[object, int](), defaultdict[object, list[int]](list)
    for at, record in enumerate(records):
        for name in _names(record):
            if (first := first_with.setdefault(name, at)) != at:
                yield first, at
        page = FIRST_PAGE.search(record.pages) if isinstance(record, Paper) and record.pages else None
        if page:
            same_page[page.group(), record.year].append(at)
    authors = _AuthorWords(records)
    for places in same_page.values():
        if 1 < len(places) <= MAX_SAME_PAGE:
            yield from ((one, other) for one, other in combinations(places, 2) if authors.may_overlap((one,), (other,)))
    titled = defaultdict[frozenset[str], list[int]](list)
    for at, record in enumerate(records):
        titled[_words(article_title(record.title[: 2 * MAX_TITLE_CHARS]))].append(at)
    for title, places in titled.items():
        if title:
            yield from ((places[0], other) for other in places[1:])
    for one, other in _similar_titles(list(titled)):
        mine, theirs = titled[one], titled[other]
        if len(one & other) >= ALIKE * min(len(one), len(other)) or authors.may_overlap(mine, theirs):
            yield mine[0], theirs[0]


class _AuthorWords:
    """Tests whether records may have an author in common; the words of names are extracted on demand."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = records
        self._words: dict[int, frozenset[str]] = {}

    def may_overlap(self, some: Sequence[int], others: Sequence[int]) -> bool:
        """Whether any record of `some` may share an author with any of `others`. A record without authors may."""
        mine, theirs = ([self._words_at(at) for at in places] for places in (some, others))
        return not all(mine) or not all(theirs) or not frozenset().union(*mine).isdisjoint(frozenset().union(*theirs))

    def _words_at(self, at: int) -> frozenset[str]:
        if at not in self._words:
            self._words[at] = frozenset(word for word in _words(" ".join(self._records[at].authors[:MAX_AUTHORS])) if len(word) > 2)
        return self._words[at]


def _names(record: Record) -> Iterator[object]:
    """Values other than titles that records of one work, or of related works, share."""
    yield from ((scheme, value) for scheme, value in vars(record.identifiers).items() if value)
    yield record.doc_id
    if record.url:
        yield "url", (canonical_url(record.url) if record.kind == "page" else None) or record.url
    for name in ("update_to", "updated_by"):
        updates = record.metadata.get(name)
        for update in updates if isinstance(updates, list) else ():
            if isinstance(update, dict) and (doi := normal_doi(str(update.get("doi") or ""))):
                yield "doi", doi
    if record.kind == "repository" or "github.com/" in record.abstract:
        yield "code"


def _words(title: str) -> frozenset[str]:
    title = title[:MAX_TITLE_CHARS]
    if "<" in title or "&" in title or not title.isascii():
        return frozenset(normal_title(title).split()) - STOP_WORDS
    return frozenset(WORD.findall(title.lower())) - STOP_WORDS


def _similar_titles(titles: Sequence[frozenset[str]]) -> Iterator[tuple[frozenset[str], frozenset[str]]]:
    """Pairs of titles that share enough words.

    Such titles share at least one of their rarest words (prefix filter, Chaudhuri et al. 2006).
    """
    common = Counter(chain.from_iterable(titles))
    holders: dict[str, list[frozenset[str]]] = {}
    for title in sorted(titles, key=len):
        for other in {other for word in title if word in holders for other in holders[word]}:
            if len(title & other) >= MIN_SHARED * len(other):
                yield other, title
        shared = [word for word in title if common[word] > 1]
        if shared and len(shared) >= MIN_SHARED * len(title):  # else it shares too little with any longer title
            tried = len(shared) - ceil(MIN_SHARED * len(title)) + 1
            for word in sorted(shared, key=lambda word: (common[word], word))[:tried]:
                holders.setdefault(word, []).append(title)

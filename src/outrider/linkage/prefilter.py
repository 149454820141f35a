"""Cheap tests for records that might be one work: a prefilter of records, a screen of pairs.

`prefilter` reads identifiers, title words and pages of some hundred records before any keys are made. Most hits of a search are unrelated
works, and making the keys of all of them takes ten times as long as this test.

`screen_pairs` compares the titles, pages and identifiers of candidate pairs with array operations, and drops most pairs before they are
judged.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from math import ceil
from typing import TYPE_CHECKING

from outrider.linkage.clustering import Groups
from outrider.linkage.evidence import NOTHING_ALIKE_BELOW, SHORT_TITLE
from outrider.linkage.identifiers import canonical_url, normal_doi
from outrider.linkage.names_and_titles import MAX_TITLE_CHARS, article_title, normal_title
from outrider.linkage.normalized_record import Keys
from outrider.linkage.relations import parse_part
from outrider.state.records import Paper, Record
from outrider.text.words import STOP_WORDS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


MIN_SHARED = 0.6
"""Least share of the shorter title's distinct content words that the other title has; titles of one work share more."""
ALIKE = 0.85
"""Titles that share less than this must also have an author in common."""
MAX_AUTHORS = 20
MAX_SAME_PAGE = 12
"""Largest group of records with one page and year that is compared; a larger one is chance."""
WORD = re.compile(r"[a-z0-9]+")
FIRST_PAGE = re.compile(r"\d+")
BATCH = 100_000
ALWAYS, NOTICE, PART = 1, 2, 4
HASH_MASK = 2**32 - 1
"""Hashes are cut to 32 bits. A collision costs time only: the pair is judged, and found different."""
SCHEMES = ("doi", "pmid", "pmcid", "arxiv", "openalex", "s2", "isbn", "github", "pypi", "url", "own")
COLUMNS = 4 + len(SCHEMES)
Marks = tuple[int, tuple[int, ...]]


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
        for at in {*some, *others}.difference(self._words):
            self._words[at] = frozenset(word for word in _words(" ".join(self._records[at].authors[:MAX_AUTHORS])) if len(word) > 2)
        mine, theirs = ([self._words[at] for at in places] for places in (some, others))
        return not all(mine) or not all(theirs) or not frozenset().union(*mine).isdisjoint(frozenset().union(*theirs))


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


@dataclass(frozen=True, slots=True)
class Screen:
    """Titles, flags and hashes of each record, indexed by its number."""

    title: Callable[[int], str]
    flags: NDArray[np.uint8]
    """ALWAYS: too little is known to drop it; NOTICE of another work; PART of a series. Shape (records,)."""
    hashes: NDArray[np.uint32]
    """First page, last page, digits of the pages, words of the title, then identifiers; 0 if missing. Shape (records, COLUMNS)."""

    @classmethod
    def empty(cls, title: Callable[[int], str], size: int) -> Screen:
        import numpy as np

        return cls(title, np.zeros(size, np.uint8), np.zeros((size, COLUMNS), np.uint32))

    def put(self, numbers: Sequence[int], marks: Sequence[Marks]) -> None:
        self.flags[numbers] = [flags for flags, _ in marks]
        self.hashes[numbers] = [hashes for _, hashes in marks]

    def filter_pairs(self, pairs: NDArray[np.int64]) -> NDArray[np.int64]:
        """Drop pairs that `judge_keys` would find different and unrelated: no similar title, and no identifier or page in common."""
        import numpy as np

        parts = (pairs[start : start + BATCH] for start in range(0, len(pairs), BATCH))
        return np.concatenate([part[self._passes(part)] for part in parts]) if len(pairs) else pairs

    def _passes(self, pairs: NDArray[np.int64]) -> NDArray[np.bool_]:
        import numpy as np
        from rapidfuzz.distance import Indel
        from rapidfuzz.process import cpdist

        # a flag, an identifier, a page or the set of title words is reason enough to judge a pair
        flags, other_flags = (self.flags[pairs[:, side]] for side in (0, 1))
        marked = ((flags | other_flags) & ALWAYS) | ((flags ^ other_flags) & NOTICE) | ((flags & other_flags) & PART)
        hashes, other_hashes = (self.hashes[pairs[:, side]] for side in (0, 1))
        passed: NDArray[np.bool_] = (marked != 0) | ((hashes == other_hashes) & (hashes != 0)).any(axis=1)
        open_ = np.flatnonzero(~passed)
        one, other = ([self.title(at) for at in pairs[open_, side].tolist()] for side in (0, 1))
        alike = cpdist(one, other, scorer=Indel.normalized_similarity, score_cutoff=NOTHING_ALIKE_BELOW, dtype=np.float32)
        within = np.fromiter((mine in theirs or theirs in mine for mine, theirs in zip(one, other, strict=True)), bool, len(open_))
        passed[open_] = (alike > 0) | within
        return passed


def screen_pairs(keys: Sequence[Keys], pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """The pairs of places, of shape (pairs, 2), that are worth judging."""
    screen = Screen.empty(lambda at: keys[at].title.compact, len(keys))
    if keys:
        screen.put(range(len(keys)), [make_marks(key) for key in keys])
    return screen.filter_pairs(pairs)


def make_marks(key: Keys) -> Marks:
    """The flags and hashes of one record, in the order of `Screen.hashes`."""
    flags = ALWAYS * (not key.title.compact or key.kind == "repository") + NOTICE * bool(key.notice)
    flags += PART * (parse_part(key.title.whole) is not None)
    content = key.title.content if len(key.title.content) >= SHORT_TITLE else None
    identifiers = dict(key.identifiers)
    values = (*key.pages, content, *((scheme, identifiers[scheme]) if scheme in identifiers else None for scheme in SCHEMES))
    return flags, tuple(hash(one) & HASH_MASK if one else 0 for one in values)

"""Of the candidates those worth judging: a look at titles, pages and identifiers, many pairs at once, ends most of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from outrider.identity.evidence import NOTHING_ALIKE_BELOW, SHORT_TITLE
from outrider.identity.keys import Keys
from outrider.identity.relations import parse_part

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

AT_ONCE = 100_000
ALWAYS, NOTICE, PART = 1, 2, 4
HALF = 2**32 - 1
"""Shorter hashes: two that are equal by chance are judged, and found different."""
KNOWN = ("doi", "pmid", "pmcid", "arxiv", "openalex", "s2", "isbn", "github", "pypi", "url", "own")
COLUMNS = 4 + len(KNOWN)
Marks = tuple[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Screen:
    """What is looked at of each record; arrays by its number."""

    title: Callable[[int], str]
    flags: NDArray[np.uint8]
    """ALWAYS: too little is known to leave it out; NOTICE of another work; PART of a series. Shape (records,)."""
    hashes: NDArray[np.uint32]
    """First page, last page, digits of the pages, words of the title, then identifiers; 0 for none. Shape (records, COLUMNS)."""

    @classmethod
    def empty(cls, title: Callable[[int], str], size: int) -> Screen:
        import numpy as np

        return cls(title, np.zeros(size, np.uint8), np.zeros((size, COLUMNS), np.uint32))

    def put(self, numbers: Sequence[int], marks: Sequence[Marks]) -> None:
        self.flags[numbers] = [flags for flags, _ in marks]
        self.hashes[numbers] = [said for _, said in marks]

    def worth_judging(self, pairs: NDArray[np.int64]) -> NDArray[np.int64]:
        """Without those that `judged` would find different and unrelated for having no title, identifier or page alike."""
        import numpy as np

        parts = (pairs[start : start + AT_ONCE] for start in range(0, len(pairs), AT_ONCE))
        return np.concatenate([part[self._kept(part)] for part in parts]) if len(pairs) else pairs

    def _kept(self, pairs: NDArray[np.int64]) -> NDArray[np.bool_]:
        import numpy as np
        from rapidfuzz.distance import Indel
        from rapidfuzz.process import cpdist

        kept = self._marked(pairs)
        open_ = np.flatnonzero(~kept)
        one, other = ([self.title(at) for at in pairs[open_, side].tolist()] for side in (0, 1))
        alike = cpdist(one, other, scorer=Indel.normalized_similarity, score_cutoff=NOTHING_ALIKE_BELOW, dtype=np.float32)
        within = np.fromiter((mine in theirs or theirs in mine for mine, theirs in zip(one, other, strict=True)), bool, len(open_))
        kept[open_] = (alike > 0) | within
        return kept

    def _marked(self, pairs: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether anything but the spelling of their titles speaks for a closer look."""
        flags, theirs = (self.flags[pairs[:, side]] for side in (0, 1))
        marked = ((flags | theirs) & ALWAYS) | ((flags ^ theirs) & NOTICE) | ((flags & theirs) & PART)
        mine, others = (self.hashes[pairs[:, side]] for side in (0, 1))
        return (marked != 0) | ((mine == others) & (mine != 0)).any(axis=1)  # type: ignore[no-any-return]


def screen_pairs(keys: Sequence[Keys], pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    screen = Screen.empty(lambda at: keys[at].title.compact, len(keys))
    if keys:
        screen.put(range(len(keys)), [make_marks(key) for key in keys])
    return screen.worth_judging(pairs)


def make_marks(key: Keys) -> Marks:
    flags = ALWAYS * (not key.title.compact or key.kind == "repository") + NOTICE * bool(key.notice)
    flags += PART * (parse_part(key.title.whole) is not None)
    content = key.title.content if len(key.title.content) >= SHORT_TITLE else None
    identifiers = dict(key.identifiers)
    said = (*_pages(key), content, *((scheme, identifiers[scheme]) if scheme in identifiers else None for scheme in KNOWN))
    return flags, tuple(hash(one) & HALF if one else 0 for one in said)


def _pages(key: Keys) -> Iterator[str]:
    yield from (key.pages.first, key.pages.last, key.pages.digits)

"""Vectorised screen of candidate pairs by titles, pages and identifiers.

It drops most pairs before they are judged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from outrider.linkage.evidence import NOTHING_ALIKE_BELOW, SHORT_TITLE
from outrider.linkage.keys import Keys
from outrider.linkage.relations import parse_part

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BATCH = 100_000
ALWAYS, NOTICE, PART = 1, 2, 4
HASH_MASK = 2**32 - 1
"""Hashes are cut to 32 bits. A collision costs time only: the pair is judged, and found different."""
SCHEMES = ("doi", "pmid", "pmcid", "arxiv", "openalex", "s2", "isbn", "github", "pypi", "url", "own")
COLUMNS = 4 + len(SCHEMES)
Marks = tuple[int, tuple[int, ...]]


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
    screen = Screen.empty(lambda at: keys[at].title.compact, len(keys))
    if keys:
        screen.put(range(len(keys)), [make_marks(key) for key in keys])
    return screen.filter_pairs(pairs)


def make_marks(key: Keys) -> Marks:
    flags = ALWAYS * (not key.title.compact or key.kind == "repository") + NOTICE * bool(key.notice)
    flags += PART * (parse_part(key.title.whole) is not None)
    content = key.title.content if len(key.title.content) >= SHORT_TITLE else None
    identifiers = dict(key.identifiers)
    values = (*key.pages, content, *((scheme, identifiers[scheme]) if scheme in identifiers else None for scheme in SCHEMES))
    return flags, tuple(hash(one) & HASH_MASK if one else 0 for one in values)

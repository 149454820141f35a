"""Which pairs of records are worth comparing: those that share something rare. Cost grows with the records, not with their square.

Records are put into blocks by what they say: an identifier, a whole title, two rare words of it, an author with a rare word, a page with
a volume, two hashes of the abstract. All pairs of a small block are compared. A large one says little: it is cut by the year, and by the
first author, and of what is still too large each record meets its neighbours in the order of titles (sorted neighbourhood, Hernandez and
Stolfo 1995). So each name of a record adds a bounded number of pairs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations
from typing import TYPE_CHECKING, Any, NamedTuple

from outrider.identity.encoding import sort_places
from outrider.identity.keys import Keys
from outrider.identity.screening import screen_pairs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LARGE, LARGE_WEAK = 60, 10
"""Records of a block that all meet: of one that an identifier or a title makes, of any other."""
NEAR, NEAR_WEAK = 12, 4
"""Neighbours that a record of a larger block meets."""
RARE_WORDS = 5
WORDS_BESIDE_NAMES = 3
STRONG_SCHEMES = frozenset({"doi", "pmid", "pmcid", "arxiv", "openalex", "s2", "github", "pypi", "own", "url"})
LONG_MAIN_TITLE = 20
WHOLE = 2**64 - 1
FEW = 6
"""Of so many records all pairs are candidates."""


class Names(NamedTuple):
    """The blocks that a record is in, as 64-bit hashes, which differ from process to process."""

    strong: tuple[int, ...]
    weak: tuple[int, ...]
    cuts: tuple[int, int]
    """What a large block is cut by."""


def candidate_pairs(keys: Sequence[Keys]) -> list[tuple[int, int]]:
    """Pairs of places worth judging, the smaller first, in order. The order of `keys` does not matter."""
    if len(keys) <= FEW:
        return list(combinations(range(len(keys)), 2))
    return [(one, other) for one, other in screen_pairs(keys, block_pairs(keys)).tolist()]


def block_pairs(keys: Sequence[Keys]) -> NDArray[np.int64]:
    """Pairs of places that share a block, of shape (pairs, 2), the smaller first, in order."""
    import numpy as np

    common = word_counts(keys)
    order = sort_places(keys)
    names = [make_block_names(keys[at], common) for at in order]
    cuts = np.array([one.cuts for one in names], np.uint64).reshape(-1, 2)
    found = merge_pairs(
        pair_within_blocks(*flatten_names((rank, one.strong) for rank, one in enumerate(names)), cuts, LARGE, NEAR),
        pair_within_blocks(*flatten_names((rank, one.weak) for rank, one in enumerate(names)), cuts, LARGE_WEAK, NEAR_WEAK),
    )
    return merge_pairs(np.sort(np.array(order, np.int64)[found], axis=1))


def word_counts(keys: Iterable[Keys]) -> Counter[str]:
    """In how many titles each word stands."""
    return Counter(word for key in keys for word in key.title.content)


def make_block_names(key: Keys, common: Mapping[str, int]) -> Names:
    cuts = hash(("year", key.year)) & WHOLE, hash(("author", key.authors[0].family if key.authors else "")) & WHOLE
    return Names(_hashed(_strong(key)), _hashed(_weak(key, common)), cuts)


def _hashed(said: Iterable[object]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(hash(one) & WHOLE for one in said))


def _strong(key: Keys) -> Iterator[object]:
    yield from (pair for pair in key.identifiers if pair[0] in STRONG_SCHEMES)
    title = key.title
    if title.compact:
        yield title.compact
        if title.main != title.compact and len(title.main) > LONG_MAIN_TITLE:
            yield title.main


def _weak(key: Keys, common: Mapping[str, int]) -> Iterator[object]:
    rare = sorted((word for word in key.title.content if common[word] > 1), key=lambda word: (common[word], word))[:RARE_WORDS]
    yield from combinations(rare, 2)
    for name in {author.family for author in (*key.authors[:1], *key.authors[-1:])}:
        yield from (("author", name, word) for word in rare[:WORDS_BESIDE_NAMES])
        if key.pages.first:
            yield "author", name, key.pages.first
    if key.pages.first and key.volume:
        yield "page", key.pages.first, key.volume
    yield from combinations(key.abstract[:3], 2)


def flatten_names(named: Iterable[tuple[int, Sequence[int]]]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Names and who has them, in parallel."""
    import numpy as np

    each = list(named)
    names = np.fromiter(chain.from_iterable(said for _, said in each), np.uint64)
    ranks = np.repeat(np.array([rank for rank, _ in each], np.int64), np.array([len(said) for _, said in each], np.int64))
    return names, ranks


def pair_within_blocks(
    names: NDArray[np.uint64], ranks: NDArray[np.int64], cuts: NDArray[np.uint64], large: int, near: int
) -> NDArray[np.int64]:
    """Pairs of ranks of shape (pairs, 2), the smaller first, some more than once; `cuts` of shape (records, 2), by rank."""
    import numpy as np

    names, ranks, sizes = _blocks(names, ranks)
    found = [*_near(names[sizes <= large], ranks[sizes <= large], large)]
    rest = sizes > large
    found += _near(names[rest], ranks[rest], near)
    for column in range(cuts.shape[1]) if rest.any() else ():
        cut = names[rest] * np.uint64(0x9E3779B97F4A7C15) ^ cuts[ranks[rest], column]
        finer, holders, left = _blocks(cut, ranks[rest])
        found += _near(finer[left <= large], holders[left <= large], large)
    return np.concatenate([*found, np.empty((0, 2), np.int64)])


def _blocks(names: NDArray[np.uint64], ranks: NDArray[np.int64]) -> tuple[Any, Any, Any]:
    """Names, ranks, and the size of the block that each is in: block by block, ranks ascending, blocks of one left out."""
    import numpy as np

    order = np.lexsort((ranks, names))
    names, ranks = names[order], ranks[order]
    starts = np.flatnonzero(np.concatenate([[True], names[1:] != names[:-1]])) if len(names) else np.empty(0, np.int64)
    lengths = np.diff(np.append(starts, len(names)))
    sizes = np.repeat(lengths, lengths)
    shared = sizes > 1
    return names[shared], ranks[shared], sizes[shared]


def _near(names: NDArray[np.uint64], ranks: NDArray[np.int64], reach: int) -> Iterator[NDArray[np.int64]]:
    """Each with those of its block that stand at most `reach` further on."""
    import numpy as np

    at = np.arange(len(names))
    for step in range(1, reach + 1):
        at = at[at + step < len(names)]
        at = at[names[at] == names[at + step]]
        if not len(at):
            return
        yield np.stack([ranks[at], ranks[at + step]], axis=1)


def merge_pairs(*pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each pair once, in order."""
    import numpy as np

    both = np.concatenate(pairs)
    numbers = np.unique((both[:, 0] << 32) | both[:, 1])
    return np.stack([numbers >> 32, numbers & 0xFFFFFFFF], axis=1)

"""Blocking: candidate pairs of records that share something rare.

The cost grows with the number of records, not with its square. A block holds the records with the same identifier, title, two rare words
of the title, author and rare word, page and volume, or two hashes of the abstract. In a small block all pairs are compared. A large block
is split by year and by first author. In a part that is still too large, each record is compared only with its neighbours in the order of
titles (sorted neighbourhood, Hernandez and Stolfo 1995). So each block name of a record adds a bounded number of pairs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations
from typing import TYPE_CHECKING, Any, NamedTuple

from outrider.linkage.normalized_record import Keys, sort_places
from outrider.linkage.prefilter import screen_pairs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LARGE, LARGE_WEAK = 60, 10
"""Largest block in which all pairs are compared: for blocks by identifier or title, and for all others."""
NEAR, NEAR_WEAK = 12, 4
"""Neighbours with which a record of a larger block is compared."""
RARE_WORDS = 5
WORDS_BESIDE_NAMES = 3
STRONG_SCHEMES = frozenset({"doi", "pmid", "pmcid", "arxiv", "openalex", "s2", "github", "pypi", "own", "url"})
LONG_MAIN_TITLE = 20
MASK = 2**64 - 1
FEW = 6
"""Up to this number of records, all pairs are candidates."""


class BlockNames(NamedTuple):
    """The blocks of a record, as 64-bit hashes that differ from process to process."""

    strong: tuple[int, ...]
    weak: tuple[int, ...]
    cuts: tuple[int, int]
    """Hashes of the year and of the first author, by which a large block is split."""


def candidate_pairs(keys: Sequence[Keys]) -> list[tuple[int, int]]:
    """Pairs of places to judge, the smaller first, in order. The pairs do not depend on the order of `keys`."""
    if len(keys) <= FEW:
        return list(combinations(range(len(keys)), 2))
    return [(one, other) for one, other in screen_pairs(keys, block_pairs(keys)).tolist()]


def block_pairs(keys: Sequence[Keys]) -> NDArray[np.int64]:
    """Pairs of places in a common block, of shape (pairs, 2), the smaller first, in order."""
    import numpy as np

    common = word_counts(keys)
    order = sort_places(keys)
    names = [make_block_names(keys[at], common) for at in order]
    cuts = np.array([one.cuts for one in names], np.uint64).reshape(-1, 2)
    pairs = merge_pairs(
        pair_within_blocks(*flatten_names((rank, one.strong) for rank, one in enumerate(names)), cuts, LARGE, NEAR),
        pair_within_blocks(*flatten_names((rank, one.weak) for rank, one in enumerate(names)), cuts, LARGE_WEAK, NEAR_WEAK),
    )
    return merge_pairs(np.sort(np.array(order, np.int64)[pairs], axis=1))


def word_counts(keys: Iterable[Keys]) -> Counter[str]:
    """The number of titles that contain each word."""
    return Counter(word for key in keys for word in key.title.content)


def make_block_names(key: Keys, common: Mapping[str, int]) -> BlockNames:
    """The blocks of a record; `common` is the number of titles with each word."""
    cuts = hash(("year", key.year)) & MASK, hash(("author", key.authors[0].family if key.authors else "")) & MASK
    strong: list[object] = [pair for pair in key.identifiers if pair[0] in STRONG_SCHEMES]
    title = key.title
    if title.compact:
        strong.append(title.compact)
        if title.main != title.compact and len(title.main) > LONG_MAIN_TITLE:
            strong.append(title.main)
    rare = sorted((word for word in title.content if common[word] > 1), key=lambda word: (common[word], word))[:RARE_WORDS]
    weak: list[object] = [*combinations(rare, 2)]
    for name in {author.family for author in (*key.authors[:1], *key.authors[-1:])}:
        weak += (("author", name, word) for word in rare[:WORDS_BESIDE_NAMES])
        if key.pages.first:
            weak.append(("author", name, key.pages.first))
    if key.pages.first and key.volume:
        weak.append(("page", key.pages.first, key.volume))
    weak += combinations(key.abstract[:3], 2)
    return BlockNames(_hash_each(strong), _hash_each(weak), cuts)


def _hash_each(values: Iterable[object]) -> tuple[int, ...]:
    return tuple({hash(one) & MASK: None for one in values})


def flatten_names(names_by_rank: Iterable[tuple[int, Sequence[int]]]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Block names and the ranks that have them, as parallel arrays."""
    import numpy as np

    each = list(names_by_rank)
    names = np.fromiter(chain.from_iterable(own for _, own in each), np.uint64)
    ranks = np.repeat(np.array([rank for rank, _ in each], np.int64), np.array([len(own) for _, own in each], np.int64))
    return names, ranks


def pair_within_blocks(
    names: NDArray[np.uint64], ranks: NDArray[np.int64], cuts: NDArray[np.uint64], large: int, near: int
) -> NDArray[np.int64]:
    """Pairs of ranks, of shape (pairs, 2), the smaller first, with repetitions; `cuts` has shape (records, 2), indexed by rank."""
    import numpy as np

    names, ranks, sizes = _blocks(names, ranks)
    pairs = [*_neighbours(names[sizes <= large], ranks[sizes <= large], large)]
    rest = sizes > large
    pairs += _neighbours(names[rest], ranks[rest], near)
    for column in range(cuts.shape[1]) if rest.any() else ():
        cut = names[rest] * np.uint64(0x9E3779B97F4A7C15) ^ cuts[ranks[rest], column]
        finer, holders, finer_sizes = _blocks(cut, ranks[rest])
        pairs += _neighbours(finer[finer_sizes <= large], holders[finer_sizes <= large], large)
    return np.concatenate([*pairs, np.empty((0, 2), np.int64)])


def _blocks(names: NDArray[np.uint64], ranks: NDArray[np.int64]) -> tuple[Any, Any, Any]:
    """Names, ranks and block sizes, in parallel: block by block, ranks ascending, without blocks of one record."""
    import numpy as np

    order = np.lexsort((ranks, names))
    names, ranks = names[order], ranks[order]
    starts = np.flatnonzero(np.concatenate([[True], names[1:] != names[:-1]])) if len(names) else np.empty(0, np.int64)
    lengths = np.diff(np.append(starts, len(names)))
    sizes = np.repeat(lengths, lengths)
    shared = sizes > 1
    return names[shared], ranks[shared], sizes[shared]


def _neighbours(names: NDArray[np.uint64], ranks: NDArray[np.int64], reach: int) -> Iterator[NDArray[np.int64]]:
    """Pairs of each record with the next `reach` records of its block."""
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
    numbers = np.sort((both[:, 0] << 32) | both[:, 1])
    numbers = numbers[np.diff(numbers, prepend=-1) != 0]  # not `np.unique`, which loads masked arrays
    return np.stack([numbers >> 32, numbers & 0xFFFFFFFF], axis=1)

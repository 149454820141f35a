"""Compressed token vectors of documents for late interaction, at most 12 KiB a document.

A block holds a document's unit vectors at two bits a value, after a rotation that is the same for all. The rotation spreads what a model
keeps in a few values over all of them, so that each is about normally distributed and one set of levels fits every model and library:
nothing is fitted (as in Zandieh et al. 2025, "TurboQuant"). Of a document with too many tokens, those that are most alike are pooled
(Clavié, Chaffin and Adams 2024, "Reducing the Footprint of Multi-Vector Retrieval with Minimal Performance Impact via Token Pooling").
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np

FORMAT = "2bit1"
"""Part of the name of a table of blocks. Change it with anything that changes the meaning of their bytes."""
MAX_BYTES = 12 * 2**10
LEVELS = (-1.51, -0.4528, 0.4528, 1.51)
"""The four levels that lose least of a standard normal value (Max 1960, "Quantizing for minimum distortion")."""
LIMITS = (-0.9816, 0.0, 0.9816)
"""Half-way between the levels."""
BITS = 2
VALUES = 4
"""In a byte."""
MERGED_AT_ONCE = 8
"""One token in so many is merged with another before all are compared again."""
PAIRS_COMPARED = 16
"""For each pair to merge, as many of the most similar pairs are looked at: most of them share a token with a better one."""
SEED = 24
ROUNDS = 2
"""Of signs, order and Hadamard matrix: one of them leaves the blocks of the matrix apart."""


def compress(vectors: np.ndarray) -> bytes:
    """The block of a document's unit vectors of tokens, shape (t, d), float32; empty for none."""
    import numpy as np

    values = rotate(pool_alike(vectors, MAX_BYTES // count_bytes(vectors.shape[1])))
    codes = np.digitize(values * values.shape[1] ** 0.5, LIMITS).astype(np.uint8).reshape(-1, VALUES)
    packed: np.ndarray = (codes << _shifts()).sum(axis=1, dtype=np.uint8)
    return packed.tobytes()


def max_sims(query: np.ndarray, blocks: Sequence[bytes]) -> list[float]:
    """For each block the mean over the query's tokens, shape (q, d), of the largest cosine with a token of it; -1 without tokens."""
    import numpy as np

    scores = np.full(len(blocks), -1.0)
    full = [at for at, block in enumerate(blocks) if block]
    if full and len(query):
        size = count_bytes(query.shape[1])
        packed = np.frombuffer(b"".join([blocks[at] for at in full]), np.uint8).reshape(-1, size)
        starts = np.cumsum([0, *(len(blocks[at]) // size for at in full[:-1])])
        decoding = _decoding()
        products = decoding.values[packed].reshape(len(packed), -1) @ rotate(query).T
        products /= np.sqrt(decoding.squares[packed].sum(axis=1, keepdims=True))
        scores[full] = np.maximum.reduceat(products, starts).mean(axis=1)
    return [float(score) for score in scores]


def count_bytes(dimension: int) -> int:
    """Bytes of one vector in a block."""
    return -(-dimension // VALUES)


def pool_alike(vectors: np.ndarray, most: int) -> np.ndarray:
    """At most this many unit vectors: those that are most alike become the direction of their sum, again and again."""
    import numpy as np

    sums = vectors
    while len(sums) > most:
        unit = _normalize(sums)
        distances = np.where(np.tri(len(sums), dtype=bool), np.inf, -(unit @ unit.T)).ravel()  # each pair once
        merged = min(len(sums) - most, -(-len(sums) // MERGED_AT_ONCE))
        compared = min(PAIRS_COMPARED * merged, len(sums) * (len(sums) - 1) // 2)
        best = np.argpartition(distances, compared - 1)[:compared]
        places = best[np.argsort(distances[best], kind="stable")]
        pairs = _choose_disjoint(zip(*(at.tolist() for at in np.divmod(places, len(sums))), strict=True), merged)
        sums = sums.copy()
        sums[pairs[:, 0]] += sums[pairs[:, 1]]
        sums = np.delete(sums, pairs[:, 1], axis=0)
    return vectors if sums is vectors else _normalize(sums)


def rotate(vectors: np.ndarray) -> np.ndarray:
    """The vectors, shape (n, d), with zeros up to a multiple of four values, in the rotated space. Products stay the same."""
    import numpy as np

    size = count_bytes(vectors.shape[1]) * VALUES
    values = np.pad(np.asarray(vectors, np.float32), ((0, 0), (0, size - vectors.shape[1])))
    for signs, order, matrix in _rotation(size):
        values = ((values * signs)[:, order].reshape(-1, len(matrix)) @ matrix).reshape(-1, size)
    return values


def _choose_disjoint(pairs: Iterable[tuple[int, int]], most: int) -> np.ndarray:
    """The first pairs, at most this many, that have no place in common; shape (n, 2)."""
    import numpy as np

    used: set[int] = set()
    chosen: list[tuple[int, int]] = []
    for pair in pairs:
        if used.isdisjoint(pair):
            chosen.append(pair)
            used.update(pair)
        if len(chosen) == most:
            break
    return np.array(chosen, np.int64)


def _normalize(vectors: np.ndarray) -> np.ndarray:
    import numpy as np

    unit: np.ndarray = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return unit


class _Decoding(NamedTuple):
    """For each byte its values, shape (256, 4), and the sum of their squares, shape (256,)."""

    values: np.ndarray
    squares: np.ndarray


@lru_cache(maxsize=1)
def _decoding() -> _Decoding:
    import numpy as np

    values = np.array(LEVELS, np.float32)[np.arange(256)[:, None] >> _shifts() & (2**BITS - 1)]
    return _Decoding(values, (values**2).sum(axis=1))


def _shifts() -> np.ndarray:
    import numpy as np

    return np.arange(0, BITS * VALUES, BITS, dtype=np.uint8)


@lru_cache(maxsize=4)
def _rotation(size: int) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Signs, order and Hadamard matrix of each round: the same on every machine, with every version of NumPy."""
    import numpy as np

    draw = random.Random(SEED)  # noqa: S311 - no secret; `random()` keeps its sequence in all versions of Python
    matrix = np.ones((1, 1), np.float32)
    while size % (2 * len(matrix)) == 0:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    matrix /= np.float32(len(matrix) ** 0.5)
    rounds = []
    for _ in range(ROUNDS):
        signs = np.array([1 if draw.random() < 0.5 else -1 for _ in range(size)], np.float32)
        places = [draw.random() for _ in range(size)]
        rounds.append((signs, np.array(sorted(range(size), key=places.__getitem__)), matrix))
    return rounds

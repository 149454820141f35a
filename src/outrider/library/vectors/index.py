"""The vector index: when one pays, how it is built, and how much it finds of what is there, measured.

Up to `EXACT_BYTES` every vector is compared. Above, each value is kept in one byte, in partitions (IVF_SQ); what is found there
is compared again by its whole vector, so that similarities are exact. Measured in docs/benchmarks.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from outrider.library.schema import BITMAP, BTREE
from outrider.library.vectors.registry import Held
from outrider.library.vectors.write import VECTOR

if TYPE_CHECKING:
    import numpy as np
    from lancedb.query import AsyncVectorQuery
    from lancedb.table import AsyncTable

EXACT_BYTES = 8 * 2**20
"""Of vectors: 5,461 of 384 dimensions, 2,048 of 1,024. From about here on comparing all takes longer than the index does."""
KIND = "IVF_SQ"
PARTITION = 4_096
"""Vectors in one partition: reading one takes less than choosing among more."""
QUERIES = 100
NOISE = 1.0
"""Length of the noise added to stored vectors of length 1, to ask the index for what it was not built from. With this much it
found as much or less than for MiniLM's real queries on the four development collections (docs/benchmarks.md)."""
SEED = 7
TARGETS = ((10, 0.98), (100, 0.95))
"""Of the true first so many, the share that must be found."""


@dataclass(frozen=True, slots=True)
class Built:
    """`recall` is of the first 10, over `QUERIES` queries."""

    index: str
    rows: int
    nprobes: int
    recall: float


async def ensure_scalars(table: AsyncTable) -> None:
    """Indexes on the columns that are looked up or filtered most, on an empty table too."""
    from lancedb.index import Bitmap, BTree

    present = {column for found in await table.list_indices() for column in found.columns}
    for column in (*BTREE, *BITMAP):
        if column not in present:
            await table.create_index(column, config=BTree() if column in BTREE else Bitmap())


async def due(table: AsyncTable, held: Held) -> bool:
    """Where there are enough vectors and no index yet, or twice as many as when it was built."""
    rows = await table.count_rows()
    return rows * held.space.dimension * 4 > EXACT_BYTES and rows >= 2 * held.indexed_rows


def probed(search: AsyncVectorQuery, nprobes: int) -> AsyncVectorQuery:
    """The nearest of what the `nprobes` nearest partitions hold, by their whole vectors."""
    return search.nprobes(nprobes).refine_factor(1)


async def build(table: AsyncTable) -> Built:
    """A new index in place of an older one, with as many partitions opened a query as the targets take."""
    from lancedb.index import IvfSq

    rows = await table.count_rows()
    partitions = max(2, rows // PARTITION)
    config: Any = IvfSq(distance_type="cosine", num_partitions=partitions)  # LanceDB's annotation leaves this kind out
    await table.create_index(VECTOR, config=config, replace=True)
    queries = await _queries(table, rows)
    truth = await _first(table, queries, nprobes=None)
    nprobes, recall = 1, 0.0
    while nprobes < partitions:
        nprobes = min(2 * nprobes, partitions)
        found = await _first(table, queries, nprobes=nprobes)
        recall = _recall(truth, found, TARGETS[0][0])
        if all(_recall(truth, found, first) >= share for first, share in TARGETS):
            break
    return Built(KIND, rows, nprobes, round(recall, 4))


async def _queries(table: AsyncTable, rows: int) -> np.ndarray:
    """Stored vectors with noise, shape (n, d), float32."""
    import numpy as np

    random = np.random.default_rng(SEED)
    picked = sorted(random.choice(rows, min(QUERIES, rows), replace=False).tolist())
    found = await table.take_offsets(picked).select([VECTOR]).to_arrow()
    vectors = np.stack(found[VECTOR].to_numpy()).astype(np.float32)
    noise = random.standard_normal(vectors.shape, dtype=np.float32)
    return _unit(vectors) + NOISE * _unit(noise)


def _unit(vectors: np.ndarray) -> np.ndarray:
    import numpy as np

    unit: np.ndarray = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


async def _first(table: AsyncTable, queries: np.ndarray, *, nprobes: int | None) -> list[list[str]]:
    """The first ids of each query, by the index or, without `nprobes`, by comparing all."""
    search: Any = table.query().nearest_to(list(queries)).column(VECTOR).distance_type("cosine").limit(TARGETS[-1][0])
    search = search.bypass_vector_index() if nprobes is None else probed(search, nprobes)
    rows = (await search.select(["doc_id", "_distance"]).to_arrow()).to_pylist()
    lists: list[list[tuple[float, str]]] = [[] for _ in queries]
    for row in rows:
        lists[row["query_index"]].append((row["_distance"], row["doc_id"]))
    return [[doc_id for _, doc_id in sorted(found)] for found in lists]


def _recall(truth: Sequence[Sequence[str]], found: Sequence[Sequence[str]], first: int) -> float:
    shares = [len({*one[:first]} & {*other[:first]}) / len(one[:first]) for one, other in zip(truth, found, strict=True)]
    return sum(shares) / len(shares)

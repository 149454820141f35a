"""Search of the nearest vectors by cosine, and the index that speeds it up.

Filters apply first, ties are ordered by id. With an index, a filter opens as many more partitions as it leaves fewer rows.
Up to `EXACT_BYTES` every vector is compared. Above, each value is stored in one byte, in partitions (IVF_SQ); the vectors found there
are compared again in full precision, so that similarities are exact. Measured in docs/benchmarks.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

from outrider.library.copies.ask_table import ask_table
from outrider.library.filter_sql import to_sql
from outrider.library.schema import BITMAP, BTREE
from outrider.library.text_search import SLACK
from outrider.library.vectors.space_registry import StoredSpace
from outrider.library.vectors.write import VECTOR
from outrider.state.embedding import TokensRead
from outrider.state.errors import BadVectors, EmbeddingSpaceMismatch
from outrider.state.filters import Filter

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from lancedb.query import AsyncVectorQuery
    from lancedb.table import AsyncTable

EXACT_BYTES = 8 * 2**20
"""Of vectors: 5,461 of 384 dimensions, 2,048 of 1,024. From about here on comparing all takes longer than the index does."""
KIND = "IVF_SQ"
PARTITION = 4_096
"""Vectors in one partition: reading one takes less than choosing among more."""
QUERIES = 100
NOISE = 1.0
"""Length of the noise added to stored vectors of length 1, so that the index is measured on vectors it was not built from. With this
much its recall was the same or lower than for MiniLM's real queries on the four development collections (docs/benchmarks.md)."""
SEED = 7
TARGETS = ((10, 0.98), (100, 0.95))
"""The share of the true first so many that must be found."""


ALL_PARTITIONS = 2**16
"""More partitions than any index has."""
DECIMALS = 6
"""Of a similarity: float32 cosines of equal texts differ after that, by how the index scales them."""


@dataclass(frozen=True, slots=True)
class IndexReport:
    """A new index; `recall` is of the first 10, over `QUERIES` queries."""

    index: str
    rows: int
    nprobes: int
    recall: float


async def ensure_scalar_indexes(table: AsyncTable) -> None:
    """Indexes on the columns that are looked up or filtered most, on an empty table too."""
    from lancedb.index import Bitmap, BTree

    present = {column for known in await table.list_indices() for column in known.columns}
    for column in (*BTREE, *BITMAP):
        if column not in present:
            await table.create_index(column, config=BTree() if column in BTREE else Bitmap())


async def due(table: AsyncTable, stored: StoredSpace) -> bool:
    """Where there are enough vectors and no index yet, or twice as many as when it was built."""
    rows = await table.count_rows()
    return rows * stored.space.dimension * 4 > EXACT_BYTES and rows >= 2 * stored.indexed_rows


def probe(search: AsyncVectorQuery, nprobes: int) -> AsyncVectorQuery:
    """The nearest among the `nprobes` nearest partitions, compared by their whole vectors."""
    return search.nprobes(nprobes).refine_factor(1)


async def build(table: AsyncTable) -> IndexReport:
    """A new index in place of an older one; each query reads as many partitions as `TARGETS` require."""
    import numpy as np
    from lancedb.index import IvfSq

    rows = await table.count_rows()
    partitions = max(2, rows // PARTITION)
    config: Any = IvfSq(distance_type="cosine", num_partitions=partitions)  # LanceDB's annotation leaves this kind out
    await table.create_index(VECTOR, config=config, replace=True)
    # the queries are stored vectors with noise
    random = np.random.default_rng(SEED)
    picked = sorted(random.choice(rows, min(QUERIES, rows), replace=False).tolist())
    stored = await table.take_offsets(picked).select([VECTOR]).to_arrow()
    vectors = np.stack(stored[VECTOR].to_numpy()).astype(np.float32)
    noise = random.standard_normal(vectors.shape, dtype=np.float32)
    queries = vectors / _norms(vectors) + NOISE * (noise / _norms(noise))
    truth = await _find_nearest(table, queries, nprobes=None)
    nprobes, recall = 1, 0.0
    while nprobes < partitions:
        nprobes = min(2 * nprobes, partitions)
        results = await _find_nearest(table, queries, nprobes=nprobes)
        recall = _compute_recall(truth, results, TARGETS[0][0])
        if all(_compute_recall(truth, results, first) >= share for first, share in TARGETS):
            break
    return IndexReport(KIND, rows, nprobes, round(recall, 4))


def _norms(vectors: np.ndarray) -> np.ndarray:
    """Lengths, shape (n, 1)."""
    import numpy as np

    norms: np.ndarray = np.linalg.norm(vectors, axis=1, keepdims=True)
    return norms


async def _find_nearest(table: AsyncTable, queries: np.ndarray, *, nprobes: int | None) -> list[list[str]]:
    """The first ids for each query, by the index or, without `nprobes`, by comparing all vectors."""
    search: Any = table.query().nearest_to(list(queries)).column(VECTOR).distance_type("cosine").limit(TARGETS[-1][0])
    search = search.bypass_vector_index() if nprobes is None else probe(search, nprobes)
    rows = (await search.select(["doc_id", "_distance"]).to_arrow()).to_pylist()
    lists: list[list[tuple[float, str]]] = [[] for _ in queries]
    for row in rows:
        lists[row["query_index"]].append((row["_distance"], row["doc_id"]))
    return [[doc_id for _, doc_id in sorted(pairs)] for pairs in lists]


def _compute_recall(truth: Sequence[Sequence[str]], results: Sequence[Sequence[str]], first: int) -> float:
    shares = [len({*ids[:first]} & {*others[:first]}) / len(ids[:first]) for ids, others in zip(truth, results, strict=True)]
    return sum(shares) / len(shares)


class Near(NamedTuple):
    """A record whose vector is near; `similarity` is the cosine, from -1 to 1."""

    doc_id: str
    similarity: float
    read: TokensRead
    vector: np.ndarray | None = None
    """Of shape (d,), where it was asked for."""


async def search(
    table: AsyncTable, stored: StoredSpace, vector: np.ndarray, where: Filter | None, limit: int, *, exact: bool, vectors: bool = False
) -> list[Near]:
    """The best `limit`, by similarity, then doc_id; `exact` bypasses the index. `BadVectors` for a query that has no direction."""
    query = check_query(vector, stored)
    if limit < 1:
        return []
    condition = None if where is None else to_sql(where)
    nprobes = None
    if stored.index and not exact:
        nprobes = stored.nprobes
        if condition is not None:  # so many partitions that as many matching rows are compared as the index was measured with
            nprobes = min(ceil(nprobes * await table.count_rows() / max(await table.count_rows(condition), 1)), ALL_PARTITIONS)
    columns = await _find_best(table, query, condition, limit, nprobes, vectors=vectors)
    similarities = map(_compute_similarity, columns["_distance"])
    found = columns.get(VECTOR) or [None] * len(columns["doc_id"])
    rows = sorted(
        zip(similarities, columns["doc_id"], columns["tokens"], columns["tokens_of"], found, strict=True), key=lambda row: (-row[0], row[1])
    )
    return [Near(doc_id, similarity, TokensRead(tokens=tokens, of=of), own) for similarity, doc_id, tokens, of, own in rows[:limit]]


def check_query(vector: np.ndarray, stored: StoredSpace) -> np.ndarray:
    """The query as float32, shape (d,)."""
    import numpy as np

    query = np.asarray(vector, dtype=np.float32)
    if query.shape != (stored.space.dimension,):
        raise EmbeddingSpaceMismatch(
            f"the query's vector has shape {query.shape}, the library's vectors ({stored.space.model_name}) have {stored.space.dimension} "
            "dimensions; embed the query with the library's model"
        )
    if not np.isfinite(query).all() or not query.any():
        raise BadVectors("the query's vector holds values that are not numbers, or zeros only; check the embedding model")
    return query


def _compute_similarity(distance: float) -> float:
    return round(1.0 - distance, DECIMALS)


async def _find_best(
    table: AsyncTable, query: np.ndarray, condition: str | None, limit: int, nprobes: int | None, *, vectors: bool
) -> dict[str, list[Any]]:
    """At least the best `limit` rows, with everything that ties with the last of them."""
    size = limit + SLACK
    while True:

        async def read(table: AsyncTable, size: int = size, nprobes: int | None = nprobes) -> pa.Table:
            request = table.query().nearest_to(query).column(VECTOR).distance_type("cosine").limit(size)
            request = request.select(["doc_id", "tokens", "tokens_of", "_distance", *([VECTOR] if vectors else [])])
            request = request.bypass_vector_index() if nprobes is None else probe(request, nprobes)
            return await (request if condition is None else request.where(condition)).to_arrow()

        found = await ask_table(table, read)
        columns: dict[str, list[Any]] = found.drop_columns([VECTOR] if vectors else []).to_pydict()
        similarities = sorted(map(_compute_similarity, columns["_distance"]), reverse=True)
        if len(similarities) == size and similarities[limit - 1] == similarities[-1]:
            size *= 8
        elif len(similarities) < limit and nprobes is not None and nprobes < ALL_PARTITIONS:
            nprobes = ALL_PARTITIONS  # the partitions that were opened hold too few that match
        elif vectors:
            flat = found[VECTOR].combine_chunks().flatten().to_numpy(zero_copy_only=False)
            return {**columns, VECTOR: list(flat.reshape(found.num_rows, -1)) if found.num_rows else []}
        else:
            return columns

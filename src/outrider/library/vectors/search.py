"""Search of the nearest vectors by cosine, filters first, ties by id.

Every vector is compared as long as there is no index. With one, a filter opens as many more partitions as it leaves fewer rows.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

from outrider.library.filter_sql import to_sql
from outrider.library.text_search import SLACK
from outrider.library.vectors.index import probe
from outrider.library.vectors.registry import StoredSpace
from outrider.library.vectors.write import VECTOR
from outrider.state.embedding import TokensRead
from outrider.state.errors import BadVectors, EmbeddingSpaceMismatch
from outrider.state.filters import Filter

if TYPE_CHECKING:
    import numpy as np
    from lancedb.table import AsyncTable

EVERY = 2**16
"""More partitions than any index has."""
DECIMALS = 6
"""Of a similarity: float32 cosines of equal texts differ after that, by how the index scales them."""


class Near(NamedTuple):
    """A record whose vector is near; `similarity` is the cosine, from -1 to 1."""

    doc_id: str
    similarity: float
    read: TokensRead


async def search(
    table: AsyncTable, stored: StoredSpace, vector: np.ndarray, where: Filter | None, limit: int, *, exact: bool
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
            nprobes = min(ceil(nprobes * await table.count_rows() / max(await table.count_rows(condition), 1)), EVERY)
    columns = await _find_best(table, query, condition, limit, nprobes)
    similarities = map(_compute_similarity, columns["_distance"])
    rows = sorted(
        zip(similarities, columns["doc_id"], columns["tokens"], columns["tokens_of"], strict=True), key=lambda row: (-row[0], row[1])
    )
    return [Near(doc_id, similarity, TokensRead(tokens=tokens, of=of)) for similarity, doc_id, tokens, of in rows[:limit]]


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


async def _find_best(table: AsyncTable, query: np.ndarray, condition: str | None, limit: int, nprobes: int | None) -> dict[str, list[Any]]:
    """At least the best `limit` rows, with everything that ties with the last of them."""
    size = limit + SLACK
    while True:
        nearest = table.query().nearest_to(query).column(VECTOR).distance_type("cosine").limit(size)
        nearest = nearest.select(["doc_id", "tokens", "tokens_of", "_distance"])
        nearest = nearest.bypass_vector_index() if nprobes is None else probe(nearest, nprobes)
        columns: dict[str, list[Any]] = (await (nearest if condition is None else nearest.where(condition)).to_arrow()).to_pydict()
        similarities = sorted(map(_compute_similarity, columns["_distance"]), reverse=True)
        if len(similarities) == size and similarities[limit - 1] == similarities[-1]:
            size *= 8
        elif len(similarities) < limit and nprobes is not None and nprobes < EVERY:
            nprobes = EVERY  # the partitions that were opened hold too few that match
        else:
            return columns

"""The nearest vectors by cosine, filters first, ties by id.

Every vector is compared as long as there is no index. With one, a filter opens as many more partitions as it leaves fewer rows.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

from outrider.library.filter_sql import to_sql
from outrider.library.text_search import SLACK
from outrider.library.vectors.index import probed
from outrider.library.vectors.registry import Held
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


async def nearest(table: AsyncTable, held: Held, vector: np.ndarray, where: Filter | None, limit: int, *, exact: bool) -> list[Near]:
    """The best `limit`, by similarity, then doc_id. `BadVectors` for a query that has no direction."""
    query = direction(vector, held)
    if limit < 1:
        return []
    condition = None if where is None else to_sql(where)
    nprobes = None if exact or not held.index else await _partitions(table, held, condition)
    rows = await _best(table, query, condition, limit, nprobes)
    found = sorted(zip(map(_similarity, rows["_distance"]), rows["doc_id"], rows["tokens"], rows["tokens_of"], strict=True), key=_order)
    return [Near(doc_id, similarity, TokensRead(tokens=tokens, of=of)) for similarity, doc_id, tokens, of in found[:limit]]


def direction(vector: np.ndarray, held: Held) -> np.ndarray:
    """The query as float32, checked."""
    import numpy as np

    query = np.asarray(vector, dtype=np.float32)
    if query.shape != (held.space.dimension,):
        raise EmbeddingSpaceMismatch(
            f"the query's vector has shape {query.shape}, the library's vectors ({held.space.model_name}) have {held.space.dimension} "
            "dimensions; embed the query with the library's model"
        )
    if not np.isfinite(query).all() or not query.any():
        raise BadVectors("the query's vector holds values that are not numbers, or zeros only; check the embedding model")
    return query


def _order(row: tuple[float, str, int | None, int | None]) -> tuple[float, str]:
    return -row[0], row[1]


def _similarity(distance: float) -> float:
    return round(1.0 - distance, DECIMALS)


async def _partitions(table: AsyncTable, held: Held, condition: str | None) -> int:
    """How many to open: those that the index was measured with hold so many rows, and with a filter the same number is looked at."""
    if condition is None:
        return held.nprobes
    matching = await table.count_rows(condition)
    return min(ceil(held.nprobes * await table.count_rows() / max(matching, 1)), EVERY)


async def _best(table: AsyncTable, query: np.ndarray, condition: str | None, limit: int, nprobes: int | None) -> dict[str, list[Any]]:
    """At least the best `limit` rows, with everything that ties with the last of them."""
    asked = limit + SLACK
    while True:
        search = table.query().nearest_to(query).column(VECTOR).distance_type("cosine").limit(asked)
        search = search.select(["doc_id", "tokens", "tokens_of", "_distance"])
        search = search.bypass_vector_index() if nprobes is None else probed(search, nprobes)
        rows: dict[str, list[Any]] = (await (search if condition is None else search.where(condition)).to_arrow()).to_pydict()
        similarities = sorted(map(_similarity, rows["_distance"]), reverse=True)
        if len(similarities) == asked and similarities[limit - 1] == similarities[-1]:
            asked *= 8
        elif len(similarities) < limit and nprobes is not None and nprobes < EVERY:
            nprobes = EVERY  # the partitions that were opened hold too few that match
        else:
            return rows

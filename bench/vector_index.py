"""LanceDB's vector indexes relative to exact search: time, recall@10, break-even size.

100,000 synthetic vectors of 384 dimensions (see `synthetic`), queries of the same cloud. "Ours" is the index that a library builds, with
its partitions and the number that its build chose to open. The other indexes of the IVF family get the same partitions and open as many.
The graph indexes (HNSW) get one partition and `EF`. Results of coded vectors are compared again by the whole ones; for the coarse codes
(PQ, RQ), `REFINED` times as many as requested.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import TYPE_CHECKING, Any

from bench.report import Cell, Report, percentiles, progress
from bench.synthetic import Cloud
from outrider.library.vectors import index
from outrider.library.vectors.write import VECTOR

if TYPE_CHECKING:
    import numpy as np
    from lancedb.db import AsyncConnection
    from lancedb.table import AsyncTable

VECTORS = 100_000
DIMENSION = 384
QUERIES = 100
FIRST = 10
EF = 100
REFINED = 10
CROSSOVER = (1_000, 2_500, 5_000, 10_000, 20_000, 50_000)
COLUMNS = ("vectors", "index", "build s", "recall@10", "median ms", "p95 ms", "to exact")

Prepared = Callable[[Any], Any]
"""Sets the search options of a query."""


@dataclass(frozen=True, slots=True)
class Searched:
    """The first ids of each query, and its seconds."""

    ids: Sequence[Sequence[str]]
    took_s: Sequence[float]


def run(vectors: int = VECTORS) -> Report:
    rows = asyncio.run(_all_indexes(vectors))
    sizes = [size for size in CROSSOVER if size < vectors]
    crossed = [row for size in sizes for row in asyncio.run(_ours_only(size))]
    faster = next((row[0] for row in crossed if row[1] != "exact" and isinstance(row[-1], float) and row[-1] < 1), None)
    threshold = index.EXACT_BYTES // (4 * DIMENSION)
    crossover = "none" if faster is None else f"{faster:,}"
    note = f"The first of the smaller sizes where ours is faster than comparing all: {crossover}; a library builds it above {threshold:,}."
    return Report("vector_index", COLUMNS, (*rows, *crossed), (note,))


async def _all_indexes(vectors: int) -> list[tuple[Cell, ...]]:
    with tempfile.TemporaryDirectory() as folder:
        table, queries = await _filled(folder, vectors)
        rows, exact, nprobes = await _exact_and_ours(table, queries, vectors)
        for name, (config, prepared) in _kinds(vectors, nprobes).items():
            progress(f"vector_index: {name}")
            started = time.perf_counter()
            await table.create_index(VECTOR, config=config, replace=True)
            took_s = time.perf_counter() - started
            rows.append(_row(vectors, name, took_s, await _search_all(table, queries, prepared), exact))
        return rows


async def _ours_only(vectors: int) -> list[tuple[Cell, ...]]:
    with tempfile.TemporaryDirectory() as folder:
        rows, _, _ = await _exact_and_ours(*await _filled(folder, vectors), vectors)
        return rows


async def _exact_and_ours(table: AsyncTable, queries: np.ndarray, vectors: int) -> tuple[list[tuple[Cell, ...]], Searched, int]:
    """Two rows, the results of exact search, and the number of partitions that ours opens."""
    exact = await _search_all(table, queries, lambda search: search.bypass_vector_index())
    started = time.perf_counter()
    built = await index.build(table)
    took_s = time.perf_counter() - started
    ours = await _search_all(table, queries, lambda search: index.probe(search, built.nprobes))
    name = f"ours: {built.index}, opens {built.nprobes} of {_partitions(vectors)}"
    return [_row(vectors, "exact", None, exact, exact), _row(vectors, name, took_s, ours, exact)], exact, built.nprobes


def _kinds(vectors: int, nprobes: int) -> Mapping[str, tuple[Any, Prepared]]:
    from lancedb.index import HnswFlat, HnswPq, HnswSq, IvfFlat, IvfPq, IvfRq, IvfSq

    def opened(refined: int) -> Prepared:
        return lambda search: search.nprobes(nprobes).refine_factor(refined)

    def walked(refined: int) -> Prepared:
        return lambda search: search.nprobes(1).ef(EF).refine_factor(refined)

    ivf: dict[str, Any] = {"distance_type": "cosine", "num_partitions": _partitions(vectors)}
    graph: dict[str, Any] = {"distance_type": "cosine", "num_partitions": 1}
    return {
        "IVF_FLAT": (IvfFlat(**ivf), lambda search: search.nprobes(nprobes)),
        "IVF_SQ": (IvfSq(**ivf), opened(1)),
        "IVF_PQ": (IvfPq(**ivf), opened(REFINED)),
        "IVF_RQ": (IvfRq(**ivf), opened(REFINED)),
        "IVF_HNSW_FLAT": (HnswFlat(**graph), lambda search: search.nprobes(1).ef(EF)),
        "IVF_HNSW_SQ": (HnswSq(**graph), walked(1)),
        "IVF_HNSW_PQ": (HnswPq(**graph), walked(REFINED)),
    }


def _partitions(vectors: int) -> int:
    return max(2, vectors // index.PARTITION)


async def _filled(folder: str, vectors: int) -> tuple[AsyncTable, np.ndarray]:
    """A table of this many vectors, and queries that are not among them, shape (n, d)."""
    import lancedb
    import numpy as np
    import pyarrow as pa

    cloud, random = Cloud(DIMENSION), np.random.default_rng(1)
    flat = pa.array(cloud.vectors(random, vectors).ravel())
    columns = {"doc_id": [f"{number:08}" for number in range(vectors)], VECTOR: pa.FixedSizeListArray.from_arrays(flat, DIMENSION)}
    connection: AsyncConnection = await lancedb.connect_async(folder)
    return await connection.create_table("vectors", pa.table(columns)), cloud.vectors(random, QUERIES)


async def _search_all(table: AsyncTable, queries: np.ndarray, prepared: Prepared) -> Searched:
    async def first(query: np.ndarray) -> list[str]:
        search = table.query().nearest_to(query).column(VECTOR).distance_type("cosine").limit(FIRST)
        rows = await prepared(search).select(["doc_id", "_distance"]).to_arrow()
        return list(rows["doc_id"].to_pylist())

    await first(queries[0])
    ids, took_s = [], []
    for query in queries:
        started = time.perf_counter()
        ids.append(await first(query))
        took_s.append(time.perf_counter() - started)
    return Searched(ids, took_s)


def _row(vectors: int, name: str, build_s: float | None, result: Searched, exact: Searched) -> tuple[Cell, ...]:
    middle, p95 = percentiles(result.took_s)
    to_exact = median(result.took_s) / median(exact.took_s)
    return vectors, name, build_s, recall(exact.ids, result.ids), middle * 1000, p95 * 1000, to_exact


def recall(truth: Sequence[Sequence[str]], results: Sequence[Sequence[str]]) -> float:
    """Recall of the true first ids, averaged over the queries."""
    return mean(len({*one} & {*other}) / len(one) for one, other in zip(truth, results, strict=True))

"""The fewest LanceDB calls that a hybrid search depends on, one after another where one needs the other, without Outrider's code.

A search by words gives records and the anchors of the graph. Their edges, and then the edges to the same names, give neighbours. The
vector search runs beside these three. The records of its hits and of the neighbours that the first call did not return are read in one
last call. What a search does besides (scores of neighbours, fusion, records as objects) takes no time here.

`python bench/minimal_chain.py FOLDER` times the queries of standard input, one a line, over a library of `bench scale`; the vectors are
drawn, since they change no time.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import lancedb
import numpy as np
from lancedb.query import MatchQuery

LIMIT, SLACK, ANCHORS, MOST_EDGES = 100, 16, 20, 10_000
WARM_UP = 10


@dataclass(frozen=True, slots=True)
class Tables:
    records: Any
    edges: Any
    vectors: Any


async def open_tables(folder: str) -> Tables:
    connection = await lancedb.connect_async(folder, read_consistency_interval=timedelta(0))
    names = (await connection.list_tables()).tables
    vectors = await connection.open_table(next(name for name in names if name.startswith("vectors_")))
    return Tables(await connection.open_table("records"), await connection.open_table("edges"), vectors)


async def search(tables: Tables, text: str, vector: np.ndarray, nprobes: int | None) -> int:
    """The number of records that were read."""
    (known, neighbours), near = await asyncio.gather(_find_by_words(tables, text), _find_by_vector(tables, vector, nprobes))
    missing = [doc_id for doc_id in dict.fromkeys((*near, *neighbours)) if doc_id not in known]
    if not missing:
        return len(known)
    rows = await tables.records.query().where(f"doc_id IN ({_quote(missing)})").select(["record"]).limit(len(missing)).to_arrow()
    return len(known) + int(rows.num_rows)


async def _find_by_words(tables: Tables, text: str) -> tuple[set[str], list[str]]:
    """Ids of the best records, and of the neighbours of the first of them that share most names."""
    query = tables.records.query().nearest_to_text(MatchQuery(text, "rank_text"))
    best = (await query.select(["doc_id", "record", "_score"]).limit(LIMIT + SLACK).to_arrow()).to_pydict()
    anchors = best["doc_id"][:ANCHORS]
    columns = ["doc_id", "relation", "kind", "name"]
    own = await tables.edges.query().where(f"doc_id IN ({_quote(anchors)})").select(columns).limit(MOST_EDGES).to_arrow()
    names = sorted(set(own["name"].to_pylist()))
    ends = await tables.edges.query().where(f"name IN ({_quote(names)})").select(columns).limit(MOST_EDGES).to_arrow()
    counts = Counter(ends["doc_id"].to_pylist())
    return set(best["doc_id"]), [doc_id for doc_id, _ in counts.most_common(LIMIT)]


async def _find_by_vector(tables: Tables, vector: np.ndarray, nprobes: int | None) -> list[str]:
    """With `nprobes`, by the index."""
    query = tables.vectors.query().nearest_to(vector).column("vector").distance_type("cosine").limit(LIMIT + SLACK)
    query = query.bypass_vector_index() if nprobes is None else query.nprobes(nprobes).refine_factor(1)
    rows: list[str] = (await query.select(["doc_id", "_distance"]).to_arrow())["doc_id"].to_pylist()
    return rows[:LIMIT]


def _quote(values: list[str]) -> str:
    return ", ".join("'" + value.replace("'", "''") + "'" for value in values)


async def main(folder: str) -> None:
    tables = await open_tables(folder)
    dimension = (await tables.vectors.schema()).field("vector").type.list_size
    random = np.random.default_rng(7)
    has_index = any("vector" in index.columns for index in await tables.vectors.list_indices())
    took_s = []
    for line in sys.stdin:
        vector = random.standard_normal(dimension).astype(np.float32)
        started = time.perf_counter()
        await search(tables, line.strip(), vector, 20 if has_index else None)
        took_s.append(time.perf_counter() - started)
    print(f"{statistics.median(took_s[WARM_UP:]) * 1000:.1f} ms, median of {len(took_s) - WARM_UP} queries")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

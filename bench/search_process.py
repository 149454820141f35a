"""A process that searches as its standard input says: `python bench/search_process.py`, with the Outrider of its PYTHONPATH.

It uses only names that every version of Outrider has, so that two versions can be compared. A line on standard input is
`{"way": "graph" | "search", "queries": [...]}`. Several queries are searched at once. The answer is a line on standard output: CPU seconds
of the process, seconds of each search, and id and score of its hits.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any


async def main() -> None:
    from outrider import asearch
    from outrider.graph.pipeline import build
    from outrider.services import Services

    services = Services.from_file()
    graph = build(services)

    async def search_graph(query: str) -> Any:
        return (await graph.ainvoke({"query": query}))["hits"]

    async def search_anew(query: str) -> Any:
        return (await asearch(query)).hits

    ways = {"graph": search_graph, "search": search_anew}

    async def timed(way: str, query: str) -> tuple[float, Any]:
        started = time.perf_counter()
        hits = await ways[way](query)
        return time.perf_counter() - started, [(hit.doc_id, round(hit.score, 9)) for hit in hits]

    for line in sys.stdin:
        request = json.loads(line)
        before = time.process_time()
        searches = await asyncio.gather(*(timed(request["way"], query) for query in request["queries"]))
        cpu_s = time.process_time() - before
        answer = {"cpu_s": cpu_s, "took_s": [took_s for took_s, _ in searches], "hits": [hits for _, hits in searches]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    asyncio.run(main())

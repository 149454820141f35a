"""Latency of a search through the whole graph relative to its raw LanceDB calls.

Three kinds: by words, by default, by default with vectors. By words, the raw call is one text query with the same columns and number of
rows. By default, the raw calls are those of the strategies that ran, recorded and repeated without our code around them, all at once.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from langgraph.graph import END, START, MessagesState, StateGraph

from bench.data import Absent, Collection, collection
from bench.library import library_of
from bench.model import NAME, Remembering, model
from bench.raw import Call, calls_of, repeat
from bench.report import Cell, Report, percentiles
from outrider import asearch
from outrider.graph.pipeline import SearchGraph, build
from outrider.services import Services
from outrider.settings.load import load
from outrider.state.errors import NoVectors
from outrider.state.ports import SourceQuery
from outrider.state.request import RetrieverType

QUERIES = 100
WARM_UP = 5
BOUND = (3, 30)
"""Limit for a search by words: a multiple of the raw call, plus ms."""
COLUMNS = ("what", "queries", "median ms", "p95 ms", "ratio to raw", "difference to raw ms")
RAW = "raw LanceDB call, by words"
RAW_BY_DEFAULT = "raw LanceDB calls, by default"
BY_WORDS = "whole graph, by words"
ALONE, AS_NODE = "whole graph, alone", "whole graph, node of a parent graph"
TURNS, MOST_AS_NODE = 30, 1.05
"""Searches as a node, and the limit of their median: a multiple of that alone."""
Search = Callable[[str], Awaitable[object]]


@dataclass(slots=True)
class Way:
    """One way to search, the raw calls that it is compared with, and its seconds."""

    search: Search
    raw: str
    took_s: list[float] = field(default_factory=list)


def run(queries: int = QUERIES) -> Report:
    try:
        source = collection("scifact")
    except Absent as absent:
        return Report("latency", COLUMNS, (), (f"skipped: {absent}",))
    notes = [f"{len(source.documents):,} documents; the calls alternate, query by query. A search with vectors embeds the query as well."]
    texts = list(source.queries.values())[: queries + WARM_UP]
    with tempfile.TemporaryDirectory() as folder:
        searches = asyncio.run(_without_vectors(source, Path(folder) / "words", texts))
        try:
            searches |= asyncio.run(_with_vectors(source, Path(folder) / "vectors", texts))
        except Absent as absent:
            notes.append(f"with vectors: skipped: {absent}")
    rows = tuple(_row(name, way, searches[way.raw]) for name, way in searches.items())
    return Report("latency", COLUMNS, rows, (*notes, _check(searches), _check_node(searches)))


def _check(searches: dict[str, Way]) -> str:
    ours, raw = (percentiles(searches[name].took_s)[0] * 1000 for name in (BY_WORDS, RAW))
    bound = BOUND[0] * raw + BOUND[1]
    verdict = "holds" if ours <= bound else "does not hold"
    return f"{BY_WORDS}: at most {BOUND[0]} times the raw call plus {BOUND[1]} ms {verdict} ({ours:.1f} of {bound:.1f} ms)"


def _check_node(searches: dict[str, Way]) -> str:
    alone, node = (percentiles(searches[name].took_s)[0] for name in (ALONE, AS_NODE))
    verdict = "holds" if node <= MOST_AS_NODE * alone else "does not hold"
    return f"{AS_NODE}: at most {MOST_AS_NODE:g} times alone {verdict} ({node / alone:.3f})"


async def _without_vectors(source: Collection, path: Path, texts: list[str]) -> dict[str, Way]:
    (await library_of(source, path)).close()
    services = Services(load({"library.uri": str(path)}).settings)
    graph = build(services)

    async def run_graph(text: str, **request: Any) -> object:
        return await graph.ainvoke({"query": text, **request})

    words: dict[str, Any] = {"strategies": ["sparse"]}
    raw = RawCalls(services)
    searches = {
        RAW: Way(await _raw_call(path, services.settings.run.candidates), RAW),
        BY_WORDS: Way(partial(run_graph, **words), RAW),
        f"{BY_WORDS}, focused": Way(partial(run_graph, **words, search_mode="focused"), RAW),
        "asearch, by words": Way(partial(asearch, services=services, **words), RAW),
        RAW_BY_DEFAULT: Way(raw.repeat, RAW_BY_DEFAULT),
        "whole graph, by default": Way(run_graph, RAW_BY_DEFAULT),
    }
    as_node = await _time_as_node(graph, texts[: TURNS + WARM_UP])
    return {**await _timed(searches, raw, texts), **as_node}


async def _time_as_node(graph: SearchGraph, texts: list[str]) -> dict[str, Way]:
    """Searches alone and as a node of a parent with messages. Each comes first in every other turn: the second has warmer caches."""
    builder = StateGraph(MessagesState)
    builder.add_node("research", graph)
    builder.add_edge(START, "research")
    builder.add_edge("research", END)
    parent = builder.compile()
    ways = [
        (ALONE, Way(lambda text: graph.ainvoke({"query": text}), ALONE)),
        (AS_NODE, Way(lambda text: parent.ainvoke({"messages": [("user", text)]}), ALONE)),
    ]
    for turn, text in enumerate(texts):
        for _, way in ways[:: -1 if turn % 2 else 1]:
            started = time.perf_counter()
            await way.search(text)
            if turn >= WARM_UP:
                way.took_s.append(time.perf_counter() - started)
    return dict(ways)


async def _with_vectors(source: Collection, path: Path, texts: list[str]) -> dict[str, Way]:
    embedder = model()
    (await library_of(source, path, Remembering.of(embedder, source))).close()
    services = Services(load({"library.uri": str(path)}).settings, embedder=embedder)
    graph = build(services)

    async def run_graph(text: str) -> object:
        return await graph.ainvoke({"query": text})

    async def embedded(text: str) -> object:
        return await asyncio.to_thread(embedder.embed, text, "query")

    raw, name = RawCalls(services), f"{RAW_BY_DEFAULT}, with vectors"
    searches = {
        name: Way(raw.repeat, name),
        f"embedding the query, {NAME}": Way(embedded, name),
        "whole graph, by default, with vectors": Way(run_graph, name),
    }
    return await _timed(searches, raw, texts)


@dataclass(slots=True)
class RawCalls:
    """The LanceDB calls of a library's strategies."""

    services: Services
    calls: list[list[Call]] = field(default_factory=list)

    async def take_down(self, text: str) -> None:
        """Records the calls of every strategy that the library can run."""
        engine = await self.services.engine()
        self.calls = []
        for kind in RetrieverType:
            with suppress(NoVectors):
                query = SourceQuery(text, kind, None, self.services.settings.run.candidates)
                self.calls.append(await calls_of(partial(engine.search, query)))

    async def repeat(self, text: str) -> None:
        await asyncio.gather(*map(repeat, self.calls))


async def _timed(searches: dict[str, Way], raw: RawCalls, texts: list[str]) -> dict[str, Way]:
    for place, text in enumerate(texts):
        await raw.take_down(text)
        for way in searches.values():
            started = time.perf_counter()
            await way.search(text)
            if place >= WARM_UP:
                way.took_s.append(time.perf_counter() - started)
    raw.services.close()
    return searches


async def _raw_call(path: Path, limit: int) -> Search:
    """The library's LanceDB call for one ranked list, without our code around it."""
    import lancedb
    from lancedb.query import MatchQuery

    table = await (await lancedb.connect_async(str(path))).open_table("records")

    async def call(text: str) -> None:
        await table.query().nearest_to_text(MatchQuery(text, "rank_text")).select(["doc_id", "_score", "record"]).limit(limit).to_arrow()

    return call


def _row(name: str, way: Way, raw: Way) -> tuple[Cell, ...]:
    (middle, p95), (raw_s, _) = percentiles(way.took_s), percentiles(raw.took_s)
    return name, len(way.took_s), middle * 1000, p95 * 1000, middle / raw_s, (middle - raw_s) * 1000

"""Search over 10,000, 100,000 and, with `--records`, 1,000,000 synthetic records.

Each size is filled in one process and searched in another, through the library and the engine. Above 100,000 records the rows are appended
to its tables, which is faster than looking up whether each exists. The raw calls are those of the engine, recorded and repeated without our
code around them; they alternate with it, query by query. The engine's strategies run at once in the hybrid search, and so do the raw calls
of each. The queries are SciFact's; the text is drawn from its vocabulary.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median

import pyarrow as pa

from bench import minimal_chain
from bench.data import Absent, Collection, collection, corpus_file, thinned
from bench.process import peak_mib, run_isolated
from bench.raw import Call, calls_of, repeat
from bench.report import Cell, Report, percentiles, progress
from bench.retrieval import works
from bench.synthetic import Cloud, Vocabulary
from outrider.library import edges, schema
from outrider.library.fusion import build_fusion
from outrider.library.graph_neighbours import LibraryGraph
from outrider.library.library import Library
from outrider.library.search_engine import Engine
from outrider.library.vectors.write import VectorRow, document_text, text_hash, to_table
from outrider.settings.model import RankingSettings
from outrider.state.embedding import TokensRead
from outrider.state.ports import SourceQuery
from outrider.state.records import Paper
from outrider.state.request import RetrieverType

RECORDS = 100_000
QUERIES = 100
WARM_UP = 10
LIMIT = 100
BATCH = 10_000
OPTIMIZE_EVERY = 50_000
"""Records; as ingestion does it."""
BYTES_A_RECORD = 20_000
"""Disk space for the library while it is compacted."""
OVERHEAD = 1.3
GROWTH = 3.0
COLUMNS = ("records", "dimensions", "search", "median ms", "p95 ms", "raw calls", "raw median ms", "ratio to raw")
HYBRID, CHAINED, LATER = "hybrid", "hybrid, to its minimal chain", f"hybrid, to its minimal chain, {QUERIES} searches later"
CHAIN_CALLS = 5
"""By words, by vectors, two steps along edges, one read (`bench.minimal_chain`)."""
SEARCHES = {"sparse": RetrieverType.LANCE_FTS, "dense": RetrieverType.LANCE_DENSE, "graph": RetrieverType.GRAPH_NEIGHBOR}


@dataclass(frozen=True, slots=True)
class Case:
    records: int
    dimension: int


@dataclass(frozen=True, slots=True)
class Filled:
    took_s: float
    peak_mib: float
    disk_mib: float
    index: str


@dataclass(slots=True)
class Timed:
    """Seconds of one kind of search and of the raw calls that it makes, one a query, and how many calls those are."""

    engine_s: list[float] = field(default_factory=list)
    raw_s: list[float] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        return median(ours / raw for ours, raw in zip(self.engine_s, self.raw_s, strict=True))


@dataclass(frozen=True, slots=True)
class Searched:
    timed: dict[str, Timed]
    peak_mib: float


def cases(records: int) -> list[Case]:
    """1,024 dimensions up to 100,000 records; above, 384, and the smallest size again, to compare with."""
    sizes = [size for size in (10_000, RECORDS) if size < records] or [records]
    if records <= RECORDS:
        return [Case(size, 1_024) for size in dict.fromkeys((*sizes, records))]
    return [*(Case(size, 1_024) for size in sizes), Case(sizes[0], 384), Case(records, 384)]


def run(records: int = RECORDS) -> Report:
    try:
        corpus_file("scifact")
    except Absent as absent:
        return Report("scale", COLUMNS, (), (f"skipped: {absent}",))
    searched_by_case: dict[Case, Searched] = {}
    notes = [f"{QUERIES} of SciFact's queries, {LIMIT} records each. Hybrid is the three at once, fused."]
    for case in cases(records):
        with tempfile.TemporaryDirectory() as folder:
            if shutil.disk_usage(folder).free < case.records * BYTES_A_RECORD:
                notes.append(f"{_named(case)}: skipped, {folder} has less than {case.records * BYTES_A_RECORD / 2**30:.0f} GiB free")
                continue
            filled = run_isolated(fill, folder, case)
            searched_by_case[case] = run_isolated(ask, folder, case)
        notes.append(_note(case, filled, searched_by_case[case]))
    rows = [_row(case, name, timed) for case, searched in searched_by_case.items() for name, timed in searched.timed.items()]
    return Report("scale", COLUMNS, tuple(rows), (*notes, *checks(searched_by_case)))


def _row(case: Case, name: str, timed: Timed) -> tuple[Cell, ...]:
    middle, p95 = percentiles(timed.engine_s)
    return case.records, case.dimension, name, middle * 1000, p95 * 1000, median(timed.calls), median(timed.raw_s) * 1000, timed.ratio


def _named(case: Case) -> str:
    return f"{case.records:,} records, {case.dimension:,} dimensions"


def _note(case: Case, filled: Filled, searched: Searched) -> str:
    return (
        f"{_named(case)}: filled in {filled.took_s:,.0f} s ({case.records / filled.took_s:,.0f} a second, vectors drawn, not embedded), "
        f"{filled.disk_mib:,.0f} MiB on disk, {filled.index}; peak memory: {filled.peak_mib:,.0f} MiB filling, "
        f"{searched.peak_mib:,.0f} MiB searching"
    )


def checks(searched_by_case: Mapping[Case, Searched]) -> list[str]:
    """The targets of the engine, and whether they hold."""
    notes = []
    for name in (*SEARCHES, HYBRID, CHAINED, LATER) if searched_by_case else ():
        worst = max(searched.timed[name].ratio for searched in searched_by_case.values())
        text = f"{name}: at most {OVERHEAD} times the {'calls of it' if name in (CHAINED, LATER) else 'raw calls'}"
        if name == HYBRID:
            in_turn = max(_in_turn(searched.timed) for searched in searched_by_case.values())
            text += f" of one strategy after another {_verdict(in_turn, OVERHEAD)} ({in_turn:.2f} at worst), of all at once"
        notes.append(f"{text} {_verdict(worst, OVERHEAD)} ({worst:.2f} at worst)")
    for dimension in dict.fromkeys(case.dimension for case in searched_by_case):
        alike = sorted((case for case in searched_by_case if case.dimension == dimension), key=lambda case: case.records)
        notes += _growth(searched_by_case, alike[0], alike[-1])
    return notes


def _in_turn(timed: Mapping[str, Timed]) -> float:
    """The hybrid search relative to its raw calls one strategy after another: the gain of running them at once."""
    raw_s = [sum(each) for each in zip(*(timed[name].raw_s for name in SEARCHES), strict=True)]
    return median(ours / raw for ours, raw in zip(timed[HYBRID].engine_s, raw_s, strict=True))


def _growth(searched_by_case: Mapping[Case, Searched], first: Case, last: Case) -> Iterator[str]:
    if first == last:
        return
    for name in (*SEARCHES, HYBRID):
        timed = searched_by_case[last].timed[name]
        grown = median(timed.engine_s) / median(searched_by_case[first].timed[name].engine_s)
        text = f"{name}: the median grows at most {GROWTH:.0f} times {_verdict(grown, GROWTH)}"
        yield f"{text} ({grown:.2f} from {first.records:,} to {_named(last)})"


def _verdict(value: float, bound: float) -> str:
    return "holds" if value <= bound else "does not hold"


def fill(folder: str, case: Case) -> Filled:
    """Creates a library of this many records in the folder. Runs in a process of its own."""
    started = time.perf_counter()
    index = asyncio.run(_fill(folder, case))
    took_s = time.perf_counter() - started
    disk = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
    return Filled(took_s, peak_mib(), disk / 2**20, index)


async def _fill(folder: str, case: Case) -> str:
    vocabulary = Vocabulary.fitted(f"{record.title}\n{record.abstract}" for record in collection("scifact").documents)
    cloud = Cloud(case.dimension)
    library = await Library.open(folder, create=True)
    try:
        for start in range(0, case.records, BATCH):
            papers = vocabulary.papers(start, min(start + BATCH, case.records))
            if start and case.records > RECORDS:
                await _appended(folder, papers, cloud)
            else:
                await library.embed(papers, cloud)
                await library.upsert(papers)
            progress(f"scale: {start:,} of {_named(case)}")
            if start and start % OPTIMIZE_EVERY == 0 and case.records <= RECORDS:
                await library.optimize()
        await library.optimize(force=True)
        vectors = (await library.info()).vectors
        assert vectors is not None
        return f"{vectors.index}, recall {vectors.recall}" if vectors.recall is not None else vectors.index
    finally:
        library.close()


async def _appended(folder: str, papers: Sequence[Paper], cloud: Cloud) -> None:
    """The same rows as the library writes, put into its tables without looking for what they might replace: for the largest size."""
    import lancedb

    hashes = {paper.doc_id: paper.content_hash() for paper in papers}
    vectors = cloud.embed([document_text(paper) for paper in papers])
    rows_of_vectors = [
        VectorRow(paper, hashes[paper.doc_id], text_hash(document_text(paper)), vector, TokensRead())
        for paper, vector in zip(papers, vectors, strict=True)
    ]
    connection = await lancedb.connect_async(folder)
    for name in await connection.table_names():
        table = await connection.open_table(name)
        if name == "edges":
            await table.add(edges.build_table(papers))
        elif name == "records":
            rows = [schema.to_row(paper, hashes[paper.doc_id]) for paper in papers]
            await table.add(pa.Table.from_pylist(rows, schema=await table.schema()))
        elif name.startswith("vectors_"):
            await table.add(to_table(rows_of_vectors, cloud.space.dimension))


def ask(folder: str, case: Case) -> Searched:
    """Times every kind of search. Runs in a process of its own."""
    timed = asyncio.run(_ask(folder, Cloud(case.dimension), thinned(collection("scifact"), 2 * QUERIES + WARM_UP)))
    return Searched(timed, peak_mib())


async def _ask(folder: str, cloud: Cloud, source: Collection) -> dict[str, Timed]:
    """Hybrid against its chain comes first: a library keeps the records that searches have read, and each query is asked once."""
    library = await Library.open(folder)
    engine = Engine(library, lambda _: cloud, LibraryGraph(library))
    timed = {name: Timed() for name in (*SEARCHES, HYBRID, CHAINED, LATER)}
    tables, index = await minimal_chain.open_tables(folder), (await library.info()).vectors
    assert index is not None
    nprobes = None if index.index == "exact" else await read_nprobes(folder)
    texts = list(source.queries.values())
    middle = (WARM_UP + len(texts)) // 2
    try:
        for place, text in enumerate(texts):
            into = Timed() if place < WARM_UP else timed[CHAINED] if place < middle else timed[LATER]
            await _compare_with_chain(engine, tables, text, cloud, nprobes, into)
        for text in texts[WARM_UP:middle]:
            await _both(engine, text, timed)
        return timed
    finally:
        library.close()


async def _compare_with_chain(
    engine: Engine, tables: minimal_chain.Tables, text: str, cloud: Cloud, nprobes: int | None, into: Timed
) -> None:
    fuse = build_fusion(RankingSettings())
    vector = cloud.embed(text, "query")[0]
    started = time.perf_counter()
    await works(engine, text, fuse)
    between = time.perf_counter()
    await minimal_chain.search(tables, text, vector, nprobes)
    into.engine_s.append(between - started)
    into.raw_s.append(time.perf_counter() - between)
    into.calls.append(CHAIN_CALLS)


async def read_nprobes(folder: str) -> int:
    """Partitions that the library opens for a query."""
    import lancedb

    rows = (await (await (await lancedb.connect_async(folder)).open_table("spaces")).query().to_arrow()).to_pylist()
    return next(int(row["nprobes"]) for row in rows if row["state"] == "current")


async def _both(engine: Engine, text: str, timed: Mapping[str, Timed]) -> None:
    """One query by every kind of search, and its raw calls. It was asked before, so that calls and searches find the same records kept."""
    fuse = build_fusion(RankingSettings())
    single = {kind: partial(engine.search, SourceQuery(text, kind, None, LIMIT)) for kind in RetrieverType}
    for search in single.values():
        await search()
    calls = {kind: await calls_of(search) for kind, search in single.items()}
    for name, kind in SEARCHES.items():
        await _timed(single[kind], [calls[kind]], timed[name])
    await _timed(partial(works, engine, text, fuse), list(calls.values()), timed[HYBRID])


async def _timed(search: Callable[[], Awaitable[object]], calls: Sequence[Sequence[Call]], into: Timed) -> None:
    started = time.perf_counter()
    await search()
    between = time.perf_counter()
    await asyncio.gather(*map(repeat, calls))
    into.engine_s.append(between - started)
    into.raw_s.append(time.perf_counter() - between)
    into.calls.append(sum(map(len, calls)))

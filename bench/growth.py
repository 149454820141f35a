"""Growth of a library with its records: bytes, CPU and memory, and how well smaller sizes predict the largest.

A size is filled in one process and searched in another. Rows are appended without a look at what they might replace, then indexed at
once; `add` measures the ordinary way, an upsert into the full library. CPU time is that of the process and of LanceDB's threads in it,
since other programs on the machine change it less than the time on the clock. The words are those of an open vocabulary
(`bench.synthetic`).

`FORMS` says how each quantity grows. The forms were written down before the largest size was measured; six were corrected after it, and
tested on 300,000 records, which no form had seen.

`python -m bench.growth FOLDER RECORDS RESULT` measures one size alone and writes its JSON.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise
from math import log
from pathlib import Path
from statistics import median

import pyarrow as pa

from bench.data import REVIEWS, SYNERGY, Absent, collection, corpus_file, read_review, thinned
from bench.process import peak_mib, run_isolated
from bench.report import Cell, Report, progress
from bench.retrieval import works
from bench.synthetic import Cloud, OpenVocabulary
from outrider.boolean.parser import parse
from outrider.library import edges, schema
from outrider.library.fusion import build_fusion
from outrider.library.graph_neighbours import LibraryGraph
from outrider.library.library import Library
from outrider.library.search_engine import Engine
from outrider.library.vectors.index import PARTITION
from outrider.library.vectors.write import VECTOR, build_vector_schema, document_text, text_hash
from outrider.runtime.run_reads import share_reads
from outrider.settings.model import RankingSettings
from outrider.state.ports import SourceQuery
from outrider.state.records import Paper
from outrider.state.request import RetrieverType

SIZES = (10_000, 100_000)
LARGEST = 1_000_000
MEASURED = Path(__file__).parent / "growth_measured.json"
"""The last run with the largest size, which `bench.scale_simulation` extrapolates."""
DIMENSION = 384
BATCH = 5_000
ADDED = 1_000
QUERIES, WARM_UP = 60, 10
LIMIT = 100
NOTHING = timedelta(milliseconds=1)
"""No former version is kept."""
STRATEGIES = {"words": RetrieverType.LANCE_FTS, "vectors": RetrieverType.LANCE_DENSE, "graph": RetrieverType.GRAPH_NEIGHBOR}
BOOLEAN = (
    "gene[ti] AND expression[ti]",
    "(heart[tiab] OR cardiac[tiab]) AND (mice[tiab] OR rats[tiab]) NOT cancer[tiab]",
    "(insulin[tiab] AND (glucose[tiab] OR diabetes[tiab])) NOT (mice[ti] OR rats[ti])",
)
TOLERANCE = 0.25
HEAPS = 0.5
"""Exponent of different words in the words of the collections (fitted: .498)."""
FADVISE = getattr(os, "posix_fadvise", None)

Measured = dict[str, float]
Terms = Callable[[float], tuple[float, float]]


def count_distances(records: float) -> float:
    """Distances that building the index of vectors computes, as LanceDB documents k-means (50 rounds over 256 vectors a partition), the
    assignment of each vector to a partition, and the exhaustive search of 100 queries with which the library measures recall. At a million
    vectors it is 3.4 times too high: k-means ends after far fewer rounds, how many depends on the vectors.
    """
    partitions = max(2.0, records // PARTITION)
    return 50 * 256 * partitions**2 + records * partitions + 100 * records


LINE: Terms = lambda n: (1.0, n)  # noqa: E731
ROOT: Terms = lambda n: (1.0, n**HEAPS)  # noqa: E731
CONSTANT: Terms = lambda n: (1.0, 0.0)  # noqa: E731
FORMS: Mapping[str, Terms | None] = {
    "bytes: records, index of exact_abstract": lambda n: (n**HEAPS, n),  # words of the dictionary, and postings
    "bytes: records, index of exact_title": lambda n: (n**HEAPS, n),
    "bytes: records, index of rank_text": lambda n: (n**HEAPS, n),
    "bytes: words, rows": lambda n: (n**HEAPS, n),  # words, and numbers of DOIs, of which each record has its own
    "bytes": LINE,
    "cpu s: index edges": lambda n: (1.0, n * log(n)),  # sorting
    "cpu s: index vectors": lambda n: (1.0, count_distances(n)),
    "cpu s": LINE,
    "peak MiB: writing": CONSTANT,  # one batch; corrected
    "peak MiB: indexing": ROOT,  # neither constant nor a line; corrected
    "peak MiB: adding": ROOT,  # corrected
    "peak MiB": LINE,
    "cpu ms: words, warm": lambda n: (1.0, n**0.5),  # a threshold that rises with the hits skips ever more postings
    "cpu ms: graph, warm": ROOT,  # edges of a name, if names grow as words do; corrected
    "cpu ms: exact, all hits": LINE,  # as many hits as records
    "hits of an exact query": LINE,
    "cpu ms: hybrid, cold": ROOT,  # words of the dictionary are parsed; corrected
    "KiB read: hybrid, cold": lambda n: (n**HEAPS, n),  # words, and lengths of all records; corrected
    "cpu ms": None,
    "reads": None,
    "KiB read": None,
}
"""By the longest beginning of a quantity's name: two terms whose weights the two smaller sizes give, or None for a power of the records.
Other quantities are not extrapolated: the time on the clock, and what the index decides by itself.
"""


def predict(small: Measured, large: Measured, records: float) -> Measured:
    """What two measured sizes say of another size."""
    predicted: Measured = {}
    first, second = small["records"], large["records"]
    for name in small.keys() & large.keys():
        form = max((known for known in FORMS if name.startswith(known)), key=len, default="")
        if not form or name == "bytes: all":
            continue
        terms = FORMS[form]
        if terms is None:
            exponent = log(large[name] / small[name]) / log(second / first)
            predicted[name] = large[name] * (records / second) ** exponent
            continue
        (a1, b1), (a2, b2), (a, b) = terms(first), terms(second), terms(records)
        determinant = a1 * b2 - a2 * b1
        if not determinant:  # one term: a constant
            predicted[name] = large[name]
            continue
        constant = (small[name] * b2 - large[name] * b1) / determinant
        slope = (a1 * large[name] - a2 * small[name]) / determinant
        predicted[name] = constant * a + slope * b
    return _add_totals(predicted)


def extrapolate(sizes: Sequence[Measured], records: float) -> Measured:
    """What the measured sizes, smallest first, say of another one: the two largest that have a quantity count."""
    predicted: Measured = {}
    for small, large in pairwise(sizes):
        predicted |= predict(small, large, records)
    return _add_totals(predicted)


def _add_totals(predicted: Measured) -> Measured:
    for total, part in (("bytes: all", "bytes: "), ("cpu s: all indexes", "cpu s: index ")):
        predicted[total] = sum(value for name, value in predicted.items() if name.startswith(part) and name != total)
    return predicted


def read_texts() -> list[str]:
    """Title and abstract of every record of SciFact, the reviews and SYNERGY."""
    texts = [f"{record.title}\n{record.abstract}" for record in collection("scifact").documents]
    rows = (row for name in (*REVIEWS, *SYNERGY) for row in read_review(name))
    return texts + [f"{row.get('title') or ''}\n{row.get('abstract') or ''}" for row in rows]


class Meter:
    """CPU seconds by step, of this process with all its threads."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def measure(self, step: str) -> Iterator[None]:
        started = time.process_time()
        try:
            yield
        finally:
            self.seconds[step] += time.process_time() - started


def fill(folder: str, records: int) -> Measured:
    """Creates a library of this many records. Runs in a process of its own."""
    return asyncio.run(_fill(folder, records))


async def _fill(folder: str, records: int) -> Measured:
    vocabulary, cloud, meter = OpenVocabulary.fitted(read_texts()), Cloud(DIMENSION), Meter()
    started = time.perf_counter()
    library = await Library.open(folder, create=True)
    try:
        first = vocabulary.papers(0, min(ADDED, records))  # creates the tables
        await library.embed(first, cloud)
        await library.upsert(first)
        for start in range(len(first), records, BATCH):
            papers = vocabulary.papers(start, min(start + BATCH, records))
            await _append(folder, papers, cloud, meter)
            if not start // BATCH % 10:
                progress(f"growth: {start:,} of {records:,}, {time.perf_counter() - started:,.0f} s")
        peak_writing = peak_mib()
        await _index(library, meter)
        progress(f"growth: {records:,} indexed, {time.perf_counter() - started:,.0f} s")
        peak_indexing = peak_mib()
        await _clean(folder)
        measured = {f"cpu s: {step}": seconds for step, seconds in meter.seconds.items()} | measure_bytes(folder)
        measured |= await _add(library, vocabulary.papers(records, records + ADDED), cloud)
        info = (await library.info()).vectors
        assert info is not None
        stored = await library._vectors.registry.current()  # noqa: SLF001 - the partitions that a query opens
        recall = 1.0 if info.recall is None else info.recall  # without an index, all vectors are compared
        measured |= {"recall": recall, "partitions opened": float(stored.nprobes if stored else 0)}
        peaks = {"peak MiB: writing": peak_writing, "peak MiB: indexing": peak_indexing, "peak MiB: adding": peak_mib()}
        return measured | peaks | {"seconds: filling": time.perf_counter() - started}
    finally:
        library.close()


async def _append(folder: str, papers: Sequence[Paper], cloud: Cloud, meter: Meter) -> None:
    """The rows that the library would write, without a look at what they might replace."""
    import lancedb
    import numpy as np

    vectors = cloud.vectors(np.random.default_rng(int(papers[0].doc_id)), len(papers))
    connection = await lancedb.connect_async(folder)
    tables = {name: await connection.open_table(name) for name in (await connection.list_tables()).tables}
    with meter.measure("make rows"):
        rows = [schema.to_row(paper, paper.content_hash()) for paper in papers]
        records = pa.Table.from_pylist(rows, schema=await tables["records"].schema())
        ends = edges.build_table(papers)
        columns = build_vector_schema(cloud.space.dimension)
        for row, paper in zip(rows, papers, strict=True):
            row |= {"text_hash": text_hash(document_text(paper)), "tokens": None, "tokens_of": None}
        of_vectors = pa.Table.from_pylist(rows, schema=columns.remove(columns.get_field_index(VECTOR)))
        flat = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), type=columns.field(VECTOR).type)
        of_vectors = of_vectors.append_column(columns.field(VECTOR), flat)
    with meter.measure("write rows"):
        await tables["records"].add(records)
        await tables["edges"].add(ends)
        await next(table for name, table in tables.items() if name.startswith("vectors_")).add(of_vectors)


async def _index(library: Library, meter: Meter) -> None:
    """The parts of `Library.optimize`, one after another."""
    from outrider.library.exact import word_dictionary

    with meter.measure("index edges"):
        await library._edges.compact(True)  # noqa: SLF001
    with meter.measure("index vectors"):
        await library._vectors.optimize(force=True)  # noqa: SLF001
    with meter.measure("index words for exact search"):
        await word_dictionary.extend(library._connection, await library._open_version())  # noqa: SLF001
    with meter.measure("index records"):
        await library.optimize(force=True, keep=NOTHING)


async def _clean(folder: str) -> None:
    """Only the latest version stays, so that bytes on disk are those in use."""
    import lancedb

    connection = await lancedb.connect_async(folder)
    for name in (await connection.list_tables()).tables:
        await (await connection.open_table(name)).optimize(cleanup_older_than=NOTHING, delete_unverified=True)


async def _add(library: Library, papers: Sequence[Paper], cloud: Cloud) -> Measured:
    """New records into the full library, the ordinary way, and the maintenance after it."""
    meter = Meter()
    with meter.measure("add"):
        await library.embed(papers, cloud)
        await library.upsert(papers)
    with meter.measure("optimize"):
        await library.optimize(force=True)
    return {
        f"cpu s: add {ADDED:,} records": meter.seconds["add"],
        f"cpu s: optimize after {ADDED:,} records": meter.seconds["optimize"],
    }


def measure_bytes(folder: str) -> Measured:
    """Bytes on disk by table, and by index with the help of `lance`, which names the index of a folder."""
    sizes: defaultdict[str, float] = defaultdict(float)
    for table in sorted(Path(folder).glob("*.lance")):
        name = "vectors" if table.stem.startswith("vectors_") else table.stem
        if name not in {"records", "edges", "vectors", "words"}:
            continue
        columns = _read_index_columns(table)
        for file in table.rglob("*"):
            if file.is_file():
                parts = file.relative_to(table).parts
                part = f"index of {columns.get(parts[1], 'others')}" if parts[0] == "_indices" else "rows"
                sizes[f"bytes: {name}, {part}"] += file.stat().st_size
                sizes["bytes: all"] += file.stat().st_size
    return dict(sizes)


def _read_index_columns(table: Path) -> dict[str, str]:
    """The column of each folder below `_indices`; empty without `lance`."""
    try:
        import lance
    except ImportError:
        return {}
    indexes = lance.dataset(str(table)).describe_indices()
    return {str(segment.uuid): ", ".join(index.field_names) for index in indexes for segment in index.segments}


def ask(folder: str) -> Measured:
    """Searches cold and warm. Runs in a process of its own."""
    return asyncio.run(_ask(folder))


async def _ask(folder: str) -> Measured:
    cloud = Cloud(DIMENSION)
    queries = list(thinned(collection("scifact"), QUERIES + WARM_UP).queries.values())
    measured = await _ask_cold(folder, cloud, queries[:WARM_UP])
    library = await Library.open(folder)
    engine = Engine(library, lambda _: cloud, LibraryGraph(library))
    searches = _list_searches(engine)
    try:
        for text in queries[:WARM_UP]:
            for search in searches.values():
                await _run(search, text)
        cpu: dict[str, list[float]] = {name: [] for name in searches}
        clock: dict[str, list[float]] = {name: [] for name in searches}
        reads: dict[str, list[tuple[int, int]]] = {name: [] for name in searches}
        for text in queries[WARM_UP:]:
            for name, search in searches.items():
                before, cpu_before, started = read_io(), time.process_time(), time.perf_counter()
                await _run(search, text)
                clock[name].append(time.perf_counter() - started)
                cpu[name].append(time.process_time() - cpu_before)
                after = read_io()
                reads[name].append((after[0] - before[0], after[1] - before[1]))
        for name in searches:
            measured[f"cpu ms: {name}, warm"] = median(cpu[name]) * 1000
            measured[f"ms: {name}, warm"] = median(clock[name]) * 1000
            measured[f"KiB read: {name}, warm"] = median(size for size, _ in reads[name]) / 1024
            measured[f"reads: {name}, warm"] = median(count for _, count in reads[name])
        return measured | await _ask_exactly(library) | {"peak MiB: searching": peak_mib()}
    finally:
        library.close()


def _list_searches(engine: Engine) -> dict[str, Callable[[str], Awaitable[object]]]:
    fuse = build_fusion(RankingSettings())

    def make(kind: RetrieverType) -> Callable[[str], Awaitable[object]]:
        return lambda text: engine.search(SourceQuery(text, kind, None, LIMIT))

    return {name: make(kind) for name, kind in STRATEGIES.items()} | {"hybrid": lambda text: works(engine, text, fuse)}


async def _run(search: Callable[[str], Awaitable[object]], text: str) -> None:
    with share_reads():
        await search(text)


async def _ask_cold(folder: str, cloud: Cloud, queries: Sequence[str]) -> Measured:
    """The first search of a newly opened library, whose files are not in the page cache; the code is loaded."""
    cpu, clock, reads = [], [], []
    for text in queries:
        forget_pages(folder)
        gc.collect()
        before, cpu_before, started = read_io(), time.process_time(), time.perf_counter()
        library = await Library.open(folder)
        await _run(_list_searches(Engine(library, lambda _: cloud, LibraryGraph(library)))["hybrid"], text)
        clock.append(time.perf_counter() - started)
        cpu.append(time.process_time() - cpu_before)
        after = read_io()
        reads.append((after[0] - before[0], after[1] - before[1]))
        library.close()
    if len(queries) > 1:  # the first one also loads code
        del cpu[0], clock[0], reads[0]
    return {
        "cpu ms: hybrid, cold": median(cpu) * 1000,
        "ms: hybrid, cold": median(clock) * 1000,
        "KiB read: hybrid, cold": median(size for size, _ in reads) / 1024,
        "reads: hybrid, cold": median(count for _, count in reads),
    }


def forget_pages(folder: str) -> None:
    """Drop the pages of these files from the operating system's cache, and of no others."""
    if FADVISE is None:
        return
    for file in Path(folder).rglob("*"):
        if file.is_file():
            handle = os.open(file, os.O_RDONLY)
            try:
                FADVISE(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(handle)


def read_io() -> tuple[int, int]:
    """Bytes and calls of reads by this process so far, whether from disk or from the page cache."""
    try:
        lines = dict(line.split(": ") for line in Path("/proc/self/io").read_text(encoding="ascii").splitlines())
    except OSError:
        return 0, 0
    return int(lines["rchar"]), int(lines["syscr"])


async def _ask_exactly(library: Library) -> Measured:
    """All hits of Boolean queries, each read and verified."""
    pinned = await library.pinned()
    try:
        cpu, hits = [], 0
        for _ in range(3):
            started, hits = time.process_time(), 0
            for query in BOOLEAN:
                async for page in pinned.pages(parse(query).tree):
                    hits += len(page.hits)
            cpu.append((time.process_time() - started) / len(BOOLEAN))
        return {"cpu ms: exact, all hits": median(cpu) * 1000, "hits of an exact query": hits / len(BOOLEAN)}
    finally:
        pinned.close()


def measure(records: int, parent: str | None = None) -> Measured:
    """One size, from an empty folder to figures; its library is deleted."""
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        filled = run_isolated(fill, folder, records)
        return {"records": float(records), **filled, **run_isolated(ask, folder)}


def compare(sizes: Sequence[Measured]) -> Report:
    """The measured sizes, smallest first, and what the first two say of the last."""
    *_, last = sizes
    totals = [{**size, "cpu s: all indexes": _sum_indexes(size)} for size in sizes]
    predicted = predict(sizes[0], sizes[1], last["records"]) if len(sizes) > 2 else {}
    shown = sorted(name for name in totals[-1] if name != "records")
    rows: list[tuple[Cell, ...]] = []
    judged: dict[str, float] = {}
    for name in shown:
        guess = predicted.get(name)
        real = totals[-1][name]
        ratio = guess / real if guess is not None and real else None
        rows.append((name, *(size.get(name) for size in totals), guess, ratio))
        if ratio is not None:
            judged[name] = ratio
    outside = [f"{name} ({ratio:.2f})" for name, ratio in judged.items() if abs(ratio - 1) > TOLERANCE]
    notes = [f"predicted within {TOLERANCE:.0%}: {len(judged) - len(outside)} of {len(judged)} quantities"] if judged else []
    notes += [f"outside: {', '.join(outside)}"] if outside else []
    columns = ("quantity", *(f"{size['records']:,.0f}" for size in sizes), "predicted", "predicted to measured")
    return Report("growth", columns, tuple(rows), tuple(notes))


def _sum_indexes(size: Measured) -> float:
    return sum(seconds for name, seconds in size.items() if name.startswith("cpu s: index "))


def run(records: int = SIZES[-1]) -> Report:
    try:
        corpus_file("scifact")
    except Absent as absent:
        return Report("growth", ("quantity",), (), (f"skipped: {absent}",))
    sizes = [measure(size) for size in sorted({*SIZES, records})]
    if records == LARGEST:
        MEASURED.write_text(json.dumps(sizes, indent=1) + "\n", encoding="utf-8")
    return compare(sizes)


def main(arguments: Sequence[str]) -> None:
    parent, records, result = arguments
    measured = measure(int(records), parent)
    Path(result).write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])

"""Exact search over synthetic papers, relative to the raw LanceDB query for the same rows.

Every hit of nested queries is verified. The raw query trusts the index: the same tree as `BooleanQuery`, with `MUST_NOT` and conditions,
all rows, the columns that hold a whole record. It alternates with the exact search, query by query. Truncation is compared with a plain
word, per hit. With more than 100,000 records (`--records`), which are short, one query streams all of them in a process of its own.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from bench.data import Absent, collection, corpus_file
from bench.process import peak_mib, run_isolated
from bench.report import Cell, Report, progress
from bench.synthetic import Vocabulary
from outrider.boolean.parser import parse
from outrider.library import schema
from outrider.library.exact.pinned_library import PinnedVersion
from outrider.library.exact.plan import EVERY, build_sql, build_text_query, make_plan
from outrider.library.library import Library
from outrider.state.boolean import And, Dates, Node, Not
from outrider.state.records import Paper

if TYPE_CHECKING:
    from lancedb.query import FullTextQuery

RECORDS = 100_000
BATCH = 10_000
SHORT = 30
"""Words of a record for streaming only."""
ROUNDS = 5
ALL_ROWS = 2**31 - 1
OVERHEAD, TRUNCATED = 5.0, 10.0
STREAMED_MIB, FIRST_PAGE_S = 300.0, 2.0
HEADINGS = ("Heart Failure", "Neoplasms", "Liver", "Hepatotoxicity", "Aspirin", "Mice", "Humans")
KINDS = ("Review", "Randomized Controlled Trial", "Letter", "Journal Article")
JOURNALS = ("The Lancet", "BMJ", "Nature", "Journal of Cardiac Failure")
COLUMNS = ("query", "hits", "median ms", "raw median ms", "ratio to raw")
QUERIES = (
    "gene[ti] AND expression[ti]",
    "(heart[tiab] OR cardiac[tiab]) AND (mice[tiab] OR rats[tiab])",
    "(heart[tiab] OR cardiac[tiab]) AND (mice[tiab] OR rats[tiab]) NOT cancer[tiab]",
    "((tumor[ti] OR cancer[ti] OR tumors[ti]) AND (gene[tiab] OR expression[tiab])) AND 2000:2010[dp]",
    '("cell growth"[tiab] OR "gene expression"[tiab]) AND (human[tiab] OR patients[tiab])',
    "(insulin[tiab] AND (glucose[tiab] OR diabetes[tiab])) NOT (mice[ti] OR rats[ti])",
    "((dna[tiab] AND (damage[tiab] OR repair[tiab])) OR (rna[ti] AND protein[ti])) AND (cells[tiab] NOT yeast[tiab])",
    "liver[mh] AND (protein[ti] OR receptor[ti])",
    "review[pt] AND (stem[tiab] AND cell[tiab])",
)
PATTERNS = (
    ("inflam*[tiab]", "inflammation[tiab]"),
    ("immun*[tiab]", "immune[tiab]"),
    ("gen{?}[ti]", "gene[ti]"),
    ("*kinase[ti]", "kinase[ti]"),
)


@dataclass(frozen=True, slots=True)
class Streamed:
    hits: int
    first_page_s: float
    took_s: float
    grown_mib: float


def run(records: int = RECORDS) -> Report:
    try:
        corpus_file("scifact")
    except Absent as absent:
        return Report("exact", COLUMNS, (), (f"skipped: {absent}",))
    with tempfile.TemporaryDirectory() as folder:
        run_isolated(fill, folder, min(records, RECORDS), None)
        rows, notes = run_isolated(ask, folder)
    if records > RECORDS:
        with tempfile.TemporaryDirectory() as folder:
            run_isolated(fill, folder, records, SHORT)
            notes += (_stream_note(run_isolated(stream, folder)),)
    return Report("exact", COLUMNS, tuple(rows), notes)


def fill(folder: str, records: int, words: int | None) -> None:
    """Creates a library of this many papers, with `words` words each unless None. Runs in a process of its own."""
    asyncio.run(_fill(folder, records, words))


async def _fill(folder: str, records: int, words: int | None) -> None:
    import lancedb

    vocabulary = Vocabulary.fitted(f"{record.title}\n{record.abstract}" for record in collection("scifact").documents)
    if words:
        vocabulary = replace(vocabulary, lengths=np.array([words]))
    library = await Library.open(folder, create=True)
    table = await (await lancedb.connect_async(folder)).open_table("records")
    columns = await table.schema()
    try:
        for start in range(0, records, BATCH):
            papers = [_described(paper) for paper in vocabulary.papers(start, min(start + BATCH, records))]
            await table.add(pa.Table.from_pylist([schema.to_row(paper, paper.content_hash()) for paper in papers], schema=columns))
            progress(f"exact: {start:,} of {records:,} papers")
        await library.optimize(force=True)
    finally:
        library.close()


def _described(paper: Paper) -> Paper:
    """Adds headings, keywords, a journal, a publication type and a language, by its number."""
    number = int(paper.doc_id)
    fields = {
        "mesh": (HEADINGS[number % 7], HEADINGS[number // 7 % 7]),
        "tags": (f"topic {number % 100}",),
        "venue": JOURNALS[number % 4],
        "language": ("en", "en", "en", "de")[number // 3 % 4],
        "metadata": {"publication_types": [KINDS[number // 5 % 4]]},
    }
    return paper.model_copy(update=fields)


def ask(folder: str) -> tuple[list[tuple[Cell, ...]], tuple[str, ...]]:
    """Runs in a process of its own."""
    return asyncio.run(_ask(folder))


async def _ask(folder: str) -> tuple[list[tuple[Cell, ...]], tuple[str, ...]]:
    library = await Library.open(folder)
    pinned = await library.pinned()
    try:
        rows = [await _compared(pinned, query) for query in QUERIES]
        overhead = median(float(row[-1] or 0) for row in rows)
        factors = [await _truncated(pinned, pattern, word) for pattern, word in PATTERNS]
        bound = f"at most {OVERHEAD:.0f} times the raw query at the median {_verdict(overhead, OVERHEAD)} ({overhead:.2f})"
        return rows, (
            f"{await library.count():,} papers, {ROUNDS} rounds: {bound}",
            *(f"{pattern}: {factor:.2f} times {word}, a hit" for (pattern, word), factor in zip(PATTERNS, factors, strict=True)),
            f"truncation, at most {TRUNCATED:.0f} times a plain word for each hit {_verdict(max(factors), TRUNCATED)}",
        )
    finally:
        pinned.close()
        library.close()


async def _compared(pinned: PinnedVersion, query: str) -> tuple[Cell, ...]:
    tree = parse(query).tree
    ours, raw = [], []
    for _ in range(ROUNDS + 1):
        started = time.perf_counter()
        ids = await _ids(pinned, tree)
        between = time.perf_counter()
        rows = await _raw(pinned, tree)
        ours.append(between - started)
        raw.append(time.perf_counter() - between)
        assert ids == sorted(rows["doc_id"].to_pylist()), query
    del ours[0], raw[0]
    ratio = median(one / other for one, other in zip(ours, raw, strict=True))
    return query, len(ids), median(ours) * 1000, median(raw) * 1000, ratio


async def _ids(pinned: PinnedVersion, tree: Node) -> list[str]:
    return [hit.record.doc_id async for page in pinned.pages(tree) for hit in page.hits]


async def _raw(pinned: PinnedVersion, tree: Node) -> pa.Table:
    """The complete records, by LanceDB alone."""
    text, condition = _parted(tree)
    query = pinned._table.query()  # noqa: SLF001 - the same version, without our code
    query = query.nearest_to_text(text).select(["doc_id", *schema.FULL, "_score"]).limit(ALL_ROWS)
    return await (query if condition is None else query.where(condition)).to_arrow()


def _parted(tree: Node) -> tuple[FullTextQuery, str | None]:
    """The query on words, and the condition on years."""
    parts = tree.parts if isinstance(tree, And) else (tree,)
    years = [part for part in parts if isinstance(part, Dates)]
    words = And(tuple(part for part in parts if not isinstance(part, Dates)))
    return _typed(words), build_sql(make_plan(years[0])) if years else None


def _typed(tree: Node) -> FullTextQuery:
    from lancedb.query import BooleanQuery, Occur

    if isinstance(tree, And):
        signed = [(Occur.MUST_NOT, part.part) if isinstance(part, Not) else (Occur.MUST, part) for part in tree.parts]
        return BooleanQuery([(occur, _typed(part)) for occur, part in signed])
    plan = make_plan(tree)
    assert plan != EVERY, tree
    return build_text_query(plan)


async def _truncated(pinned: PinnedVersion, pattern: str, word: str) -> float:
    """Time per hit, relative to that of a plain word; the dictionary is looked up each time."""
    times: Mapping[str, list[float]] = {pattern: [], word: []}
    for _ in range(ROUNDS):
        for query, seconds in times.items():
            pinned._patterns._plans.clear()  # noqa: SLF001 - as for a new query
            started = time.perf_counter()
            hits = len(await _ids(pinned, parse(query).tree))
            seconds.append((time.perf_counter() - started) / max(hits, 1))
    return median(times[pattern]) / median(times[word])


def stream(folder: str) -> Streamed:
    """Streams all records through one query. Runs in a process of its own."""
    return asyncio.run(_stream(folder))


async def _stream(folder: str) -> Streamed:
    library = await Library.open(folder)
    pinned = await library.pinned()
    tree = parse("1000:3000[dp] NOT xyzzy[ti]").tree
    before, started, hits, first = peak_mib(), time.perf_counter(), 0, 0.0
    async for page in pinned.pages(tree):
        first = first or time.perf_counter() - started
        hits += len(page.hits)
    return Streamed(hits, first, time.perf_counter() - started, peak_mib() - before)


def _stream_note(streamed: Streamed) -> str:
    return (
        f"{streamed.hits:,} hits streamed in {streamed.took_s:,.0f} s: {streamed.grown_mib:,.0f} MiB above the process before "
        f"(at most {STREAMED_MIB:.0f} {_verdict(streamed.grown_mib, STREAMED_MIB)}), first page after {streamed.first_page_s:.2f} s "
        f"(at most {FIRST_PAGE_S:.0f} {_verdict(streamed.first_page_s, FIRST_PAGE_S)})"
    )


def _verdict(value: Any, bound: float) -> str:
    return "holds" if value <= bound else "does not hold"

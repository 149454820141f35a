"""A library on object storage: requests of a search, the same results as in a folder, and four writers of which one is killed.

CACM in a folder and on S3, which moto serves in this process and whose requests are counted there. moto answers at once and from memory:
the counts are those of S3, the seconds say nothing about it.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.data import Absent, Collection, collection
from bench.library import BATCH, library_of
from bench.report import Cell, Report, progress
from outrider.boolean.parser import parse
from outrider.library.graph_neighbours import LibraryGraph
from outrider.library.library import Library
from outrider.state.filters import Compare

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

if TYPE_CHECKING:
    from support.object_store import S3Server

COLUMNS = ("searches", "opening", "first search: index", "first search: the rest", "another query", "the same query")
QUERIES = 40
WRITERS, UPSERTS = 4, 100
EXACT = ("computer[ti]", "sort* AND (algorithm OR method)", "matrix NOT inversion", '"time sharing"')
SHOWN = 100


def run() -> Report:
    from support.object_store import serving_s3

    try:
        source = collection("cacm")
    except Absent as absent:
        return Report("object_storage", COLUMNS, (), (f"skipped: {absent}",))
    with serving_s3() as server, tempfile.TemporaryDirectory() as folder:
        rows, compared = asyncio.run(measure(server, source, Path(folder)))
        writing = write_at_once(server)
    differences = Report("results that equal those in a folder", ("search", "compared", "different"), tuple(compared))
    return Report("object_storage", COLUMNS, tuple(rows), (), (differences, writing))


async def measure(server: S3Server, source: Collection, folder: Path) -> tuple[list[tuple[Cell, ...]], list[tuple[Cell, ...]]]:
    local = await library_of(source, folder / "library")
    remote = await Library.open("s3://shelf/cacm", create=True, storage_options=server.options)
    for start in range(0, len(source.documents), BATCH):
        await remote.upsert(source.documents[start : start + BATCH])
    await remote.optimize(force=True)
    queries = list(source.queries.values())[:QUERIES]
    rows = [await count_requests(server, queries, interval_s) for interval_s in (0.0, 3_600.0)]
    return rows, await compare(local, remote, queries)


async def count_requests(server: S3Server, queries: Sequence[str], interval_s: float) -> tuple[Cell, ...]:
    """Requests of a search, the fewest and the most, by a handle that was just opened and by one that has searched."""
    counts: list[tuple[int, ...]] = []

    async def count(library: Library, query: str) -> tuple[int, int]:
        server.requests.clear()
        await library.search(query, limit=SHOWN)
        of_index = sum("/_indices/" in path for _, path in server.requests)
        return of_index, len(server.requests) - of_index

    for query, another in zip(queries[:10], queries[10:20], strict=True):
        server.requests.clear()
        library = await Library.open("s3://shelf/cacm", storage_options=server.options, read_consistency_s=interval_s)
        opening = len(server.requests)
        counts.append((opening, *await count(library, query), sum(await count(library, another)), sum(await count(library, query))))
        library.close()
    return f"consistency {interval_s:,.0f} s, best {SHOWN}", *(f"{min(each)} to {max(each)}" for each in zip(*counts, strict=True))


async def compare(local: Library, remote: Library, queries: Sequence[str]) -> list[tuple[Cell, ...]]:
    """How many answers differ, order and scores included."""

    async def search(library: Library, query: str) -> Any:
        return [(hit.record, hit.score) for hit in await library.search(query, limit=SHOWN)]

    async def filtered(library: Library, query: str) -> Any:
        where = Compare("year", "$gte", 1970)
        return [(hit.record.doc_id, hit.score) for hit in await library.search(query, where, SHOWN)], await library.count(where)

    async def exact(library: Library, query: str) -> Any:
        pinned = await library.pinned()
        try:
            return [hit.record async for page in pinned.pages(parse(query).tree) for hit in page.hits]
        finally:
            pinned.close()

    async def neighbours(library: Library, query: str) -> Any:
        return await LibraryGraph(library).around(await library.best_ids(query, limit=5), SHOWN)

    kinds: list[tuple[str, Callable[[Library, str], Awaitable[Any]], Sequence[str]]] = [
        ("by words", search, queries),
        ("by words within a filter", filtered, queries),
        ("exact", exact, EXACT),
        ("neighbours in the graph", neighbours, queries),
    ]
    rows: list[tuple[Cell, ...]] = []
    for name, ask, asked in kinds:
        progress(f"object_storage: {name}")
        answers = [(await ask(local, query), await ask(remote, query)) for query in asked]
        assert any(answer for answer, _ in answers), name
        rows.append((name, len(answers), sum(ours != theirs for ours, theirs in answers)))
    return rows


def write_at_once(server: S3Server) -> Report:
    """Four processes that all create one library and write to it; one is killed halfway."""
    command = [sys.executable, "-m", "support.object_store", "s3://shelf/writers", server.url]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    started = time.perf_counter()
    writers = [
        subprocess.Popen([*command, f"w{number}", str(UPSERTS)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for number in range(WRITERS)
    ]
    victim = writers[-1]
    assert victim.stdout is not None
    written = -1
    for line in victim.stdout:
        written = int(line)
        if written == UPSERTS // 2:
            victim.kill()
    errors = [writer.communicate()[1] for writer in writers]
    failed = sum(writer.returncode != 0 for writer in writers[:-1])
    took_s = time.perf_counter() - started
    expected = [f"w{writer}-{number}" for writer in range(WRITERS - 1) for number in range(UPSERTS)]
    expected += [f"w{WRITERS - 1}-{number}" for number in range(written + 1)]
    lost, doubled, problems = asyncio.run(inspect(server, expected))
    conflicts = sum("conflict" in error.lower() for error in errors)
    columns = (
        "writers",
        "upserts each",
        "upserts of the killed one",
        "failed",
        "conflicts",
        "lost",
        "doubled",
        "problems after mending",
        "s",
    )
    row = (WRITERS, UPSERTS, written + 1, failed, conflicts, lost, doubled, problems, took_s)
    return Report(
        "four processes create and write", columns, (row,), ("A killed process may leave a half-written record: `reindex` mends it.",)
    )


async def inspect(server: S3Server, expected: Sequence[str]) -> tuple[int, int, int]:
    library = await Library.open("s3://shelf/writers", storage_options=server.options)
    ids = [record.doc_id async for record in library.scan()]
    await library.mend_edges()
    return len(set(expected) - set(ids)), len(ids) - len(set(ids)), len(await library.check())

"""A library on object storage: requests of a search, the same results as in a folder, and four writers of which one is killed.

Collections in a folder and on S3, which moto serves in this process and whose requests are counted there. moto answers at once and from
memory: the counts are those of S3, the seconds say nothing about it. The floor is LanceDB's own text search over the same records.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from bench.data import Absent, Collection, collection
from bench.library import BATCH, library_of
from bench.report import Cell, Report, progress
from outrider.boolean.parser import parse
from outrider.library.copies.copy_folder import find_folder
from outrider.library.graph_neighbours import LibraryGraph
from outrider.library.library import Library
from outrider.state.filters import Compare

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

if TYPE_CHECKING:
    from lancedb.db import AsyncConnection
    from lancedb.table import AsyncTable

    from support.object_store import S3Server

COLLECTIONS = ("cacm", "scifact")
COLUMNS = (
    "collection",
    "searches",
    "opening",
    "first search: index",
    "first search: the rest",
    "first search",
    "another query",
    "the same query",
)
QUERIES = 40
INTERVALS_S = (0.0, 5.0)
"""Exact, and by default. Searches of the benchmark follow each other within that."""
COPIED = ("copied, first process", "copied, later process")
COMMANDS = 3
"""Searches of the command line, each a process."""
COLD, WARM = 10, 2
"""Most requests of a search after maintenance."""
WRITERS, UPSERTS = 4, 100
EXACT = ("computer[ti]", "sort* AND (algorithm OR method)", "matrix NOT inversion", '"time sharing"')
SHOWN = 100


def run() -> Report:
    from support.object_store import serving_s3

    try:
        sources = [collection(name) for name in COLLECTIONS]
    except Absent as absent:
        return Report("object_storage", COLUMNS, (), (f"skipped: {absent}",))
    counts: Counts = {}
    compared: list[tuple[Cell, ...]] = []
    commands: list[tuple[Cell, ...]] = []
    with serving_s3() as server, tempfile.TemporaryDirectory() as folder, patch_cache(Path(folder)):
        for source in sources:
            progress(f"object_storage: {source.name}")
            shelf = Shelf(server, source, Path(folder))
            counts |= asyncio.run(shelf.measure())
            compared += asyncio.run(shelf.compare())
            commands += shelf.run_commands()
        writing = write_at_once(server)
    differences = Report("results that equal those in a folder", ("collection", "search", "compared", "different"), tuple(compared))
    whole = Report("requests of outrider search", ("collection", "copies", "first command", "later commands"), tuple(commands))
    rows = [(*name, *(show_range(column) for column in zip(*columns, strict=True))) for name, columns in counts.items()]
    notes = [f"{source.name}: {len(source.documents):,} records" for source in sources]
    notes.append(f"best {SHOWN}; fewest to most of ten queries, each by a library that was just opened")
    for interval_s in INTERVALS_S:
        copied = [one for (_, name), columns in counts.items() if name in {say(form, interval_s) for form in COPIED} for one in columns]
        cold, warm, same = max(one[3] for one in copied), max(max(one[4:]) for one in copied), max(one[5] for one in copied)
        judged = [
            f"at most {COLD} requests cold: {cold}",
            f"{WARM} warm: {warm}",
            *([f"0 for the same query: {same}"] if interval_s else []),
        ]
        notes.append(f"copied, consistency {interval_s:,.0f} s: {', '.join(judged)}")
    return Report("object_storage", COLUMNS, tuple(rows), tuple(notes), (differences, whole, writing))


@contextmanager
def patch_cache(folder: Path) -> Iterator[None]:
    """Copies of indexes lie here."""
    with mock.patch.dict(os.environ, XDG_CACHE_HOME=str(folder / "cache")):
        yield


def say(form: str, interval_s: float) -> str:
    return f"{form}, consistency {interval_s:,.0f} s"


def show_range(counts: Sequence[int]) -> str:
    least, most = min(counts), max(counts)
    return f"{least} to {most}" if least < most else str(least)


Counts = dict[tuple[str, str], list[tuple[int, ...]]]
"""Requests of each query, by collection and kind of search, in the order of the columns."""


@dataclass(frozen=True, slots=True)
class Shelf:
    """A collection on S3."""

    server: S3Server
    source: Collection
    folder: Path

    @property
    def address(self) -> str:
        return f"s3://shelf/{self.source.name}"

    @property
    def queries(self) -> list[str]:
        return list(self.source.queries.values())[:QUERIES]

    async def measure(self) -> Counts:
        remote = await Library.open(self.address, create=True, storage_options=self.server.options)
        for start in range(0, len(self.source.documents), BATCH):
            await remote.upsert(self.source.documents[start : start + BATCH])
            await remote.optimize(force=True)
        name = self.source.name
        counts: Counts = {(name, say("LanceDB alone", 0.0)): await self.count_floor()}
        for interval_s in INTERVALS_S:
            for form, copy_tables, forgets in (("not copied", False, False), (COPIED[0], True, True), (COPIED[1], True, False)):
                counts[name, say(form, interval_s)] = await self.count_requests(interval_s, copy_tables, forgets)
        return counts

    async def count_requests(self, interval_s: float, copy_tables: bool, forgets: bool) -> list[tuple[int, ...]]:
        """Of searches by a handle that was just opened, and by one that has searched. `forgets` removes the copies before each."""
        counts: list[tuple[int, ...]] = []
        for query, another in zip(self.queries[:10], self.queries[10:20], strict=True):
            if forgets:
                shutil.rmtree(find_folder(), ignore_errors=True)
            self.server.requests.clear()
            library = await Library.open(
                self.address, storage_options=self.server.options, read_consistency_s=interval_s, copy_tables=copy_tables
            )
            counts.append(await count(self.server, [query, another, query], partial(library.search, limit=SHOWN)))
            library.close()
        return counts

    async def count_floor(self) -> list[tuple[int, ...]]:
        """The same searches by LanceDB alone, in one table of text and record."""
        import lancedb
        from lancedb.index import FTS

        async def connect() -> AsyncConnection:
            uri, interval = f"{self.address}-floor", timedelta(0)
            return await lancedb.connect_async(uri, storage_options=self.server.options, read_consistency_interval=interval)

        rows = [{"text": f"{one.title}\n{one.abstract}", "record": one.model_dump_json()} for one in self.source.documents]
        table = await (await connect()).create_table("records", rows)
        await table.create_index("text", config=FTS(stem=True, remove_stop_words=True))
        await table.optimize()
        counts = []
        for query, another in zip(self.queries[:10], self.queries[10:20], strict=True):
            self.server.requests.clear()
            table = await (await connect()).open_table("records")

            async def search(text: str, table: AsyncTable = table) -> object:
                return await table.query().nearest_to_text(text).select(["record", "_score"]).limit(SHOWN).to_arrow()

            counts.append(await count(self.server, [query, another, query], search))
        return counts

    async def compare(self) -> list[tuple[Cell, ...]]:
        """How many answers differ from those in a folder, order and scores included, with copies and without."""
        local = await library_of(self.source, self.folder / self.source.name)
        remote = await Library.open(self.address, storage_options=self.server.options)
        copied = await Library.open(self.address, storage_options=self.server.options, copy_tables=True)

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

        kinds: list[tuple[str, Callable[[Library, str], Awaitable[Any]], Sequence[str], Library]] = [
            ("by words", search, self.queries, remote),
            ("by words, copied", search, self.queries, copied),
            ("by words within a filter", filtered, self.queries, remote),
            ("by words within a filter, copied", filtered, self.queries, copied),
            ("exact", exact, EXACT, remote),
            ("neighbours in the graph, copied", neighbours, self.queries, copied),
        ]
        rows: list[tuple[Cell, ...]] = []
        for name, ask, asked, there in kinds:
            progress(f"object_storage: {name}")
            answers = [(await ask(local, query), await ask(there, query)) for query in asked]
            if any(answer for answer, _ in answers):  # a collection without citations has no neighbours
                rows.append((self.source.name, name, len(answers), sum(ours != theirs for ours, theirs in answers)))
        return rows

    def run_commands(self) -> list[tuple[Cell, ...]]:
        """Requests of `outrider search` without services, from the start of the process to its end."""
        rows: list[tuple[Cell, ...]] = []
        for copies in ("false", "true"):
            shutil.rmtree(find_folder(), ignore_errors=True)
            settings = {"URI": self.address, "STORAGE_OPTIONS": json.dumps(self.server.options), "COPY_TABLES": copies}
            environment = os.environ | {f"OUTRIDER_LIBRARY__{name}": value for name, value in settings.items()}
            counts: list[int] = []
            for query in self.queries[: COMMANDS + 1]:
                self.server.requests.clear()
                command = [sys.executable, "-m", "outrider", "search", "--offline", query]
                subprocess.run(command, env=environment, cwd=self.folder, check=True, capture_output=True)
                counts.append(len(self.server.requests))
            rows.append((self.source.name, "yes" if copies == "true" else "no", counts[0], show_range(counts[1:])))
        return rows


async def count(server: S3Server, queries: Sequence[str], search: Callable[[str], Awaitable[object]]) -> tuple[int, ...]:
    """Requests so far, of the first query (by the index, others, all), and of each later one."""
    opening = len(server.requests)
    server.requests.clear()
    await search(queries[0])
    of_index = sum("/_indices/" in path for _, path in server.requests)
    counts = [opening, of_index, len(server.requests) - of_index, len(server.requests)]
    for query in queries[1:]:
        server.requests.clear()
        await search(query)
        counts.append(len(server.requests))
    return tuple(counts)


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

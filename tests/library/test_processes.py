"""Several processes at one library, and one that dies in the middle."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from filelock import FileLock

from outrider.library import edges
from outrider.library.address_and_locks import LOCK, Location
from outrider.library.inspection import FIX_EDGES
from outrider.library.library import Library
from outrider.library.object_storage import ObjectStorage
from outrider.state.errors import LibraryBusy
from outrider.state.records import Paper
from support.word_embedder import WordEmbedder

WRITER = """
import asyncio, sys
from outrider.library.library import Library
from outrider.state.records import Paper

async def write(path, first, last, size):
    library = await Library.open(path, create=True)
    print("ready", flush=True)
    sys.stdin.readline()
    for start in range(first, last, size):
        await library.upsert([Paper(doc_id=str(n), title=f"fox {n}", origin="x") for n in range(start, start + size)])
        print(start + size, flush=True)

asyncio.run(write(sys.argv[1], *map(int, sys.argv[2:])))
"""


pytestmark = pytest.mark.slow
KILLED = """
import asyncio, os, signal, sys
from support.word_embedder import WordEmbedder
from outrider.library import edges
from outrider.library.library import Library
from outrider.state.records import Paper

edges.MENDED_AT_ONCE = 10
add = edges.EdgeTable.add

async def third(*arguments):
    if third.calls == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    third.calls += 1
    return await add(*arguments)

third.calls = 0

async def embed(library):
    await library.embed([Paper(doc_id=f"late {n}", title="fox") for n in range(30)], WordEmbedder())
    os.kill(os.getpid(), signal.SIGKILL)

async def mend(library):
    edges.EdgeTable.add = third
    await library.mend_edges()

async def rewrite(library):
    for at in range(10_000):
        await library.upsert([Paper(doc_id=str(n), title=f"fox {n}", tags=(f"round {at}",)) for n in range(50)])
        print(at, flush=True)

async def main(path, what):
    await globals()[what](await Library.open(path))

asyncio.run(main(*sys.argv[1:]))
"""


def to_be_killed(library: Library, what: str) -> subprocess.Popen[str]:
    paths = [str(Path(__file__).parents[2] / "src"), str(Path(__file__).parents[1])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.Popen([sys.executable, "-c", KILLED, library.uri, what], stdout=subprocess.PIPE, text=True, env=environment)


async def wait_for_kill(process: subprocess.Popen[str]) -> None:
    await asyncio.to_thread(process.communicate)
    assert process.returncode == -signal.SIGKILL


def writer(path: Path, *numbers: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), *map(str, numbers)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


async def test_another_handle_sees_a_write_at_once(tmp_path: Path) -> None:
    one, two = await Library.open(tmp_path / "l", create=True), await Library.open(tmp_path / "l")
    await one.upsert([Paper(doc_id="a", title="fox")])
    assert len(await two.search("fox")) == 1
    assert await one.snapshot() == await two.snapshot()
    await two.remove(["a"])
    assert await one.search("fox") == []


async def test_two_processes_that_write_the_same_ids_make_no_duplicates(tmp_path: Path) -> None:
    processes = [writer(tmp_path / "l", 0, 60, 5), writer(tmp_path / "l", 30, 90, 5)]
    assert [line(process) for process in processes] == ["ready", "ready"]
    for process in processes:
        go(process)
    outputs = await asyncio.gather(*(asyncio.to_thread(process.communicate) for process in processes))
    assert [process.returncode for process in processes] == [0, 0], outputs
    library = await Library.open(tmp_path / "l")
    assert [record.doc_id async for record in library.scan()] == sorted(map(str, range(90)))
    assert await library.check() == ()


async def test_two_tasks_that_write_at_once_take_turns(tmp_path: Path) -> None:
    handles = [await Library.open(tmp_path / "l", create=True) for _ in range(4)]
    done = await asyncio.gather(*(handle.upsert([Paper(doc_id="a"), Paper(doc_id=str(n))]) for n, handle in enumerate(handles)))
    assert sum(upserted.added for upserted in done) == 5
    assert await handles[0].count() == 5


async def test_without_the_lock_the_primary_key_separates_writers(tmp_path: Path) -> None:
    """As in LanceDB's service, where there is no lock, or with a lease that was lost."""

    await Library.open(tmp_path, create=True)
    handles = [await Library.open(tmp_path) for _ in range(4)]
    for handle in handles:
        handle._location = Location("db://shelf", None, ObjectStorage("db://shelf", {}))
    batches = [[Paper(doc_id=str(n), title=f"by {writer}") for n in range(20)] for writer in range(4)]
    await asyncio.gather(*(handle.upsert(batch) for handle, batch in zip(handles, batches, strict=True)))
    assert await handles[0].count() == 20
    assert await handles[0].check() == ()


async def test_a_killed_writer_leaves_a_sound_library(tmp_path: Path) -> None:
    process = writer(tmp_path / "l", 0, 100_000, 50)
    assert line(process) == "ready"
    go(process)
    written = [int(line(process)) for _ in range(5)][-1]
    process.send_signal(signal.SIGKILL)
    await asyncio.to_thread(process.communicate)
    library = await Library.open(tmp_path / "l")
    assert await library.count() >= written
    assert "no edges" not in "".join(await library.check())
    await library.mend_edges()
    assert await library.check() == ()
    again = await asyncio.wait_for(
        library.upsert([Paper(doc_id=str(n), title=f"fox {n}", origin="x") for n in range(written + 1_000)]), 300
    )
    assert again.unchanged >= written
    assert await library.count() == written + 1_000


async def test_a_writer_killed_while_it_rewrites_leaves_every_record_its_edges(library: Library) -> None:
    await library.upsert([Paper(doc_id=str(n), title=f"fox {n}") for n in range(50)])
    process = to_be_killed(library, "rewrite")
    for _ in range(3):
        await asyncio.to_thread(line, process)
    process.send_signal(signal.SIGKILL)
    await wait_for_kill(process)
    records = [record async for record in library.scan()]
    expected = {row for record in records for row in edges.list_edges(record)}
    assert expected <= {*await library.edges("true")}
    await library.mend_edges()
    assert sorted(await library.edges("true")) == sorted(expected)
    assert await library.check() == ()


async def test_an_ingest_killed_before_it_writes_hides_nothing_from_dense_search(library: Library) -> None:
    """Its vectors are as near as can be; the next reindex drops them."""
    words = WordEmbedder()
    records = [Paper(doc_id=str(n), title=f"fox {n}") for n in range(5)]
    await library.embed(records, words)
    await library.upsert(records)
    await wait_for_kill(to_be_killed(library, "embed"))

    async def search_dense(limit: int) -> list[str]:
        near = await library.dense(words.vector("fox"), words.space, limit=limit)
        return [record.doc_id for record in await library.brief([one.doc_id for one in near])]

    assert await search_dense(10) == []
    assert sorted(await search_dense(100)) == ["0", "1", "2", "3", "4"]
    await library.reindex(words)
    assert sorted(await search_dense(10)) == ["0", "1", "2", "3", "4"]
    assert await library.check() == ()


async def test_a_killed_repair_of_the_edges_resumes_where_it_stopped(library: Library) -> None:
    await library.upsert([Paper(doc_id=str(n), title=f"fox {n}") for n in range(50)])
    await library._connection.drop_table(edges.NAME)
    await wait_for_kill(to_be_killed(library, "mend"))
    assert await library.check() == (f"30 records have no edges: the graph does not find them; {FIX_EDGES}",)
    assert await library.mend_edges() == 30
    assert await library.check() == ()


async def test_a_writer_may_give_up_waiting_for_another_one(tmp_path: Path) -> None:
    library = await Library.open(tmp_path, create=True)
    began = time.monotonic()
    with FileLock(tmp_path / LOCK), pytest.raises(LibraryBusy, match=r"has been written by another process for 0\.2 s"):
        await library.upsert([Paper(doc_id="a")], wait_s=0.2)
    assert 0.2 <= time.monotonic() - began < 60  # by default it waits ten minutes
    assert await library.count() == 0
    library.close()

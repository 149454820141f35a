"""Reindex: nothing missing, nothing lost, and the old vectors answer until the switch."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from outrider.library import reindex as reindexing
from outrider.library.address_and_locks import REINDEX_LOCK, Location
from outrider.library.library import Library
from outrider.library.object_storage import ObjectStorage
from outrider.library.reindex import ReindexProgress
from outrider.library.vectors import index
from outrider.library.vectors.space_registry import SpaceRegistry, StoredSpace
from outrider.library.vectors.write import document_text
from outrider.state.errors import BadVectors, EmbeddingSpaceMismatch, LibraryBusy, ModelUnavailable
from outrider.state.records import Document, Paper
from support.fakes import paper
from support.word_embedder import WordEmbedder

pytestmark = pytest.mark.slow


OLD, NEW = WordEmbedder(name="old"), WordEmbedder(name="new", dimension=8)


def papers(count: int, start: int = 0) -> list[Paper]:
    return [Paper(doc_id=f"{n:03}", title=f"fox {n}") for n in range(start, start + count)]


async def fill(library: Library, count: int, embedder: WordEmbedder | None = OLD) -> None:
    if embedder is not None:
        await library.embed(papers(count), embedder)
    await library.upsert(papers(count))


async def near(library: Library, text: str, embedder: WordEmbedder) -> list[str]:
    return [one.doc_id for one in await library.dense(embedder.vector(text), embedder.space, limit=1_000)]


def fresh(embedder: WordEmbedder, **more: object) -> WordEmbedder:
    return WordEmbedder(**{"name": embedder.name, "dimension": embedder.dimension, **more})  # type: ignore[arg-type]


def holding(at: int, there: threading.Event, release: threading.Event) -> Callable[[int], None]:
    """For an embedder: stops before that text until the gate opens."""

    def hold(count: int) -> None:
        if count == at:
            there.set()
            release.wait(60)

    return hold


async def tables(library: Library) -> list[str]:
    return [name for name in (await library._connection.list_tables()).tables if name.startswith("vectors_")]


async def spaces(library: Library, count: int) -> None:
    """Waits until another task or process has begun."""
    while len(await library._vectors.registry.all()) < count:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reindexing, "PARTS", reindexing.Parts(10, 1))
    monkeypatch.setattr(reindexing, "FEW", 3)


async def test_another_model_takes_over(library: Library) -> None:
    await fill(library, 25)
    await library.upsert([Document(doc_id="empty")])
    reports: list[ReindexProgress] = []
    done = await library.reindex(NEW, reports.append)
    assert (done.model, done.before, done.records, done.embedded, done.without) == ("new", "old", 26, 25, 1)
    assert done.reasons == ("empty: holds no text to embed",)
    assert (done.index, done.recall) == ("exact", None)
    assert await library.space() == NEW.space
    assert (await near(library, "fox 7", NEW))[0] == "007"
    with pytest.raises(EmbeddingSpaceMismatch):
        await near(library, "fox 7", OLD)
    assert len(await tables(library)) == 1
    assert await library.check() == ()
    assert (reports[0].stage, reports[0].done, reports[-1].stage) == ("embedding", 0, "switching")
    assert all(one.done <= one.total for one in reports)


async def test_parts_that_are_embedded_at_once(library: Library) -> None:
    """As many calls are under way as were asked for, and everything is as with one."""
    await fill(library, 25)
    await library.upsert([Document(doc_id="empty")])
    together = threading.Barrier(3)
    calls, waited = itertools.count(), []

    def wait(_: int) -> None:
        if next(calls) < 3:
            waited.append(together.wait(20))

    reports: list[ReindexProgress] = []
    done = await library.reindex(fresh(NEW, before=wait), reports.append, reindexing.Parts(4, 3))
    assert sorted(waited) == [0, 1, 2]
    assert (done.records, done.embedded, done.without, done.reasons) == (26, 25, 1, ("empty: holds no text to embed",))
    assert sorted(await near(library, "fox", NEW)) == [f"{number:03}" for number in range(25)]
    embedding = [one.done for one in reports if one.stage == "embedding"]
    assert embedding == sorted(embedding)
    assert embedding[-1] == 26


async def test_a_part_that_fails_ends_the_others(library: Library) -> None:
    await fill(library, 25)

    def fail(done: int) -> None:
        if done == 16:
            raise ModelUnavailable("the model is gone")

    with pytest.raises(ModelUnavailable, match="gone"):
        await library.reindex(fresh(NEW, before=fail), parts=reindexing.Parts(4, 3))
    assert await library.space() == OLD.space
    resumed = await library.reindex(fresh(NEW))
    assert 0 < resumed.embedded < 25
    assert len(await near(library, "fox", NEW)) == 25


async def test_records_that_were_never_embedded(library: Library) -> None:
    await fill(library, 12, None)
    assert (await library.info()).vectors is None
    done = await library.reindex(OLD)
    assert (done.before, done.embedded) == (None, 12)
    assert len(await near(library, "fox", OLD)) == 12


async def test_the_same_model_only_completes(library: Library) -> None:
    await fill(library, 12)
    await library.upsert([*papers(3, start=20), Paper(doc_id="000", title="otter")])
    assert "4 records have no vector of old" in (await library.check())[0]
    model = fresh(OLD)
    done = await library.reindex(model)
    assert (done.before, done.embedded, sorted(model.texts)) == (None, 4, ["fox 20", "fox 21", "fox 22", "otter"])
    assert await library.check() == ()
    assert (await library.reindex(fresh(OLD))).embedded == 0
    assert await tables(library) == [(await library._vectors.registry.all())[0].table]


async def test_an_empty_library(library: Library) -> None:
    assert (await library.reindex(NEW)).records == 0
    assert await library.space() is None


async def test_the_old_space_answers_until_the_switch(library: Library) -> None:
    """And what is written, changed or removed meanwhile is there after it."""
    await fill(library, 40)
    other = await Library.open(library.uri)
    there, release = threading.Event(), threading.Event()
    task = asyncio.create_task(library.reindex(fresh(NEW, before=holding(20, there, release))))
    await asyncio.to_thread(there.wait, 60)
    assert len(await near(other, "fox", OLD)) == 40
    await other.remove(["039"])
    late = [*papers(8, start=50), Paper(doc_id="001", title="otter")]
    await other.embed(late, OLD)
    await other.upsert(late)
    assert (await near(other, "otter", OLD))[0] == "001"
    assert not task.done()
    release.set()
    await task
    assert await other.space() == NEW.space
    assert sorted(await near(other, "fox", NEW)) == sorted(record.doc_id for record in await other.page(limit=100))
    assert (await near(other, "otter", NEW))[0] == "001"
    assert await other.check() == ()


async def test_a_writer_that_never_rests_does_not_hold_it_up(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reindexing, "ROUNDS", 3)
    await fill(library, 10)
    other = await Library.open(library.uri)
    at = iter(range(100, 10_000, 5))

    class Interrupted(WordEmbedder):
        def embed_each(self, texts: Sequence[str], *more: object, **keys: object) -> list:  # type: ignore[type-arg, override]
            if len(self.texts) < 200:
                asyncio.run_coroutine_threadsafe(self.write(), loop)
            return super().embed_each(texts, *more, **keys)  # type: ignore[arg-type]

        async def write(self) -> None:
            await other.upsert(papers(5, start=next(at)))

    loop = asyncio.get_running_loop()
    done = await asyncio.wait_for(library.reindex(Interrupted(name="new", dimension=8)), 60)
    assert done.embedded >= 10
    assert await library.space() == NEW.space


async def test_a_model_that_dies_keeps_what_is_done(library: Library) -> None:
    await fill(library, 30)
    with pytest.raises(ModelUnavailable):
        await library.reindex(fresh(NEW, error=ModelUnavailable("endpoint gone"), error_after=20))
    assert await library.space() == OLD.space
    assert len(await near(library, "fox", OLD)) == 30
    again = fresh(NEW)
    assert (await library.reindex(again)).embedded == len(again.texts) == 10
    assert await library.check() == ()


async def test_a_cancelled_run_resumes_where_it_stopped(library: Library) -> None:
    await fill(library, 60)
    there, release = threading.Event(), threading.Event()
    slow = fresh(NEW, before=holding(25, there, release))
    task = asyncio.create_task(library.reindex(slow))
    await asyncio.to_thread(there.wait, 60)
    task.cancel()
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    again = fresh(NEW)
    assert (await library.reindex(again)).embedded == len(again.texts) <= 40
    assert await library.space() == NEW.space


async def interrupt(library: Library, name: str, after: int = 10) -> None:
    with pytest.raises(ModelUnavailable):
        await library.reindex(WordEmbedder(name=name, error=ModelUnavailable("gone"), error_after=after))


async def test_remains_of_other_runs_are_dropped_and_reported(library: Library) -> None:
    await fill(library, 15)
    await interrupt(library, "one")
    await interrupt(library, "two")
    assert len(await tables(library)) == 2
    await library._connection.create_table("vectors_unlisted", schema=await library._table.schema())
    assert (await library.reindex(NEW)).dropped == {"two": 10}
    assert len(await tables(library)) == len(await library._vectors.registry.all()) == 1


async def test_completing_the_own_space_leaves_what_is_being_built(library: Library) -> None:
    await fill(library, 35)
    await interrupt(library, "two", after=20)
    await library.upsert(papers(1, start=90))
    done = await library.reindex(OLD)
    assert (done.embedded, done.dropped) == (1, {})
    about = (await library.info()).vectors
    assert about is not None
    assert (about.model, about.vectors, about.building) == ("old", 36, {"two": 20})
    done = await library.reindex(WordEmbedder(name="two"))
    assert (done.embedded, done.dropped) == (16, {})
    about = (await library.info()).vectors
    assert about is not None
    assert about.building == {}


async def test_vectors_without_a_record_are_reported_and_dropped(library: Library) -> None:
    """As a kill between the two writes leaves them; they must not hide that other records have none."""
    await fill(library, 5)
    await library.embed(papers(30, start=100), OLD)
    await library.upsert(papers(30, start=200))
    about = (await library.info()).vectors
    assert about is not None
    assert (about.vectors, about.without) == (35, 30)
    assert "30 vectors belong to missing records" in "".join(await library.check())
    assert (await library.reindex(OLD)).embedded == 30
    assert sorted(await near(library, "fox", OLD)) == [record.doc_id for record in await library.page(limit=100)]
    assert await library.check() == ()


async def test_vectors_that_an_ingest_has_just_written_stay(library: Library) -> None:
    """Its records come next."""
    await fill(library, 15)
    await library.upsert(papers(5, start=50))
    late = papers(3, start=100)

    class Meanwhile(WordEmbedder):
        def embed_each(self, *texts: object, **keys: object) -> list:  # type: ignore[type-arg, override]
            asyncio.run_coroutine_threadsafe(library.embed(late, OLD), loop).result()
            return super().embed_each(*texts, **keys)  # type: ignore[arg-type]

    loop = asyncio.get_running_loop()
    await library.reindex(Meanwhile(name="old"))
    await library.upsert(late)
    assert await library.check() == ()


async def test_a_commit_that_came_first_does_not_end_a_run(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """Upkeep in another process, while the new space is entered in the table of spaces."""
    put, tries = SpaceRegistry.put, []

    async def overtaken(self: SpaceRegistry, *spaces: StoredSpace) -> None:
        tries.append([stored.state for stored in spaces])
        if len(tries) % 2:
            raise RuntimeError("Retryable commit conflict for version 7: preempted by concurrent transaction Rewrite")
        await put(self, *spaces)

    monkeypatch.setattr(SpaceRegistry, "put", overtaken)
    monkeypatch.setattr(index, "EXACT_BYTES", 1_000)
    monkeypatch.setattr(index, "PARTITION", 60)
    monkeypatch.setattr(reindexing, "PARTS", reindexing.Parts(400, 1))
    await fill(library, 200)
    await library.reindex(NEW)
    assert tries == [["building"]] * 2 + [["retired", "current"]] * 2
    assert await library.space() == NEW.space


async def test_a_record_that_is_embedded_in_a_later_round_is_not_without(library: Library) -> None:
    """Changed or removed while the others were embedded."""
    await fill(library, 15)
    await library.upsert([Document(doc_id="000"), Document(doc_id="001"), Document(doc_id="empty")])
    there, release = threading.Event(), threading.Event()
    task = asyncio.create_task(library.reindex(fresh(NEW, before=holding(10, there, release))))
    other = await Library.open(library.uri)
    await asyncio.to_thread(there.wait, 60)
    assert (await other._vectors.count_by_model(await other._vectors.building())).get("new")
    await other.upsert([Paper(doc_id="000", title="otter")])
    await other.remove(["001"])
    assert not task.done()
    release.set()
    done = await task
    assert (done.records, done.without, done.reasons) == (15, 1, ("empty: holds no text to embed",))
    other.close()


async def test_a_kill_between_switching_and_dropping(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    await fill(library, 5)

    async def raise_interrupt(self: object, stored: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("outrider.library.vectors.space_registry.SpaceRegistry.forget", raise_interrupt)
        with pytest.raises(KeyboardInterrupt):
            await library.reindex(NEW)
    assert await library.space() == NEW.space
    back = await library.reindex(OLD)
    assert (back.before, back.embedded) == ("new", 5)
    assert len(await tables(library)) == 1
    assert await near(library, "fox 3", OLD) != []


async def test_a_large_library_gets_its_index_before_the_switch(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "EXACT_BYTES", 1_000)
    monkeypatch.setattr(index, "PARTITION", 60)
    monkeypatch.setattr(reindexing, "PARTS", reindexing.Parts(400, 1))
    await fill(library, 400, None)
    done = await library.reindex(OLD)
    assert done.index == "IVF_SQ"
    assert done.recall is not None
    assert done.recall >= 0.98
    done = await library.reindex(NEW)
    assert (done.index, done.before) == ("IVF_SQ", "old")


# Several at once


SLOW = """
import asyncio, sys
from outrider.library import reindex
from outrider.library.library import Library
from support.word_embedder import WordEmbedder

reindex.PARTS = reindex.Parts(10, 1)

async def main(path):
    library = await Library.open(path)
    shown = lambda now: print(now.stage, now.done, flush=True)
    hold = lambda done: done == 60 and sys.stdin.readline()
    await library.reindex(WordEmbedder(name="new", dimension=8, before=hold), shown)

asyncio.run(main(sys.argv[1]))
"""


def slow_reindex(library: Library) -> subprocess.Popen[str]:
    """A process that reindexes and stops after 60 texts until it reads a line."""
    paths = [str(Path(__file__).parents[2] / "src"), str(Path(__file__).parents[1])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.Popen(
        [sys.executable, "-c", SLOW, library.uri], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )


def until(process: subprocess.Popen[str], count: int) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if int(line.split()[1]) >= count:
            return
    raise AssertionError("the other process ended early")


async def test_a_killed_reindex_resumes_where_it_stopped(library: Library) -> None:
    await fill(library, 200)
    process = slow_reindex(library)
    await asyncio.to_thread(until, process, 55)
    process.send_signal(signal.SIGKILL)
    await asyncio.to_thread(process.communicate)
    assert await library.space() == OLD.space
    assert len(await near(library, "fox", OLD)) == 200
    assert await library.check() == ()
    again = fresh(NEW)
    assert (await library.reindex(again)).embedded == len(again.texts) <= 150
    assert len(await near(library, "fox", NEW)) == 200
    assert await library.check() == ()


async def test_two_at_once(library: Library) -> None:
    """The second is reports at once; searching and writing go on."""
    await fill(library, 200)
    process = slow_reindex(library)
    await asyncio.to_thread(until, process, 10)
    with pytest.raises(LibraryBusy, match="is being reindexed by another process"):
        await asyncio.wait_for(library.reindex(fresh(NEW)), 60)
    assert (await near(library, "fox 3", OLD))[0] == "003"
    await library.upsert([Paper(doc_id="more", title="fox")])
    await asyncio.to_thread(process.communicate, "\n")
    assert process.returncode == 0
    assert await library.space() == NEW.space
    assert await library.check() == ()


async def test_without_a_lock_the_later_one_continues(library: Library) -> None:
    """As in LanceDB's service: the earlier one, to another model, ends with a message."""
    await fill(library, 60)
    handles = [await Library.open(library.uri) for _ in range(2)]
    for handle in handles:
        handle._location = Location("db://shelf", None, ObjectStorage("db://shelf", {}))
        handle._vectors._location = handle._location
    there, release = threading.Event(), threading.Event()
    first = asyncio.create_task(handles[0].reindex(fresh(NEW, before=holding(30, there, release))))
    await asyncio.to_thread(there.wait, 60)
    await handles[1].reindex(WordEmbedder(name="third"))
    release.set()
    with pytest.raises(LibraryBusy, match=r"another reindex .* began meanwhile"):
        await first
    assert await library.space() == WordEmbedder(name="third").space
    assert await library.check() == ()


async def test_the_lock_file_leaves_a_folder_empty(tmp_path: Path) -> None:
    (tmp_path / REINDEX_LOCK).touch()
    assert await Location.parse(tmp_path).find_state() == "empty"


async def test_a_model_that_gives_no_vector_at_all_takes_nobodys_place(library: Library) -> None:
    records = [paper(f"{at}", f"Title {at}", abstract=f"Text {at}.") for at in range(3)]
    await library.upsert(records)
    await library.reindex(WordEmbedder())
    before = await library.space()
    refusing = WordEmbedder("other", refused=frozenset(document_text(one) for one in records))
    with pytest.raises(BadVectors, match=r"no vector for any of 3 records .*; the library does not use it"):
        await library.reindex(refusing)
    assert await library.space() == before
    about = (await library.info()).vectors
    assert about is not None
    assert about.building == {}


@pytest.mark.parametrize("text", ["a text", ""])
async def test_a_library_has_no_space_before_it_has_a_vector(library: Library, text: str) -> None:
    """Else the next model would be refused for the sake of nothing."""
    records = [paper(f"{at}", text, url=f"https://x.test/{at}") for at in range(3)]
    refusing = WordEmbedder("other", refused=frozenset({text}))
    await library.embed(records, refusing)
    assert await library.space() is None
    await library.upsert(records)
    if text:
        with pytest.raises(BadVectors):
            await library.reindex(refusing)
    else:
        done = await library.reindex(refusing)
        assert (done.records, done.embedded, done.without) == (3, 0, 3)
    assert await library.space() is None
    assert await library.check() == ()

"""A copy of the ranking index answers as the store does, and steps aside where it cannot."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import product
from pathlib import Path

import pytest

from outrider.library.copies.copy_folder import KEPT_FORMER_S, KEPT_S, SLOW_S, find_folder
from outrider.library.copies.table_copy import MISSING
from outrider.library.graph_neighbours import LibraryGraph
from outrider.library.library import Library
from outrider.state.errors import MissingExtra
from outrider.state.filters import And, Compare, Not
from outrider.state.records import Edge, Paper
from support.object_store import S3Server, s3
from support.word_embedder import WordEmbedder

__all__ = ["s3"]
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning:botocore.*", "ignore::ResourceWarning")]

ADDRESS = "s3://shelf/lib"
QUERIES = ("fox", "hen fox", "red fox 7", "zebra", "the")
PAPERS = [
    Paper(
        doc_id=f"{number}",
        title=f"{'red ' * (number % 3)}fox {number}",
        abstract=f"the {'hen ' * (number % 4)}coop",
        year=1990 + number % 9,
        venue=f"Journal {number % 5}",
        tags=(f"bird {number % 7}",),
        edges=(Edge(relation="cites", target=f"doc:{(number * 7) % 60}"),),
    )
    for number in range(60)
]
WORDS = WordEmbedder()
WRITTEN: dict[str, bytes] = {}
"""The objects of the library, by key."""

Answers = list[list[tuple[str, float]]]


@pytest.fixture(params=["with rows", "without rows"])
def has_rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Of a library too large for a copy of its rows, the ranking index is copied."""
    if request.param == "without rows":
        monkeypatch.setattr("outrider.library.copies.table_copy.MOST_BYTES_OF_ROWS", 0)
    return bool(request.param == "with rows")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


async def write(s3: S3Server) -> Library:
    """A library that was maintained several times; written once, and put there for each test."""
    if not WRITTEN:
        library = await Library.open(ADDRESS, create=True, storage_options=s3.options)
        for start in range(0, len(PAPERS), 20):
            await library.upsert(PAPERS[start : start + 20])
            await library.optimize(force=True)
        WRITTEN.update(s3.read_objects())
    restore(s3, WRITTEN)
    return await Library.open(ADDRESS, storage_options=s3.options)


async def open_with_copy(s3: S3Server, interval_s: float = 0.0) -> Library:
    """As a new process does."""
    return await Library.open(ADDRESS, storage_options=s3.options, read_consistency_s=interval_s, copy_tables=True)


async def ask(library: Library, queries: Sequence[str] = QUERIES) -> Answers:
    return [[(hit.record.doc_id, hit.score) for hit in await library.search(query, limit=20)] for query in queries]


def block(cache: Path) -> None:
    cache.write_text("a file in place of the folder", encoding="utf-8")


def reads_of_index(s3: S3Server) -> int:
    return sum("/_indices/" in path for _, path in s3.requests)


@pytest.mark.parametrize(("interval_s", "looks"), [(0.0, 1), (3_600.0, 0)])
async def test_a_first_search_sends_ten_requests_and_later_processes_read_no_index(
    s3: S3Server, interval_s: float, looks: int, has_rows: bool
) -> None:
    expected = await ask(await write(s3))
    for requests_of_index in (4, 0):
        library = await open_with_copy(s3, interval_s)
        s3.requests.clear()
        await library.search("fox", limit=20)
        assert reads_of_index(s3) == requests_of_index
        most = (requests_of_index and 6) or 1 if has_rows else (requests_of_index and 9) or 5
        assert len(s3.requests) <= looks + most, s3.requests
        s3.requests.clear()
        await library.search("fox", limit=20)
        assert len(s3.requests) == (looks if has_rows else 2 * looks)
        s3.requests.clear()
        await library.search("hen", limit=20)
        assert len(s3.requests) <= looks + (not has_rows)
        assert await ask(library) == expected
        library.close()


@pytest.mark.usefixtures("has_rows")
async def test_deleted_and_added_records_are_seen(s3: S3Server) -> None:
    library = await write(s3)
    reader = await open_with_copy(s3)
    await ask(reader)
    await library.remove(["0", "7"])
    without = await ask(library)
    assert await ask(reader) == without
    assert await ask(await open_with_copy(s3)) == without, "the list of deleted rows is copied, too"
    await library.upsert([Paper(doc_id="new", title="zebra fox")])
    added = await ask(library)
    assert added != without
    assert await ask(reader) == added, "a row outside the index is read from the store"
    await library.optimize(force=True)
    reader = await open_with_copy(s3)
    assert await ask(reader) == await ask(library)
    earlier = reader._table.local_copy._copied.table  # type: ignore[attr-defined]
    assert earlier is not None
    await library.upsert([Paper(doc_id="newer", title="zebra fox hen")])
    await library.optimize(force=True)
    assert await ask(reader) == await ask(library)
    assert reader._table.local_copy._copied.table is not earlier  # type: ignore[attr-defined]
    assert await earlier.count_rows() == 59, "a search that has begun with it may go on"


async def read_all(library: Library) -> list[object]:
    """What the searches of a request read."""
    phrases = ("hen coop", "red fox")
    old, journal = Compare("year", "$lt", 1995), Compare("venue", "$in", ("Journal 2", "Journal 3"))
    return [
        [(hit.record, hit.score) for hit in await library.search("red hen", old, limit=20)],
        [(hit.record, hit.score) for hit in await library.search("red hen fox", limit=20, widened=("coop",), phrases=phrases)],
        [hit.record for hit in await library.search("the", journal, limit=20)],
        await library.best_ids("fox 7", And((old, Not(journal))), limit=20),
        await library.match("hen hen coop"),
        await library.match("bird 3", "keywords", journal),
        await library.brief(["7", "3", "nothing", "12"], old),
        sorted(await library.edges("relation = 'cites' AND name IN ('7', '14')")),
        await LibraryGraph(library).around(["7", "21"], 10),
        [(near.doc_id, near.similarity) for near in await library.dense(WORDS.vector("red hen"), WORDS.space, old, 10)],
        [(near.doc_id, near.similarity) for near in await library.dense(WORDS.vector("fox 11"), WORDS.space, limit=10)],
    ]


async def test_all_reads_of_searches_answer_alike_and_later_processes_send_none(s3: S3Server, has_rows: bool) -> None:
    library = await write(s3)
    await library.embed(PAPERS, WORDS)
    changed = PAPERS[12].model_copy(update={"title": "red hen", "year": 1990})
    changes: list[Callable[[], Awaitable[object]]] = [
        lambda: library.remove(["14", "3"]),
        lambda: library.upsert([changed, Paper(doc_id="new", title="red fox hen coop")]),
        lambda: library.optimize(force=True),
    ]
    reader = await open_with_copy(s3)
    answers = []
    for change in [None, *changes]:
        if change is not None:
            await change()
        answers.append(await read_all(library))
        assert all(answers[-1])
        assert await read_all(reader) == answers[-1]
        assert await read_all(await open_with_copy(s3)) == answers[-1]
        later = await open_with_copy(s3)
        s3.requests.clear()
        assert await read_all(later) == answers[-1]
        others = [path for _, path in s3.requests if not any(one in path for one in ("_versions", "delimiter=", "/spaces.lance/"))]
        assert not others or not has_rows
    assert answers[0] != answers[1] != answers[2]


async def test_searches_at_once_answer_alike(s3: S3Server) -> None:
    expected = await ask(await write(s3))
    for requests_of_index in (4, 0):
        reader = await open_with_copy(s3, 3_600.0)
        s3.requests.clear()
        answers = await asyncio.gather(*(ask(reader, QUERIES[:-1]) for _ in range(5)))
        assert all(answer == expected[:-1] for answer in answers)
        assert reads_of_index(s3) == requests_of_index
        assert sum("/_versions/" in path for _, path in s3.requests) == 1, "the copy is opened once"


async def test_a_cancelled_search_holds_up_no_other(s3: S3Server, caplog: pytest.LogCaptureFixture) -> None:
    """LanceDB 0.40 may never answer a query of a table where a query was cancelled that read the same index."""
    expected = await (await write(s3)).match("hen hen coop")
    await (await open_with_copy(s3)).match("hen hen coop")
    caplog.set_level(logging.INFO, "outrider.library.copies.table_copy")
    for number in range(40):
        reader = await open_with_copy(s3, 3_600.0)
        searches = [asyncio.create_task(reader.match("hen hen coop")) for _ in range(4)]
        for search in searches:
            await asyncio.sleep(0.0005 * (number % 10))
            search.cancel()
        assert await reader.match("hen hen coop") == expected
    assert not caplog.text


async def test_a_damaged_copy_is_made_anew(s3: S3Server, caplog: pytest.LogCaptureFixture, has_rows: bool) -> None:
    expected = await ask(await write(s3))
    caplog.set_level(logging.INFO, "outrider.library.copies.table_copy")
    names = ["metadata.lance", "part_0_tokens.lance", "part_0_invert.lance", "part_0_docs.lance", *["data/*.lance"] * has_rows]
    for name, share in product(names, (0.0, 0.2, 0.9)):
        await ask(await open_with_copy(s3), QUERIES[:1])
        file = next(find_folder().rglob(name))
        whole = file.read_bytes()
        file.write_bytes(whole[: int(share * len(whole))])
        caplog.clear()
        assert await ask(await open_with_copy(s3)) == expected
        assert "read where it lies, not from a copy" in caplog.text
        assert not file.exists()
        assert await ask(await open_with_copy(s3)) == expected
        assert file.read_bytes() == whole


@pytest.mark.usefixtures("has_rows")
async def test_a_library_restored_from_a_backup_answers_for_itself(s3: S3Server) -> None:
    """With other records it comes to the same version, under the same address."""
    library = await write(s3)
    backup = s3.read_objects()
    for words in ("quokka", "walrus"):
        await library.upsert([Paper(doc_id=words, title=words)])
        await library.optimize(force=True)
        expected = await ask(library, ["quokka", "walrus"])
        assert await ask(await open_with_copy(s3), ["quokka", "walrus"]) == expected
        restore(s3, backup)
        library = await Library.open(ADDRESS, storage_options=s3.options)


def restore(s3: S3Server, objects: dict[str, bytes]) -> None:
    client = s3.client()
    for key in s3.read_objects().keys() - objects.keys():
        client.delete_object(Bucket="shelf", Key=key)
    for key, content in objects.items():
        client.put_object(Bucket="shelf", Key=key, Body=content)


@pytest.mark.parametrize("name", ["John Smith", "a#b%20Zoë"])
async def test_any_name_of_the_folder(s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
    expected = await ask(await write(s3))
    await ask(await open_with_copy(s3))
    reader = await open_with_copy(s3)
    s3.requests.clear()
    assert await ask(reader, QUERIES[:-1]) == expected[:-1]
    assert reads_of_index(s3) == 0


async def test_a_store_that_never_answers_holds_up_one_search(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """LanceDB may find credentials where the other client waits for a service that gives some."""
    expected = await ask(await write(s3))
    calls = 0

    class Silent:
        async def get_async(self, _: str) -> None:
            nonlocal calls
            calls += 1
            await asyncio.sleep(3_600)

    monkeypatch.setattr("outrider.library.object_storage.ObjectStorage.store", Silent())
    monkeypatch.setattr("outrider.library.copies.table_copy.ANSWER_S", 0.2)
    reader = await open_with_copy(s3)
    assert await ask(reader) == expected
    assert calls == 1


async def test_a_file_that_never_comes_holds_up_searches_once(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a slow network, for example, which has passed the manifest and the rows."""
    expected = await ask(await write(s3))
    reader = await open_with_copy(s3, 3_600.0)
    store = reader._location.storage.store  # type: ignore[union-attr]
    asked: list[str] = []

    class Slow:
        async def get_async(self, name: str) -> object:
            if "_indices" in name:
                asked.append(name)
                await asyncio.sleep(3_600)
            return await store.get_async(name)

    monkeypatch.setattr("outrider.library.object_storage.ObjectStorage.store", Slow())
    monkeypatch.setattr("outrider.library.copies.table_copy.FILE_S", 0.2)
    reader = await open_with_copy(s3, 3_600.0)
    answers = await asyncio.gather(*(ask(reader, [query]) for query in QUERIES[:-1]))
    assert [answer for (answer,) in answers] == expected[:-1]
    assert len(asked) == 1
    later = await open_with_copy(s3, 3_600.0)
    assert await ask(later) == expected
    assert len(asked) == 1, "the next process does not wait for it either"
    slow = next(find_folder().rglob("slow"))
    os.utime(slow, (time.time() - SLOW_S - 60,) * 2)
    assert await ask(await open_with_copy(s3, 3_600.0)) == expected
    assert len(asked) == 2, "another day it is asked for again"


async def test_without_a_client_or_a_folder_the_store_answers(s3: S3Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = await ask(await write(s3))
    block(cache)
    assert await ask(await open_with_copy(s3)) == expected

    def refuse(_: object) -> None:
        raise MissingExtra("writing to a library on object storage", "object-storage")

    monkeypatch.setattr("outrider.library.object_storage.ObjectStorage.store", property(refuse))
    assert await ask(await open_with_copy(s3)) == expected


async def test_only_this_user_reads_a_copy_and_old_ones_go(s3: S3Server) -> None:
    library = await write(s3)
    await ask(await open_with_copy(s3))
    (folder,) = find_folder().iterdir()
    assert folder.stat().st_mode & 0o077 == 0
    (unused := find_folder() / "another").mkdir()
    index = next(folder.rglob("part_0_docs.lance"))
    for old in (unused, index):
        os.utime(old, (time.time() - KEPT_S - 60,) * 2)
    await library.upsert([Paper(doc_id="new", title="zebra fox")])
    await library.optimize(force=True)
    assert await ask(await open_with_copy(s3)) == await ask(library)
    assert not unused.exists()
    assert not index.exists()


async def test_maintenance_leaves_no_former_rows_and_indexes(s3: S3Server) -> None:
    """Where a library is written all day, a week of them would be many times the library."""
    library = await write(s3)
    sizes = []
    for number in range(4):
        await library.upsert([Paper(doc_id="new", title=f"zebra fox {number}")])
        await library.optimize(force=True)
        reader = await open_with_copy(s3)
        assert await read_all_words(reader) == await read_all_words(library)
        files = [path for path in find_folder().rglob("*") if path.is_file()]
        sizes.append(sum("_deletions" not in path.parts for path in files))
        for path in find_folder().rglob("*"):
            os.utime(path, (time.time() - KEPT_FORMER_S - 60,) * 2)
    assert len(set(sizes)) == 1
    later = await open_with_copy(s3)
    s3.requests.clear()
    assert await read_all_words(later) == await read_all_words(reader)
    assert reads_of_index(s3) == 0, "those of the latest version stay"


async def read_all_words(library: Library) -> object:
    return await ask(library), await library.match("hen hen coop"), await library.best_ids("fox", Compare("year", "$lt", 1995))


@pytest.mark.parametrize("name", ["_deletions/..", "_indices/../../x", "_indices/aa/../b", "data/0.lance", "_versions/1.manifest"])
def test_no_other_file_is_copied(name: str) -> None:
    said = "lance error: Not found: home/x/records.lance/{}, /rust/local.rs:1"
    assert MISSING.search(said.format("_indices/0a-1b/part_0_docs.lance")) is not None
    assert MISSING.search(said.format(name)) is None

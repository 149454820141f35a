"""Records that are kept between searches: never an old one, and no more than the bound."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from outrider.library import record_cache, record_table, text_search
from outrider.library.library import Library
from outrider.library.record_cache import RecordCache, TableState
from outrider.runtime.run_reads import share_reads
from outrider.state.filters import Compare
from outrider.state.records import Paper


def papers(*titles: str) -> list[Paper]:
    return [Paper(doc_id=f"p{number}", title=title) for number, title in enumerate(titles)]


async def find(library: Library, text: str) -> list[tuple[str, str]]:
    return [(hit.record.doc_id, hit.record.title) for hit in await library.search(text)]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The ids of each read of records by id."""
    asked: list[list[str]] = []
    read = record_table.read_brief_records

    async def note(table: object, doc_ids: list[str], where: object) -> object:
        asked.append(list(doc_ids))
        return await read(table, doc_ids, where)  # type: ignore[arg-type]

    monkeypatch.setattr(record_table, "read_brief_records", note)
    return asked


async def test_a_record_is_read_once_while_the_table_stays_as_it_is(library: Library, reads: list[list[str]]) -> None:
    await library.upsert(papers("red fox", "grey fox", "hen"))
    for _ in range(3):
        assert await find(library, "fox") == [("p0", "red fox"), ("p1", "grey fox")]
    assert [record.title for record in await library.brief(["p1", "p2", "none"])] == ["grey fox", "hen"]
    assert [sorted(asked) for asked in reads] == [["none", "p2"]]


async def test_records_and_places_of_one_text_are_kept_apart_within_a_run(library: Library) -> None:
    """The graph asks for places where a search asks for as many records, as does a scout that misses records of places."""
    await library.upsert(papers(*(f"fox {number}" for number in range(30))))
    for _ in range(2):
        with share_reads():
            places = await library.rank("fox", limit=20)
            hits = await library.search("fox", limit=20)
        assert [(hit.record.doc_id, hit.score) for hit in hits] == [(place.doc_id, place.score) for place in places]
        with share_reads():
            hits, places, best = await asyncio.gather(*(ask("fox", limit=20) for ask in (library.search, library.rank, library.best_ids)))
        assert [hit.record.doc_id for hit in hits] == [place.doc_id for place in places] == best


async def test_parts_of_a_run_share_one_search_and_one_look_at_all_records(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    await library.upsert([*papers("red fox", "grey fox"), Paper(doc_id="r", title="RETRACTED: fox")])
    asked: list[str] = []
    for module, name in ((text_search, "search"), (text_search, "rank"), (record_table, "find_retracted")):
        find = getattr(module, name)

        def note(*arguments: object, name: str = name, find: Any = find) -> object:
            asked.append(name)
            return find(*arguments)

        monkeypatch.setattr(module, name, note)
    with share_reads():
        await asyncio.gather(library.search("fox"), library.best_ids("fox", limit=20))
        assert set(await asyncio.gather(*(library.retracted_ids() for _ in range(3)))) == {("r",)}
    assert asked == ["search", "find_retracted"]


async def test_a_search_within_a_filter_reads_its_records_in_one_call(library: Library, reads: list[list[str]]) -> None:
    await library.upsert([Paper(doc_id="old", title="fox", year=1990), Paper(doc_id="new", title="fox", year=2020)])
    for _ in range(3):
        assert [hit.record.doc_id for hit in await library.search("fox", Compare("year", "$gte", 2000))] == ["new"]
    assert reads == []


async def test_a_search_finds_what_another_writer_changed_removed_and_compacted(library: Library) -> None:
    other = await Library.open(library.uri)
    await library.upsert(papers("red fox", "grey fox", "hen"))
    for _ in range(2):
        assert await find(library, "fox") == [("p0", "red fox"), ("p1", "grey fox")]
    await other.upsert([Paper(doc_id="p0", title="arctic fox")])
    assert await find(library, "fox") == [("p0", "arctic fox"), ("p1", "grey fox")]
    await other.remove(["p1"])
    assert await find(library, "fox") == [("p0", "arctic fox")]
    assert await library.brief(["p1"]) == []
    await other.upsert([Paper(doc_id=f"q{number}", title="blue fox") for number in range(5)])
    await other.optimize(force=True)
    assert len(await find(library, "fox")) == 6
    other.close()


async def test_a_library_that_is_deleted_and_created_anew_keeps_nothing_of_the_old_one(tmp_path: Path) -> None:
    """Its rows and versions have the same numbers."""
    first, second = tmp_path / "a", tmp_path / "b"
    for folder, animal in ((first, "fox"), (second, "hen")):
        made = await Library.open(folder, create=True)
        await made.upsert(papers(f"red {animal}", f"grey {animal}"))
        made.close()
    library = await Library.open(first)
    for _ in range(3):
        assert [title for _, title in await find(library, "red grey")] == ["red fox", "grey fox"]
    assert await library.related_terms("red hen", 3) == ()
    shutil.rmtree(first)
    shutil.copytree(second, first, copy_function=shutil.copy)
    assert [title for _, title in await find(library, "red grey")] == ["red hen", "grey hen"]
    assert [record.title for record in await library.brief(["p0", "p1"])] == ["red hen", "grey hen"]
    assert await library.best_ids("red hen", limit=20) == ["p0", "p1"]
    library.close()


async def test_filters_are_applied_to_cached_records(library: Library) -> None:
    old, new = Paper(doc_id="old", title="fox", year=1990), Paper(doc_id="new", title="fox", year=2020)
    await library.upsert([old, new])
    assert len(await find(library, "fox")) == 2
    since = Compare("year", "$gte", 2000)
    assert [hit.record.doc_id for hit in await library.search("fox", since)] == ["new"]
    assert [record.doc_id for record in await library.brief(["old", "new"], since)] == ["new"]


async def test_what_all_records_tell_is_read_once_a_version(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """Notices of retraction are looked for in each record: a quarter of a second for 100,000."""
    asked: list[str] = []
    for name in ("find_retracted", "find_languages", "count_records"):
        find = getattr(record_table, name)

        def note(*arguments: object, name: str = name, find: Any = find) -> object:
            asked.append(name)
            return find(*arguments)

        monkeypatch.setattr(record_table, name, note)
    await library.upsert([Paper(doc_id="a", title="RETRACTED: Foxes", language="eng"), Paper(doc_id="b", title="Foxes")])
    asked.clear()
    for _ in range(2):
        assert await library.retracted_ids() == ("a",)
        assert [hit.record.doc_id for hit in await library.search("foxes", Compare("language", "$eq", "English"))] == ["a"]
        assert await library.size() == 2
    assert sorted(asked) == ["count_records", "find_languages", "find_retracted"]
    await library.remove(["a"])
    assert (await library.retracted_ids(), await library.size()) == ((), 1)


def test_the_last_records_are_kept_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_cache, "MOST_RECORDS", 4)
    monkeypatch.setattr(record_cache, "MOST_ROWS", 4)
    cache = RecordCache(TableState(1, 1))
    for number in range(20):
        cache.keep([Paper(doc_id=f"p{number}")])
        cache.find(["p0"])  # in use, so it stays
        cache.note_rows([number], [f"p{number}"])
        assert len(cache.rows) <= 5
    known = cache.find([f"p{number}" for number in range(20)])
    assert {"p0", "p19", "p18", "p17"} <= set(known)
    assert len(known) <= 8


@pytest.mark.parametrize("size", [3, 50])
def test_no_more_are_kept_of_many_at_once_or_used_again(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_cache, "MOST_RECORDS", 4)
    cache, doc_ids = RecordCache(TableState(1, 1)), [f"p{number}" for number in range(600)]
    for start in range(0, 600, size):
        cache.find(doc_ids)
        cache.keep([Paper(doc_id=doc_id) for doc_id in doc_ids[start : start + size]])
        assert len(cache.find(doc_ids)) <= 8


def test_rows_are_looked_up_alone_where_most_are_known() -> None:
    cache = RecordCache(TableState(1, 1))
    rows = range(100)
    doc_ids = [f"p{row}" for row in rows]
    cache.note_rows(rows, doc_ids)
    assert not cache.knows_rows
    cache.note_rows([*rows[1:], 100], doc_ids)
    assert cache.knows_rows
    cache.note_rows([*rows[10:], *range(200, 210)], doc_ids)
    assert not cache.knows_rows

"""Exact search of a library: every match and no other, pages, cursors and pinned versions."""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from outrider.boolean.document import Document
from outrider.boolean.evaluator import Evaluator
from outrider.boolean.parser import parse
from outrider.library.exact import word_dictionary
from outrider.library.exact.candidate_matcher import StoredRecord
from outrider.library.exact.pinned_library import PinnedVersion
from outrider.library.library import Library
from outrider.library.schema import OTHER, TAGS, join_body, to_row
from outrider.state.errors import BadRequest, LibraryError
from outrider.state.filters import Not, parse_filter
from outrider.state.records import Paper, Record
from support.boolean_oracle import find_matches
from support.boolean_queries import make_query, make_record, to_plain, write_query

QUERIES, DOCUMENTS = (int(number) for number in os.environ.get("OUTRIDER_EXACT_LIBRARY", "12x240").split("x"))
SEED = int(os.environ.get("OUTRIDER_EXACT_SEED", "7"))
ODD = ["ไทยheart2", "heart\u0308 failure", "हिन्दी heart"]


def make_records(count: int) -> list[Record]:
    chance = random.Random(SEED)
    records = [make_record(chance, number) for number in range(count)]
    return [
        one.model_copy(update={"title": f"{one.title} {ODD[place % 3]}"}) if place % 50 == 49 else one for place, one in enumerate(records)
    ]


async def ids(pinned: PinnedVersion, query: str, size: int = 100) -> list[str]:
    return [hit.record.doc_id async for page in pinned.pages(parse(query, "pubmed").tree, size=size) for hit in page.hits]


@pytest.fixture
async def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Library]:
    monkeypatch.setattr(word_dictionary, "LARGE", 10)
    opened = await Library.open(tmp_path / "library", create=True)
    yield opened
    opened.close()


async def test_every_match_and_nothing_else(library: Library) -> None:
    """A third is indexed and in the dictionary, a third came later, some were changed, some went; the candidates hold every match."""
    records = make_records(DOCUMENTS)
    third = DOCUMENTS // 3
    await library.upsert(records[: 2 * third])
    await library.optimize(force=True)
    await library.upsert([one.model_copy(update={"title": "changed"}) for one in records[:20]])
    await library.upsert(records[2 * third :])
    await library.remove([one.doc_id for one in records[20:30]])
    await library.upsert(records[:20])
    remaining = [*records[:20], *records[30:]]
    plain = [to_plain(one) for one in remaining]
    pinned = await library.pin("run")
    for number in range(QUERIES):
        chance = random.Random(f"library/{SEED}/{number}")
        query = make_query(chance)
        text = write_query(query, chance)
        expected = sorted(remaining[place].doc_id for place in find_matches(query, plain, {}))
        assert await ids(pinned, text) == expected, text
        tree = parse(text, "pubmed").tree
        if number % 4 == 0:
            assert len(await pinned.candidates(tree)) >= len(expected) == await pinned.count(tree), text


@pytest.mark.parametrize(
    ("query", "most"),
    [
        ("heart[ti] AND failure[ti]", 200), ('"heart failure"[tiab]', 300), ("2001[dp]", 60), ("bmj[ta]", 200),
        ("french[la] AND heart[ti]", 100),
        ("1001[pmid]", 20), ("10.1000/x7[doi]", 20), ("hearts*[ti]", 250), ("smith ja[au]", 330), ("NOT 1000:2010[dp]", 330), ("x[nm]", 12),
    ],
)  # fmt: skip
async def test_the_plan_is_no_scan(library: Library, query: str, most: int) -> None:
    """Rows that are looked at, of 600; odd ones always are."""
    await library.upsert(make_records(600))
    await library.optimize(force=True)
    pinned = await library.pinned()
    assert len(await pinned.candidates(parse(query).tree)) <= most


async def test_a_run_reads_its_snapshot_whatever_is_written(library: Library) -> None:
    records = make_records(300)
    await library.upsert(records)
    pinned = await library.pin("run-1")
    tree = parse("NOT xyz[ti]").tree
    pages = pinned.pages(tree, size=70)
    pages_read = [await anext(pages)]
    await library.remove([one.doc_id for one in records[:150]])
    await library.upsert([Paper(doc_id="d10", title="xyz"), Paper(doc_id="new", title="heart")])
    await library.optimize(force=True)
    pages_read += [page async for page in pages]
    whole = [hit.record for page in pages_read for hit in page.hits]
    assert whole == sorted(records, key=lambda one: one.doc_id)
    assert [len(page.hits) for page in pages_read] == [70, 70, 70, 70, 20]
    again = await library.pinned("run-1")
    assert again.snapshot == pinned.snapshot
    assert [page async for page in again.pages(tree, pages_read[1].cursor, 70)] == pages_read[2:]
    assert [page async for page in again.pages(tree, pages_read[-1].cursor)] == []
    assert await (await library.pinned()).count(tree) == 151
    await library.untag("run-1")
    with pytest.raises(LibraryError, match=r"no tag 'run-1' any more.*begin a new run"):
        await library.pinned("run-1")


async def test_a_cursor_belongs_to_its_query_and_version(library: Library) -> None:
    await library.upsert(make_records(30))
    pinned = await library.pin("run-1")
    (page,) = [page async for page in pinned.pages(parse("all[sb]").tree)]
    await library.upsert([Paper(doc_id="new")])
    later = await library.pinned()
    for version, query, text in (
        (later, "all[sb]", page.cursor),
        (pinned, "a[ti]", page.cursor),
        (pinned, "all[sb]", "x"),
        (pinned, "all[sb]", "1.a.b.c"),
    ):
        with pytest.raises(BadRequest, match="cursor"):
            await anext(version.pages(parse(query).tree, text))


async def test_rows_of_an_earlier_outrider_are_read(library: Library) -> None:
    """Those without the newer columns, and a library that has none of them."""
    records = make_records(60)
    await library.upsert(records)
    await library._table.update({OTHER: None, TAGS: None}, where="doc_id < 'd3'")
    query = "smith[au] OR tumour[ot] OR hear*[ti] OR review[pt]"
    expected = sorted(one.doc_id for one in records if Evaluator(parse(query).tree).matches(one))
    assert await ids(await library.pinned(), query) == expected
    await library._table.drop_columns([OTHER, TAGS])
    library = await Library.open(library.uri)  # an open one keeps its columns
    await library.optimize(force=True)
    assert await ids(await library.pinned(), query) == expected
    assert await library.check() == ()
    await library.upsert([Paper(doc_id="new", title="x", authors=("Smith, J",))])
    assert await ids(await library.pinned(), query) == [*expected, "new"]


async def test_deep_and_long_queries_are_answered(library: Library) -> None:
    await library.upsert(make_records(60))
    pinned = await library.pinned()
    deep = "heart[ti]"
    for level in range(60):
        deep = f"({deep} {'AND' if level % 2 else 'OR'} {['failure[ab]', '2001:2010[dp]', 'x*[ti]'][level % 3]})"
    tree = parse(deep).tree
    everything = [hit.record async for page in pinned.pages(parse("all[sb]").tree) for hit in page.hits]
    assert await ids(pinned, deep) == [one.doc_id for one in everything if Evaluator(tree).matches(one)]
    assert await pinned.count(parse(" OR ".join(f"word{number}[tiab]" for number in range(3_000))).tree) == 0


def test_a_row_holds_the_same_as_the_record() -> None:
    records = make_records(200)
    rows = [to_row(one, "") for one in records]
    for number in range(60):
        chance = random.Random(f"stored/{number}")
        evaluator = Evaluator(parse(write_query(make_query(chance), chance), "pubmed").tree)
        stored = [evaluator.matches(Document(StoredRecord(str(row["record"]), join_body(row["text"], row["exact_text"])))) for row in rows]
        assert stored == [evaluator.matches(one) for one in records]


async def test_the_dictionary_covers_the_fragments_that_it_lists(library: Library) -> None:
    """After a compaction too; what came later is found by reading it."""
    await library.upsert([Paper(doc_id=f"{number}", title=f"hepato{number}") for number in range(20)])
    await library.optimize(force=True)
    table = await library._open_version()
    assert await word_dictionary.find_fragments(table) <= await word_dictionary.find_covered(library._connection)
    await library.upsert([Paper(doc_id="new", title="Hepatology"), Paper(doc_id="other", title="xhepat")])
    assert await word_dictionary.find_fragments(await library._open_version()) - await word_dictionary.find_covered(library._connection)
    assert await ids(await library.pinned(), "hepat*[ti]") == sorted([*map(str, range(20)), "new"])
    await library.optimize(force=True)
    assert await word_dictionary.find_fragments(await library._open_version()) <= await word_dictionary.find_covered(library._connection)
    assert await ids(await library.pinned(), "hepat*[ti] NOT hepato1*[ti]") == sorted([*map(str, (0, *range(2, 10))), "new"])
    assert await word_dictionary.find_words(library._connection, "exact_title", "starts_with(word, 'hepatol')") == ["hepatology"]


async def test_the_best_come_first_and_the_rest_by_id(library: Library) -> None:
    await library.upsert(
        [
            Paper(doc_id="c", title="liver", abstract="aspirin once among many other words of no interest here", year=2000),
            Paper(doc_id="b", title="aspirin aspirin", abstract="liver", year=2020),
            Paper(doc_id="a", title="liver only", year=2020),
            Paper(doc_id="d", title="ibuprofen liver", year=2020),
        ]
    )
    pinned = await library.pinned()
    tree = parse("(aspirin[tiab] OR 2020[dp]) NOT ibuprofen[ti]").tree
    hits, total = await pinned.best(tree, None, 9)
    assert ([one.record.doc_id for one in hits], total) == (["b", "c", "a"], 3)
    assert [one.score for one in hits][2:] == [0.0]
    first, total = await pinned.best(tree, None, 1)
    assert ([one.record.doc_id for one in first], total) == (["b"], 3)


async def test_languages_in_any_spelling(library: Library) -> None:
    """Each language of a record is found by the query and by the filter, whatever the file wrote, and `NOT` is its complement."""
    spellings = {"1": "en", "2": "English", "3": "eng; ger", "4": "English, German", "5": "de", "6": "", "7": "Rust"}
    await library.upsert([Paper(doc_id=doc_id, title="a", language=language) for doc_id, language in spellings.items()])
    await library.optimize(force=True)
    pinned = await library.pinned()
    for query, found in (("german[la]", "345"), ("eng[la]", "1234"), ("NOT english[la]", "567")):
        assert await ids(pinned, query) == list(found)
    for value, found in (("en", "1234"), ("eng", "1234"), ("english", "1234"), ("German", "345"), ("Rust", "7"), ("rust", "")):
        where = parse_filter({"language": value})
        assert sorted(record.doc_id for record in await library.page(where)) == list(found)
        assert sorted(record.doc_id for record in await library.page(where and Not(where))) == sorted({*spellings} - {*found})

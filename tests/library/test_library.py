from __future__ import annotations

import asyncio
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lancedb.table import AsyncTable

from outrider.boolean.parser import parse
from outrider.library import record_table, schema
from outrider.library.browse import RecordQuery
from outrider.library.library import Library, UpsertCounts
from outrider.library.metadata_tables import IngestedFile
from outrider.state.errors import BadRequest
from outrider.state.filters import parse_filter
from outrider.state.records import RECORD, Document, Edge, Identifiers, Page, Paper, Record, Repository

EVERYTHING = Paper(
    doc_id="p1",
    title="Ünïcode “quotes” 机器学习",
    description="short",
    abstract="An abstract.",
    text="Body. " * 2_000,
    url="https://x.test/?a=1",
    identifiers=Identifiers(doi="10.1000/x", pmid="1", arxiv="2101.00001"),
    authors=("Müller, A.", "李雷"),
    year=2021,
    venue="Journal of X",
    citations=3,
    language="en",
    tags=("a, b", "c"),
    edges=(Edge(relation="cites", target="doi:10.1/y"),),
    source="openalex",
    origin="a/b.bib",
    metadata={"id": "7", "nested": {"list": [1, 2.5, None, True, {"é": "\0"}]}, "big": 10**30, "float": 0.1, "empty": {}},
    volume="1",
    issue="2",
    pages="3-4",
    mesh=("Liver/drug effects",),
)


def paper(doc_id: str, title: str = "", abstract: str = "", **more: object) -> Paper:
    return Paper(doc_id=doc_id, title=title, abstract=abstract, **more)


async def search_ids(library: Library, text: str, **more: object) -> list[str]:
    return [hit.record.doc_id for hit in await library.search(text, **more)]


async def test_records_come_back_as_they_were_given(library: Library) -> None:
    kinds: list[Record] = [
        EVERYTHING,
        Repository(doc_id="r", licence="MIT", forks=1, parent_stars=2, is_fork=False, archived=True, updated_at="2024-01-01", stars=10**25),
        Page(doc_id="w", year=-(10**40)),
        Document(doc_id="d", text="x" * schema.LEAD_CHARS),
        Document(doc_id="empty"),
    ]
    await library.upsert(kinds)
    ids = [record.doc_id for record in kinds]
    assert await library.fetch(ids) == kinds
    assert await library.fetch(["nope", "w", "w", "d"]) == [kinds[2], kinds[2], kinds[3]]
    assert [record async for record in library.scan()] == sorted(kinds, key=lambda record: record.doc_id)
    assert await library.check() == ()


leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(codec="utf-8"), max_size=8)
json_values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), inner, max_size=3),
)
plain = st.text(st.characters(codec="utf-8"), max_size=30)


@settings(max_examples=100, deadline=None)
@given(
    title=plain,
    text=plain | plain.map(lambda part: part * 400),
    tags=st.lists(plain, max_size=3),
    metadata=st.dictionaries(plain, json_values, max_size=3),
)
def test_a_row_holds_the_whole_record(title: str, text: str, tags: list[str], metadata: dict[str, object]) -> None:
    record = RECORD.validate_python({"kind": "document", "doc_id": "x", "title": title, "text": text, "tags": tags, "metadata": metadata})
    row = schema.to_row(record, "hash")
    back = schema.full_records({name: [row[name]] for name in schema.FULL})
    assert back == [record]
    assert back[0].content_hash() == record.content_hash()


async def test_a_record_that_is_no_unicode_text_is_refused_by_name(library: Library) -> None:
    with pytest.raises(BadRequest, match=r"record 'bad' holds a lone surrogate"):
        await library.upsert([paper("bad", "\ud800")])


async def test_a_record_without_id_is_a_bug(library: Library) -> None:
    with pytest.raises(ValueError, match="without doc_id"):
        await library.upsert([paper("")])


async def test_upsert_counts_by_content(library: Library) -> None:
    assert await library.upsert([]) == UpsertCounts(0, 0, 0)
    assert await library.upsert([paper("a", "one"), paper("b", "two")]) == UpsertCounts(added=2)
    before = await library.snapshot()
    assert await library.upsert([paper("a", "one"), paper("b", "two", origin="elsewhere")]) == UpsertCounts(unchanged=2)
    assert await library.snapshot() == before
    assert await library.upsert([paper("a", "ONE"), paper("b", "two"), paper("c")]) == UpsertCounts(1, 1, 1)
    assert await library.upsert([paper("d", "x"), paper("d", "y"), paper("a", "ONE"), paper("a", "uno")]) == UpsertCounts(1, 1, 0)
    assert [record.title for record in await library.fetch(["a", "b", "c", "d"])] == ["uno", "two", "", "y"]
    assert await library.count() == 4


async def test_a_cancelled_upsert_ends_with_records_and_edges_that_agree(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the middle of a batch writes the rest of it."""
    entered, go_on = asyncio.Event(), asyncio.Event()
    merge_rows = record_table.merge_rows

    async def merge_late(table: AsyncTable, rows: pa.Table) -> tuple[int, int]:
        entered.set()
        await go_on.wait()
        return await merge_rows(table, rows)

    monkeypatch.setattr(record_table, "merge_rows", merge_late)
    task = asyncio.create_task(library.upsert([EVERYTHING]))
    await entered.wait()
    task.cancel()
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await library.check() == ()
    assert [one.doc_id for one in await library.fetch(["p1"])] == ["p1"]


async def test_search_ranks_and_cuts_the_body(library: Library) -> None:
    body = "Kangaroos hop. " * 1_000
    await library.upsert([paper("a", "Retrying a call"), Document(doc_id="b", title="Kangaroo", text=body), paper("c", "Nothing")])
    (hit,) = await library.search("kangaroos")
    assert hit.record.text == body[: schema.LEAD_CHARS]
    assert hit.score > 0
    assert await search_ids(library, "retries of calls") == ["a"]
    assert [record.text for record in await library.whole([hit.record])] == [body]
    assert await library.whole([hit.record]) == await library.fetch(["b"])
    filled = hit.record.model_copy(update={"year": 2020})
    assert [(record.text, record.year) for record in await library.whole([filled])] == [(body, 2020)]
    lent = paper("a", "Retrying a call", text=body)  # by a duplicate, to a record that has none
    assert await library.whole([lent]) == [lent]
    assert await library.content_hashes(["b"]) == {"b": (await library.fetch(["b"]))[0].content_hash()}


async def test_rows_are_found_before_and_after_they_are_indexed(library: Library) -> None:
    await library.upsert([paper("a", "naïve café 机器学习很好", "the 99 foo_bar can't C++ über")])
    for _ in range(2):
        for text in ("cafe", "Café", "naive", "学习", "99", "bar", "ÜBER"):
            assert await search_ids(library, text) == ["a"], text
        assert await library.match("机器学习") == ["a"]
        await library.optimize(force=True)


async def test_equal_scores_are_cut_by_id(library: Library) -> None:
    """Which of many equal records are returned does not depend on how they lie on disk."""
    ids = [f"{number:03}" for number in range(100)]
    await library.upsert([paper(doc_id, "same words") for doc_id in reversed(ids)])
    assert await search_ids(library, "words", limit=7) == ids[:7]
    await library.optimize(force=True)
    assert await search_ids(library, "words", limit=7) == ids[:7]


async def test_a_filter_applies_before_the_cut(library: Library) -> None:
    await library.upsert(
        [paper(f"{n:03}", "fox", year=2000 + n) for n in range(200)] + [paper("late", "fox and much else that is long", year=1900)]
    )
    await library.optimize(force=True)
    assert await search_ids(library, "fox", where=parse_filter({"year": {"$lt": 1950}}), limit=1) == ["late"]
    assert await library.match("much else", where=parse_filter({"year": 1900})) == ["late"]
    assert await library.match("much else", where=parse_filter({"year": 2000})) == []


async def test_a_filter_on_labels_follows_them(library: Library) -> None:
    """Whatever takes a filter: searches, lists, counts."""
    await library.upsert([paper(name, "fox", year=2000) for name in "abc"])
    await library.label(["a"], ["to read"])
    await library.label(["b"], ["to read", "done"])
    for raw, ids in (
        ({"labels": "to read"}, ["a", "b"]),
        ({"labels": {"$in": ["done", "nothing"]}}, ["b"]),
        ({"labels": {"$ne": "done"}}, ["a", "c"]),
        ({"labels": {"$exists": False}}, ["c"]),
        ({"labels": {"$exists": True}, "$not": {"labels": "done"}, "year": 2000}, ["a"]),
        ({"labels": "nothing"}, []),
    ):
        where = parse_filter(raw)
        assert sorted(await search_ids(library, "fox", where=where)) == ids, raw
        assert await library.match("fox", where=where) == ids
        assert [record.doc_id async for record in library.scan(where)] == ids
        assert await library.count(where) == len(ids)
        assert [record.doc_id for record in (await library.browse(RecordQuery(where=where, order="id")))[0]] == ids
    await library.label(["a"], remove=["to read"])
    assert await search_ids(library, "fox", where=parse_filter({"labels": "to read"})) == ["b"]


@pytest.mark.parametrize("text", ["", " ", "?!", "\0", "😀", "—…"])
async def test_no_word_finds_nothing(library: Library, text: str) -> None:
    await library.upsert([paper("a", "word 😀")])
    assert await library.search(text) == []
    assert await library.match(text) == []


async def test_stop_words_alone_are_still_looked_up(library: Library) -> None:
    await library.upsert([paper("a", "The Who", "rock"), paper("b", "guitars")])
    await library.optimize(force=True)
    assert await search_ids(library, "who") == ["a"]
    assert await search_ids(library, "the of guitar") == ["b"]


@pytest.mark.parametrize("text", ["a AND b", 'title:x "', "NOT (", "x*", "?", "'; DROP TABLE records; --", "fox\0", "\\", "(((((", "a~2^3"])
async def test_the_query_is_data(library: Library, text: str) -> None:
    await library.upsert([paper("a", "fox")])
    assert await search_ids(library, f"{text} fox") == ["a"]


async def test_a_query_of_thousands_of_words_runs(library: Library) -> None:
    await library.upsert([paper("a", "fox"), paper("b", "w1 w500")])
    many = " ".join(f"w{number}" for number in range(3_000))
    assert await search_ids(library, f"fox {many}") == ["b", "a"]
    assert await search_ids(library, "机器学习" * 25_000) == []
    assert await search_ids(library, "x" * 100_000) == []
    assert await search_ids(library, "fox", limit=0) == []
    assert await search_ids(library, "fox", limit=10**9) == ["a"]


async def test_match_is_exact(library: Library) -> None:
    """Unstemmed, stop words kept, in order, within one field and within one keyword."""
    await library.upsert(
        [
            paper("a", "The state of the art", "running dogs", tags=("deep learning", "theory")),
            paper("b", "art of the state", text="state of the " + "x" * 300),
            Repository(doc_id="c", title="c", description="running dogs run", text="p" * 300 + " end"),
        ]
    )
    for _ in range(2):
        assert await library.match("state of the art", "title") == ["a"]
        assert await library.match("state of the") == ["a", "b"]
        assert await library.match("state of the", "text") == ["b"]
        assert await library.match("running dogs", "abstract") == ["a", "c"]
        assert await library.match("running dog") == []
        assert await library.match("deep learning", "keywords") == ["a"]
        assert await library.match("learning theory") == []
        assert await library.match("THE") == ["a", "b"]
        assert await library.match("p" * 300) == ["c"]
        assert await library.match("state of the", limit=1) == ["a"]
        await library.optimize(force=True)
    with pytest.raises(BadRequest, match="unknown text field 'body'; known: any, title, abstract, text, keywords"):
        await library.match("x", "body")


async def test_a_word_is_found_however_it_is_written(library: Library) -> None:
    """By rank, by exact words and by a Boolean query; before and after indexing; the record keeps its text."""
    ways = [
        "K<sub>Ca</sub>",
        "K&lt;sub&gt;Ca&lt;/sub&gt;",
        "$K_{Ca}$",
        r"$\mathrm{K}_\mathrm{Ca}$",
        "K\u00adCa",
        "K\u200bCa",
        "ＫＣａ",
        "{K}Ca",
        "KCa",
    ]
    long = "word " * 2_000
    records = [
        paper(f"{field}{place}", **{"title": "x", field: f"The {way} channel"})
        for place, way in enumerate(ways)
        for field in ("title", "abstract")
    ]
    records += [paper(f"text{place}", "x", text=f"{long}{way} channel") for place, way in enumerate(ways)]
    records += [paper(f"tags{place}", "x", tags=("channel", f"{way} channel")) for place, way in enumerate(ways)]
    await library.upsert(records)
    tree = parse('"kca channel"[all] AND kc*[all]').tree
    for _ in range(2):
        assert {hit.record.doc_id for hit in await library.search("kca channels")} >= {record.doc_id for record in records}
        assert {hit.record.doc_id for hit in await library.search(ways[0])} >= {record.doc_id for record in records}
        assert await library.match("KCa channel") == sorted(record.doc_id for record in records)
        assert await library.match("K<i>Ca</i> channel", "title") == sorted(f"title{place}" for place in range(len(ways)))
        pinned = await library.pinned()
        hits = [hit.record async for page in pinned.pages(tree) for hit in page.hits]
        assert hits == sorted(records, key=lambda record: record.doc_id)
        assert len(await pinned.candidates(tree)) == len(records)
        await library.optimize(force=True)
    assert await library.fetch([record.doc_id for record in records]) == records


async def test_scan_streams_one_version_in_order(library: Library) -> None:
    ids = [f"{number:04}" for number in range(250)]
    await library.upsert([paper(doc_id, year=int(doc_id)) for doc_id in reversed(ids)])
    doc_ids = []
    async for record in library.scan(batch=40):
        if not doc_ids:
            await library.remove(ids[100:])
            await library.upsert([paper("new")])
            await library.optimize(force=True)
        doc_ids.append(record.doc_id)
    assert doc_ids == ids
    where = parse_filter({"year": {"$gte": 90}})
    assert [record.doc_id async for record in library.scan(where)] == ids[90:100]
    assert [record.doc_id for record in await library.page(where, limit=4, offset=8)] == ids[98:100]
    assert await library.page(limit=0) == []
    assert await library.page(limit=5, offset=10_000) == []


async def test_remove_forgets_the_files_that_the_records_came_from(library: Library) -> None:
    await library.upsert([paper("a", "x", origin="one.bib"), paper("b", "x", origin="two.bib")])
    for name in ("one", "two"):
        await library.remember(IngestedFile(name, f"{name}.bib", 1, "2026-01-01T00:00:00Z"))
    assert await library.ingested("one") == IngestedFile("one", "one.bib", 1, "2026-01-01T00:00:00Z")
    assert await library.remove(["a", "zzz"]) == 1
    assert await library.remove([]) == 0
    assert await library.ingested("one") is None
    assert await library.ingested("two") is not None
    assert (await library.info()).files == 1
    assert await library.upsert([paper("a", "x", origin="one.bib")]) == UpsertCounts(added=1)


async def test_the_ledger_stays_compact(library: Library) -> None:
    for number in range(70):
        await library.remember(IngestedFile(f"f{number}", f"o{number}", number, "now"))
    await library.remember(IngestedFile("f1", "moved", 1, "now"), IngestedFile("f1", "moved", 1, "later"))
    assert (await library.info()).files == 70
    known = await library.ingested("f1")
    assert known is not None
    assert known.origin == "moved"


async def test_a_file_that_changed_is_remembered_as_it_is_now(library: Library) -> None:
    """Set back to what it held before, it counts as unread: its records are those of the later content."""
    await library.remember(IngestedFile("old", "a.bib", 1, "1"), IngestedFile("other", "b.bib", 1, "1"))
    await library.remember(IngestedFile("new", "a.bib", 2, "2"))
    assert await library.ingested("old") is None
    assert await library.ingested("new") is not None
    assert await library.ingested("other") is not None


async def test_a_tag_keeps_its_version_through_clean_up(library: Library) -> None:
    from datetime import timedelta

    await library.upsert([paper("a", "first")])
    version = await library.tag("review-1")
    for number in range(3):
        await library.upsert([paper("a", f"again {number}")])
    await library.optimize(force=True, keep=timedelta(milliseconds=1))
    assert await library.tags() == {"review-1": version}
    with pytest.raises(BadRequest, match="has a tag 'review-1' already"):
        await library.tag("review-1")
    with pytest.raises(BadRequest, match="is no tag name"):
        await library.tag("a b")
    with pytest.raises(BadRequest, match=r"no tag 'x'; it has: review-1"):
        await library.untag("x")
    table = await library._connection.open_table("records")
    await table.checkout("review-1")
    assert await table.count_rows() == 1
    await library.untag("review-1")
    assert await library.tags() == {}
    await library.optimize(force=True, keep=timedelta(milliseconds=1))
    assert len(await table.list_versions()) < version


async def test_info_and_snapshot(library: Library) -> None:
    await library.upsert([paper("a"), Document(doc_id="b")])
    info = await library.info()
    assert info.by_kind == {"paper": 1, "document": 1}
    assert (info.records, info.unindexed_rows, info.files, info.tags) == (2, 2, 0, {})
    assert info.size_bytes is not None
    assert info.size_bytes > 1_000
    assert await library.snapshot() == f"{library.library_id}@{info.version}"
    await library.optimize()
    assert (await library.info()).unindexed_rows == 2
    await library.optimize(force=True)
    assert (await library.info()).unindexed_rows == 0


async def test_optimize_is_due_after_many_rows_or_many_writes(library: Library) -> None:
    await library.upsert([paper(str(number), "x") for number in range(300)])
    await library.optimize()
    assert (await library.info()).unindexed_rows == 0
    for number in range(25):
        await library.upsert([paper(f"n{number}", "x")])
    await library.optimize()
    assert (await library.info()).unindexed_rows == 0


async def test_check_names_what_is_wrong(library: Library) -> None:
    await library.upsert([paper("a", "x"), paper("b", "y"), paper("c", "z")])
    table = library._table
    await table.update({"record": '{"kind":"paper","doc_id":"a","title":"changed"}'}, where="doc_id = 'a'")
    await table.update({"record": "{"}, where="doc_id = 'b'")
    await table.drop_index("rank_text_idx")
    problems = await library.check()
    assert [problem.split("; ")[0].split(" (")[0] for problem in problems] == [
        "the index on rank_text is missing",
        "record 'a' does not agree with its content hash",
        "record 'b' cannot be read",
    ]
    await library.optimize()
    assert len(await library.check()) == 2


async def test_related_terms_are_deterministic_words(library: Library) -> None:
    """Words of first hits that others lack and some title has: no number, stop word, short word or word of the query."""
    near = [
        paper(f"a{n}", "sleep study: infant nights", "Infants' breathing in sleep, overall, at night 2020 of the XY") for n in range(10)
    ]
    far = [paper(f"b{n}", "long sleep", "Economics of mattresses and markets " * 3) for n in range(40)]
    await library.upsert(near + far)
    terms = await library.related_terms("sleep study", 3)
    assert terms == await library.related_terms("sleep study", 3)
    assert terms == ("infant", "night")
    assert await library.related_terms("sleep study", 1) == ("infant",)
    assert await library.related_terms("nothing here", 3) == ()


async def test_many_searches_at_once(library: Library) -> None:
    await library.upsert([paper(f"{number}", f"word{number}") for number in range(20)])
    answers = await asyncio.gather(*(search_ids(library, f"word{number}") for number in range(20)))
    assert answers == [[str(number)] for number in range(20)]


def test_one_handle_serves_several_event_loops(tmp_path: Path) -> None:
    async def fill() -> Library:
        library = await Library.open(tmp_path / "library", create=True)
        await library.upsert([paper("a", "fox")])
        return library

    library = asyncio.run(fill())
    assert asyncio.run(search_ids(library, "fox")) == ["a"]
    assert asyncio.run(library.upsert([paper("b", "fox")])) == UpsertCounts(added=1)
    assert asyncio.run(search_ids(library, "fox")) == ["a", "b"]


async def test_a_search_leaves_edges_out_and_all_else_has_them(library: Library) -> None:
    """A review cites hundreds of works; a list of results does not show them."""
    cited = tuple(Edge(relation="cites", target=f"doi:10.1000/{at}") for at in range(3))
    whole = paper("a", "Aspirin", text="x" * 5_000, edges=cited)
    await library.upsert([whole, paper("b", "Statins")])
    (hit,) = await library.search("aspirin")
    assert hit.record == whole.model_copy(update={"edges": (), "text": "x" * 4_000})
    assert await library.fetch(["a"]) == await library.page(limit=1) == [whole]
    first, _ = [record async for record in library.scan()]
    assert first == whole
    assert await library.check() == ()

"""Dense search: order and ties, filters first, recall of the index, and refused queries."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outrider.library.library import Library
from outrider.library.vectors import index
from outrider.state.embedding import TokensRead
from outrider.state.errors import BadVectors, EmbeddingSpaceMismatch, NoVectors
from outrider.state.filters import And, Compare, Filter, Not, Or, parse_filter
from outrider.state.records import Document, Paper, Record
from support.word_embedder import WordEmbedder

pytestmark = pytest.mark.slow


WORDS = WordEmbedder()


def paper(doc_id: str, title: str = "", **more: object) -> Paper:
    return Paper.model_validate({"doc_id": doc_id, "title": title, **more})


async def put(library: Library, *records: Record, embedder: WordEmbedder = WORDS) -> None:
    await library.embed(records, embedder)
    await library.upsert(records)


async def search_dense(library: Library, text: str, where: Filter | None = None, limit: int = 100, **more: bool) -> list[str]:
    return [near.doc_id for near in await library.dense(WORDS.vector(text), WORDS.space, where, limit, **more)]


async def test_the_nearest_come_first_with_their_cosine(library: Library) -> None:
    await put(library, paper("a", "liver enzymes"), paper("b", "liver"), paper("c", "fox"), Document(doc_id="empty"))
    first, *_ = near = await library.dense(WORDS.vector("liver enzymes"), WORDS.space)
    assert [place.doc_id for place in near][:2] == ["a", "b"]
    assert (first.similarity, first.read) == (1.0, TokensRead(tokens=2, of=2))
    assert near[1].similarity == pytest.approx(float(WORDS.vector("liver") @ WORDS.vector("liver enzymes")), abs=2e-6)
    assert "empty" not in [place.doc_id for place in near]
    assert all(place.vector is None for place in near)


async def test_the_nearest_come_with_their_vectors_where_these_are_asked_for(library: Library) -> None:
    await put(library, paper("a", "liver enzymes"), paper("b", "liver"), paper("c", "fox"))
    near = await library.dense(WORDS.vector("liver enzymes"), WORDS.space, limit=2, vectors=True)
    assert [(place.doc_id, place.vector is not None and place.vector.tolist()) for place in near] == [
        ("a", WORDS.vector("liver enzymes").tolist()),
        ("b", WORDS.vector("liver").tolist()),
    ]
    assert await library.dense(WORDS.vector("fox"), WORDS.space, Compare("doc_id", "$eq", "none"), vectors=True) == []


async def test_ties_are_cut_by_id(library: Library) -> None:
    ids = [f"{number:03}" for number in range(100)]
    await put(library, *(paper(doc_id, "same words") for doc_id in reversed(ids)))
    assert await search_dense(library, "same words", limit=7) == ids[:7]
    await library.optimize(force=True)
    assert await search_dense(library, "same words", limit=7) == ids[:7]
    assert await search_dense(library, "same words", limit=0) == []


async def test_a_vector_need_not_be_of_length_one(library: Library) -> None:
    await put(library, paper("a", "liver"), paper("b", "fox"))
    assert [near.similarity for near in await library.dense(WORDS.vector("fox") * 40, WORDS.space, limit=1)] == [1.0]


async def test_what_is_refused(library: Library) -> None:
    vector = WORDS.vector("fox")
    with pytest.raises(NoVectors, match=r"never embedded; embed them with: outrider library reindex"):
        await library.dense(vector, WORDS.space)
    await put(library, paper("a", "fox"))
    other = WordEmbedder(name="other", dimension=8)
    with pytest.raises(
        EmbeddingSpaceMismatch, match=r"vectors of words.*of other \(the library's dimension is 16, the other's 8.*outrider library reindex"
    ):
        await library.dense(other.vector("fox"), other.space)
    with pytest.raises(EmbeddingSpaceMismatch, match=r"shape \(8,\).*have 16 dimensions"):
        await library.dense(vector[:8], WORDS.space)
    for bad in (vector * np.nan, vector * np.inf, vector * 0):
        with pytest.raises(BadVectors, match="not numbers, or zeros only"):
            await library.dense(bad, WORDS.space)


async def test_brief_keeps_the_order_and_the_filter(library: Library) -> None:
    await library.upsert([paper("a", "x", year=2000, text="y" * 9_000), paper("b", year=2001), paper("c", year=2000)])
    records = await library.brief(["c", "gone", "a", "b"], parse_filter({"year": 2000}))
    assert [(record.doc_id, len(record.text)) for record in records] == [("c", 0), ("a", 4_000)]
    assert [record.doc_id for record in await library.brief(["b", "c"])] == ["b", "c"]
    assert await library.brief([]) == []


# Filters never leak


years = st.none() | st.integers(1998, 2002)
tags = st.lists(st.sampled_from(["x", "y", "o'z"]), max_size=2)
stored_records = st.lists(st.tuples(st.sampled_from(["fox", "hen", "fox hen", "liver", ""]), years, tags), min_size=1, max_size=12)
compares = st.one_of(
    st.builds(Compare, st.just("year"), st.sampled_from(["$eq", "$gt", "$gte", "$lt", "$lte"]), st.integers(1998, 2002)),
    st.builds(Compare, st.just("tags"), st.just("$eq"), st.sampled_from(["x", "y", "o'z"])),
    st.builds(Compare, st.sampled_from(["year", "tags", "title"]), st.just("$exists"), st.booleans()),
    st.builds(Compare, st.just("doc_id"), st.just("$in"), st.lists(st.sampled_from("0123"), max_size=3).map(tuple)),
)
filters = st.recursive(
    compares,
    lambda inner: (
        st.builds(Not, inner)
        | st.builds(And, st.lists(inner, min_size=1, max_size=3).map(tuple))
        | st.builds(Or, st.lists(inner, min_size=1, max_size=3).map(tuple))
    ),
    max_leaves=5,
)


def holds(where: Filter, record: Paper) -> bool:
    """The meaning of a filter by the docstring of `state.filters`."""
    match where:
        case Not(part):
            return not holds(part, record)
        case And(parts):
            return all(holds(part, record) for part in parts)
        case Or(parts):
            return any(holds(part, record) for part in parts)
        case Compare("tags", "$eq", value):
            return value in record.tags
    field_value = getattr(record, where.field) or None
    if where.operator == "$exists":
        return (field_value is not None) is where.value
    if field_value is None:
        return False
    if where.operator == "$in":
        return field_value in where.value  # type: ignore[operator]
    return bool({"$eq": field_value == where.value, "$gt": field_value > where.value, "$gte": field_value >= where.value,
                 "$lt": field_value < where.value, "$lte": field_value <= where.value}[where.operator])  # fmt: skip


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=stored_records, wheres=st.lists(filters, min_size=1, max_size=5), limit=st.integers(1, 12))
async def test_dense_with_a_filter_is_the_filter_of_all(
    folder: Path, rows: list[tuple[str, int | None, list[str]]], wheres: list[Filter], limit: int
) -> None:
    library = await Library.open(folder / str(next(numbers)), create=True)
    records = [paper(str(at), title, year=year, tags=tuple(tagged)) for at, (title, year, tagged) in enumerate(rows)]
    records.append(paper("one with text", "fox"))
    await put(library, *records)
    everything = await search_dense(library, "fox")
    by_id = {record.doc_id: record for record in records}
    for where in wheres:
        expected = [doc_id for doc_id in everything if holds(where, by_id[doc_id])][:limit]
        assert await search_dense(library, "fox", where, limit) == expected
        assert {record.doc_id for record in await library.brief(list(by_id), where)} == {r.doc_id for r in records if holds(where, r)}
    library.close()


numbers = count()


# The index


@pytest.fixture
async def indexed_library(library: Library, monkeypatch: pytest.MonkeyPatch) -> Library:
    """900 records with an index of many partitions, and some that it does not cover yet."""
    monkeypatch.setattr(index, "EXACT_BYTES", 1_000)
    monkeypatch.setattr(index, "PARTITION", 60)
    random = np.random.default_rng(3)
    titles = [" ".join(random.choice([f"w{n}" for n in range(60)], 4)) for _ in range(900)]
    await put(library, *(paper(f"{n:03}", title, year=2000 + n % 9) for n, title in enumerate(titles)))
    await library.optimize(force=True)
    await put(library, paper("new", "w1 w2 w3 w4", year=1999))
    return library


async def test_an_index_finds_what_comparing_all_finds(indexed_library: Library) -> None:
    about = (await indexed_library.info()).vectors
    assert about is not None
    assert (about.index, about.vectors) == ("IVF_SQ", 901)
    assert about.recall is not None
    assert about.recall >= 0.98
    registry = await indexed_library._vectors.registry.current()
    assert registry is not None
    assert 0 < registry.nprobes <= 15
    queries = [f"w{n} w{n + 1} w{n + 2}" for n in range(30)]
    library = indexed_library
    both = [(await search_dense(library, text, limit=10), await search_dense(library, text, limit=10, exact=True)) for text in queries]
    assert sum(len({*one} & {*two}) for one, two in both) / 300 >= 0.95


async def test_similarities_from_the_index_are_exact(indexed_library: Library) -> None:
    query = WORDS.vector("w5 w6")
    true = {near.doc_id: near.similarity for near in await indexed_library.dense(query, WORDS.space, limit=901, exact=True)}
    for near in await indexed_library.dense(query, WORDS.space, limit=50):
        assert near.similarity == pytest.approx(true[near.doc_id], abs=2e-6)


async def test_rows_that_the_index_does_not_cover_are_found(indexed_library: Library) -> None:
    assert (await search_dense(indexed_library, "w1 w2 w3 w4", limit=1)) == ["new"]
    assert await search_dense(indexed_library, "w50", where=parse_filter({"year": 1999})) == ["new"]


async def test_a_narrow_filter_opens_more_partitions(indexed_library: Library) -> None:
    """All that match are found, wherever their vectors lie."""
    narrow = parse_filter({"doc_id": {"$in": [f"{n:03}" for n in range(0, 900, 100)]}})
    assert len(await search_dense(indexed_library, "w1 w2", where=narrow)) == 9
    year = parse_filter({"year": 2003})
    exact = await search_dense(indexed_library, "w1 w2", where=year, limit=10, exact=True)
    assert await search_dense(indexed_library, "w1 w2", where=year, limit=10) == exact


async def test_an_index_is_built_again_when_the_library_has_doubled(indexed_library: Library) -> None:
    before = await indexed_library._vectors.registry.current()
    await put(indexed_library, *(paper(f"more{n}", f"w{n % 60} w7") for n in range(300)))
    await indexed_library.optimize(force=True)
    assert await indexed_library._vectors.registry.current() == before
    await put(indexed_library, *(paper(f"much{n}", f"w{n % 60} w8") for n in range(800)))
    await indexed_library.optimize(force=True)
    after = await indexed_library._vectors.registry.current()
    assert before is not None
    assert after is not None
    assert (before.indexed_rows, after.indexed_rows) == (900, 2_001)

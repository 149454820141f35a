"""Filters as SQL select exactly the records that an independent evaluator selects."""

from __future__ import annotations

import asyncio
import operator
import random
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outrider.library.filter_sql import in_list, literal, to_sql
from outrider.library.library import Library
from outrider.state import filters as matching
from outrider.state.filters import (
    FIELDS,
    MAX_CONDITIONS,
    MAX_DEPTH,
    And,
    Compare,
    Filter,
    Not,
    Or,
    find_missing_value_filters,
    parse_filter,
)
from outrider.state.records import Document, Identifiers, Page, Paper, Record, Repository

NASTY = [
    "a", "A", "b", "it's", "''", "'", "\\", "\\'", "\0", "a\0b", "\n", "\r\n", "\t", "'; DROP TABLE records; --", "' OR '1'='1", "--", "/*",
    "é", "e\u0301", "机器学习", "😀", "%", "_", "a%", '"', "NULL", "null", "true", "0", " ", "{}", "$eq", "\u2028", "\U0010ffff", "\ue000",
]  # fmt: skip
NUMBERS = [-(2**63), -(2**63) + 1, -1, 0, 1, 1999, 2000, 2001, 2024, 2**31, 2**53 + 1, 2**63 - 1]
ORDERED = {"$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le, "$eq": operator.eq}


def read_value(record: Record, field: str) -> object:
    if field in ("doi", "pmid", "arxiv"):
        return getattr(record.identifiers, field)
    return getattr(record, field, ()) if field == "mesh" else getattr(record, field)


def holds(node: Filter, record: Record) -> bool:
    match node:
        case And(parts):
            return all(holds(part, record) for part in parts)
        case Or(parts):
            return any(holds(part, record) for part in parts)
        case Not(part):
            return not holds(part, record)
        case Compare(field, "$exists", wanted):
            return (read_value(record, field) not in (None, "", ())) is wanted
        case Compare(field, operation, wanted):
            value = read_value(record, field)
            if value in (None, "", ()):
                return False
            accepted = wanted if isinstance(wanted, tuple) else (wanted,)
            if FIELDS[field] == "list":
                return any(item in accepted for item in value)
            return value in accepted if operation == "$in" else bool(ORDERED[operation](value, wanted))


texts = st.sampled_from(NASTY) | st.text(max_size=4)
maybe = st.none() | st.just("") | texts
numbers = st.none() | st.sampled_from(NUMBERS) | st.integers(-(2**63), 2**63 - 1)
several = st.lists(texts | st.just(""), max_size=3).map(tuple)


@st.composite
def records(draw: st.DrawFn) -> Record:
    kind = draw(st.sampled_from([Paper, Repository, Page, Document]))
    mesh = {"mesh": draw(several)} if kind is Paper else {}
    return kind(
        doc_id=draw(texts.filter(bool)),
        title=draw(maybe) or "",
        venue=draw(maybe),
        language=draw(maybe),
        url=draw(maybe),
        origin=draw(maybe),
        identifiers=Identifiers(doi=draw(maybe), pmid=draw(maybe), arxiv=draw(maybe)),
        year=draw(numbers),
        citations=draw(numbers),
        stars=draw(numbers),
        authors=draw(several),
        tags=draw(several),
        **mesh,
    )


@st.composite
def compares(draw: st.DrawFn) -> Compare:
    field = draw(st.sampled_from(sorted(FIELDS)))
    values = st.sampled_from(NUMBERS) if FIELDS[field] == "integer" else texts | st.just("")
    operations = ["$eq", "$in", "$exists"] if FIELDS[field] == "list" else ["$eq", "$gt", "$gte", "$lt", "$lte", "$in", "$exists"]
    operation = draw(st.sampled_from(operations))
    if operation == "$exists":
        return Compare(field, operation, draw(st.booleans()))
    if operation == "$in":
        return Compare(field, operation, tuple(draw(st.lists(values, max_size=4))))
    return Compare(field, operation, draw(values))


def _nest(inner: st.SearchStrategy[Filter]) -> st.SearchStrategy[Filter]:
    parts = st.lists(inner, max_size=4).map(tuple)
    return parts.map(And) | parts.map(Or) | inner.map(Not)


filters = st.recursive(compares(), _nest, max_leaves=12)


class FilledLibrary:
    """A library on one event loop, half of it indexed and half of it appended afterwards."""

    def __init__(self, path: str, records: list[Record]) -> None:
        self.loop = asyncio.new_event_loop()
        self.records = {record.doc_id: record for record in records}
        self.library = self.loop.run_until_complete(self._fill(path, list(self.records.values())))

    async def _fill(self, path: str, records: list[Record]) -> Library:
        library = await Library.open(path, create=True)
        await library.upsert(records[: len(records) // 2])
        await library.optimize(force=True)
        await library.upsert(records[len(records) // 2 :])
        return library

    def ids(self, where: Filter) -> list[str]:
        return [record.doc_id for record in self.loop.run_until_complete(self.library.page(where, limit=10_000))]

    def expected_ids(self, where: Filter) -> list[str]:
        return sorted(doc_id for doc_id, record in self.records.items() if holds(where, record))

    def close(self) -> None:
        self.library.close()
        self.loop.close()


def _random_record(choose: random.Random, number: int) -> Record:
    kind = choose.choice([Paper, Repository, Page, Document])
    word = lambda: choose.choice([None, "", *NASTY])  # noqa: E731
    words = lambda: tuple(choose.sample(["", *NASTY], choose.randrange(4)))  # noqa: E731
    figure = lambda: choose.choice([None, *NUMBERS])  # noqa: E731
    mesh = {"mesh": words()} if kind is Paper else {}
    names = Identifiers(doi=word(), pmid=word(), arxiv=word())
    return kind(
        doc_id=f"{choose.choice(NASTY)}{number}", title=word() or "", venue=word(), language=word(), url=word(), origin=word(),
        identifiers=names, year=figure(), citations=figure(), stars=figure(), authors=words(), tags=words(), **mesh,
    )  # fmt: skip


@pytest.fixture(scope="module")
def filled_library() -> Iterator[FilledLibrary]:
    choose = random.Random(7)
    with tempfile.TemporaryDirectory() as path:
        filled_library = FilledLibrary(path, [_random_record(choose, number) for number in range(240)])
        yield filled_library
        filled_library.close()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=filters)
def test_equals_the_oracle_on_many_records(filled_library: FilledLibrary, where: Filter) -> None:
    assert filled_library.ids(where) == filled_library.expected_ids(where)
    assert filled_library.loop.run_until_complete(filled_library.library.count(where)) == len(filled_library.expected_ids(where))


@settings(max_examples=10, deadline=None)
@given(records=st.lists(records(), min_size=1, max_size=12), wheres=st.lists(filters, min_size=1, max_size=8))
def test_equals_the_oracle_on_random_records(records: list[Record], wheres: list[Filter]) -> None:
    with tempfile.TemporaryDirectory() as path:
        filled_library = FilledLibrary(path, records)
        try:
            assert [filled_library.ids(where) for where in wheres] == [filled_library.expected_ids(where) for where in wheres]
        finally:
            filled_library.close()


@given(record=records(), where=filters)
def test_matching_in_memory_equals_the_oracle(record: Record, where: Filter) -> None:
    assert matching.matches(where, record) == holds(where, record)


@pytest.mark.parametrize("text", NASTY)
def test_a_value_is_data(filled_library: FilledLibrary, text: str) -> None:
    """Quotes, comments, backslashes and NUL in a value select what equals them, and nothing breaks."""
    for field in ("title", "tags"):
        where = Compare(field, "$eq", text)
        assert filled_library.ids(where) == filled_library.expected_ids(where)
    assert filled_library.ids(Not(Compare("venue", "$in", (text,)))) == filled_library.expected_ids(Not(Compare("venue", "$in", (text,))))


def test_literals_double_their_quotes() -> None:
    assert literal("it's \\ 'x'") == "'it''s \\ ''x'''"
    assert literal(-5) == "-5"
    assert in_list("doc_id", []) == "false"


@pytest.mark.parametrize("connective", ["$and", "$or", "mixed", "$not"])
def test_the_deepest_filter_that_is_accepted_runs(filled_library: FilledLibrary, connective: str) -> None:
    """What `parse_filter` lets through, the database's parser does too."""
    raw: dict[str, object] = {"year": 2000, "title": {"$exists": True}}
    for depth in range(MAX_DEPTH - 1):
        key = ("$or" if depth % 2 else "$and") if connective == "mixed" else connective
        extra: dict[str, object] = {"venue": {"$ne": str(depth)}, "stars": {"$not": {"$gt": depth}}}
        raw = {"$not": raw, **extra} if key == "$not" else {key: [extra, raw, {"language": "a", "$not": {"kind": "paper"}}], **extra}
    where = parse_filter(raw)
    assert where is not None
    assert filled_library.ids(where) == filled_library.expected_ids(where)
    for missing in find_missing_value_filters(where).values():
        assert filled_library.ids(missing) == filled_library.expected_ids(missing)


def test_the_widest_filter_that_is_accepted_runs(filled_library: FilledLibrary) -> None:
    for key in ("$and", "$or"):
        where = parse_filter({key: [{"year": {"$ne": number}} for number in range(MAX_CONDITIONS)]})
        assert where is not None
        assert filled_library.ids(where) == filled_library.expected_ids(where)
    many = parse_filter({"tags": {"$in": [f"t{number}" for number in range(999)] + ["a"]}})
    assert many is not None
    assert filled_library.ids(many) == filled_library.expected_ids(many)


def test_an_alternating_filter_nests_parentheses_only_once_in_two_levels() -> None:
    inner: Filter = Compare("year", "$eq", 1)
    for _ in range(3):
        inner = Or((Compare("venue", "$eq", "y"), And((Compare("title", "$eq", "x"), inner))))
    nested = "title = 'x' AND year = 1 OR venue = 'y'"
    for _ in range(2):
        nested = f"({nested}) AND title = 'x' OR venue = 'y'"
    assert to_sql(inner) == nested

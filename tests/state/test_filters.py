from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.state.errors import BadRequest
from outrider.state.filters import (
    FIELDS,
    And,
    Compare,
    Filter,
    Not,
    Or,
    combine,
    find_missing_value_filters,
    matches,
    parse_filter,
    resolve_languages,
    split_retracted,
)
from outrider.state.records import Paper


@pytest.mark.parametrize(
    ("raw", "tree"),
    [
        ({}, None),
        ({"year": 2020}, Compare("year", "$eq", 2020)),
        ({"year": {"$gt": 2000, "$lte": 2010}}, And((Compare("year", "$gt", 2000), Compare("year", "$lte", 2010)))),
        ({"language": {"$ne": "Rust"}}, Not(Compare("language", "$eq", "Rust"))),
        ({"venue": {"$nin": ["a"]}}, Not(Compare("venue", "$in", ("a",)))),
        ({"journal": "x"}, Compare("venue", "$eq", "x")),
        ({"year": {"$not": {"$gt": 5}}}, Not(Compare("year", "$gt", 5))),
        ({"$not": {"year": 1}}, Not(Compare("year", "$eq", 1))),
        ({"$or": [{"year": 1}, {"kind": "page"}]}, Or((Compare("year", "$eq", 1), Compare("kind", "$eq", "page")))),
        ({"doi": {"$exists": False}}, Compare("doi", "$exists", False)),
    ],
)
def test_trees(raw: dict[str, object], tree: object) -> None:
    assert parse_filter(raw) == tree


@pytest.mark.parametrize(
    ("raw", "names"),
    [
        ({"yeer": 1}, "'yeer'; did you mean 'year'"),
        ({"year": {"$gtt": 1}}, r"'\$gtt' on 'year'; did you mean '\$gt'"),
        ({"$xor": []}, r"'\$xor'"),
        ({"year": "2020"}, "whole number, not '2020'"),
        ({"year": True}, "whole number"),
        ({"year": 2**63}, "whole number"),
        ({"year": 2020.5}, "whole number"),
        ({"year": float("nan")}, "whole number"),
        ({"language": 3}, "a string, not 3"),
        ({"language": None}, r"use \$exists"),
        ({"title": "\ud800"}, r"a string, not '.ud800', which holds half a character"),
        ({"tags": {"$in": ["a", "b\udc00"]}}, r"\$in on 'tags' takes a string"),
        ({"year": None}, r"null; use \$exists"),
        ({"authors": {"$gt": "A"}}, "no meaning on the list"),
        ({"year": {"$in": 5}}, "takes a list"),
        ({"year": {"$in": "5"}}, "takes a list"),
        ({"year": {"$exists": 1}}, "true or false"),
        ({"$and": []}, "at least one"),
        ({"$or": {"year": 1}}, "at least one"),
        ({"$not": 5}, "takes a mapping"),
        ({"year": {}}, "is empty"),
        ({"$and": [{}]}, "means nothing"),
        ({"year": {"$in": list(range(2000))}}, "at most 1000"),
        ({1: 2}, "unknown filter operator 1"),
    ],
)
def test_what_is_wrong_is_named(raw: dict[str, object], names: str) -> None:
    with pytest.raises(BadRequest, match=names):
        parse_filter(raw)


def test_depth_and_size_are_bounded() -> None:
    deep: dict[str, object] = {"year": 1}
    for _ in range(5000):
        deep = {"$not": deep}
    with pytest.raises(BadRequest, match="nested"):
        parse_filter(deep)
    inner: dict[str, object] = {"$gt": 1}
    for _ in range(5000):
        inner = {"$not": inner}
    with pytest.raises(BadRequest, match="nested"):
        parse_filter({"year": inner})
    with pytest.raises(BadRequest, match="more than 1000"):
        parse_filter({"$or": [{"year": 1}] * 1001})


def test_both() -> None:
    one, other = Compare("year", "$eq", 1), Compare("year", "$eq", 2)
    assert combine(None, None) is None
    assert combine(one, None) == combine(None, one) == one
    assert combine(one, other) == And((one, other))


@pytest.mark.parametrize(
    ("raw", "fields"),
    [
        ({"year": {"$gte": 2020}}, {"year"}),
        ({"kind": "paper", "year": {"$gte": 2020, "$lt": 2024}}, {"year"}),
        ({"kind": "page", "year": 2020}, set()),
        ({"year": {"$gte": 2020}, "venue": "Nature"}, set()),
        ({"$or": [{"year": 2020}, {"venue": "Nature"}]}, {"year", "venue"}),
        ({"$or": [{"year": 2020}, {"kind": "paper"}]}, set()),
        ({"year": {"$ne": 2020}}, set()),
        ({"$not": {"year": {"$not": {"$gte": 2020}}}}, {"year"}),
        ({"year": {"$exists": True}}, set()),
        ({"tags": "x", "kind": "paper"}, {"tags"}),
    ],
)
def test_fields_whose_absence_alone_fails_a_filter(raw: dict[str, object], fields: set[str]) -> None:
    """For a paper without any of them."""
    where = parse_filter(raw)
    assert where is not None
    record = Paper(doc_id="a", title="A")
    assert {field for field, missing in find_missing_value_filters(where).items() if matches(missing, record)} == fields


YEARS = st.none() | st.integers(2019, 2021)
CONDITIONS = st.builds(Compare, st.just("year"), st.sampled_from(["$eq", "$gt", "$gte", "$lt", "$lte"]), st.integers(2019, 2021))
OTHERS = st.sampled_from([Compare("kind", "$eq", "paper"), Compare("kind", "$eq", "page"), Compare("year", "$exists", True)])


def _nest(inner: st.SearchStrategy[Filter]) -> st.SearchStrategy[Filter]:
    parts = st.lists(inner, min_size=1, max_size=3).map(tuple)
    return parts.map(And) | parts.map(Or) | inner.map(Not)


@given(where=st.recursive(CONDITIONS | OTHERS, _nest, max_leaves=6), year=YEARS)
def test_a_record_is_counted_only_if_it_lacks_the_field_and_fails(where: Filter, year: int | None) -> None:
    record = Paper(doc_id="a", title="A", year=year)
    for field, missing in find_missing_value_filters(where).items():
        assert field in FIELDS
        assert not matches(missing, record) or (year is None and not matches(where, record))


def test_retracted_is_true_or_false() -> None:
    """The flag follows from the notices of a record, and no record lacks it."""
    retracted, sound = (Paper(doc_id="x", metadata={"retracted": flag}) for flag in (True, False))
    for raw, expected in (
        ({"retracted": True}, (True, False)),
        ({"retracted": False}, (False, True)),
        ({"retracted": {"$ne": True}}, (False, True)),
        ({"$not": {"retracted": False}}, (True, False)),
        ({"$or": [{"retracted": True}, {"doc_id": "x"}]}, (True, True)),
    ):
        where = parse_filter(raw)
        assert where is not None
        assert (matches(where, retracted), matches(where, sound)) == expected
        assert not find_missing_value_filters(where).keys() - {"doc_id"}
    for wrong in ("no", 1, {"$in": [True]}, {"$gte": True}, {"$exists": True}):
        with pytest.raises(BadRequest, match="retracted"):
            parse_filter({"retracted": wrong})


def test_only_the_condition_on_every_record_is_split_off() -> None:
    """Of an alternative it is part of the filter."""
    year = Compare("year", "$gte", 2020)
    for raw, rest in (
        ({"retracted": False}, None),
        ({"retracted": {"$ne": True}, "year": {"$gte": 2020}}, year),
        ({"$and": [{"year": {"$gte": 2020}}, {"$and": [{"retracted": False}, {"year": {"$gte": 2020}}]}]}, And((year, year))),
        ({"$and": [{"$and": [{"retracted": False}, {"retracted": False}]}, {"year": {"$gte": 2020}}]}, year),
    ):
        assert split_retracted(parse_filter(raw)) == (rest, True)
    for kept in ({"retracted": True}, {"$or": [{"retracted": False}, {"year": 2020}]}, {"year": 2020}, {}):
        where = parse_filter(kept)
        assert split_retracted(where) == (where, False)


def test_spellings_of_a_language_stand_beside_it() -> None:
    """Whatever names the same language joins the value; comparisons of order and of other fields stay."""
    spellings = {"en": ["en", "English"], "de": ["ger"]}.get

    def resolve(raw: dict[str, object]) -> object:
        where = parse_filter(raw)
        assert where is not None
        return resolve_languages(where, lambda value: spellings(value) or [])

    english = Compare("language", "$in", ("en", "English"))
    assert resolve({"language": "en"}) == english
    assert resolve({"$not": {"language": "en"}, "year": 2020}) == And((Not(english), Compare("year", "$eq", 2020)))
    assert resolve({"language": {"$in": ["de", "en"]}}) == Compare("language", "$in", ("de", "ger", "en", "English"))
    for raw in ({"language": "Rust"}, {"language": {"$exists": True}}, {"language": {"$gt": "en"}}, {"venue": "en"}):
        assert resolve(raw) == parse_filter(raw)


def test_any_of_several_languages_counts() -> None:
    """A record in two languages is in each of them."""
    record = Paper(doc_id="1", language="en; de")
    for value, is_match in (("en", True), ("de", True), ("en; de", True), ("fr", False)):
        where = parse_filter({"language": value})
        assert where is not None
        assert matches(where, record) is is_match

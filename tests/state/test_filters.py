from __future__ import annotations

import pytest

from outrider.state.errors import BadRequest
from outrider.state.filters import And, Compare, Not, Or, combine, parse_filter


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

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.nodes.translator.common_boolean_syntax import conjunction, parses, split_negated
from outrider.state.request import searchable


@pytest.mark.parametrize(
    "query",
    [
        "a",
        '"hepatic injury"',
        "a AND b",
        "(a OR b) AND NOT c",
        "a NOT b",
        "a b OR (c AND (d OR e))",
        "肝 AND 肾",
        "C++ AND x*",
        "and or not",
    ],
)
def test_whole_queries_parse(query: str) -> None:
    assert parses(query)


@pytest.mark.parametrize(
    "query", ["", " ", "a AND", "OR a", "NOT a", "a AND OR b", "(a", "a)", "()", '"a', '""', "ti:a", "a[tiab]", "!! AND a"]
)
def test_others_do_not(query: str) -> None:
    assert not parses(query)


@pytest.mark.parametrize(
    ("query", "included", "left_out"),
    [
        ("a AND b", "a b", ()),
        ("a AND b NOT c", "a b", ("c",)),
        ('a AND NOT "c d" OR b', "a b", ('"c d"',)),
        ('(a OR b NOT c) AND "x y" AND NOT (d OR (e AND f)) g', 'a b "x y" g', ("c", "( d OR ( e AND f ) )")),
        ("do not a", "do not a", ()),
        ('"a NOT b"', '"a NOT b"', ()),
        ("a NOT", "a  ", ()),
        ('a NOT "b', 'a   "b', ()),
    ],
)
def test_what_a_query_wants_and_what_it_leaves_out(query: str, included: str, left_out: tuple[str, ...]) -> None:
    assert split_negated(query) == (included, left_out)


def test_depth_costs_no_stack() -> None:
    deep = "(" * 100_000 + "a" + ")" * 100_000
    assert parses(deep)
    assert split_negated(f"b NOT {deep}")[0] == "b"


def test_what_is_left_out_is_left_out_of_what_is_joined() -> None:
    assert conjunction(["a b", "NOT"], ("c", '( d OR "e f" )')) == '"a b" AND "NOT" NOT c NOT ( d OR "e f" )'


@given(st.lists(st.text(min_size=1, max_size=20).filter(searchable), min_size=1, max_size=6))
def test_what_is_joined_by_rules_parses(terms: list[str]) -> None:
    assert parses(conjunction(terms))

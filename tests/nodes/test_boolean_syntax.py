from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.nodes.boolean_syntax import conjunction, parses
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


def test_depth_costs_no_stack() -> None:
    assert parses("(" * 100_000 + "a" + ")" * 100_000)


@given(st.lists(st.text(min_size=1, max_size=20).filter(searchable), min_size=1, max_size=6))
def test_what_is_joined_by_rules_parses(terms: list[str]) -> None:
    assert parses(conjunction(terms))

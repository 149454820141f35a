"""Planned Boolean queries in the syntax of each service."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.nodes.translator.common_boolean_syntax import parses
from outrider.systematic_search.services.planned_query import SIGNS, TRANSLATIONS, read_planned_query

SERVICES = tuple(TRANSLATIONS)


@pytest.mark.parametrize(
    ("source", "query", "expected"),
    [
        ("pubmed", 'aspirin AND "hepatic injury"', 'aspirin AND "hepatic injury"'),
        ("pubmed", "liver (scan OR x-ray) NOT heart", "liver (scan OR x-ray) NOT heart"),
        ("openalex", '(LLM OR "large language model") AND radiology', '(llm OR "large language model") AND radiology'),
        ("openalex", "liver NOT heart", "liver"),
        ("semantic_scholar", '(LLM OR "large language model") AND radiology', '("llm" | "large language model") + "radiology"'),
        ("arxiv", '(LLM OR "large language model") AND radiology', '(all:llm OR all:"large language model") AND all:radiology'),
        ("arxiv", "Crohn's OR gut", 'all:"crohn s" OR all:"crohn\'s" OR all:gut'),
        ("github", 'rust AND ("command line" OR CLI) AND "argument parser"', 'rust "argument parser"'),
        ("github", "vue OR react OR svelte", "vue OR react OR svelte"),
    ],
)
def test_each_service_gets_its_own_syntax(source: str, query: str, expected: str) -> None:
    planned = read_planned_query(source, query)
    assert planned is not None
    assert planned.expression.removeprefix("title_and_abstract.search.exact:") == expected


@pytest.mark.parametrize("source", SERVICES)
@pytest.mark.parametrize("query", ["", "AND", "(liver", "adj5 AND x", "[tiab"])
def test_a_text_that_is_no_boolean_query_is_left_to_the_ranking(source: str, query: str) -> None:
    assert read_planned_query(source, query) is None


@pytest.mark.parametrize("source", SERVICES)
@pytest.mark.parametrize("query", ["C++ AND parser NOT boost", "F# OR OCaml", ".NET AND logging"])
def test_names_with_signs_are_left_to_the_ranking(source: str, query: str) -> None:
    """An expression holds words only: `C++` would match every text with a `c`, so many that no search by words follows."""
    planned = read_planned_query(source, query)
    assert planned is not None
    assert planned.expression == ""


def test_a_part_that_a_service_cannot_express_makes_the_expression_wider() -> None:
    assert read_planned_query("github", "liver AND (scan OR x-ray)").wider  # type: ignore[union-attr]
    assert not read_planned_query("github", "liver AND scan").wider  # type: ignore[union-attr]


TERM = st.one_of(
    st.sampled_from(["liver", "C++", "neuro*", '"x-ray"', "深度学习", "1.5", "of", '"the who"', "naïve", "U.S.", "AND", "NEAR/3", "ti:x"]),
    st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=12),
)


@given(st.lists(TERM, min_size=1, max_size=5), st.lists(st.sampled_from([" AND ", " OR ", " NOT ", " "]), min_size=5, max_size=5))
def test_every_planned_query_is_translated_or_left_alone(terms: list[str], operators: list[str]) -> None:
    """Nothing is raised, and an expression is never empty."""
    query = "".join(term + operator for term, operator in zip(terms, operators, strict=False)).rstrip()
    for source in SERVICES:
        planned = read_planned_query(source, query)
        assert planned is None or planned.expression or SIGNS.search(query)
    assert not parses(query) or isinstance(query, str)

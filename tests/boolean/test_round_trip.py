"""Every printed tree parses to the same tree."""

from __future__ import annotations

import os

from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.boolean.field_tags import sort_fields
from outrider.boolean.field_values import QUALIFIERS
from outrider.boolean.occurrences import split_term
from outrider.boolean.parser import parse
from outrider.boolean.printer import format_tree
from outrider.state.boolean import And, Dates, Either, Everything, Field, Heading, Near, Node, Not, Or, Text, Words

EXAMPLES = int(os.environ.get("OUTRIDER_TREES", "200"))
letters = st.text(st.sampled_from("abcdefgzé東ßB2-'.,:;&()/?#!|OR AND NOT"), min_size=1, max_size=12)
words = letters.map(split_term).filter(bool)
signs = st.sampled_from(["*", "{?}", "{#}", "{*2}"])
signed = st.builds(
    lambda word, sign, rest: split_term(f"{word}{sign}{rest}"), st.text("abc-", min_size=1, max_size=4), signs, st.text("abc", max_size=2)
).filter(bool)
phrases = st.builds(Words, words | signed | st.builds(lambda one, other: one + other, words, signed))
single = st.builds(lambda signs: Words(signs[:1]), words | signed)
word_fields = st.lists(
    st.sampled_from([Field.TITLE, Field.ABSTRACT, Field.KEYWORDS, Field.MESH, Field.BODY, Field.ALL, Field.JOURNAL_WORDS, Field.SUBSTANCE]),
    min_size=1,
    max_size=4,
).map(sort_fields)
fields = word_fields | st.sampled_from([Field.AUTHOR, Field.JOURNAL, Field.LANGUAGE, Field.PUBLICATION_TYPE, Field.DOI]).map(
    lambda one: (one,)
)
near_words = st.builds(lambda parts, most: Near(tuple(parts), most), st.lists(single, min_size=2, max_size=4), st.integers(0, 1000))


def _nears(parts: st.SearchStrategy) -> st.SearchStrategy:
    either = st.lists(parts, min_size=2, max_size=3).map(lambda every: Either(tuple(every)))
    near = st.builds(lambda left, right, most: Near((left, right), most), parts | either, parts | either, st.integers(0, 999))
    adjacent = st.builds(lambda left, right, most: Near((left, right), most, True), parts | either, parts | either, st.integers(0, 999))
    return near | adjacent


patterns = near_words | _nears(st.recursive(phrases, _nears, max_leaves=6))
years = st.integers(1001, 2999).map(str)
dates = years | st.builds(lambda year, month: f"{year}/{month:02d}", years, st.integers(1, 12))
names = st.text("abcde, -", min_size=1, max_size=10).map(lambda text: " ".join(split_term(text))).filter(bool)
qualifiers = st.sampled_from(sorted(QUALIFIERS.values()))
headings = st.builds(Heading, names, st.just("") | qualifiers, st.booleans(), st.booleans()) | st.builds(
    lambda qualifier: Heading("", qualifier), qualifiers
)
leaves = (
    st.builds(Text, phrases, fields)
    | st.builds(Text, patterns, word_fields)
    | headings
    | st.builds(
        lambda one, other, kind: Dates(min(one, other)[:4], max(one, other), kind), dates, dates, st.sampled_from(["publication", "entry"])
    )
    | st.builds(Dates, st.none(), dates)
    | st.builds(Dates, dates, st.none())
    | st.just(Everything())
)


def _join(parts: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    several = st.lists(parts, min_size=2, max_size=4).map(tuple)
    return several.map(And) | several.map(Or) | parts.map(Not)


trees = st.recursive(leaves, _join, max_leaves=12)


@settings(max_examples=EXAMPLES, deadline=None)
@given(trees)
def test_parse_undoes_print(tree: Node) -> None:
    """Also in the syntax that is found by itself."""
    printed = format_tree(tree)
    assert parse(printed, "pubmed").tree == tree
    assert parse(printed).tree == tree


@settings(max_examples=EXAMPLES // 3, deadline=None)
@given(trees)
def test_places_are_within_the_query(tree: Node) -> None:
    """The place of each part of a tree covers its text in the query."""
    printed = format_tree(tree)
    stack: list[Node] = [parse(printed, "pubmed").tree]
    while stack:
        node = stack.pop()
        assert 0 <= node.at.start < node.at.end <= len(printed)
        if isinstance(node, And | Or):
            stack += node.parts
        elif isinstance(node, Not):
            stack.append(node.part)

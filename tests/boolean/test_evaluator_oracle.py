"""The evaluator against an independent oracle: the same records for every query."""

from __future__ import annotations

import os
import random

import pytest

from outrider.boolean.document import Document
from outrider.boolean.evaluator import Evaluator
from outrider.boolean.parser import parse
from outrider.boolean.printer import format_tree
from outrider.text.words import tokens
from support.boolean_oracle import find_matches, split_words
from support.boolean_queries import WORDS, make_query, make_record, make_text, to_plain, write_query

pytestmark = pytest.mark.slow


QUERIES, DOCUMENTS = (int(number) for number in os.environ.get("OUTRIDER_EXACT", "300x1000").split("x"))
SHARES = 10
SEED = int(os.environ.get("OUTRIDER_EXACT_SEED", "7"))


@pytest.fixture(scope="module")
def records() -> list[Document]:
    chance = random.Random(SEED)
    return [Document(make_record(chance, number)) for number in range(DOCUMENTS)]


@pytest.fixture(scope="module")
def documents(records: list[Document]) -> list[dict[str, list[str]]]:
    return [to_plain(one.record) for one in records]


@pytest.mark.parametrize("share", range(SHARES))
def test_every_match_and_nothing_else(share: int, records: list[Document], documents: list[dict[str, list[str]]]) -> None:
    """Random trees over random records, from the text of the query on; and the printed query finds the same."""
    for number in range(share, QUERIES, SHARES):
        chance = random.Random(f"{SEED}/{number}")
        query = make_query(chance)
        query_text = write_query(query, chance)
        tree = parse(query_text, "pubmed").tree
        evaluator = Evaluator(tree)
        matched = {place for place, record in enumerate(records) if evaluator.matches(record)}
        expected = find_matches(query, documents, {})
        assert matched == expected, (query_text, sorted(matched - expected)[:3], sorted(expected - matched)[:3])
        assert parse(format_tree(tree), "pubmed").tree == tree, query_text


def test_the_random_queries_are_worth_their_while(documents: list[dict[str, list[str]]]) -> None:
    """Most of them match some records and not others; every kind of leaf decides something somewhere."""
    shares, kinds = [], set()
    for number in range(240):
        query = make_query(random.Random(f"{SEED}/{number}"), depth=2)
        share = len(find_matches(query, documents[:200], {})) / min(200, len(documents))
        shares.append(share)
        if 0 < share < 1:
            kinds |= _kinds(query)
    assert sum(0 < share < 1 for share in shares) > 80
    assert kinds == {"chain", "not", "term", "near", "adj", "years", "whole", "everything"}


def _kinds(query: tuple) -> set[str]:
    below = [part for _, part in query[1]] if query[0] == "chain" else [query[1]] if query[0] == "not" else []
    return {query[0]}.union(*map(_kinds, below)) if below else {query[0]}


def test_the_oracle_cuts_words_alike() -> None:
    """Over the words that the random records are made of."""
    chance = random.Random(SEED)
    for _ in range(500):
        text = make_text(chance, 20)
        assert split_words(text) == tokens(text)
    assert all(split_words(word) == tokens(word) for word in WORDS)

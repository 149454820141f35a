"""The plan of a tree lets every match through, checked by the meaning of a plan."""

from __future__ import annotations

import os
import random
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.boolean.evaluator import Evaluator
from outrider.boolean.parser import parse
from outrider.boolean.relax import AllOf, AnyOf
from outrider.library.exact.plan import Match, Phrase, Plan, Where, Wild, make_plan, names_language
from outrider.library.schema import to_row
from outrider.text.words import tokens
from support.boolean_queries import make_query, make_record, write_query

LANGUAGES = ("de", "en", "fr")


def lets_through(plan: Plan, row: dict[str, object]) -> bool:
    """An index that cuts words as the evaluator does. Conditions are SQL, which `test_library.py` runs: here years and languages count."""
    match plan:
        case AllOf(parts):
            return all(lets_through(part, row) for part in parts)
        case AnyOf(parts):
            return any(lets_through(part, row) for part in parts)
        case Match(column, words):
            return not set(words).isdisjoint(cut(row, column))
        case Phrase(column, words):
            words_ = cut(row, column)
            return any(tuple(words_[at : at + len(words)]) == words for at in range(len(words_)))
        case Wild(column, pattern):
            return any(map(pattern.fullmatch, cut(row, column)))
        case Where(sql):
            return holds(sql, row)


def cut(row: dict[str, object], column: str) -> list[str]:
    return tokens(str(row[column] or ""))


def holds(sql: str, row: dict[str, object]) -> bool:
    """The conditions on a year that a plan writes; of others no row is kept back."""
    bounds = re.fullmatch(r"\(?year >= (\d+) AND year <= (\d+)\)?( IS NOT TRUE)?", sql)
    if bounds is None:
        return True
    year = row["year"]
    inside = isinstance(year, int) and int(bounds[1]) <= year <= int(bounds[2])
    return inside is (bounds[3] is None)


@settings(max_examples=int(os.environ.get("OUTRIDER_TREES", "200")), deadline=None)
@given(st.integers(0, 2**32))
def test_whatever_matches_is_a_candidate(seed: int) -> None:
    chance = random.Random(seed)
    tree = parse(write_query(make_query(chance), chance), "pubmed").tree
    plan, evaluator = make_plan(tree, LANGUAGES if names_language(tree) else ()), Evaluator(tree)
    for number in range(15):
        record = make_record(chance, number)
        if evaluator.matches(record):
            assert lets_through(plan, to_row(record, "")), (tree, plan, record)

"""The plan of a tree and its index let every match through."""

from __future__ import annotations

import asyncio
import os
import random
import re
import tempfile
import unicodedata
from collections import defaultdict
from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.boolean.evaluator import Evaluator
from outrider.boolean.parser import parse
from outrider.boolean.relax import AllOf, AnyOf
from outrider.library.exact.plan import Match, Phrase, Plan, Where, Wild, is_findable, make_plan, names_language
from outrider.library.schema import ODD, OTHER, is_irregular, other_words, to_row
from outrider.state.records import Paper
from outrider.text.strip_markup import fold_text
from outrider.text.words import separate_words, tokens
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
    return separate_words(str(row[column] or "")).split()


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


PIECES = [
    "heart", "il", "2", "a", "x", "µ", "β", "Ж", "ab12", "é", " ", " ", "-", "'", "’", "_", ".", ",", "カ", "ひ", "한", "東京", "漢", "12",
    "3.5", "U.S.", "–", "ﬁ", "ﬃ", "ΣίσυφοΣ", "βΩ", "Привет", "Й",
]  # fmt: skip


def test_the_index_finds_what_the_evaluator_cuts_out() -> None:
    chance = random.Random(9)
    regular = [
        char for char in map(chr, range(0x80, 0x10000)) if unicodedata.category(char) not in ("Cn", "Cs", "Co") and not is_irregular(char)
    ]
    pool = [char for char in regular if not "\u3400" <= char <= "\ud7ff"]
    texts = [
        fold_text(
            "".join(
                chance.choice((chance.choice(PIECES), chance.choice(PIECES), chance.choice(pool), chr(chance.randrange(1, 128))))
                for _ in range(14)
            )
        )
        for _ in range(4_000)
    ]
    words, pairs = defaultdict(set), defaultdict(set)
    for number, text in enumerate(texts):
        cut = separate_words(text).split()
        for word in filter(is_findable, cut):
            words[word].add(number)
        for one, other in pairwise(cut):
            if is_findable(one) and is_findable(other):
                pairs[f"{one} {other}"].add(number)
    queries = sorted(words, key=lambda word: (-len(words[word]), word))[:60], sorted(pairs, key=lambda pair: (-len(pairs[pair]), pair))[:60]
    found_words, found_pairs = asyncio.run(_search_index(texts, *queries))
    assert all(words[word] <= places for word, places in found_words.items())
    assert all(pairs[pair] <= places for pair, places in found_pairs.items())


async def _search_index(texts: list[str], words: list[str], phrases: list[str]) -> tuple[dict[str, set[int]], dict[str, set[int]]]:
    import lancedb
    import pyarrow as pa
    from lancedb.index import FTS
    from lancedb.query import MatchQuery, PhraseQuery

    exact = FTS(base_tokenizer="icu/split", stem=False, remove_stop_words=False, with_position=True, max_token_length=None)
    with tempfile.TemporaryDirectory() as folder:
        table = await (await lancedb.connect_async(folder)).create_table("texts", pa.table({"id": list(range(len(texts))), "text": texts}))
        await table.create_index("text", config=exact)

        async def ids(query: object) -> set[int]:
            return set((await table.query().nearest_to_text(query).select(["id", "_score"]).limit(len(texts)).to_arrow())["id"].to_pylist())

        return {word: await ids(MatchQuery(word, "text")) for word in words}, {
            pair: await ids(PhraseQuery(pair, "text")) for pair in phrases
        }


def test_a_record_with_other_characters_is_marked() -> None:
    for text in ("ไทย", "हिन्दी", "ሀለ", "ᚠᚢ", "&#3652;"):
        assert str(to_row(Paper(doc_id="1", abstract=text), "")[OTHER]).endswith(ODD), text
    for text in ("naïve", "β-lactam", "x² ½", "東京", "Ж", "ﬁne", "“quoted” – 5 µm ≥ 3 €", "e\u0301", "𝐀𝐁", "a\u200db", "soft\u00adhyphen"):
        assert ODD not in str(to_row(Paper(doc_id="1", abstract=text), "")[OTHER]), text


@pytest.mark.parametrize(
    "author", ["Smith JA", "van der Meer JWM", "Wei LI", "O'Brien JA", "Müller ẞA", "Smith J.A.", "Smith, J A", "ANNA LEE"]
)
def test_an_author_that_matches_is_a_candidate(author: str) -> None:
    record = Paper(doc_id="1", title="t", authors=(author,))
    words = separate_words(fold_text(author)).split()
    parts = sorted({*words, *(word[:length] for word in words for length in (1, 2)), *words[-1]})
    matched = 0
    for query in (" ".join(some) for count in (1, 2, 3) for some in product(parts, repeat=count)):
        tree = parse(f"{query}[au]", "pubmed").tree
        if Evaluator(tree).matches(record):
            matched += 1
            assert lets_through(make_plan(tree, ()), to_row(record, "")), query
    assert matched


def test_names_are_indexed_in_the_forms_that_are_searched() -> None:
    authors = ("Smith, John Alan Bob Carl", "Adler DG")
    words = tokens(other_words(Paper(doc_id="1", authors=authors, venue="The Lancet", volume="12"), ()))
    assert {"smith", "john", "j", "ja", "jab", "adler", "d", "dg", "lancet", "12"} <= set(words)
    assert "jabc" not in words


def test_initials_apart_need_no_stored_form() -> None:
    """`smith ja` lets a row with `Smith J.A.` through whether its initials were stored as a word or not."""
    plan = make_plan(parse("smith ja[au]").tree)
    for stored in ("Smith J.A.", "Smith, John Alan ja", "Smith JA"):
        assert lets_through(plan, {OTHER: fold_text(stored)})
    assert not lets_through(plan, {OTHER: "smith john"})

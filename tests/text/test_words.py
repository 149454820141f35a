"""Words of several scripts, compared with the words of an index that Lance made."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections import defaultdict
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from outrider.text.strip_markup import fold_text
from outrider.text.words import CONTINUOUS, UNSEGMENTED, WORD, content_words, stems, tokens, words


def test_words_of_several_scripts() -> None:
    assert words("Liver-Enzymes, naïve 深度学习 2020") == ["liver", "enzymes", "naïve", "深度", "度学", "学习", "2020"]


@given(st.text(alphabet=st.characters(max_codepoint=127), max_size=80) | st.text(max_size=80))
def test_the_fast_path_equals_the_regular_expression(text: str) -> None:
    assume(not CONTINUOUS.search(text))
    assert words(text) == WORD.findall(text.lower())


def test_stop_words_go_unless_nothing_else_is_left() -> None:
    assert content_words("the effect of aspirin") == ["effect", "aspirin"]
    assert content_words("to be or not to be") == ["to", "be", "or", "not", "to", "be"]


def test_content_words_are_folded() -> None:
    assert content_words("the K<sub>Ca</sub> of nai\u0308ve&nbsp;cells") == ["kca", "naïve", "cells"]
    assert stems("retry\u00ading") == ["retri"]


def test_stems_join_forms() -> None:
    assert stems("retrying retries retry") == ["retri"] * 3


PIECES = [
    "heart", "Failure", "naïve", "RÉSUMÉ", "Straße", "ẞ", "ﬁne", "don't", "can’t", "post-mortem", "β-lactam", "covid_19",
    "IL-2", "3.14", "2,000", "C++",
    "U.S.A.", "a@b.org", "Ångström", "Å", "Ørsted", "œuvre", "Łódź", "ð", "þ", "한국어", "Σίσυφος", "x²", "H₂O", "½", "Ⅳ",
    "soft\u00adhyphen", "zero\u200bwidth",
    "nb\u00a0space", "😀", "ＦＵＬＬ", "１２", "word…word", "العربية", "עברית", "हिन्दी", "µ", "μ", "K", "Ω", "ŉ", "12:30", "𝐀𝐁",
    "ａb", "Ж", "ё", "№5", "ª", "a\u0301b",
    "ⓐ", "㈠", "१२", "ñ", "ij", "\u0130stanbul",
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Post-mortem, IL-2 & 3.14", ["post", "mortem", "il", "2", "3", "14"]),
        ("Café ŒUVRE Straße ﬁne", ["cafe", "oeuvre", "strasse", "fine"]),
        ("don’t COVID_19", ["don", "t", "covid", "19"]),
        ("x² H₂O ½", ["x2", "h2o", "12"]),
        ("東京2020年", ["東", "京", "2020", "年"]),
        ("μ-opioid Σίσυφος ΣΊΣΥΦΟΣ", ["μ", "opioid", "σίσυφος", "σίσυφοσ"]),
        ("nai\u0308ve K<sub>Ca</sub>", ["naive", "kca"]),  # folded first
        ("", []),
        ("—…!", []),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert tokens(text) == words


@given(st.text(st.characters(exclude_characters="<>$&\\{}", exclude_categories=["Cs"])))
def test_any_text_is_cut_into_words_that_stay_in_order(text: str) -> None:
    """Each half of a text that is parted at a blank is cut by itself; signs of markup, which may span a blank, are left out."""
    assert tokens(f"{text} {text}") == tokens(text) * 2
    assert all(tokens(text))


def test_an_index_finds_a_word_exactly_where_it_is_cut_out() -> None:
    """Single words of every kind, and pairs that stand next to each other, in folded texts; scripts without spaces are left out,
    which differ on purpose."""
    chance = random.Random(5)
    texts = [fold_text("".join(chance.choice(PIECES) + chance.choice(["", " ", "-", "/", ". "]) for _ in range(12))) for _ in range(300)]
    assert not any(map(UNSEGMENTED.search, texts))
    singles, pairs = defaultdict(set), defaultdict(set)
    for number, text in enumerate(texts):
        cut = tokens(text)
        for word in cut:
            singles[word].add(number)
        for pair in pairwise(cut):
            pairs[" ".join(pair)].add(number)
    single_words = {word: where for word, where in singles.items() if tokens(word) == [word]}
    assert len(single_words) > 0.9 * len(singles)  # the others occur, but are no query of their own: a dotted i, a fraction slash
    two = {pair: where for pair, where in chance.sample(sorted(pairs.items()), 150) if tokens(pair) == pair.split()}
    found_words, found_pairs = asyncio.run(_find_places(texts, list(single_words), list(two)))
    assert found_words == single_words
    assert found_pairs == two


async def _find_places(texts: list[str], words: list[str], phrases: list[str]) -> tuple[dict[str, set[int]], dict[str, set[int]]]:
    import lancedb
    import pyarrow as pa
    from lancedb.index import FTS
    from lancedb.query import MatchQuery, PhraseQuery

    exact = FTS(base_tokenizer="icu/split", stem=False, remove_stop_words=False, with_position=True, max_token_length=None)
    with tempfile.TemporaryDirectory() as folder:
        database = await lancedb.connect_async(folder)
        table = await database.create_table("texts", pa.table({"id": list(range(len(texts))), "text": texts}))
        await table.create_index("text", config=exact)

        async def ids(query: object) -> set[int]:
            rows = await table.query().nearest_to_text(query).select(["id", "_score"]).limit(len(texts)).to_arrow()
            return set(rows["id"].to_pylist())

        return {word: await ids(MatchQuery(word, "text")) for word in words}, {
            pair: await ids(PhraseQuery(pair, "text")) for pair in phrases
        }

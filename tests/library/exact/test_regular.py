"""Over regular characters the index finds every word and phrase of the evaluator."""

from __future__ import annotations

import asyncio
import random
import tempfile
import unicodedata
from collections import defaultdict
from itertools import pairwise

from outrider.library.exact.plan import is_findable
from outrider.library.schema import ODD, is_irregular, other_words
from outrider.state.records import Paper
from outrider.text.words import tokens

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
        "".join(
            chance.choice((chance.choice(PIECES), chance.choice(PIECES), chance.choice(pool), chr(chance.randrange(1, 128))))
            for _ in range(14)
        )
        for _ in range(4_000)
    ]
    words, pairs = defaultdict(set), defaultdict(set)
    for number, text in enumerate(texts):
        cut = tokens(text)
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
    for text in ("ไทย", "e\u0301", "हिन्दी", "𝐀𝐁", "a\u200db"):
        assert other_words(Paper(doc_id="1", abstract=text)).endswith(ODD), text
    for text in ("naïve", "β-lactam", "x² ½", "東京", "Ж", "ﬁne", "“quoted” – 5 µm ≥ 3 €"):
        assert ODD not in other_words(Paper(doc_id="1", abstract=text)), text


def test_names_are_indexed_in_the_forms_that_are_searched() -> None:
    words = tokens(other_words(Paper(doc_id="1", authors=("Smith, John Alan Bob Carl",), venue="The Lancet", volume="12")))
    assert {"smith", "john", "j", "ja", "jab", "lancet", "12"} <= set(words)
    assert "jabc" not in words

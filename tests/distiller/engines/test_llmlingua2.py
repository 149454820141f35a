"""Compression with tiny random weights in the real format: the handling is tested, not the choice of words."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from outrider.distiller.engines.llmlingua2 import LLMLingua2
from outrider.distiller.selection import numbers_and_negations
from outrider.distiller.units import segment_text
from outrider.state.distilling import Reading
from outrider.state.errors import BadRequest, ModelUnavailable
from support.distiller_fakes import ODD
from support.extras import needs

pytestmark = needs("llmlingua")

TEXT = "Aspirin lowers the risk of stroke in adults, not in mice."


@pytest.fixture
def engine(classifier: Any) -> LLMLingua2:
    return LLMLingua2(classifier(labels=("drop", "keep"), positions=512), "cpu")


def test_words_are_left_out_and_none_is_added(engine: LLMLingua2) -> None:
    compressed = engine.compress(TEXT, 0.5)
    assert 0 < len(compressed.split()) < len(TEXT.split())
    assert set(compressed.lower().replace(",", " ").replace(".", " ").split()) <= set(
        TEXT.lower().replace(",", " ").replace(".", " ").split()
    )


@pytest.mark.parametrize(
    "text", [TEXT, "Never 12 mg of aspirin.", "No risk without 5 mg, not in adults.", "We gave 93.5 mg to 1,000 mice."]
)
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_numbers_and_negations_stay(engine: LLMLingua2, text: str, rate: float) -> None:
    compressed = engine.compress(text, rate)
    kept_words = Counter(numbers_and_negations(compressed.replace(". ", ".").replace(", ", ",").replace(" .", ".").replace(" ,", ",")))
    assert not Counter(numbers_and_negations(text)) - kept_words


@pytest.mark.parametrize("text", [text[:3_000] for text in ODD], ids=range(len(ODD)))
def test_odd_texts_are_unchanged_or_shorter(engine: LLMLingua2, text: str) -> None:
    its = segment_text(Reading("a", text))
    (scores,) = engine.scores("", [its])
    assert len(scores) == len(its.units)
    assert all(0 <= one <= 1 for one in scores)
    assert bool(engine.compress(text).strip()) == bool(text.strip())


def test_a_long_text_is_compressed_to_its_end(engine: LLMLingua2) -> None:
    compressed = engine.compress(f"{'aspirin lowers risk ' * 400}never mice", 0.9)
    assert "never" in compressed[-40:]


def test_an_invalid_share_is_refused(engine: LLMLingua2) -> None:
    for rate in (0.0, 1.5, -1.0):
        with pytest.raises(BadRequest, match="share of words"):
            engine.compress(TEXT, rate)
    assert engine.compress(TEXT, 1) == TEXT


def test_the_process_keeps_its_seeds(engine: LLMLingua2) -> None:
    random.seed(7)
    expected = [random.random(), random.random()]
    random.seed(7)
    first = random.random()
    engine.compress(TEXT)
    assert [first, random.random()] == expected


def test_a_model_that_is_not_llmlingua_is_refused(classifier: Any) -> None:
    with pytest.raises(ModelUnavailable, match="no LLMLingua-2 model"):
        LLMLingua2(classifier("sequence"), "cpu").compress(TEXT)
    with pytest.raises(ModelUnavailable, match="no LLMLingua-2 model"):
        LLMLingua2(classifier(name="one label"), "cpu").compress(TEXT)


def test_a_folder_without_a_tokenizer_is_refused(classifier: Any) -> None:
    folder = Path(classifier(labels=("drop", "keep"), positions=512))
    for path in (*folder.glob("token*"), *folder.glob("vocab*")):
        path.unlink()
    with pytest.raises(ModelUnavailable, match=r"has no tokenizer: .* vocab\.txt.*distiller\.llmlingua_model"):
        LLMLingua2(str(folder), "cpu").compress(TEXT)

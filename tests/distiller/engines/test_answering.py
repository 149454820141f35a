"""Questions over structured texts: the best units first, nothing where nothing answers, and the same with an embedding model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.distiller.engines.answering import FEATURES, TOKEN_FEATURES, Answering, compute_closeness, compute_features, load_weights
from outrider.distiller.engines.by_kind_of_text import ByKindOfText
from outrider.distiller.engines.lexical import Lexical
from outrider.distiller.selection import NOISE
from outrider.distiller.units import SegmentedText, segment_text
from outrider.state.distilling import Reading
from outrider.state.embedding import TextRole
from outrider.state.errors import ModelUnavailable
from support.distiller_fakes import texts
from support.word_embedder import WordEmbedder

GUIDE = """# Kettle

A small server for tea rooms.

## Installation

Kettle needs Python 3.11 or later. Install it with pip:

```
pip install kettle[steam]
```

## Limits

- A request may take 30 seconds.
- Uploads of more than 5 MB are refused.

## History

The name was found in a cafe. Who knows?
"""


class TokenEmbedder(WordEmbedder):
    """Each word is a token."""

    def token_vectors(self, texts: Sequence[str], role: TextRole = "document") -> list[np.ndarray]:
        return [np.array([self.vector(word) for word in text.split()], np.float32).reshape(-1, self.space.dimension) for text in texts]


class Endpoint(WordEmbedder):
    def token_vectors(self, texts: Sequence[str], role: TextRole = "document") -> list[np.ndarray]:
        raise ModelUnavailable("an endpoint gives no token vectors")


def segment(text: str = GUIDE) -> SegmentedText:
    return segment_text(Reading("a", text))


@pytest.mark.parametrize("embedder", [None, TokenEmbedder(), Endpoint()])
@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Which Python does Kettle need?", "Kettle needs Python 3.11 or later."),
        ("How do I install it with steam?", "pip install kettle[steam]"),
        ("How many seconds may a request take?", "A request may take 30 seconds."),
    ],
)
def test_the_unit_that_answers_is_first(embedder: WordEmbedder | None, question: str, answer: str) -> None:
    its = segment()
    (scores,) = Answering(embedder).scores(question, [its])  # type: ignore[arg-type]
    assert its.text(max(range(len(scores)), key=scores.__getitem__)) == answer


def test_a_question_that_nothing_answers_scores_below_noise() -> None:
    (scores,) = Answering().scores("Does it support encrypted databases in Oracle clusters?", [segment()])
    assert max(scores) < NOISE


def test_an_endpoint_without_token_vectors_gives_the_scores_by_words() -> None:
    question = "How many seconds may a request take?"
    assert Answering(Endpoint()).scores(question, [segment()]) == Answering().scores(question, [segment()])  # type: ignore[arg-type]


@given(st.text(max_size=40), st.lists(texts, max_size=3))
def test_scores_are_probabilities_one_for_each_unit(query: str, bodies: list[str]) -> None:
    cuts = [segment(body) for body in bodies]
    for engine in (Answering(), Answering(TokenEmbedder())):  # type: ignore[arg-type]
        scores = engine.scores(query, cuts)
        assert [len(own) for own in scores] == [len(its.units) for its in cuts]
        assert all(0 <= score <= 1 for own in scores for score in own)


def test_each_weight_has_its_feature() -> None:
    question, its = "How many seconds may a request take?", segment()
    (row, *_), (more, *_) = compute_features(question, its), compute_closeness(TokenEmbedder(), question, its)  # type: ignore[arg-type]
    assert (len(row), len(more)) == (len(FEATURES), len(TOKEN_FEATURES))
    assert len(load_weights("words").unit) == len(FEATURES) + 1
    assert len(load_weights("tokens").unit) == len(FEATURES) + len(TOKEN_FEATURES) + 1


def test_abstracts_go_to_one_engine_and_other_texts_to_the_other() -> None:
    abstract, guide, query = segment("Aspirin harms the liver. Mice sleep."), segment(), "does aspirin harm the liver"
    engine = ByKindOfText(Lexical(), Answering())
    assert (abstract.is_abstract(), guide.is_abstract()) == (True, False)
    assert engine.scores(query, [guide, abstract, guide]) == [
        *Answering().scores(query, [guide]),
        *Lexical().scores(query, [abstract]),
        *Answering().scores(query, [guide]),
    ]
    assert engine.name == "lexical / answering"
    assert engine.revision != ByKindOfText(Lexical(), Lexical()).revision

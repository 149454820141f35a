from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outrider.distiller.engines.embedding import LONG_CONTEXT, Embedding
from outrider.distiller.units import SegmentedText, segment_text
from outrider.models.embed.embedder import Embedder
from outrider.state.distilling import Reading
from outrider.state.embedding import EmbeddedText, EmbeddingSpace, TextRole
from outrider.state.errors import ModelUnavailable
from outrider.state.ports import OnCount
from support.word_embedder import WordEmbedder


def _segment(text: str) -> SegmentedText:
    return segment_text(Reading("a", text))


@dataclass
class Words:
    """Vectors by words; with a long context also vectors of spans, or an error."""

    words: WordEmbedder = field(default_factory=WordEmbedder)
    context_length: int = 256
    late: bool = True
    requests: list[list[str]] = field(default_factory=list)

    @property
    def space(self) -> EmbeddingSpace:
        return self.words.space.model_copy(update={"context_length": self.context_length})

    def embed(self, text: str | Sequence[str], role: TextRole = "document") -> np.ndarray:
        return self.words.embed(text, role)

    def embed_each(self, texts: Sequence[str], role: TextRole = "document", progress: OnCount | None = None) -> list[EmbeddedText]:
        self.requests.append(list(texts))
        return [EmbeddedText(None, problem="no word") if text == "Unknown." else EmbeddedText(self.words.vector(text)) for text in texts]

    def span_vectors(self, text: str, spans: Sequence[tuple[int, int]]) -> np.ndarray:
        if not self.late:
            raise ModelUnavailable("an endpoint")
        return np.stack([self.words.vector(text[start:end]) * 3 for start, end in spans])


def test_units_similar_to_the_query_score_higher_and_units_without_vector_lowest() -> None:
    ((like, _, unlike, none),) = Embedding(Words()).scores(
        "wing flutter", [_segment("Wing flutter. Wing soil. Soil bacteria.\n\nUnknown.")]
    )
    assert like > unlike > none


def test_all_units_of_all_texts_go_to_the_model_together() -> None:
    words = Words()
    scores = Embedding(words).scores("wing", [_segment("Wing. Soil."), _segment(""), _segment("Tail.")])
    assert words.requests == [["Wing.", "Soil.", "Tail."]]
    assert list(map(len, scores)) == [2, 0, 1]


def test_an_empty_query_calls_no_model() -> None:
    words = Words()
    assert len(set(Embedding(words).scores(" ", [_segment("Wing. Soil.")])[0])) == 1
    assert words.requests == []


def test_a_long_context_model_reads_the_whole_text() -> None:
    words = Words(context_length=LONG_CONTEXT)
    alone, late = (Embedding(one).cosines("wing", [_segment("Wing.")]) for one in (Words(), words))
    assert late[0] == pytest.approx(alone[0])
    assert words.requests == []


def test_without_late_chunking_units_are_embedded_alone() -> None:
    words = Words(context_length=LONG_CONTEXT, late=False)
    assert Embedding(words).cosines("wing", [_segment("Wing. Soil.")]) == Embedding(Words()).cosines("wing", [_segment("Wing. Soil.")])


def test_the_engine_is_identified_by_model_and_revision() -> None:
    space = Words().space
    engine = Embedding(replace(Words()))
    assert engine.name == f"embedding {space.model_name.rpartition('/')[2]}"
    assert engine.revision == space.revision


@pytest.fixture
def tiny(tmp_path: Path) -> Embedder:
    pytest.importorskip("sentence_transformers")
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh", "."]))
    BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=32).save_pretrained(folder)
    with torch.random.fork_rng():
        torch.manual_seed(7)
        config: Any = BertConfig(
            vocab_size=14, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, max_position_embeddings=32
        )
        BertModel(config).save_pretrained(folder)
    return Embedder(str(folder), device="cpu")


def test_late_chunking_of_a_text_that_fits_is_one_pass(tiny: Embedder) -> None:
    text = "a b c. d e. f"
    spans = [(0, 6), (7, 11), (12, 13)]
    tokens = tiny.token_vectors([text])[0]  # of length 1 each: the sums' directions are compared through one token
    vectors = tiny.span_vectors(text, spans)
    last = vectors[2] / np.linalg.norm(vectors[2])
    assert last == pytest.approx(tokens[-1], abs=1e-5)
    assert vectors.shape == (3, 16)


def test_late_chunking_of_a_long_text_skips_no_span(tiny: Embedder) -> None:
    text = "a b c d. " * 50
    spans = [(at, at + 8) for at in range(0, len(text), 9)]
    vectors = tiny.span_vectors(text, spans)
    assert np.linalg.norm(vectors, axis=1).min() > 0
    assert tiny.span_vectors(text, []).shape == (0, 16)
    assert not tiny.span_vectors("", [(0, 0)]).any()

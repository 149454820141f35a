"""The cache of vectors between runs: keys by model and text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from bench import data
from bench.model import Remembering, cache_key
from outrider.state.embedding import EmbeddedText, EmbeddingSpace, TextRole, TokensRead
from outrider.state.ports import OnCount
from support.word_embedder import WordEmbedder


@dataclass
class Counting:
    """An embedder that records its texts."""

    words: WordEmbedder = field(default_factory=WordEmbedder)
    embedded_texts: list[str] = field(default_factory=list)

    @property
    def space(self) -> EmbeddingSpace:
        return self.words.space

    def embed(self, text: str | Sequence[str], role: TextRole = "document") -> np.ndarray:
        self.embedded_texts += [text] if isinstance(text, str) else text
        return self.words.embed(text, role)

    def embed_each(self, texts: Sequence[str], role: TextRole = "document", progress: OnCount | None = None) -> list[EmbeddedText]:
        self.embedded_texts += texts
        return [
            EmbeddedText(None, problem="empty") if text == "!" else EmbeddedText(self.words.vector(text), TokensRead(tokens=1, of=2))
            for text in texts
        ]


def test_a_text_is_embedded_once_and_read_back_unchanged(tmp_path: Path) -> None:
    """Also in another process: the file holds vectors and the number of tokens read."""
    first = Remembering(model := Counting(), tmp_path / "vectors.npz")
    first.embed_each(["wing", "tail"])
    again = Remembering(model, tmp_path / "vectors.npz")
    vectors = again.embed_each(["tail", "soil", "wing"])
    assert model.embedded_texts == ["wing", "tail", "soil"]
    assert [one.vector is not None and one.vector.tolist() for one in vectors] == [
        model.words.vector(w).tolist() for w in ("tail", "soil", "wing")
    ]
    assert {one.read for one in vectors} == {TokensRead(tokens=1, of=2)}


def test_a_refused_text_is_embedded_again(tmp_path: Path) -> None:
    """A refusal is no vector and is not cached."""
    remembering = Remembering(model := Counting(), tmp_path / "vectors.npz")
    assert [one.problem for one in remembering.embed_each(["!"])] == ["empty"]
    assert remembering.embed_each(["!"])[0].vector is None
    assert model.embedded_texts == ["!", "!"]
    assert not (tmp_path / "vectors.npz").exists()


def test_queries_are_never_remembered(tmp_path: Path) -> None:
    """Their time is part of a search, and a query's prompt makes another vector."""
    remembering = Remembering(model := Counting(), tmp_path / "vectors.npz")
    remembering.embed("wing", "query")
    remembering.embed("wing", "query")
    remembering.embed_each(["wing"], "query")
    assert model.embedded_texts == ["wing"] * 3
    assert remembering.vectors == {}


def test_another_model_text_or_name_is_another_file(tiny: data.Collection) -> None:
    """The same collection and space give the same name under any name of the model."""
    space = WordEmbedder().space
    key = cache_key(space, tiny)
    changed = tiny.documents[0].model_copy(update={"abstract": "more"})
    assert cache_key(space.model_copy(update={"model_name": "by another name"}), tiny) == key
    others = {
        cache_key(space.model_copy(update={"revision": "other"}), tiny),
        cache_key(space, replace(tiny, name="other")),
        cache_key(space, replace(tiny, documents=(changed, *tiny.documents[1:]))),
    }
    assert len({*others, key}) == 4

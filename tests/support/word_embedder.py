"""A model that is small enough for tests: a text's vector is the sum of its words' random ones. Never a stand-in outside them."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from outrider.state.embedding import EmbeddedText, EmbeddingSpace, TextRole, TokensRead
from outrider.state.ports import OnCount
from outrider.text.words import words


@dataclass
class WordEmbedder:
    name: str = "words"
    dimension: int = 16
    context: int = 1_000
    delay_s: float = 0.0
    """For each text."""
    before: Callable[[int], None] = lambda _: None
    """Called before each text with the number of those embedded; a test may hold the embedder there."""
    refused: frozenset[str] = frozenset()
    """Texts that it has no vector for."""
    error: Exception | None = None
    """Raised instead of vectors once `error_after` texts were embedded."""
    error_after: int = 0
    texts: list[str] = field(default_factory=list)
    without_torch = False
    """As of a model that NumPy does not run."""

    @property
    def space(self) -> EmbeddingSpace:
        return EmbeddingSpace(model_name=self.name, revision=self.name, dimension=self.dimension, context_length=self.context)

    def embed(self, text: str | Sequence[str], role: TextRole = "document") -> np.ndarray:
        return np.stack([self.vector(one) for one in ([text] if isinstance(text, str) else text)])

    def embed_each(self, texts: Sequence[str], role: TextRole = "document", progress: OnCount | None = None) -> list[EmbeddedText]:
        results = []
        for at, text in enumerate(texts, start=1):
            if self.error and len(self.texts) >= self.error_after:
                raise self.error
            self.before(len(self.texts))
            time.sleep(self.delay_s)
            self.texts.append(text)
            of = len(words(text))
            read = TokensRead(tokens=min(of, self.context), of=of)
            results.append(EmbeddedText(None, problem="refused") if text in self.refused else EmbeddedText(self.vector(text), read))
            if progress:
                progress(at, len(texts))
        return results

    def vector(self, text: str) -> np.ndarray:
        rows = [self._word(word) for word in words(text)[: self.context]] or [np.ones(self.dimension)]
        total = np.sum(rows, axis=0, dtype=np.float32)
        unit: np.ndarray = total / np.linalg.norm(total)
        return unit

    def _word(self, word: str) -> np.ndarray:
        return np.random.default_rng(zlib.crc32(f"{self.name} {word}".encode())).standard_normal(self.dimension)

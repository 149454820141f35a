"""A model of words whose tokens have vectors of their own, as a BERT's have."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from outrider.state.embedding import TextRole
from support.word_embedder import WordEmbedder


class TokenEmbedder(WordEmbedder):
    """Each word is a token."""

    def token_vectors(self, texts: Sequence[str], role: TextRole = "document") -> list[np.ndarray]:
        return [np.array([self.vector(word) for word in text.split()], np.float32).reshape(-1, self.space.dimension) for text in texts]

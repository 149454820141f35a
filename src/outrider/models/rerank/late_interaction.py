"""Late interaction: MaxSim over an embedding model's token vectors, without a cross-encoder.

ColBERT: Khattab and Zaharia, SIGIR 2020.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from outrider.runtime.threads_and_loops import stop_if_abandoned
from outrider.state.errors import BadVectors

if TYPE_CHECKING:
    import numpy as np

    from outrider.state.embedding import TextRole

LATE_INTERACTION = "late-interaction"
BATCH = 16
"""Texts between two checks whether the caller still waits; bounds the token vectors in memory."""


class TokenEmbedder(Protocol):
    """An embedder that gives one unit vector per token, shape (tokens, d), float32, without special tokens."""

    def token_vectors(self, texts: Sequence[str], role: TextRole) -> list[np.ndarray]: ...


@dataclass(frozen=True, slots=True)
class LateInteraction:
    """The score is the mean over the query's tokens of the cosine with the nearest token of the text."""

    embedder: TokenEmbedder
    name: str = LATE_INTERACTION
    revision: str = ""
    """Revision of the embedding model."""

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Scores in [-1, 1]; -1 for a text without tokens, and for all texts if the query has none."""
        import numpy as np

        if not texts:
            return []
        (query_vectors,) = self.embedder.token_vectors([query], "query")
        scores: list[float] = []
        for start in range(0, len(texts), BATCH):
            stop_if_abandoned()
            scores += [max_sim(query_vectors, tokens) for tokens in self.embedder.token_vectors(texts[start : start + BATCH], "document")]
        if not np.isfinite(scores).all():
            raise BadVectors(f"{self.name}: the embedding model gave token vectors that are no numbers")
        return scores


def max_sim(query: np.ndarray, text: np.ndarray) -> float:
    """Mean over the query's tokens, shape (q, d), of the largest product with a token of the text, shape (t, d)."""
    if not len(query) or not len(text):
        return -1.0
    return float((query @ text.T).max(axis=1).mean())

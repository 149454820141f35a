"""MaxSim over a bi-encoder's token vectors (ColBERT: Khattab and Zaharia, SIGIR 2020), for where no cross-encoder is at hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from outrider.runtime.threads import stop_if_abandoned
from outrider.state.errors import BadVectors

if TYPE_CHECKING:
    import numpy as np

    from outrider.state.embedding import TextRole

LATE_INTERACTION = "late-interaction"
BATCH = 16
"""Texts between two looks at whether anybody still waits; their token vectors are held at once."""


class TokenEmbedder(Protocol):
    """What is needed of an embedder: one unit vector a token, shape (tokens, d), float32, without special tokens."""

    def token_vectors(self, texts: Sequence[str], role: TextRole) -> list[np.ndarray]: ...


@dataclass(frozen=True, slots=True)
class LateInteraction:
    """Each token of the query looks for its nearest token in the text; the score is the mean of these cosines."""

    embedder: TokenEmbedder
    name: str = LATE_INTERACTION
    revision: str = ""
    """Of the embedding model."""

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """In [-1, 1]; -1 for a text without a token, and for every text where the query has none."""
        import numpy as np

        if not texts:
            return []
        (asked,) = self.embedder.token_vectors([query], "query")
        found: list[float] = []
        for start in range(0, len(texts), BATCH):
            stop_if_abandoned()
            found += [max_sim(asked, tokens) for tokens in self.embedder.token_vectors(texts[start : start + BATCH], "document")]
        if not np.isfinite(found).all():
            raise BadVectors(f"{self.name}: the embedding model gave token vectors that are no numbers")
        return found


def max_sim(query: np.ndarray, text: np.ndarray) -> float:
    """Mean over the query's tokens, shape (q, d), of the largest product with a token of the text, shape (t, d)."""
    if not len(query) or not len(text):
        return -1.0
    return float((query @ text.T).max(axis=1).mean())

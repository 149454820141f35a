"""Late interaction: MaxSim over an embedding model's token vectors, without a cross-encoder.

ColBERT: Khattab and Zaharia, SIGIR 2020. A library that stores its records' token vectors makes it fast (docs/adr/0041-token-vectors.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from outrider.models.rerank.token_blocks import compress, max_sims
from outrider.runtime.threads_and_loops import stop_if_abandoned
from outrider.state.errors import BadVectors, ModelUnavailable

if TYPE_CHECKING:
    import numpy as np

    from outrider.state.embedding import EmbeddingSpace, TextRole

LATE_INTERACTION = "late-interaction"
BATCH = 16
"""Texts between two checks whether the caller still waits; bounds the token vectors in memory."""
MOST_MISSING = 8
"""Texts that a search embeds itself if the others have stored token vectors: about a second on two cores."""
INDEX_COMMAND = "outrider library index --late-interaction"

StoredBlocks = Callable[[Sequence[str]], Mapping[str, bytes] | None]
"""Blocks by text, of those texts that have one (see `token_blocks`); None if none were ever computed. Blocking."""


class TokenEmbedder(Protocol):
    """An embedder that gives one unit vector per token, shape (tokens, d), float32, without special tokens."""

    @property
    def space(self) -> EmbeddingSpace:
        """The space of the vectors; loads the model at first use."""
        ...

    def token_vectors(self, texts: Sequence[str], role: TextRole) -> list[np.ndarray]: ...


@dataclass(frozen=True, slots=True)
class LateInteraction:
    """The score is the mean over the query's tokens of the cosine with the nearest token of the text."""

    embedder: TokenEmbedder
    name: str = LATE_INTERACTION
    revision: str = ""
    """Revision of the embedding model."""
    stored: StoredBlocks | None = None
    """Reads the token vectors that a library has stored; without it, or if it has none, all texts are embedded."""
    most_missing: int = MOST_MISSING

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Scores in [-1, 1]; -1 for a text without tokens, and for all texts if the query has none.

        `ModelUnavailable` if more than `most_missing` texts have no stored token vectors, although the library has some.
        """
        import numpy as np

        if not texts:
            return []
        blocks = self.stored(texts) if self.stored else None
        scores = self._embed_and_compare(query, texts) if blocks is None else self._compare_stored(query, texts, blocks)
        if not np.isfinite(scores).all():
            raise BadVectors(f"{self.name}: the embedding model gave token vectors that are no numbers")
        return scores

    def _embed_and_compare(self, query: str, texts: Sequence[str]) -> list[float]:
        (query_vectors,) = self.embedder.token_vectors([query], "query")
        scores: list[float] = []
        for start in range(0, len(texts), BATCH):
            stop_if_abandoned()
            scores += [max_sim(query_vectors, tokens) for tokens in self.embedder.token_vectors(texts[start : start + BATCH], "document")]
        return scores

    def _compare_stored(self, query: str, texts: Sequence[str], blocks: Mapping[str, bytes]) -> list[float]:
        missing = [text for text in dict.fromkeys(texts) if text not in blocks]
        if len(missing) > self.most_missing:
            raise ModelUnavailable(
                f"{self.name}: {len(missing)} of {len(texts)} works have no stored token vectors, and a search computes those of at most "
                f"{self.most_missing}; those of the library's records are computed by: {INDEX_COMMAND}"
            )
        (query_vectors,) = self.embedder.token_vectors([query], "query")
        read = dict(blocks)
        for start in range(0, len(missing), BATCH):
            stop_if_abandoned()
            part = missing[start : start + BATCH]
            read |= zip(part, map(compress, self.embedder.token_vectors(part, "document")), strict=True)
        return max_sims(query_vectors, [read[text] for text in texts])


def max_sim(query: np.ndarray, text: np.ndarray) -> float:
    """Mean over the query's tokens, shape (q, d), of the largest product with a token of the text, shape (t, d)."""
    if not len(query) or not len(text):
        return -1.0
    return float((query @ text.T).max(axis=1).mean())

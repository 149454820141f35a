"""Embedding engine: cosine similarity of each unit and the query.

A long-context model reads the whole text in one pass, and a unit's vector is the mean of its tokens there (late chunking: Guenther et
al. 2024, "Late Chunking: Contextual Chunk Embeddings Using Long-Context Embedding Models"). A short-context model reads each unit alone,
and the cosines of its neighbours are added with a small weight: with MiniLM, embedding a unit together with its neighbours matches less
often (`bench/distil`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from outrider.distiller.engines.ensemble import Scores
from outrider.distiller.engines.lexical import compare_with_best, smooth_with_neighbours
from outrider.distiller.units import SegmentedText
from outrider.runtime.threads_and_loops import stop_if_abandoned
from outrider.state.errors import ModelUnavailable

if TYPE_CHECKING:
    import numpy as np

    from outrider.state.embedding import EmbeddedText, EmbeddingSpace, TextRole
    from outrider.state.ports import OnCount

LONG_CONTEXT = 2_048
"""Minimum context length in tokens for late chunking, which needs a model for long texts."""
NEIGHBOUR_SHARE = 0.1
MIN_BEST = 0.3
WEIGHTS = (1.835, 4.886, -1.573)
"""As in `lexical`, with all-MiniLM-L6-v2; other models need a calibration for a meaningful threshold, because their cosines differ."""


class Embedder(Protocol):
    @property
    def space(self) -> EmbeddingSpace: ...

    def embed(self, text: str | Sequence[str], role: TextRole = "document") -> np.ndarray: ...

    def embed_each(self, texts: Sequence[str], role: TextRole = "document", progress: OnCount | None = None) -> list[EmbeddedText]: ...

    def token_vectors(self, texts: Sequence[str], role: TextRole = "document") -> list[np.ndarray]: ...

    def span_vectors(self, text: str, spans: Sequence[tuple[int, int]]) -> np.ndarray: ...


@dataclass(frozen=True, slots=True)
class Embedding:
    embedder: Embedder

    @property
    def name(self) -> str:
        """The engine with its model; loads the model, as `revision` does."""
        return f"embedding {self.embedder.space.model_name.rstrip('/').rpartition('/')[2]}"

    @property
    def revision(self) -> str:
        return self.embedder.space.revision

    def scores(self, query: str, cuts: Sequence[SegmentedText]) -> Scores:
        return [compare_with_best(many, MIN_BEST, WEIGHTS) for many in self.cosines(query, cuts)]

    def cosines(self, query: str, cuts: Sequence[SegmentedText]) -> Scores:
        """Cosines in [-1, 1]; -1 for a unit without a vector, and for all units if the query is empty."""
        if not query.strip():
            return [[-1.0] * len(its.units) for its in cuts]
        query_vector = self.embedder.embed(query, "query")[0]
        if self.embedder.space.context_length >= LONG_CONTEXT:
            with suppress(ModelUnavailable):  # an endpoint returns no token vectors
                cosines = []
                for its in cuts:
                    stop_if_abandoned()
                    vectors = self.embedder.span_vectors(its.reading.text, [(unit.start, unit.end) for unit in its.units])
                    cosines.append([_cosine(query_vector, vector) for vector in vectors])
                return cosines
        stop_if_abandoned()
        # embed all units of all texts together, for full batches
        answers = iter(self.embedder.embed_each([text for its in cuts for text in its.texts()]))
        cosines = []
        for its in cuts:
            own = [-1.0 if (vector := next(answers).vector) is None else _cosine(query_vector, vector) for _ in its.units]
            cosines.append(smooth_with_neighbours(own, NEIGHBOUR_SHARE))
        return cosines


def _cosine(first: np.ndarray, second: np.ndarray) -> float:
    import numpy as np

    length = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(first @ second) / length if length else -1.0

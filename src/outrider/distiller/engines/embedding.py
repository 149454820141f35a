"""Likeness of meaning: the cosine of each unit's vector and the query's, from the library's own embedding model.

A model that reads long texts sees the whole text in one pass, and a unit's vector is the mean of its tokens there (late chunking:
Guenther et al. 2024, "Late Chunking: Contextual Chunk Embeddings Using Long-Context Embedding Models"). A model that reads little gets
each unit alone, and a little of the cosines beside it counts: with MiniLM, a unit embedded together with its neighbours is found less
often than one alone (`bench/distil`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from outrider.distiller.engines.ensemble import Scores
from outrider.distiller.engines.lexical import compare_with_best, smooth_with_neighbours
from outrider.distiller.units import SegmentedText
from outrider.runtime.threads import stop_if_abandoned
from outrider.state.errors import ModelUnavailable

if TYPE_CHECKING:
    import numpy as np

    from outrider.state.embedding import EmbeddedText, EmbeddingSpace, TextRole
    from outrider.state.ports import OnCount

LONG_CONTEXT = 2_048
"""Tokens; late chunking is for models that were made for long texts."""
NEIGHBOUR_SHARE = 0.1
MIN_BEST = 0.3
WEIGHTS = (1.835, 4.886, -1.573)
"""As in `lexical`, with all-MiniLM-L6-v2; other models' cosines lie elsewhere, so that for them only a calibration gives a threshold that
means something."""


class Embedder(Protocol):
    @property
    def space(self) -> EmbeddingSpace: ...

    def embed(self, text: str | Sequence[str], role: TextRole = "document") -> np.ndarray: ...

    def embed_each(self, texts: Sequence[str], role: TextRole = "document", progress: OnCount | None = None) -> list[EmbeddedText]: ...

    def span_vectors(self, text: str, spans: Sequence[tuple[int, int]]) -> np.ndarray: ...


@dataclass(frozen=True, slots=True)
class Embedding:
    embedder: Embedder

    @property
    def name(self) -> str:
        """Loads the model, as `revision` does."""
        return f"embedding {self.embedder.space.model_name.rstrip('/').rpartition('/')[2]}"

    @property
    def revision(self) -> str:
        return self.embedder.space.revision

    def scores(self, query: str, cuts: Sequence[SegmentedText]) -> Scores:
        return [compare_with_best(many, MIN_BEST, WEIGHTS) for many in self.cosines(query, cuts)]

    def cosines(self, query: str, cuts: Sequence[SegmentedText]) -> Scores:
        """With a little of the neighbours'; -1 for a unit that has no vector, and for all where the query is empty."""
        if not query.strip():
            return [[-1.0] * len(its.units) for its in cuts]
        asked = self.embedder.embed(query, "query")[0]
        if self.embedder.space.context_length >= LONG_CONTEXT:
            with suppress(ModelUnavailable):  # an endpoint gives no token vectors
                return [self._late(asked, its) for its in cuts]
        return self._alone(asked, cuts)

    def _late(self, asked: np.ndarray, its: SegmentedText) -> list[float]:
        stop_if_abandoned()
        vectors = self.embedder.span_vectors(its.reading.text, [(unit.start, unit.end) for unit in its.units])
        return [_cosine(asked, vector) for vector in vectors]

    def _alone(self, asked: np.ndarray, cuts: Sequence[SegmentedText]) -> Scores:
        """All units of all texts together, so that batches are full."""
        stop_if_abandoned()
        answers = iter(self.embedder.embed_each([text for its in cuts for text in its.texts()]))
        found = []
        for its in cuts:
            vectors = [next(answers).vector for _ in its.units]
            alone = [-1.0 if vector is None else _cosine(asked, vector) for vector in vectors]
            found.append(smooth_with_neighbours(alone, NEIGHBOUR_SHARE))
        return found


def _cosine(first: np.ndarray, second: np.ndarray) -> float:
    import numpy as np

    length = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(first @ second) / length if length else -1.0

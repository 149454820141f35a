"""Feedback of the first works: what is like them comes closer to the query.

The query's vector moves towards the mean of their vectors (Rocchio, "Relevance feedback in information retrieval", 1971), which words and
vectors together chose, and the works found by vectors are compared with it again: without a model and without another query of the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from outrider.state.hits import Ranked

if TYPE_CHECKING:
    import numpy as np

SHARE = 0.2
"""Length of the move relative to the query: from .1 to .4 hardly different (docs/adr/0037-fusion-that-generalises.md)."""


def compare_again(query: np.ndarray, vectors: Mapping[str, np.ndarray], first: Sequence[str]) -> tuple[Ranked, ...]:
    """The works by cosine with the moved query, best first, ties by doc_id; empty where none of the `first` works has a vector."""
    import numpy as np

    if not vectors or not any(doc_id in vectors for doc_id in first):
        return ()
    doc_ids = sorted(vectors)
    rows = _scale_to_unit(np.stack([vectors[doc_id] for doc_id in doc_ids]))
    places = {doc_id: place for place, doc_id in enumerate(doc_ids)}
    centre = rows[[places[doc_id] for doc_id in first if doc_id in places]].mean(axis=0)
    moved = _scale_to_unit(query) + SHARE * _scale_to_unit(centre)
    similarities = (rows @ _scale_to_unit(moved)).round(6).tolist()
    return tuple(
        Ranked(doc_id, similarity)
        for similarity, doc_id in sorted(zip(similarities, doc_ids, strict=True), key=lambda row: (-row[0], row[1]))
    )


def _scale_to_unit(vectors: np.ndarray) -> np.ndarray:
    """Each of length 1; a vector without a length stays."""
    import numpy as np

    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    scaled: np.ndarray = vectors / np.where(lengths > 0, lengths, 1.0)
    return scaled

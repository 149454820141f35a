"""TF-IDF features of the records of a review, counted in parts

Words of two letters and more, and pairs of neighbours; sublinear, unit length. Matrix and names are those of scikit-learn's
`TfidfVectorizer`, to the last bit. It counts in Python, in one process; here pyarrow counts, and parts may be counted elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from outrider.runtime.task_map import TaskMap, map_here
from outrider.text.strip_markup import fold_text
from outrider.text.words import words

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

TEXTS_AT_ONCE = 1_000
FEW = 20
"""Records of which a term in all but one still tells something."""


@dataclass(frozen=True, slots=True)
class Features:
    """`matrix` is of shape (records, terms), sparse by row."""

    matrix: Any
    _terms: pa.Array

    def name(self, column: int) -> str:
        return str(self._terms[column])


class _TermCounts(NamedTuple):
    """Of some texts, one after the other."""

    lengths: NDArray[np.int64]
    """Distinct terms of each text."""
    numbers: NDArray[np.int32]
    """Of each of these terms in `terms`."""
    counts: NDArray[np.int64]
    terms: pa.Array


def make_features(texts: Sequence[str], max_df: float, tasks: TaskMap = map_here) -> Features | None:
    """Without the terms of more than a share `max_df` of the texts, unless they are few; None where no term is left.

    `tasks` counts the terms.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    from scipy.sparse import csr_matrix
    from sklearn.feature_extraction.text import TfidfTransformer

    pieces = (texts[start : start + TEXTS_AT_ONCE] for start in range(0, len(texts), TEXTS_AT_ONCE))
    parts = list(tasks(_count_terms, pieces, None))
    encoded = [pa.DictionaryArray.from_arrays(part.numbers, part.terms) for part in parts]
    united = pa.chunked_array(encoded, pa.dictionary(pa.int32(), pa.string())).unify_dictionaries()
    terms = united.chunk(0).dictionary if parts else pa.array([], pa.string())
    order = pc.sort_indices(terms)  # by code points, as Python sorts
    columns = np.empty(len(terms), np.int32)
    columns[order.to_numpy()] = np.arange(len(terms), dtype=np.int32)
    numbers = np.concatenate([np.empty(0, np.int32), *(chunk.indices.to_numpy() for chunk in united.chunks)])
    counts = np.concatenate([np.empty(0, np.int64), *(part.counts for part in parts)])
    starts = np.concatenate([[0], np.cumsum(np.concatenate([np.empty(0, np.int64), *(part.lengths for part in parts)]))])
    matrix = csr_matrix((counts.astype(np.float64), numbers, starts), shape=(len(texts), len(terms)))
    # Within a row terms stand in the order in which the texts first name them, as in scikit-learn: so its length has the same last bit.
    # Like scikit-learn, leave the matrix in the belief that it is sorted.
    matrix.sort_indices()
    matrix.indices = columns[matrix.indices]
    names = terms.take(order)
    if len(texts) >= FEW:
        is_kept = np.bincount(matrix.indices, minlength=len(terms)) <= max_df * len(texts)
        matrix, names = matrix[:, is_kept], names.filter(pa.array(is_kept))
    if not len(names):
        return None
    weigh = TfidfTransformer(sublinear_tf=True).fit(matrix)
    return Features(weigh.transform(matrix, copy=False), names)


def _count_terms(texts: Sequence[str], _: None) -> _TermCounts:
    """A task of a `TaskMap`."""
    import numpy as np
    import pyarrow as pa

    lists = [_list_terms(text) for text in texts]
    encoded = pa.array(chain.from_iterable(lists), pa.string()).dictionary_encode()
    size = max(1, len(encoded.dictionary))
    rows = np.repeat(np.arange(len(lists)), [len(one) for one in lists])
    places, counts = np.unique(rows * size + encoded.indices.to_numpy(), return_counts=True)
    lengths = np.bincount(places // size, minlength=len(lists))
    return _TermCounts(lengths, (places % size).astype(np.int32), counts, encoded.dictionary)


def _list_terms(text: str) -> list[str]:
    """Stems helped some reviews and harmed others (ADR 50)."""
    listed = [word for word in words(fold_text(text)) if len(word) > 1]
    return [*listed, *(f"{one} {other}" for one, other in pairwise(listed))]

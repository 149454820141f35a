"""Sparse matrices of a citation network: links both ways, words and linked works.

Compressed sparse rows in NumPy, since SciPy is no dependency of the base installation. All loops over links and words run in native code,
except one pass over the links and one over the words of the works that are compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from outrider.state.citations import CitationNetwork
from outrider.text.strip_markup import fold_text
from outrider.text.words import STOP_WORDS, stem, words

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
UNKNOWN = 10.0
"""Length that each work gets for what is not known of it. An abstract mostly has a length of 37 to 54, the linked works one of 9 to 32."""
NO_INTS: Ints = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class SparseRows:
    """A sparse matrix; row i holds `values[starts[i]:starts[i + 1]]` in the same range of `columns`."""

    starts: Ints
    columns: Ints
    values: Floats
    width: int

    @property
    def height(self) -> int:
        return len(self.starts) - 1

    @property
    def rows(self) -> Ints:
        """The row of each value."""
        return np.repeat(np.arange(self.height), np.diff(self.starts))

    def times(self, vector: Floats) -> Floats:
        """The product with a vector of `width` numbers."""
        return np.asarray(np.bincount(self.rows, self.values * vector[self.columns], self.height), np.float64)

    def transposed_times(self, vector: Floats) -> Floats:
        """The product of the transposed matrix with a vector of `height` numbers."""
        weighted = self.values * np.repeat(vector, np.diff(self.starts))
        return np.asarray(np.bincount(self.columns, weighted, self.width), np.float64)

    def select(self, rows: Ints) -> SparseRows:
        """These rows, in this order."""
        lengths = np.diff(self.starts)[rows]
        places = list_ranges(self.starts[rows], lengths)
        starts = np.concatenate([[0], np.cumsum(lengths)])
        return SparseRows(starts, self.columns[places], self.values[places], self.width)


def list_ranges(first: Ints, lengths: Ints) -> Ints:
    """The numbers `first[i], first[i] + 1, ...` of each range, one range after another."""
    ends = np.cumsum(lengths)
    numbers: Ints = np.arange(ends[-1] if len(ends) else 0) + np.repeat(first - (ends - lengths), lengths)
    return numbers


class CitationMatrices:
    """Nodes and links of a network as numbers. The nodes are its keys in order, so the order of its mappings does not matter."""

    def __init__(self, network: CitationNetwork) -> None:
        pairs = [pair for pair in network.links if pair[0] != pair[1]]
        self.keys = sorted({*network.works, *(key for pair in pairs for key in pair)})
        self.index = {key: at for at, key in enumerate(self.keys)}
        self.network = network
        citing = np.fromiter((self.index[one] for one, _ in pairs), np.int64, len(pairs))
        cited = np.fromiter((self.index[other] for _, other in pairs), np.int64, len(pairs))
        self.references = self._make_links(citing, cited)
        self.citers = self._make_links(cited, citing)
        size = len(self.keys)
        counts = np.fromiter((len(network.links[pair]) for pair in pairs), np.float64, len(pairs))
        both, place = np.unique(np.concatenate([citing * size + cited, cited * size + citing]), return_inverse=True)
        sources = np.zeros(len(both))  # two works that cite each other are linked once
        np.maximum.at(sources, place, np.concatenate([counts, counts]))
        self.linked = self._make_links(both // max(1, size), both % max(1, size))
        self.agreement = SparseRows(self.linked.starts, self.linked.columns, np.maximum(1, sources), size)
        """The links both ways, with the number of sources that report each."""
        self.degrees = np.diff(self.linked.starts)
        self.has_record = np.fromiter((key in network.works for key in self.keys), np.bool_, size)
        self._codes: dict[str, int] = {}
        self._stems: dict[str, int] = {}
        self._counts: dict[int, tuple[Ints, Floats]] = {}

    def _make_links(self, rows: Ints, columns: Ints) -> SparseRows:
        order = np.lexsort((columns, rows))
        starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(self.keys)))])
        return SparseRows(starts, columns[order], np.ones(len(rows)), len(self.keys))

    @cached_property
    def self_and_linked(self) -> SparseRows:
        """Each work with the works it is linked to: two rows share a column for a link, a common reference and a common citing work."""
        own = np.arange(len(self.keys))
        return self._make_links(np.concatenate([own, self.linked.rows]), np.concatenate([own, self.linked.columns]))

    def make_features(self, nodes: Ints) -> SparseRows:
        """Words and linked works of these nodes, both weighted by rarity among them and scaled to length one."""
        words_of = _weigh(self._count_stems(nodes))
        links = _weigh(self.self_and_linked.select(nodes))
        starts = words_of.starts + links.starts
        first = list_ranges(starts[:-1], np.diff(words_of.starts))
        second = list_ranges(starts[:-1] + np.diff(words_of.starts), np.diff(links.starts))
        columns, values = np.empty(starts[-1], np.int64), np.empty(starts[-1])
        columns[first], values[first] = words_of.columns, words_of.values
        columns[second], values[second] = links.columns + words_of.width, links.values
        return SparseRows(starts, columns, values, words_of.width + links.width)

    def fit_request(self, nodes: Ints, request: str) -> Floats:
        """BM25 of the request over these nodes (Robertson and Zaragoza 2009) as a share of the most that it could be, in [0, 1]."""
        k1, b = 1.2, 0.75
        wanted = np.unique(self._encode(request))
        counts = self._count_stems(nodes, logarithmic=False)
        lengths = np.bincount(counts.rows, counts.values, counts.height)
        mean = lengths[lengths > 0].mean() if (lengths > 0).any() else 1.0
        frequency = np.bincount(counts.columns, minlength=counts.width)
        idf = np.log1p((len(nodes) - frequency + 0.5) / (frequency + 0.5))
        weights = np.zeros(counts.width)
        known = wanted[wanted < counts.width]
        weights[known] = idf[known]
        saturated = counts.values * (k1 + 1) / (counts.values + k1 * (1 - b + b * lengths[counts.rows] / mean))
        scores = np.asarray(np.bincount(counts.rows, saturated * weights[counts.columns], counts.height), np.float64)
        most = (k1 + 1) * weights.sum()
        return scores / most if most > 0 else scores

    def has_text(self, nodes: Ints) -> NDArray[np.bool_]:
        """Whether a title or an abstract is known."""
        works = self.network.works
        return np.fromiter((bool((work := works.get(self.keys[node])) and (work.title or work.abstract)) for node in nodes), np.bool_)

    def _count_stems(self, nodes: Ints, logarithmic: bool = True) -> SparseRows:
        """Stems of title (twice) and abstract with their frequencies."""
        rows = [self._count(int(node)) for node in nodes]
        starts = np.concatenate([[0], np.cumsum([len(columns) for columns, _ in rows], dtype=np.int64)])
        columns = np.concatenate([NO_INTS, *(columns for columns, _ in rows)])
        values = np.concatenate([np.zeros(0), *(values for _, values in rows)])
        return SparseRows(starts, columns, 1 + np.log(values) if logarithmic else values, len(self._stems))

    def _count(self, node: int) -> tuple[Ints, Floats]:
        if node not in self._counts:
            work = self.network.works.get(self.keys[node])
            text = f"{work.title} {work.title} {work.abstract}" if work else ""
            columns, counts = np.unique(self._encode(text), return_counts=True)
            self._counts[node] = columns, counts.astype(np.float64)
        return self._counts[node]

    def _encode(self, text: str) -> Ints:
        """The numbers of its stems, without stop words. Each spelling is stemmed once."""
        codes, spellings = self._codes, words(fold_text(text))
        for word in spellings:
            if word not in codes:
                codes[word] = -1 if word in STOP_WORDS else self._stems.setdefault(stem(word), len(self._stems))
        numbers = np.fromiter((codes[word] for word in spellings), np.int64, len(spellings))
        return numbers[numbers >= 0]


def _weigh(rows: SparseRows) -> SparseRows:
    """Values times the rarity of their column, each row scaled to a length below one. A column of a single row tells nothing about two.

    `UNKNOWN` counts as one more feature that no other row has: without it a work of which only one link is known would seem closest.
    """
    frequency = np.bincount(rows.columns, minlength=rows.width)
    idf = np.where(frequency > 1, np.log((1 + rows.height) / (1 + frequency)) + 1, 0.0)
    values = rows.values * idf[rows.columns]
    lengths = np.sqrt(np.bincount(rows.rows, values**2, rows.height) + UNKNOWN**2)
    return SparseRows(rows.starts, rows.columns, values / lengths[rows.rows], rows.width)

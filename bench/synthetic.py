"""Synthetic records and vectors in any number, deterministic, from a fitted distribution.

**Text.** Words are drawn one by one from the frequencies of a collection's words, lengths from the lengths of its documents. Co-occurrence
of words is lost: scores lie closer together than in real text, which makes the search by words harder.

**Edges.** A record cites `CITED` earlier ones and has `AUTHORS`, each of whom has about ten records, however many records there are.

**Vectors.** Points around `CLUSTERS` centres of unequal weight in `LATENT` dimensions, rotated into the full space, with noise in all
of its dimensions. Embeddings of text have this form: many dimensions, of which few matter.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from outrider.state.embedding import EmbeddedText, EmbeddingSpace, TextRole, TokensRead
from outrider.state.ports import OnCount
from outrider.state.records import Edge, Paper
from outrider.text.words import words

if TYPE_CHECKING:
    import numpy as np

CLUSTERS = 1_000
LATENT = 32
SPREAD = 0.6
"""Spread of the points around their centre; centres have a spread of 1."""
NOISE = 0.3
"""Length of the noise in all dimensions, relative to a point of length 1."""
TITLE_WORDS = 12
CITED = 3
AUTHORS = 2


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """Words with their cumulative frequencies, shape (words,), and the lengths of documents in words, shape (documents,)."""

    words: np.ndarray
    cumulative: np.ndarray
    lengths: np.ndarray

    @classmethod
    def fitted(cls, texts: Iterable[str]) -> Vocabulary:
        import numpy as np

        counts: Counter[str] = Counter()
        lengths = []
        for text in texts:
            lowered = [word.lower() for word in words(text)]
            counts.update(lowered)
            lengths.append(len(lowered))
        ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
        frequencies = np.array([count for _, count in ordered], np.float64)
        return cls(np.array([word for word, _ in ordered], object), np.cumsum(frequencies) / frequencies.sum(), np.array(lengths))

    def papers(self, start: int, stop: int, seed: int = 0) -> list[Paper]:
        """The papers with these numbers; the same for the same seed and the same `start` and `stop`."""
        import numpy as np

        random = np.random.default_rng((seed, start))
        lengths = random.choice(self.lengths, stop - start)
        drawn_words = self.words[np.searchsorted(self.cumulative, random.random(int(lengths.sum())), side="right")]
        texts = np.split(drawn_words, np.cumsum(lengths)[:-1])
        ends = random.random((stop - start, CITED + AUTHORS)).tolist()
        return [_paper(number, text.tolist(), drawn) for number, text, drawn in zip(range(start, stop), texts, ends, strict=True)]


def _paper(number: int, text: Sequence[str], drawn: Sequence[float]) -> Paper:
    """`drawn`, in [0, 1), selects the earlier records that it cites, then its authors."""
    cited = dict.fromkeys(f"doc:{int(part * number):08}" for part in drawn[:CITED]) if number else {}
    return Paper(
        doc_id=f"{number:08}",
        title=" ".join(text[:TITLE_WORDS]),
        abstract=" ".join(text[TITLE_WORDS:]),
        authors=tuple(f"author {int(part * (1_000 + number / 5))}" for part in drawn[CITED:]),
        year=1950 + number % 75,
        edges=tuple(Edge(relation="cites", target=target) for target in cited),
    )


class Cloud:
    """Replaces a model: the hash of a text seeds its vector, so that the same text always has the same vector."""

    def __init__(self, dimension: int, seed: int = 0) -> None:
        import numpy as np

        random = np.random.default_rng(seed)
        self.space = EmbeddingSpace(
            model_name=f"synthetic, {dimension} dimensions", revision=str(seed), dimension=dimension, context_length=512
        )
        self._centres = random.standard_normal((CLUSTERS, LATENT), np.float32)
        weights = 1 / np.arange(1, CLUSTERS + 1)
        self._shares = np.cumsum(weights) / weights.sum()
        self._axes = random.standard_normal((LATENT, dimension), np.float32) / np.float32(dimension**0.5)

    def vectors(self, random: np.random.Generator, count: int) -> np.ndarray:
        """Unit vectors, shape (count, d), float32."""
        import numpy as np

        picked = self._centres[np.searchsorted(self._shares, random.random(count), side="right")]
        points = (picked + SPREAD * random.standard_normal((count, LATENT), np.float32)) @ self._axes
        noise = random.standard_normal((count, self.space.dimension), np.float32)
        result: np.ndarray = unit(unit(points) + NOISE * unit(noise))
        return result

    def embed(self, text: str | Sequence[str], role: TextRole = "document") -> np.ndarray:
        import numpy as np

        texts = [text] if isinstance(text, str) else text
        return np.concatenate([self.vectors(np.random.default_rng(_number(one)), 1) for one in texts])

    def embed_each(self, texts: Sequence[str], role: TextRole = "document", progress: OnCount | None = None) -> list[EmbeddedText]:
        return [EmbeddedText(vector, TokensRead()) for vector in self.embed(texts, role)]


def unit(vectors: np.ndarray) -> np.ndarray:
    import numpy as np

    result: np.ndarray = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return result


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")

"""Synthetic records and vectors in any number, deterministic, from a fitted distribution.

**Text.** Words are drawn one by one from the frequencies of a collection's words, lengths from the lengths of its documents. Co-occurrence
of words is lost: scores lie closer together than in real text, which makes the search by words harder.

**New words.** A fitted vocabulary is closed. An `OpenVocabulary` goes on behind it: the words that a collection has once stand for those
that it lacks (Good and Turing), and their ranks fall by Zipf's law with the exponent of the collection's growth by Heaps' law. So the
number of different words grows with the text, as the index of real text does.

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
from outrider.state.records import Edge, Identifiers, Paper
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
REFERENCES, COAUTHORS = 5, 3
"""Of a work of an open vocabulary: references to works of the same library are fewer than all of them."""
TOPICS, TOPIC_ZIPF = 20_000, 1.3
CONSONANTS, VOWELS = "bdfghjklmnprstvwz", "aeiou"


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


@dataclass(frozen=True, slots=True, eq=False)
class OpenVocabulary:
    """A vocabulary that never ends: V(n) = K n^`heaps` different words in n words."""

    closed: Vocabulary
    heaps: float
    unseen: float
    """The share of words that the collection does not hold."""

    @classmethod
    def fitted(cls, texts: Sequence[str], seed: int = 0) -> OpenVocabulary:
        """The texts in a random order, so that the words of one subject do not come at once."""
        import numpy as np

        order = np.random.default_rng(seed).permutation(len(texts)).tolist()
        counts: Counter[str] = Counter()
        growth = []
        for place, number in enumerate(order, 1):
            counts.update(word.lower() for word in words(texts[number]))
            if place in {len(order) // 8, len(order) // 4, len(order) // 2, len(order)}:
                growth.append((counts.total(), len(counts)))
        total, different = np.log(np.array(growth, np.float64)).T
        once = sum(count == 1 for count in counts.values())
        return cls(Vocabulary.fitted(texts), float(np.polyfit(total, different, 1)[0]), once / counts.total())

    def papers(self, start: int, stop: int, seed: int = 0) -> list[Paper]:
        """As `Vocabulary.papers`, with as many names as works have: keywords, a journal and a DOI besides."""
        import numpy as np

        random = np.random.default_rng((seed, start))
        count = stop - start
        lengths = random.choice(self.closed.lengths, count)
        texts = np.split(self._draw(random, int(lengths.sum())), np.cumsum(lengths)[:-1])
        ends = random.random((count, REFERENCES + COAUTHORS)).tolist()
        topics = np.minimum(random.zipf(TOPIC_ZIPF, (count, 3)), TOPICS).tolist()
        return [
            _work(number, text.tolist(), drawn, names)
            for number, text, drawn, names in zip(range(start, stop), texts, ends, topics, strict=True)
        ]

    def _draw(self, random: np.random.Generator, count: int) -> np.ndarray:
        import numpy as np

        known = self.closed.words
        drawn = known[np.searchsorted(self.closed.cumulative, random.random(count), side="right")]
        new = np.flatnonzero(random.random(count) < self.unseen)
        # Zipf's exponent is 1 / heaps: the chance of a rank above r falls as (known / r) ** (1 / heaps - 1)
        ranks = len(known) * (1 - random.random(len(new))) ** (-self.heaps / (1 - self.heaps))
        drawn[new] = [_spell(int(rank)) for rank in np.minimum(ranks, 2.0**62)]
        return drawn


def _spell(rank: int) -> str:
    """A word that can be spoken, another one for each rank."""
    syllables = []
    while rank:
        rank, syllable = divmod(rank, len(CONSONANTS) * len(VOWELS))
        syllables.append(CONSONANTS[syllable // len(VOWELS)] + VOWELS[syllable % len(VOWELS)])
    return "".join(syllables) + "q"


def _work(number: int, text: Sequence[str], drawn: Sequence[float], topics: Sequence[int]) -> Paper:
    cited = dict.fromkeys(f"doc:{int(part * number):08}" for part in drawn[:REFERENCES]) if number else {}
    return Paper(
        doc_id=f"{number:08}",
        identifiers=Identifiers(doi=f"10.5555/synthetic.{number}"),
        title=" ".join(text[:TITLE_WORDS]),
        abstract=" ".join(text[TITLE_WORDS:]),
        authors=tuple(f"author {int(part * (1_000 + number * COAUTHORS / 10))}" for part in drawn[REFERENCES:]),
        tags=tuple(dict.fromkeys(f"topic {topic}" for topic in topics[:2])),
        venue=f"journal {topics[2]}",
        year=1950 + number % 75,
        edges=tuple(Edge(relation="cites", target=target) for target in cited),
    )


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

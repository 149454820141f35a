"""Engine of texts with sections: how likely a unit answers, and whether any does.

A unit's features are its words, its place, its kind and its section; with an embedding model also how close its tokens come to those of the
question (late interaction: Khattab and Zaharia 2020, "ColBERT"). A logistic regression weighs them. A second one, over the best unit and
the whole text, says how likely anything answers: its probability is the score of the best unit, and the others get their share of it.

The weights were fitted on questions over READMEs, papers, pages and abstracts (`python -m bench.fit_answering`).
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from outrider.distiller.engines.embedding import Embedder
from outrider.distiller.engines.ensemble import Scores, probability
from outrider.distiller.units import SegmentedText
from outrider.runtime.threads_and_loops import stop_if_abandoned
from outrider.state.errors import ModelUnavailable
from outrider.text.words import stems, words

if TYPE_CHECKING:
    import numpy as np

ASKS_HOW = re.compile(
    r"\bhow (?:do|can|to|would|should|could|does one|is|are)\b|^\s*how\b.*\b(?:i|we|you|one)\b|\bcommand\b|\bexample\b|\bcode\b",
    re.IGNORECASE,
)
ASKS_NUMBER = re.compile(
    r"\bhow (?:many|much|long|fast|large|big|often|old|well|far|high)\b|\bat (?:what|which)\b|\bwhen\b|\broughly\b|\bby how\b"
    r"|\bwhat (?:percentage|share|size|number|date|year|time)\b|\bwhich (?:\w+ )?(?:versions?|release|year|date)\b",
    re.IGNORECASE,
)
DIGIT = re.compile(r"\d")
ADDRESS = re.compile(r"https?://")
K1, B = 1.2, 0.75
SECTION_TITLES = 2
"""The lowest titles above a unit that count as its context."""
FEW_WORDS = 5
END = 0.9
"""Place in the text from which on units rarely answer: licences, credits, outlooks."""
TYPICAL_CHARS, LEAST_CHARS = 120, 40
LENGTH_POWER = 0.25
"""Of two units that are as likely to answer, the shorter one is kept first."""
SHARPNESS = 1.75
"""Power of a unit's share of the best one: units with .45 of it are worth keeping, and .45 to this power is `selection.CLOSE`."""
CLOSE_TOKENS = 0.7
"""A cosine of two tokens from which on the unit is counted as having the question's one."""
FEATURES = (
    "bm25", "context", "section", "before", "code_for_how", "item_for_how", "number", "no_number", "place", "end", "question", "lead_in",
    "short", "address", "length",
)  # fmt: skip
TOKEN_FEATURES = ("centred", "tokens", "tokens_behind", "window_behind")
TEXT_FEATURES = ("best", "covered", "known")
TOKEN_TEXT_FEATURES = ("best", "covered", "centred", "tokens")
WEIGHTS_FILE = Path(__file__).with_name("answering_weights.json")


@dataclass(frozen=True, slots=True)
class Weights:
    """Logistic regressions over the features of a unit and of a text, each with its intercept last."""

    unit: tuple[float, ...]
    text: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Answering:
    """The engine; without an embedder by words alone. `scores` are in [0, 1]: below `selection.NOISE` probably nothing answers, and from
    `selection.THRESHOLD` on something probably does.
    """

    embedder: Embedder | None = None

    @property
    def name(self) -> str:
        return f"answering {self.embedder.space.model_name.rstrip('/').rpartition('/')[2]}" if self.embedder else "answering"

    @property
    def revision(self) -> str:
        own = hashlib.sha256(WEIGHTS_FILE.read_bytes()).hexdigest()[:16]
        return f"{own} {self.embedder.space.revision}" if self.embedder else own

    def scores(self, query: str, cuts: Sequence[SegmentedText]) -> Scores:
        return [self._score(query, segmented) for segmented in cuts]

    def _score(self, query: str, segmented: SegmentedText) -> list[float]:
        if not segmented.units or not stems(query):
            return [0.0] * len(segmented.units)
        stop_if_abandoned()
        rows, close = compute_features(query, segmented), self._compute_closeness(query, segmented)
        weights = load_weights("tokens" if close else "words")
        if close:
            rows = [(*row, *more) for row, more in zip(rows, close, strict=True)]
        logits = [_weigh(row, weights.unit) for row in rows]
        answers = probability(_weigh(compute_text_features(query, segmented, logits, close), weights.text))
        worth = [probability(one) / _relative_length(unit.end - unit.start) for one, unit in zip(logits, segmented.units, strict=True)]
        best = max(worth)
        return [answers * float((one / best) ** SHARPNESS) for one in worth]

    def _compute_closeness(self, query: str, segmented: SegmentedText) -> list[tuple[float, ...]]:
        if self.embedder is not None:
            with suppress(ModelUnavailable):  # an endpoint returns no token vectors
                return compute_closeness(self.embedder, query, segmented)
        return []


def _weigh(row: Sequence[float], weights: Sequence[float]) -> float:
    return weights[-1] + sum(weight * value for weight, value in zip(weights, row, strict=False))


def _relative_length(chars: int) -> float:
    return float((max(LEAST_CHARS, chars) / TYPICAL_CHARS) ** LENGTH_POWER)


@lru_cache(maxsize=4)
def load_weights(name: str) -> Weights:
    """`words`, or `tokens` for those with an embedding model."""
    own = json.loads(WEIGHTS_FILE.read_text(encoding="utf-8"))[name]
    return Weights(tuple(own["unit"].values()), tuple(own["text"].values()))


def compute_features(query: str, segmented: SegmentedText) -> list[tuple[float, ...]]:
    """The values of `FEATURES` of each unit."""
    query_stems = list(dict.fromkeys(stems(query)))
    units, bags, plain = segmented.units, segmented.stems(), segmented.plain_texts()
    idf, bm25 = _compute_bm25(query_stems, bags)
    total, best = sum(idf.values()) or 1.0, max(bm25, default=0.0) or 1.0

    def get_coverage(bag: set[str]) -> float:
        return sum(idf[stem] for stem in query_stems if stem in bag) / total

    own = [set(bag) for bag in bags]
    titles = {section: set(stems(" ".join(section[-SECTION_TITLES:]))) for section in {unit.section for unit in units}}
    sections = _cover_sections(segmented, own, get_coverage)
    how, number = ASKS_HOW.search(query) is not None, ASKS_NUMBER.search(query) is not None
    rows: list[tuple[float, ...]] = []
    for at, (unit, text) in enumerate(zip(units, plain, strict=True)):
        context = own[at] | titles[unit.section] | set(stems(unit.introduced_by))
        end, digit, count = text.rstrip()[-1:], DIGIT.search(text) is not None, max(1, len(words(text)))
        rows.append(
            (
                bm25[at] / best,
                get_coverage(context),
                sections[unit.section],
                get_coverage(own[at - 1]) if at else 0.0,
                float(how and unit.kind == "code"),
                float(how and unit.kind == "item"),
                float(number and digit),
                float(number and not digit),
                at / len(units),
                float(at >= END * len(units)),
                float(end == "?"),
                float(end == ":"),
                float(count < FEW_WORDS),
                float(ADDRESS.search(text) is not None),
                math.log(count),
            )
        )
    return rows


def _compute_bm25(query_stems: Sequence[str], bags: Sequence[Sequence[str]]) -> tuple[dict[str, float], list[float]]:
    """The weight of each stem of the query within this text, and the BM25 of each unit."""
    counts = [Counter(bag) for bag in bags]
    containing = {stem: sum(stem in bag for bag in counts) for stem in query_stems}
    idf = {stem: math.log(1 + (len(bags) - count + 0.5) / (count + 0.5)) for stem, count in containing.items()}
    mean = sum(map(len, bags)) / max(1, len(bags)) or 1.0
    scores = []
    for bag, size in zip(counts, map(len, bags), strict=True):
        slack = K1 * (1 - B + B * size / mean)
        scores.append(sum(idf[stem] * bag[stem] * (K1 + 1) / (bag[stem] + slack) for stem in query_stems if stem in bag))
    return idf, scores


def _cover_sections(
    segmented: SegmentedText, bags: Sequence[set[str]], get_coverage: Callable[[set[str]], float]
) -> dict[tuple[str, ...], float]:
    """How much of the query each section has, less for long ones, relative to the best section."""
    places: dict[tuple[str, ...], list[int]] = {}
    for at, unit in enumerate(segmented.units):
        places.setdefault(unit.section, []).append(at)
    shares = {}
    for section, own in places.items():
        every = set().union(*(bags[at] for at in own)) | set(stems(" ".join(section)))
        shares[section] = get_coverage(every) / (1 + 0.15 * math.log1p(len(own)))
    best = max(shares.values(), default=0.0) or 1.0
    return {section: share / best for section, share in shares.items()}


def compute_text_features(
    query: str, segmented: SegmentedText, logits: Sequence[float], close: Sequence[Sequence[float]]
) -> tuple[float, ...]:
    """The values of `TEXT_FEATURES`, or of `TOKEN_TEXT_FEATURES` with the closeness of tokens."""
    query_stems = list(dict.fromkeys(stems(query)))
    bags = [set(bag) for bag in segmented.stems()]
    containing = {stem: sum(stem in bag for bag in bags) for stem in query_stems}
    idf = {stem: math.log(1 + (len(bags) - count + 0.5) / (count + 0.5)) for stem, count in containing.items()}
    covered = max(sum(idf[stem] for stem in query_stems if stem in bag) for bag in bags) / (sum(idf.values()) or 1.0)
    if close:
        return max(logits), covered, max(row[0] for row in close), max(row[1] for row in close)
    return max(logits), covered, sum(count > 0 for count in containing.values()) / len(query_stems)


def compute_closeness(embedder: Embedder, query: str, segmented: SegmentedText) -> list[tuple[float, ...]]:
    """The values of `TOKEN_FEATURES` of each unit: its cosine with the query, what all units share left out; the mean over the query's
    tokens of the closest token, rare ones counting more, and its distance from the best unit's; and the cosine of the unit with those
    beside it, as a distance from the best.
    """
    import numpy as np

    tokens = embedder.token_vectors(segmented.plain_texts())
    asked = embedder.token_vectors([query], "query")[0]
    size = asked.shape[1]
    vectors = np.array([one.mean(axis=0) if len(one) else np.zeros(size, np.float32) for one in tokens])
    closest = np.array([(asked @ one.T).max(axis=1) if len(one) else np.zeros(len(asked), np.float32) for one in tokens])
    question, common = asked.mean(axis=0), vectors.mean(axis=0)
    centred = _unit(vectors - common) @ _unit(question - common * (question @ common) / (common @ common + 1e-9))
    rarity = np.log(1 + len(tokens) / (1 + (closest > CLOSE_TOKENS).sum(axis=0)))
    weighted = closest @ (rarity / rarity.sum())
    windows = np.array([vectors[max(0, at - 1) : at + 2].mean(axis=0) for at in range(len(vectors))])
    beside = _unit(windows) @ _unit(question)
    columns = (centred, weighted, weighted - weighted.max(), beside - beside.max())
    return [tuple(map(float, row)) for row in zip(*columns, strict=True)]


def _unit(rows: np.ndarray) -> np.ndarray:
    import numpy as np

    result: np.ndarray = rows / (np.linalg.norm(rows, axis=-1, keepdims=True) + 1e-9)
    return result

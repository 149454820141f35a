"""Engine of texts with sections: how likely a unit answers, and whether any does.

A unit's features are its words, its place, its kind and its section. An embedding model reads a shortlist of the units that are best by
these; how close their tokens come to those of the question then counts as well. A logistic regression weighs the features. A second one,
over the best unit and the whole text, says how likely anything answers: its probability is the score of the best unit, and the others get
their share of it.

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

from outrider.distiller.engines.closeness import TOKEN_FEATURES, compute_closeness
from outrider.distiller.engines.direction import read_conversion
from outrider.distiller.engines.embedding import Embedder
from outrider.distiller.engines.ensemble import Scores, probability
from outrider.distiller.engines.question_cues import (
    ASKS_HOW,
    ASKS_NUMBER,
    HAS_NUMBER,
    find_answer_marks,
    find_definition,
    find_quantity,
    share_of_marks,
)
from outrider.distiller.engines.shortlist import choose_units, share_tokens
from outrider.distiller.units import SegmentedText
from outrider.runtime.threads_and_loops import stop_if_abandoned
from outrider.state.errors import ModelUnavailable
from outrider.text.words import stems, words

if TYPE_CHECKING:
    import numpy as np

INTRODUCES_CODE = re.compile(r"(?:here(?:['’]s| is| are)|the following|below|for example)\b", re.IGNORECASE)
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
SHARPNESS, SHARPNESS_BY_TOKENS = 1.75, 1.5
"""Power of a unit's share of the best one: by words units with .45 of it are worth keeping, with a model those with .4, and these to their
powers are `selection.CLOSE`."""
TEXT_TOKENS, LEAST_TOKENS = 800, 60
"""Tokens of one text that an embedding model reads at most, as the weights were fitted with; with fewer than the second, words decide."""
FEATURES = (
    "bm25", "context", "section", "before", "code_for_how", "item_for_how", "number", "no_number", "place", "end", "question", "lead_in",
    "short", "address", "length", "marks", "quantity", "defines",
)  # fmt: skip
TEXT_FEATURES = ("best", "covered", "known")
TOKEN_TEXT_FEATURES = ("best", "covered", "cosine")
COSINE = TOKEN_FEATURES.index("cosine")
WEIGHTS_FILE = Path(__file__).with_name("answering_weights.json")


@dataclass(frozen=True, slots=True)
class Weights:
    """Logistic regressions over the features of a unit and of a text, each with its intercept last."""

    unit: tuple[float, ...]
    text: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ReadUnits:
    """The units of a text that an embedding model has read, with their closeness to the question."""

    places: list[int]
    close: list[tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class Answering:
    """The engine; without an embedder by words alone. `scores` are in [0, 1]: below `selection.NOISE` probably nothing answers, and from
    `selection.THRESHOLD` on something probably does.
    """

    embedder: Embedder | None = None
    max_tokens: int = 0
    """Tokens of all texts of a call that the model reads, most of the first; 0 for `TEXT_TOKENS` of each."""

    @property
    def name(self) -> str:
        return f"answering {self.embedder.space.model_name.rstrip('/').rpartition('/')[2]}" if self.embedder else "answering"

    @property
    def revision(self) -> str:
        own = hashlib.sha256(WEIGHTS_FILE.read_bytes()).hexdigest()[:16]
        return f"{own} {self.embedder.space.revision}" if self.embedder else own

    def scores(self, query: str, cuts: Sequence[SegmentedText]) -> Scores:
        asked = [stem for stem in stems(query) if stem]
        tokens = self._embed_question(query) if asked and self.embedder else None
        budget = share_tokens(self.max_tokens or TEXT_TOKENS * len(cuts), len(cuts), LEAST_TOKENS, TEXT_TOKENS)
        share, scores = next(budget, 0), []
        for segmented in cuts:
            stop_if_abandoned()
            used = 0
            if not segmented.units or not asked:
                scores.append([0.0] * len(segmented.units))
            else:
                rows = compute_features(query, segmented)
                read, used = self._read(segmented, rows, tokens, share)
                own = score_units(query, segmented, rows, read, load_weights("tokens" if read else "words"))
                if conversion := read_conversion(query):
                    own = [score * factor for score, factor in zip(own, conversion.weigh(segmented.plain_texts()), strict=True)]
                own = [score if segmented.may_answer(at) else 0.0 for at, score in enumerate(own)]
                scores.append(_lift_examples(segmented, own) if ASKS_HOW.search(query) else own)
            with suppress(StopIteration):
                share = budget.send(used)
        return scores

    def _embed_question(self, query: str) -> np.ndarray | None:
        """The vectors of its tokens; None for an endpoint, which gives none."""
        if self.embedder is None:
            return None
        with suppress(ModelUnavailable):
            tokens = self.embedder.token_vectors([query], "query")[0]
            return tokens if len(tokens) else None
        return None

    def _read(
        self, segmented: SegmentedText, rows: Sequence[Sequence[float]], question: np.ndarray | None, tokens: int
    ) -> tuple[ReadUnits | None, int]:
        """The units of the shortlist, and the tokens used; None where words must decide."""
        if self.embedder is None or question is None or tokens < LEAST_TOKENS:
            return None, 0
        places, used = shortlist(segmented, rows, tokens)
        return (ReadUnits(places, compute_closeness(self.embedder, question, segmented, places)), used) if places else (None, 0)


def shortlist(segmented: SegmentedText, rows: Sequence[Sequence[float]], tokens: int) -> tuple[list[int], int]:
    """The places of the best units by words, and about how many tokens they have. `rows` are the values of `FEATURES`."""
    weights, shared = load_weights("words").unit, [FEATURES.index(name) for name in ("bm25", "context", "before")]
    shares_word = [any(row[at] > 0 for at in shared) for row in rows]
    return choose_units(segmented, [_weigh(row, weights) for row in rows], shares_word, tokens)


def score_units(
    query: str, segmented: SegmentedText, rows: Sequence[tuple[float, ...]], read: ReadUnits | None, weights: Weights
) -> list[float]:
    """The scores of all units, whose `FEATURES` are `rows`; where a model has read some of them, the others get 0."""
    places = read.places if read else range(len(rows))
    seen = [(*rows[at], *more) for at, more in zip(read.places, read.close, strict=True)] if read else rows
    logits = [_weigh(row, weights.unit) for row in seen]
    answers = probability(_weigh(compute_text_features(query, segmented, logits, read.close if read else []), weights.text))
    lengths = [_relative_length(segmented.units[at].end - segmented.units[at].start) for at in places]
    worth = [probability(one) / length for one, length in zip(logits, lengths, strict=True)]
    best, power, scores = max(worth), SHARPNESS_BY_TOKENS if read else SHARPNESS, [0.0] * len(rows)
    for at, one in zip(places, worth, strict=True):
        scores[at] = answers * float((one / best) ** power)
    return scores


def _lift_examples(segmented: SegmentedText, scores: Sequence[float]) -> list[float]:
    """Code below `Here is how` answers as much as that sentence does."""
    lifted = list(scores)
    for at, unit in enumerate(segmented.units[1:]):
        if unit.kind == "code" and scores[at] > lifted[at + 1] and INTRODUCES_CODE.match(segmented.text(at)):
            lifted[at + 1] = scores[at]
    return lifted


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
    introductions = {text: set(stems(text)) for text in {unit.introduced_by for unit in units}}
    sections = _cover_sections(segmented, own, get_coverage)
    how, number = ASKS_HOW.search(query) is not None, ASKS_NUMBER.search(query) is not None
    marks, quantity, definition = find_answer_marks(query), find_quantity(query), find_definition(query)
    rows: list[tuple[float, ...]] = []
    for at, (unit, text) in enumerate(zip(units, plain, strict=True)):
        context = own[at] | titles[unit.section] | introductions[unit.introduced_by]
        end, has_number, count = text.rstrip()[-1:], HAS_NUMBER.search(text) is not None, max(1, len(words(text)))
        rows.append(
            (
                bm25[at] / best,
                get_coverage(context),
                sections[unit.section],
                get_coverage(own[at - 1]) if segmented.goes_on(at) else 0.0,
                float(how and unit.kind == "code"),
                float(how and unit.kind == "item"),
                float(number and has_number),
                float(number and not has_number),
                at / len(units),
                float(at >= END * len(units)),
                float(end == "?"),
                float(end == ":"),
                float(count < FEW_WORDS),
                float(ADDRESS.search(text) is not None),
                math.log(count),
                share_of_marks(text, marks),
                float(quantity is not None and unit.kind != "code" and quantity.search(text) is not None),
                float(definition is not None and _defines(segmented, at, text, definition)),
            )
        )
    return rows


def _defines(segmented: SegmentedText, at: int, text: str, definition: re.Pattern[str]) -> bool:
    """Whether a unit says what the term is, or stands first below it."""
    unit = segmented.units[at]
    heading = unit.introduced_by or ("" if segmented.goes_on(at) else next(iter(unit.section[-1:]), ""))
    found, above = definition.search(text), definition.search(heading)
    return (found is not None and found["term"] is None) or (above is not None and above["term"] is not None)


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
        return max(logits), covered, max(row[COSINE] for row in close)
    return max(logits), covered, sum(count > 0 for count in containing.values()) / len(query_stems)

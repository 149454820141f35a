"""Selection of the units to keep: threshold, budget, context and repeats.

Context: a sentence that begins with "this" or a pronoun needs the one before it, which gets its score before any threshold applies: a
higher threshold never adds a unit, and a threshold fitted on these scores takes the added context into account.

Repeats: two units repeat each other if they share at least four fifths of their content stems, and all numbers and negations. Prefix
filtering finds the pairs (Chaudhuri, Ganti and Kaushik 2006, "A Primitive Operator for Similarity Joins").

All candidates form one list, which the threshold only shortens. Hence a higher threshold never adds a unit, even if others are removed
as repeats or for lack of room.

With `max_units` the list holds only the best few of each text, those whose scores are close to its best one, without context. The threshold
then decides what is certain, not what is kept.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from outrider.distiller.engines.ensemble import Scores
from outrider.distiller.token_counter import CountTokens, estimate_tokens
from outrider.distiller.units import SegmentedText
from outrider.state.distilling import Frame, KeptUnit, Span, UnitKind, Why, no_frame
from outrider.text.words import stems

REFERS = re.compile(
    r"""["'“‘(\[]*(?:
      (?:this|these|that|those)\b(?!\s+(?:study|paper|article|work|review|trial|report|survey|thesis|book|chapter|section|document)\b)
    | (?:it|its|they|them|their|he|his|him|she|her|hers|such|both|neither|either|which)\b
    | the\s+(?:former|latter|same)\b
    )""",
    re.IGNORECASE | re.VERBOSE,
)
"""Beginning of a unit that refers to the previous one, not to the whole work ("this study")."""
MAX_BACK = 2
"""Units before a unit that get its score, if the one before refers back as well."""
REPEAT_SIMILARITY = 0.8
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
NEGATION = re.compile(
    r"\b(?:not|no|nor|never|neither|none|without|cannot|fail(?:s|ed)?|lack(?:s|ed|ing)?|unlike|un(?:able|affected|changed|related|likely))\b"
    r"|n['’]t\b",
    re.IGNORECASE,
)
DIRECTION = re.compile(r"\b(?:in|de)creas\w*|\b(?:higher|lower|more|less|fewer|greater|smaller|up|down)\b", re.IGNORECASE)
"""Words that can reverse the meaning of otherwise similar statements."""
THRESHOLD = 0.4
"""Threshold of P(relevant | unit, query) for an uncalibrated engine."""
NOISE = 0.1
"""A text whose best unit scores below this contributes nothing, not even that unit."""
CLOSE = 0.25
"""Share of its text's best score that every further of the best few units has."""
ONE_LINE: frozenset[UnitKind] = frozenset({"sentence", "item", "row"})
"""Kinds of units whose line breaks mean nothing."""
Shorten = Callable[[KeptUnit], str]
"""Returns the shortened text of a kept unit; empty if it stays as it is."""


def lift_context_scores(segmented: SegmentedText, scores: Sequence[float]) -> tuple[list[float], list[Why]]:
    """Scores raised to those of units that need the unit as context, and the reason for each score."""
    units, lifted = segmented.units, list(scores)
    why: list[Why] = ["relevant"] * len(lifted)
    refers = [bool(REFERS.match(segmented.reading.text, unit.start, unit.end)) and unit.kind == "sentence" for unit in units]
    for at, score in enumerate(scores):
        back = at
        while refers[back] and back > 0 and at - back < MAX_BACK and units[back - 1].kind in ("sentence", "item"):
            back -= 1
            if score > lifted[back]:
                lifted[back], why[back] = score, "context"
    return lifted, why


def find_repeats(texts: Sequence[str], stemmed: Sequence[Iterable[str]] | None = None) -> list[int]:
    """For each text the index of the first one that it repeats, or its own index. `stemmed` are its content stems, if known."""
    bags = [frozenset(words) for words in (map(stems, texts) if stemmed is None else stemmed)]
    frequencies = Counter(chain.from_iterable(bags))
    by_word: dict[tuple[Hashable, str], list[int]] = defaultdict(list)
    firsts: list[int] = []
    for at, (text, bag) in enumerate(zip(texts, bags, strict=True)):
        firsts.append(at)
        # the rarest shared words: enough that two similar units have at least one of them in common
        shared = [word for word in bag if frequencies[word] > 1]
        count = max(0, len(shared) - math.ceil(REPEAT_SIMILARITY * len(bag)) + 1)
        if not (rare := sorted(shared, key=lambda word: (frequencies[word], word))[:count]):
            continue
        directions = Counter(match.group().lower() for match in DIRECTION.finditer(text))
        facts = tuple(sorted(Counter(numbers_and_negations(text)).items())), tuple(sorted(directions.items()))
        candidates = {place for word in rare for place in by_word.get((facts, word), ())}
        both = {place: len(bag & bags[place]) for place in candidates}
        firsts[at] = min(
            (place for place, count in both.items() if count >= REPEAT_SIMILARITY * (len(bag) + len(bags[place]) - count)), default=at
        )
        if firsts[at] == at:
            for word in rare:
                by_word[facts, word].append(at)
    return firsts


def numbers_and_negations(text: str) -> list[str]:
    """All numbers in order, then all negations in order, in lower case."""
    return [*NUMBER.findall(text), *(match.group().lower() for match in NEGATION.finditer(text))]


@dataclass(frozen=True, slots=True)
class SelectionSettings:
    """Limits on the kept units: probabilities for `threshold` and `noise`, units of one text, and tokens of the rendered text."""

    threshold: float = THRESHOLD
    noise: float = NOISE
    max_units: int = 0
    """Units of one text: the best few of them. 0 keeps all that reach the threshold."""
    max_units_first: int = 0
    """Units of the first text, which is the best hit's."""
    close: float = CLOSE
    least: float = 0.0
    """Least score of the best few units; a text whose best unit is noise has none anyway."""
    max_tokens: int = 1_000_000
    count_tokens: CountTokens = estimate_tokens


@dataclass(frozen=True, slots=True)
class Selection:
    """The kept units, by text and position."""

    units: tuple[KeptUnit, ...]
    text: str
    tokens: int
    over_budget: int
    unanswered: tuple[str, ...] = ()
    """Ids of the texts in which nothing answers."""
    least_tokens: int = 0
    """A budget in which the best unit fits, where none did."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    text: int
    position: int
    unit: KeptUnit


def select_units(
    cuts: Sequence[SegmentedText], scores: Scores, settings: SelectionSettings, frame: Frame = no_frame, shorten: Shorten | None = None
) -> Selection:
    """Select from the engine's `scores`, one for each unit of each text. Shortening a unit does not make room for others."""
    candidates = _merge_repeats(_rank_candidates(cuts, scores, settings), cuts)
    around = settings.count_tokens(frame(""))
    room = settings.max_tokens - around
    fitting = []
    for candidate in candidates:
        unit = candidate.unit
        cost = settings.count_tokens(f"{render_unit(unit)}\n")
        if cost > room:
            continue
        room -= cost
        if shorten:
            shorter = replace(unit, compressed=shorten(unit))
            # shortening can cost tokens, because the remaining words may be tokenized less efficiently
            if shorter.compressed and settings.count_tokens(f"{render_unit(shorter)}\n") <= cost:
                unit = shorter
        fitting.append(replace(candidate, unit=unit))
    while True:
        units = tuple(candidate.unit for candidate in sorted(fitting, key=lambda candidate: (candidate.text, candidate.position)))
        text = render_units(units, frame)
        tokens = settings.count_tokens(text) if text else 0
        if tokens <= settings.max_tokens:
            least = 0
            if candidates and not fitting:
                best = candidates[0].unit
                least = max(around + settings.count_tokens(f"{render_unit(best)}\n"), settings.count_tokens(render_units((best,), frame)))
            return Selection(units, text, tokens, len(candidates) - len(fitting), _list_unanswered(cuts, scores, settings), least)
        fitting = fitting[:-1]  # the whole text may have more tokens than its lines together


def render_units(units: Sequence[KeptUnit], frame: Frame) -> str:
    """Unit by unit, each on a new line, in the frame; empty if there are no units."""
    return frame("\n".join(map(render_unit, units))) if units else ""


def render_unit(unit: KeptUnit) -> str:
    """A unit's text, shortened if it was compressed, after its key if it has one. A sentence is one line, wherever its source breaks it:
    a line without a key would seem to belong to no source.
    """
    text = unit.compressed or unit.text
    if unit.kind in ONE_LINE:
        text = " ".join(text.split())
    return f"{unit.key} {text}" if unit.key else text


def _list_unanswered(cuts: Sequence[SegmentedText], scores: Scores, settings: SelectionSettings) -> tuple[str, ...]:
    return tuple(its.reading.doc_id for its, own in zip(cuts, scores, strict=True) if max(own, default=0.0) < settings.noise)


def _rank_candidates(cuts: Sequence[SegmentedText], scores: Scores, settings: SelectionSettings) -> list[_Candidate]:
    """The best unit of each text that is not noise, then all others to keep; best first, ties by text and place."""
    best: list[_Candidate] = []
    others: list[_Candidate] = []
    for number, (segmented, own) in enumerate(zip(cuts, scores, strict=True)):
        if not own:
            continue
        most = settings.max_units_first if number == 0 else settings.max_units
        lifted, reasons = _without_context(own) if most else lift_context_scores(segmented, own)
        first = max(range(len(own)), key=lambda at: (own[at], -at))
        chosen = _drop_lead_ins(segmented, _best_few(lifted, first, most, settings), first) if most else []
        for at in chosen if most else _at_threshold(lifted, first, own[first], settings):
            score = own[at] if at == first else lifted[at]
            why: Why = "relevant" if at == first else reasons[at]
            if (own[first] if most else score) < settings.threshold:
                why = "best"
            unit, reading = segmented.units[at], segmented.reading
            kept_unit = KeptUnit(reading.doc_id, unit.start, unit.end, segmented.text(at), score, unit.kind, why, reading.key)
            (best if at == first and own[at] >= settings.noise else others).append(_Candidate(number, at, kept_unit))
    return [
        candidate
        for ranking in (best, others)
        for candidate in sorted(ranking, key=lambda candidate: (-candidate.unit.score, candidate.text, candidate.position))
    ]


def _without_context(scores: Sequence[float]) -> tuple[list[float], list[Why]]:
    return list(scores), ["relevant"] * len(scores)


def _at_threshold(lifted: Sequence[float], first: int, best: float, settings: SelectionSettings) -> list[int]:
    """The units that reach the threshold, and the best one unless it is noise."""
    return [at for at, score in enumerate(lifted) if score >= settings.threshold or (at == first and best >= settings.noise)]


def _best_few(lifted: Sequence[float], first: int, most: int, settings: SelectionSettings) -> list[int]:
    """The best unit and at most `most - 1` more that are close to it; none if it is noise."""
    if lifted[first] < settings.noise:
        return []
    floor = max(settings.least, settings.close * lifted[first])
    others = sorted((at for at, score in enumerate(lifted) if at != first and score >= floor), key=lambda at: (-lifted[at], at))
    return sorted([first, *others[: most - 1]])


def _drop_lead_ins(segmented: SegmentedText, chosen: Sequence[int], first: int) -> list[int]:
    """The chosen units without those that only introduce the next one, unless that is chosen too."""
    return [at for at in chosen if at == first or at + 1 in chosen or not segmented.text(at).endswith(":")]


def _merge_repeats(candidates: Sequence[_Candidate], cuts: Sequence[SegmentedText]) -> list[_Candidate]:
    """The first unit of each statement, with the positions of its repeats."""
    stemmed = [cuts[candidate.text].stems()[candidate.position] for candidate in candidates]
    repeated: set[int] = set()
    support: dict[int, list[Span]] = {}
    for candidate, first in zip(candidates, find_repeats([one.unit.text for one in candidates], stemmed), strict=True):
        if candidates[first] is not candidate:
            repeated.add(id(candidate))
            span = Span(candidate.unit.doc_id, candidate.unit.start, candidate.unit.end)
            support.setdefault(id(candidates[first]), []).append(span)
    return [
        replace(candidate, unit=replace(candidate.unit, support=tuple(support[id(candidate)]))) if id(candidate) in support else candidate
        for candidate in candidates
        if id(candidate) not in repeated
    ]

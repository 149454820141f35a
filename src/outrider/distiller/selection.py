"""The same said again, in another text or further down in the same: it counts once, and where else it stands is told.

Two units say the same where they share at least four fifths of their content stems, and all numbers and negations. Pairs are found by
prefix filtering (Chaudhuri, Ganti and Kaushik 2006, "A Primitive Operator for Similarity Joins"), without comparing each with each.

Which units are kept: those that reach the threshold, one of each text at least, nothing twice, no more than the budget holds.

All of it goes down one list that depends on the threshold only in where it ends. Hence a higher threshold never adds a unit, whatever is
left out as a repeat or for want of room.
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
from outrider.state.distilling import Frame, KeptUnit, Span, Why, no_frame
from outrider.text.words import stems

REFERS = re.compile(
    r"""["'“‘(\[]*(?:
      (?:this|these|that|those)\b(?!\s+(?:study|paper|article|work|review|trial|report|survey|thesis|book|chapter|section|document)\b)
    | (?:it|its|they|them|their|he|his|him|she|her|hers|such|both|neither|either|which)\b
    | the\s+(?:former|latter|same)\b
    )""",
    re.IGNORECASE | re.VERBOSE,
)
"""Begins a unit that points back at the one before it, and not at the whole work ("this study")."""
MAX_BACK = 2
"""Units before one that are lifted for its sake, where the one before points back as well."""


def lift_context_scores(cut: SegmentedText, scores: Sequence[float]) -> tuple[list[float], list[Why]]:
    """Scores not below those given, and why each is what it is."""
    found = list(scores)
    why: list[Why] = ["relevant"] * len(found)
    refers = [bool(REFERS.match(cut.reading.text, unit.start, unit.end)) and unit.kind == "sentence" for unit in cut.units]
    for at, score in enumerate(scores):
        back = at
        while refers[back] and back > 0 and at - back < MAX_BACK and cut.units[back - 1].kind in ("sentence", "item"):
            back -= 1
            if score > found[back]:
                found[back], why[back] = score, "context"
    _lift_headings(cut, found, why)
    return found, why


def _lift_headings(cut: SegmentedText, found: list[float], why: list[Why]) -> None:
    """Each heading to the best score of its section, that of a part of the section included."""
    open_headings: list[int] = []
    for at, unit in enumerate(cut.units):
        if unit.kind == "heading":
            while open_headings and cut.units[open_headings[-1]].level >= unit.level:
                open_headings.pop()
        for heading in open_headings:
            if found[at] > found[heading]:
                found[heading], why[heading] = found[at], "heading"
        if unit.kind == "heading":
            open_headings.append(at)


REPEAT_SIMILARITY = 0.8
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
NEGATION = re.compile(
    r"\b(?:not|no|nor|never|neither|none|without|cannot|fail(?:s|ed)?|lack(?:s|ed|ing)?|unlike|un(?:able|affected|changed|related|likely))\b"
    r"|n['’]t\b",
    re.IGNORECASE,
)
DIRECTION = re.compile(r"\b(?:in|de)creas\w*|\b(?:higher|lower|more|less|fewer|greater|smaller|up|down)\b", re.IGNORECASE)
"""Words that turn a fact round though little else differs."""


def find_repeats(texts: Sequence[str], stemmed: Sequence[Iterable[str]] | None = None) -> list[int]:
    """For each text the place of the first one that says the same: its own where there is none before it.

    `stemmed` are their content stems, where they are known already.
    """
    bags = [frozenset(one) for one in (map(stems, texts) if stemmed is None else stemmed)]
    common = Counter(chain.from_iterable(bags))
    by_word: dict[tuple[Hashable, str], list[int]] = defaultdict(list)
    found: list[int] = []
    for at, (text, bag) in enumerate(zip(texts, bags, strict=True)):
        same = None
        if rare := _prefix(bag, common):  # few have one, and only theirs are worth the look at numbers and negations
            facts = _facts(text)
            same = _first(by_word, facts, rare, bag, bags)
            if same is None:
                for word in rare:
                    by_word[facts, word].append(at)
        found.append(at if same is None else same)
    return found


def numbers_and_negations(text: str) -> list[str]:
    """In their order, in lower case."""
    return [*NUMBER.findall(text), *(found.group().lower() for found in NEGATION.finditer(text))]


def _facts(text: str) -> Hashable:
    """What must be the same in both."""
    turned = Counter(found.group().lower() for found in DIRECTION.finditer(text))
    return tuple(sorted(Counter(numbers_and_negations(text)).items())), tuple(sorted(turned.items()))


def _prefix(bag: frozenset[str], common: Counter[str]) -> list[str]:
    """The rarest words, so many that two alike units share one of them; without those that no other unit has."""
    shared = [word for word in bag if common[word] > 1]
    many = len(shared) - math.ceil(REPEAT_SIMILARITY * len(bag)) + 1
    return sorted(shared, key=lambda word: (common[word], word))[:many] if many > 0 else []


def _first(
    by_word: dict[tuple[Hashable, str], list[int]],
    facts: Hashable,
    rare: Sequence[str],
    bag: frozenset[str],
    bags: Sequence[frozenset[str]],
) -> int | None:
    candidates = {at for word in rare for at in by_word.get((facts, word), ())}
    return min((at for at in candidates if _alike(bag, bags[at])), default=None)


def _alike(one: frozenset[str], other: frozenset[str]) -> bool:
    both = len(one & other)
    return both >= REPEAT_SIMILARITY * (len(one) + len(other) - both)


THRESHOLD = 0.4
"""Of P(relevant | unit, query), for an engine that nobody has calibrated."""
NOISE = 0.1
"""A text whose best unit is below this gives nothing, not even that one."""


@dataclass(frozen=True, slots=True)
class SelectionSettings:
    threshold: float = THRESHOLD
    noise: float = NOISE
    max_tokens: int = 1_000_000
    count_tokens: CountTokens = estimate_tokens


@dataclass(frozen=True, slots=True)
class Selection:
    """In the order of the texts, then of their places."""

    units: tuple[KeptUnit, ...]
    text: str
    tokens: int
    over_budget: int


@dataclass(frozen=True, slots=True)
class _Candidate:
    text: int
    unit: int
    kept: KeptUnit


Shorten = Callable[[KeptUnit], str]
"""What is left of a kept unit's words; empty where it stays as it is."""


def select_units(
    cuts: Sequence[SegmentedText], scores: Scores, settings: SelectionSettings, frame: Frame = no_frame, shorten: Shorten | None = None
) -> Selection:
    """`scores` as an engine gave them, for each unit of each of `cuts`. What is shortened makes no room for others."""
    wanted = _once(_in_order(cuts, scores, settings), cuts)
    fitting = _within(wanted, settings, settings.max_tokens - settings.count_tokens(frame("")))
    if shorten:
        fitting = [_shortened(one, shorten, settings.count_tokens) for one in fitting]
    while True:
        text = render_units(_units(fitting), frame)
        tokens = settings.count_tokens(text) if text else 0
        if tokens <= settings.max_tokens:
            return Selection(_units(fitting), text, tokens, len(wanted) - len(fitting))
        fitting = fitting[:-1]  # a tokenizer may count the whole higher than its lines


def render_units(units: Sequence[KeptUnit], frame: Frame) -> str:
    """Empty where nothing is kept: a frame alone says nothing."""
    return frame("\n".join(map(render_unit, units))) if units else ""


def _in_order(cuts: Sequence[SegmentedText], scores: Scores, keeping: SelectionSettings) -> list[_Candidate]:
    """The best unit of each text that is not noise, then all that reach the threshold; best first, ties by text and place."""
    best: list[_Candidate] = []
    others: list[_Candidate] = []
    for number, (cut, own) in enumerate(zip(cuts, scores, strict=True)):
        worth, why = lift_context_scores(cut, own)
        first = max(range(len(own)), key=lambda at: (own[at], -at), default=-1)
        for at, score in enumerate(worth):
            if at == first and own[at] >= keeping.noise:
                best.append(_Candidate(number, at, _kept(cut, at, own[at], "relevant" if own[at] >= keeping.threshold else "best")))
            elif score >= keeping.threshold:
                others.append(_Candidate(number, at, _kept(cut, at, score, why[at])))
    return [one for many in (best, others) for one in sorted(many, key=lambda one: (-one.kept.score, one.text, one.unit))]


def _kept(cut: SegmentedText, at: int, score: float, why: str) -> KeptUnit:
    unit, reading = cut.units[at], cut.reading
    return KeptUnit(reading.doc_id, unit.start, unit.end, cut.text(at), score, unit.kind, why, reading.key)  # type: ignore[arg-type]


def _once(candidates: Sequence[_Candidate], cuts: Sequence[SegmentedText]) -> list[_Candidate]:
    """The first of those that say the same, with the places of the others; headings may be alike."""
    facts = [one for one in candidates if one.kept.kind != "heading"]
    said = [cuts[one.text].stems()[one.unit] for one in facts]
    same = find_repeats([one.kept.text for one in facts], said)
    support: dict[int, list[Span]] = {}
    for one, first in zip(facts, same, strict=True):
        if facts[first] is not one:
            support.setdefault(id(facts[first]), []).append(Span(one.kept.doc_id, one.kept.start, one.kept.end))
    again = {id(one) for at, one in enumerate(facts) if same[at] != at}
    return [_supported(one, support.get(id(one))) for one in candidates if id(one) not in again]


def _supported(one: _Candidate, support: Sequence[Span] | None) -> _Candidate:
    return replace(one, kept=replace(one.kept, support=tuple(support))) if support else one


def _within(candidates: Sequence[_Candidate], keeping: SelectionSettings, room: int) -> list[_Candidate]:
    """Down the list, each that still fits."""
    left, fitting = room, []
    for one in candidates:
        cost = keeping.count_tokens(f"{render_unit(one.kept)}\n")
        if cost <= left:
            left -= cost
            fitting.append(one)
    return fitting


def _shortened(one: _Candidate, shorten: Shorten, count: CountTokens) -> _Candidate:
    """It stays as it is where shortening costs tokens: what is left may be cut finer."""
    shorter = replace(one.kept, compressed=shorten(one.kept))
    if not shorter.compressed or count(f"{render_unit(shorter)}\n") > count(f"{render_unit(one.kept)}\n"):
        return one
    return replace(one, kept=shorter)


def render_unit(unit: KeptUnit) -> str:
    said = unit.compressed or unit.text
    return f"{unit.key} {said}" if unit.key else said


def _units(candidates: Sequence[_Candidate]) -> tuple[KeptUnit, ...]:
    """In the order of the texts, then of their places."""
    return tuple(one.kept for one in sorted(candidates, key=lambda one: (one.text, one.unit)))

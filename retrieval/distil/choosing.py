"""Which units are kept: those that reach the threshold, one of each text at least, nothing twice, no more than the budget holds.

All of it goes down one list that depends on the threshold only in where it ends. Hence a higher threshold never adds a unit, whatever is
left out as a repeat or for want of room.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from outrider.retrieval.distil.budget import CountTokens, token_bound
from outrider.retrieval.distil.engine import Scores
from outrider.retrieval.distil.lifting import lifted
from outrider.retrieval.distil.repeats import repeats
from outrider.retrieval.distil.units import Cut
from outrider.state.distilling import Frame, KeptUnit, Span, unframed

THRESHOLD = 0.4
"""Of P(relevant | unit, query), for an engine that nobody has calibrated."""
NOISE = 0.1
"""A text whose best unit is below this gives nothing, not even that one."""


@dataclass(frozen=True, slots=True)
class Keeping:
    threshold: float = THRESHOLD
    noise: float = NOISE
    max_tokens: int = 1_000_000
    count: CountTokens = token_bound


@dataclass(frozen=True, slots=True)
class Chosen:
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


def choose(cuts: Sequence[Cut], scores: Scores, keeping: Keeping, frame: Frame = unframed, shorten: Shorten | None = None) -> Chosen:
    """`scores` as an engine gave them, for each unit of each of `cuts`. What is shortened makes no room for others."""
    wanted = _once(_in_order(cuts, scores, keeping), cuts)
    fitting = _within(wanted, keeping, keeping.max_tokens - keeping.count(frame("")))
    if shorten:
        fitting = [_shortened(one, shorten, keeping.count) for one in fitting]
    while True:
        text = shown(_units(fitting), frame)
        tokens = keeping.count(text) if text else 0
        if tokens <= keeping.max_tokens:
            return Chosen(_units(fitting), text, tokens, len(wanted) - len(fitting))
        fitting = fitting[:-1]  # a tokenizer may count the whole higher than its lines


def shown(units: Sequence[KeptUnit], frame: Frame) -> str:
    """Empty where nothing is kept: a frame alone says nothing."""
    return frame("\n".join(map(line, units))) if units else ""


def _in_order(cuts: Sequence[Cut], scores: Scores, keeping: Keeping) -> list[_Candidate]:
    """The best unit of each text that is not noise, then all that reach the threshold; best first, ties by text and place."""
    best: list[_Candidate] = []
    others: list[_Candidate] = []
    for number, (cut, own) in enumerate(zip(cuts, scores, strict=True)):
        worth, why = lifted(cut, own)
        first = max(range(len(own)), key=lambda at: (own[at], -at), default=-1)
        for at, score in enumerate(worth):
            if at == first and own[at] >= keeping.noise:
                best.append(_Candidate(number, at, _kept(cut, at, own[at], "relevant" if own[at] >= keeping.threshold else "best")))
            elif score >= keeping.threshold:
                others.append(_Candidate(number, at, _kept(cut, at, score, why[at])))
    return [one for many in (best, others) for one in sorted(many, key=lambda one: (-one.kept.score, one.text, one.unit))]


def _kept(cut: Cut, at: int, score: float, why: str) -> KeptUnit:
    unit, reading = cut.units[at], cut.reading
    return KeptUnit(reading.doc_id, unit.start, unit.end, cut.text(at), score, unit.kind, why, reading.key)  # type: ignore[arg-type]


def _once(candidates: Sequence[_Candidate], cuts: Sequence[Cut]) -> list[_Candidate]:
    """The first of those that say the same, with the places of the others; headings may be alike."""
    facts = [one for one in candidates if one.kept.kind != "heading"]
    said = [cuts[one.text].stems()[one.unit] for one in facts]
    same = repeats([one.kept.text for one in facts], said)
    support: dict[int, list[Span]] = {}
    for one, first in zip(facts, same, strict=True):
        if facts[first] is not one:
            support.setdefault(id(facts[first]), []).append(Span(one.kept.doc_id, one.kept.start, one.kept.end))
    again = {id(one) for at, one in enumerate(facts) if same[at] != at}
    return [_supported(one, support.get(id(one))) for one in candidates if id(one) not in again]


def _supported(one: _Candidate, support: Sequence[Span] | None) -> _Candidate:
    return replace(one, kept=replace(one.kept, support=tuple(support))) if support else one


def _within(candidates: Sequence[_Candidate], keeping: Keeping, room: int) -> list[_Candidate]:
    """Down the list, each that still fits."""
    left, fitting = room, []
    for one in candidates:
        cost = keeping.count(f"{line(one.kept)}\n")
        if cost <= left:
            left -= cost
            fitting.append(one)
    return fitting


def _shortened(one: _Candidate, shorten: Shorten, count: CountTokens) -> _Candidate:
    """It stays as it is where shortening costs tokens: what is left may be cut finer."""
    shorter = replace(one.kept, compressed=shorten(one.kept))
    if not shorter.compressed or count(f"{line(shorter)}\n") > count(f"{line(one.kept)}\n"):
        return one
    return replace(one, kept=shorter)


def line(unit: KeptUnit) -> str:
    said = unit.compressed or unit.text
    return f"{unit.key} {said}" if unit.key else said


def _units(candidates: Sequence[_Candidate]) -> tuple[KeptUnit, ...]:
    """In the order of the texts, then of their places."""
    return tuple(one.kept for one in sorted(candidates, key=lambda one: (one.text, one.unit)))

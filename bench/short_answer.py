"""The checks of the short answer on right and wrong sentences made from SciFact's rationales.

A case is a claim and an abstract with the sentences that people marked; the abstracts of the next two cases stand beside it as further
hits. The script turns each marked sentence into right sentences (as it is, shortened, in other words, quoted) and into wrong ones, each
with one error. The rules of the checks were written on the first half of the claims; the other half was kept apart.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from bench.data import corpus_file
from bench.rationales import Case, cases, halves, read_rows
from bench.report import Report
from outrider.nodes.answer.check import SourceUnit, check_answer
from outrider.state.response import RemovalReason

MAX_UNITS = 3
"""Kept units of each work, as a search keeps them."""
SEED = 22
LEAD = re.compile(
    r"^(?:however|moreover|furthermore|in conclusion|in addition|thus|therefore|finally|here),?\s+(?:we\s+\w+\s+that\s+)?", re.IGNORECASE
)
ASIDE = re.compile(r"\s*[(\[][^()\[\]]{0,200}[)\]]")
TAIL = re.compile(r"(?:,\s+(?:which|thereby|suggesting|indicating|thus|whereas|while)\b|;).*(?=\.$)")
SYNONYMS = {
    "showed": "demonstrated", "demonstrated": "showed", "associated with": "linked to", "individuals": "people", "found": "observed",
    "suggest": "indicate", "indicate": "suggest", "using": "with", "treatment": "therapy", "revealed": "showed", "important": "major",
    "did not": "didn't", "does not": "doesn't", "was not": "wasn't", "were not": "weren't", "cannot": "can't", "is not": "isn't",
    "without": "with no", "percent": "%", "approximately": "about", "in order to": "to", "subjects": "participants", "children": "kids",
    "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "≥": "at least ", "compared with": "relative to",
}  # fmt: skip
AUXILIARY = re.compile(r"\b(is|are|was|were|has|have|had|can|could|may|might|will|would|should|must|did|does|do)\b(?!\s+not\b)")
VERBS = {
    "increased": "did not increase", "decreased": "did not decrease", "reduced": "did not reduce", "showed": "did not show",
    "improved": "did not improve", "induced": "did not induce", "caused": "did not cause", "inhibits": "does not inhibit",
    "regulates": "does not regulate", "promotes": "does not promote", "suggest": "do not suggest", "found": "did not find",
}  # fmt: skip
NEGATION = re.compile(r"\b(?:do|does|did)\s+not\s+|\b(?:not|never)\s+|\bno\s+|\bwithout\b", re.IGNORECASE)
OPPOSITES = {
    "increased": "decreased", "increase": "decrease", "decreased": "increased", "decrease": "increase", "higher": "lower",
    "lower": "higher", "reduced": "raised", "reduces": "raises", "improved": "worsened", "positive": "negative",
    "more": "less", "greater": "smaller",
}  # fmt: skip
DIGITS = re.compile(r"\d+(?:[.,]\d+)*")
QUOTE_WORDS = 6


@dataclass(frozen=True, slots=True)
class Draft:
    kind: str
    text: str
    unit_ids: tuple[str, ...]
    is_right: bool


def run() -> Report:
    fit, held_out = map(measure, halves(cases()))
    rows = [
        (kind, len(fit[kind]), share_removed(fit[kind]), len(held_out[kind]), share_removed(held_out[kind])) for kind in sorted(held_out)
    ]
    notes = (
        "removed: the share of the right sentences that are lost, and of the wrong ones that are found (recall)",
        "a sentence without a sign, such as `rose` for `fell`, is not checked for: its row shows what passes",
    )
    columns = ("sentences", "first half", "removed", "held out", "removed")
    return Report("short_answer", columns, tuple(rows), notes, (make_precision_table(held_out),))


def measure(own: Sequence[Case]) -> dict[str, list[RemovalReason | None]]:
    """The first reason to remove each sentence, None for one that is shown, by kind."""
    outcomes: dict[str, list[RemovalReason | None]] = defaultdict(list)
    for draft, units in write_drafts(own):
        removed = check_answer([(draft.text, draft.unit_ids)], units, 5).removed
        outcomes[draft.kind].append(next(iter(removed), None))
    return dict(outcomes)


def share_removed(outcomes: Sequence[RemovalReason | None]) -> float:
    return sum(reason is not None for reason in outcomes) / len(outcomes)


def make_precision_table(outcomes: dict[str, list[RemovalReason | None]]) -> Report:
    """For each reason, which share of the sentences that it removes is wrong. Claims are not counted: no script wrote them."""
    counts: dict[str, Counter[bool]] = defaultdict(Counter)
    for kind, reasons in outcomes.items():
        if kind not in {SUPPORTED, CONTRADICTED, NO_SIGN}:
            for reason in filter(None, reasons):
                for name in (reason, "any"):
                    counts[name][kind.startswith("right")] += 1
    rows = [(name, own.total(), own[True], own[False] / own.total()) for name, own in sorted(counts.items())]
    right = sum(len(reasons) for kind, reasons in outcomes.items() if kind.startswith("right") and kind != SUPPORTED)
    wrong = sum(len(reasons) for kind, reasons in outcomes.items() if kind.startswith("wrong") and kind not in {CONTRADICTED, NO_SIGN})
    return Report(
        "precision, held out", ("reason", "removed", "right ones", "precision"), tuple(rows), (f"of {right:,} right and {wrong:,} wrong",)
    )


def write_drafts(own: Sequence[Case]) -> Iterator[tuple[Draft, list[SourceUnit]]]:
    """What the script writes, with the units that it was shown."""
    chance, labels = random.Random(SEED), read_labels()
    for at, case in enumerate(own):
        shown = [case, own[(at + 1) % len(own)], own[(at + 2) % len(own)]]
        units = [unit for rank, one in enumerate(shown, start=1) for unit in make_units(one, rank, case)]
        units = [SourceUnit(f"u{number}", *_rest(unit)) for number, unit in enumerate(units, start=1)]
        others = [unit for unit in units if unit.key != "[1]"]
        claim = tuple(unit.unit_id for unit in units if unit.key == "[1]")
        if claim:
            is_right = labels[case.claim, case.labelled.reading.doc_id] == "SUPPORT"
            yield Draft(SUPPORTED if is_right else CONTRADICTED, case.labelled.query, claim, is_right), units
        for unit in (unit for unit in units if unit.key == "[1]"):
            for draft in (*write_right(unit), *write_wrong(unit, others, chance)):
                yield draft, units


def read_labels() -> dict[tuple[str, str], str]:
    """`SUPPORT` or `CONTRADICT` by claim and document."""
    rows = read_rows(corpus_file("scifact").parent / "rationales.jsonl.gz")
    return {(row["query"], row["doc"]): row["label"] for row in rows}


def make_units(case: Case, rank: int, first: Case) -> Iterator[SourceUnit]:
    """The marked units of a work; none of another claim's case of the same abstract."""
    reading = case.labelled.reading
    if rank > 1 and reading.doc_id == first.labelled.reading.doc_id:
        return
    for at in sorted(case.right)[:MAX_UNITS]:
        start, end = case.its.units[at].start, case.its.units[at].end
        yield SourceUnit("", reading.doc_id, f"[{rank}]", start, end, reading.text[start:end], reading.title)


def _rest(unit: SourceUnit) -> tuple[str, str, int, int, str, str]:
    return unit.doc_id, unit.key, unit.start, unit.end, unit.text, unit.title


def write_right(unit: SourceUnit) -> Iterator[Draft]:
    def make(kind: str, text: str) -> Draft:
        return Draft(f"right: {kind}", text, (unit.unit_id,), is_right=True)

    yield make("verbatim", unit.text)
    short = TAIL.sub("", ASIDE.sub("", LEAD.sub("", unit.text)))
    if short != unit.text and len(short.split()) >= 5:
        yield make("shortened", short[0].upper() + short[1:])
    yield make("in other words", f"According to the authors, {_rephrase(unit.text)}")
    words = ASIDE.sub("", unit.text).replace('"', "").split()
    if " ".join(words[1 : 1 + QUOTE_WORDS]) in " ".join(unit.text.split()):
        yield make("quoted", f"The text speaks of \u201c{' '.join(words[1 : 1 + QUOTE_WORDS])}\u201d.")


def _rephrase(text: str) -> str:
    for before, after in SYNONYMS.items():
        text = re.sub(rf"(?<!\w){re.escape(before)}(?!\w)", f"\0{after}\0", text)
    text = text.replace("\0", "")
    text = re.sub(r"(\d)\s?%", r"\1 percent", text)
    return re.sub(r"(?<=\d),(?=\d{3}\b)", "", text)


def write_wrong(unit: SourceUnit, others: Sequence[SourceUnit], chance: random.Random) -> Iterator[Draft]:
    def make(kind: str, text: str, *unit_ids: str) -> Draft:
        return Draft(f"wrong: {kind}", text, unit_ids or (unit.unit_id,), is_right=False)

    for kind, change in NUMBER_CHANGES.items():
        changed = change(unit.text, chance)
        if changed != unit.text:
            yield make(f"number, {kind}", changed)
    dropped = NEGATION.sub(lambda match: "with" if match[0].lower() == "without" else "", unit.text, count=1)
    if dropped != unit.text:
        yield make("negation dropped", dropped)
    else:
        added = AUXILIARY.sub(r"\1 not", unit.text, count=1)
        added = added if added != unit.text else _replace_one(unit.text, VERBS)
        if added != unit.text:
            yield make("negation added", added)
    yield make("unknown citation", unit.text, unit.unit_id, "u99")
    yield Draft("wrong: no citation", unit.text, (), is_right=False)
    if others:
        other = chance.choice(others)
        yield make("other work, named", f"{unit.text.rstrip('.')} [1].", other.unit_id)
        yield make("other work, not named", unit.text, other.unit_id)
        yield make("other work, in other words", _rephrase(unit.text), other.unit_id)
    words = ASIDE.sub("", unit.text).replace('"', "").split()
    if len(words) > QUOTE_WORDS + 2:
        part = words[1 : 1 + QUOTE_WORDS]
        part[2], part[3] = part[3], part[2]
        yield make("quotation, words swapped", f"The text speaks of \u201c{' '.join(part)}\u201d.")
        yield make("quotation, word left out", f"The text speaks of \u201c{' '.join([*words[1:4], *words[5:8]])}\u201d.")
    if (swapped := _replace_one(unit.text, OPPOSITES)) != unit.text:
        yield Draft(NO_SIGN, swapped, (unit.unit_id,), is_right=False)


NO_SIGN = "wrong: opposite word (no sign)"
SUPPORTED, CONTRADICTED = (
    "right: the claim, where people call it supported",
    "wrong: the claim, where people call it contradicted (any sign)",
)


def _replace_one(text: str, table: dict[str, str]) -> str:
    pattern = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, table))})(?!\w)")
    return pattern.sub(lambda match: table[match[0]], text, count=1)


def _change_digit(text: str, chance: random.Random) -> str:
    places = [at for at, char in enumerate(text) if char.isdigit() and char.isascii()]
    if not places:
        return text
    at = chance.choice(places)
    return f"{text[:at]}{chance.choice([digit for digit in '123456789' if digit != text[at]])}{text[at + 1 :]}"


def _move_point(text: str, _: random.Random) -> str:
    return re.sub(r"\b(\d+)\.(\d)(\d+)", r"\1\2.\3", text, count=1)


def _drop_percent(text: str, _: random.Random) -> str:
    return re.sub(r"(\d)\s?%(?![^%]{0,20}%)", r"\1", text, count=1)  # not one that the next one stands for: `35 to 50%`


def _flip_bound(text: str, _: random.Random) -> str:
    return re.sub(r"[<>≤≥]", lambda match: {"<": ">", ">": "<", "≤": "≥", "≥": "≤"}[match[0]], text, count=1)


def _change_word(text: str, _: random.Random) -> str:
    return _replace_one(text, {"two": "three", "three": "five", "four": "six", "five": "seven", "six": "eight", "ten": "eleven"})


NUMBER_CHANGES: dict[str, Callable[[str, random.Random], str]] = {
    "a digit": _change_digit,
    "the decimal point": _move_point,
    "no percent sign": _drop_percent,
    "the bound": _flip_bound,
    "a number word": _change_word,
}

"""Negations of a sentence compared with those of the texts that it cites.

By rules over words, so it sees `not`, `no`, `without`, `failed to` and `ineffective`, and no antonyms (`rose` for `fell`). Each stem of a
text is affirmed, negated, or either: a cue (`not`) negates the next words of its clause, and leaves the others of that clause open, since
they can be on either side of it (`X did not reduce Y`, `Y was not reduced by X`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Literal

from outrider.text.strip_markup import fold_text
from outrider.text.words import STOP_WORDS, stem, words

VERBAL = frozenset(
    "not no never neither nor cannot unable fail fails failed failing hardly barely scarcely nothing nobody nicht nie kein keine "
    "keinen keiner keines keinem pas jamais aucun aucune nunca não nessuno не нет".split()
)
"""They negate what a clause says."""
NOMINAL = frozenset("without lack lacks lacked lacking absence absent none non ohne sans sin senza sem без".split())
"""They negate a noun; a sentence may leave such an addition out."""
CHARACTERS = re.compile("没有|不|未|無|无法|ない|ません|なし|않|없|못")
"""Negations of languages without spaces; which words they negate is not known."""
WEAK = frozenset(
    "similar same equal comparable unaffected unchanged unclear unknown unlikely rare prevent prevents prevented avoid avoids avoided "
    "stop stops block blocks except excluding excluded insufficient missing zero".split()
)
"""Words that a paraphrase may give as a negation, or the other way round."""
PREFIXES = {"un": 4, "non": 4, "in": 5, "im": 5, "ir": 5, "il": 5, "dis": 5}
"""Negative prefixes, and the fewest letters of a word behind each: `inside` and `display` negate nothing."""
SCOPE = 2
"""Content words behind a cue that it negates, besides adverbs: enough to see the word that it stands for."""
COPULAS = frozenset("am is are was were be been being had has have".split())
AUXILIARIES = COPULAS | frozenset("do does did can could may might must shall should will would".split())
BEFORE, BEHIND = 6, 4
"""Words within which a cue before a word, or one behind it (`women were not harmed`), may negate it."""
MIN_RUN = 3
"""Content words that must follow each other in both texts, so that the same statement is compared."""
MAX_WORDS = 400
"""Content words of a text that are aligned."""
ALIGNED_SHARE = 0.5
"""Share of its words from which on a sentence repeats a text: then only the words in their places are compared."""
PREPOSITIONS = frozenset("with in of by at for on to from under through".split())
"""`no` behind one of them negates a noun only: `works with no configuration`."""
PARTICIPLES = ("ed", "en")
"""Endings behind `was not`, which also negates what stands before it: `stroke was not reduced`."""
CONTRACTION = re.compile(r"(?:(ca)n|(wo)n|(sha)n|n)['’]t\b")
IGNORED = re.compile(
    r"\bnot\s+(?:only|just|merely|least)\b|\bor\s+not\b|\bno\s+(?:more|less|fewer|later|earlier|matter|doubt)\b|\bnos?\.\s*(?=\d)|\bif\s+not\b"
)
"""Where a cue negates nothing."""
CLAUSE_END = re.compile(
    r"[.,;:!?()\[\]—–]+(?=\s|$)|[()\[\]—–;]|\b(?:but|however|although|though|whereas|while|yet|because|which|who|that\s+is|and|aber|mais|pero)\b"
)
Fault = Literal["added", "dropped"]


@dataclass(slots=True)
class Word:
    """A content word of a clause, as its stem."""

    stem: str
    negated: bool = False
    """A cue stands right before it."""
    near: bool = False
    """A cue stands near it, so that it may be negated."""


@dataclass(slots=True)
class Clause:
    words: list[Word] = field(default_factory=list)
    is_verbal: bool = False
    has_cue: bool = False


@dataclass(slots=True)
class Polarity:
    """Which stems a text affirms, and which it negates; a stem may be both."""

    clauses: list[Clause]
    forms: frozenset[str]
    """Its words as they stand."""

    @property
    def has_cue(self) -> bool:
        return any(clause.has_cue for clause in self.clauses)

    @property
    def words(self) -> list[Word]:
        return [word for clause in self.clauses for word in clause.words]

    def signs(self) -> dict[str, set[bool]]:
        """For each stem, True where it is affirmed and False where it is negated."""
        signs: dict[str, set[bool]] = {}
        for clause in self.clauses:
            negated = {word.stem for word in clause.words if word.negated}
            for word in clause.words:
                here = {False} if word.stem in negated else {True, False} if clause.has_cue else {True}
                signs.setdefault(word.stem, set()).update(here)
        return signs


def find_negation_fault(sentence: str, texts: Sequence[str]) -> Fault | None:
    """Whether the sentence negates what the texts affirm ("added"), or affirms what they negate ("dropped")."""
    own, single = read_polarity(sentence), [read_polarity(text) for text in texts]
    fault, share = _compare_aligned(own.words, [one.words for one in single])
    if fault:
        return fault
    others = Polarity([clause for one in single for clause in one.clauses], frozenset().union(*(one.forms for one in single)))
    here, there = own.signs(), others.signs()
    for word_stem in sorted(here.keys() & there.keys()):
        if not here[word_stem] & there[word_stem]:
            return "added" if False in here[word_stem] else "dropped"
    opposites = dict(_find_opposites(own.forms, others.forms))
    for word, is_negative_here in opposites.items():
        if (there if is_negative_here else here).get(stem(word)) == {True}:
            return "added" if is_negative_here else "dropped"
    if opposites or share >= ALIGNED_SHARE or not WEAK.isdisjoint(own.forms | others.forms):
        return None
    if own.has_cue:
        return None if others.has_cue else "added"
    return "dropped" if _rests_on_negation(own, others) else None


def _compare_aligned(own: Sequence[Word], texts: Sequence[Sequence[Word]]) -> tuple[Fault | None, float]:
    """The fault where the sentence repeats words of a text in their order, and the share of its words that it repeats.

    Of several texts, the one of which it repeats most counts. Of equal ones, any without a fault.
    """
    least = min(MIN_RUN, len(own))
    outcomes: list[tuple[int, bool, Fault | None]] = []
    for text in texts:
        read = text[:MAX_WORDS]
        matcher = SequenceMatcher(None, [word.stem for word in own], [word.stem for word in read], autojunk=False)
        fault: Fault | None = None
        count = 0
        for run in matcher.get_matching_blocks():
            if run.size < max(least, 1):
                continue
            count += run.size
            for mine, other in zip(own[run.a : run.a + run.size], read[run.b : run.b + run.size], strict=True):
                if mine.negated and not other.near:
                    fault = fault or "added"
                elif other.negated and not mine.near:
                    fault = fault or "dropped"
        outcomes.append((count, fault is None, fault))
    count, _, fault = max(outcomes, key=lambda outcome: outcome[:2], default=(0, True, None))
    return fault, count / len(own) if own else 0.0


def _rests_on_negation(own: Polarity, others: Polarity) -> bool:
    """Whether a sentence without negation shares most words with clauses that all are negated, though not the negated words."""
    stems = {word.stem for word in own.words}
    shared = [len(stems & {word.stem for word in clause.words}) for clause in others.clauses]
    most = max(shared, default=0)
    nearest = [clause for clause, count in zip(others.clauses, shared, strict=True) if count == most]
    return most > 0 and all(clause.is_verbal for clause in nearest)


def _find_opposites(own: frozenset[str], others: frozenset[str]) -> Iterator[tuple[str, bool]]:
    """Words of one side that the other has only with a negative prefix (`effective`, `ineffective`); True: it stands in the sentence."""
    for one, other, is_own in ((own, others, True), (others, own, False)):
        for word in sorted(one - other):
            for prefix, min_chars in PREFIXES.items():
                base = word.removeprefix(prefix)
                if base != word and len(base) >= min_chars and base in other and base not in one:
                    yield base, is_own


def read_polarity(text: str) -> Polarity:
    plain = IGNORED.sub(" ", CONTRACTION.sub(_expand, fold_text(text).lower().replace("cannot", "can not")))
    clauses = [_read_clause(part) for part in CLAUSE_END.split(plain)]
    return Polarity([clause for clause in clauses if clause.words or clause.has_cue], frozenset(words(plain)))


def _expand(match: re.Match[str]) -> str:
    return {"ca": "can not", "wo": "will not", "sha": "shall not"}.get(match[1] or match[2] or match[3] or "", " not")


def _read_clause(text: str) -> Clause:
    clause = Clause(is_verbal=bool(CHARACTERS.search(text)))
    clause.has_cue = clause.is_verbal
    room = 0
    """Content words that the last cue still negates."""
    last_cue = -BEFORE - 1
    recent: list[tuple[int, Word]] = []
    previous, passive = "", False
    for at, form in enumerate(words(text)):
        if form in VERBAL or form in NOMINAL:
            clause.has_cue, room, passive, last_cue = True, SCOPE, previous in COPULAS, at
            clause.is_verbal |= form in VERBAL and not (form == "no" and previous in PREPOSITIONS)
            for place, word in recent if previous in AUXILIARIES else ():
                word.near |= at - place <= BEHIND
        elif form not in STOP_WORDS:
            word = Word(stem(form), negated=room > 0, near=at - last_cue <= BEFORE)
            clause.words.append(word)
            if room and passive and recent and form.endswith(PARTICIPLES):
                recent[-1][1].negated = recent[-1][1].near = True
            if room:
                room -= not form.endswith("ly")
            else:
                recent = [*recent[-BEHIND:], (at, word)]
        elif room and form in COPULAS and any(word.negated for word in clause.words):
            room = 0  # the noun behind `no` has ended: `no effect was seen`
        previous = form
    return clause

"""Negations of a sentence compared with those of the texts that it cites.

By rules over words, so it sees `not`, `no`, `without`, `failed to` and `ineffective`, and no antonyms (`rose` for `fell`). Each stem of a
text is affirmed, negated, or either: a cue (`not`) negates the next words of its clause, and leaves the others of that clause open, since
they can be on either side of it (`X did not reduce Y`, `Y was not reduced by X`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
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
class Clause:
    stems: set[str] = field(default_factory=set)
    negated: set[str] = field(default_factory=set)
    """Of these, the ones behind a cue."""
    is_verbal: bool = False
    has_cue: bool = False


@dataclass(slots=True)
class Polarity:
    """Which stems a text affirms, and which it negates; a stem may be both."""

    clauses: list[Clause]
    words: frozenset[str]
    has_cue: bool

    def of(self, word_stem: str) -> set[bool]:
        """True where the stem is affirmed, False where it is negated."""
        signs: set[bool] = set()
        for clause in self.clauses:
            if word_stem in clause.stems:
                signs |= {False} if word_stem in clause.negated else {True, False} if clause.has_cue else {True}
        return signs


def read_polarity(text: str) -> Polarity:
    plain = IGNORED.sub(" ", CONTRACTION.sub(_expand, fold_text(text).lower().replace("cannot", "can not")))
    clauses = [_read_clause(part) for part in CLAUSE_END.split(plain)]
    return Polarity(
        [clause for clause in clauses if clause.stems or clause.has_cue],
        frozenset(words(plain)),
        any(clause.has_cue for clause in clauses),
    )


def find_negation_fault(sentence: str, texts: Sequence[str]) -> Fault | None:
    """Whether the sentence negates what the texts affirm ("added"), or affirms what they negate ("dropped")."""
    own, others = read_polarity(sentence), read_polarity("\n\n;".join(texts))
    opposites = dict(_find_opposites(own.words, others.words))
    for word_stem in sorted({word_stem for clause in own.clauses for word_stem in clause.stems}):
        here, there = own.of(word_stem), others.of(word_stem)
        if there and not here & there:
            return "added" if False in here else "dropped"
    for word, is_negative_here in opposites.items():
        side = others if is_negative_here else own
        if side.of(stem(word)) == {True}:
            return "added" if is_negative_here else "dropped"
    excused = bool(opposites) or not WEAK.isdisjoint(own.words | others.words)
    if own.has_cue and not others.has_cue and not excused:
        return "added"
    if not own.has_cue and not excused and _rests_on_negation(own, others):
        return "dropped"
    return None


def _rests_on_negation(own: Polarity, others: Polarity) -> bool:
    """Whether a sentence without negation shares most words with clauses that all are negated, though not the negated words."""
    stems = {word_stem for clause in own.clauses for word_stem in clause.stems}
    shared = [len(stems & clause.stems) for clause in others.clauses]
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


def _expand(match: re.Match[str]) -> str:
    return {"ca": "can not", "wo": "will not", "sha": "shall not"}.get(match[1] or match[2] or match[3] or "", " not")


def _read_clause(text: str) -> Clause:
    clause = Clause(is_verbal=bool(CHARACTERS.search(text)))
    clause.has_cue = clause.is_verbal
    room = 0
    """Content words that the last cue still negates."""
    subject, previous, passive = "", "", False
    for word in words(text):
        if word in VERBAL or word in NOMINAL:
            clause.has_cue, room, passive = True, SCOPE, previous in COPULAS
            clause.is_verbal |= word in VERBAL and not (word == "no" and previous in PREPOSITIONS)
        elif word not in STOP_WORDS:
            word_stem = stem(word)
            clause.stems.add(word_stem)
            if room:
                clause.negated |= {word_stem, subject} if passive and subject and word.endswith(PARTICIPLES) else {word_stem}
                room -= not word.endswith("ly")
            else:
                subject = word_stem
        elif room and word in COPULAS and clause.negated:
            room = 0  # the noun behind `no` has ended: `no effect was seen`
        previous = word
    return clause

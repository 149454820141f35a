"""Whether two records are one work: `judge` adds up what each field says, in log-odds, and names it.

1. Kinds that are never one work: a repository and a text; two repositories are one only by `owner/name` or by distribution.
   Two web pages of one address are one whatever their titles, which search engines cut, unless their identifiers differ.
2. Relations that are not identity (`relations.py`): a notice and its article, a preprint and its publication, parts of a series.
3. The sum of the weights of all that the fields say (`weights.py`), on top of what a pair is worth of which nothing is known.
4. `SAME` and above is the same work, `DIFFERENT` and below are two, between them lies what a model or a person may decide.
5. Never the same without a title on both sides, since identifiers are given twice by mistake too often; nor by titles and years alone:
   an identifier, the pages, the abstract or, where titles differ in no number and no word but for its spelling, an author must bear it out,
   or, where authors are not known and a long title is equal, the address, or the year and the venue together.
   Nor where pages differ and so does the venue (without a shared identifier), or title and abstract: printed in two places, it is two;
   supplements print many works under one DOI.
   Nor for author and venue where titles name a kind of text ("Editor's notes"), or few words by one author in two years: a column;
   nor for what a meeting and, in another year, a journal printed, where nothing else is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import exp
from typing import Literal

from outrider.identity.evidence import FieldLevel, compare_keys
from outrider.identity.keys import Keys, make_keys
from outrider.identity.relations import Relation, find_relation
from outrider.identity.weights import WEIGHTS
from outrider.state.records import Record

Verdict = Literal["same", "different", "unsure"]
Weights = Mapping[str, Mapping[str, float]]

SAME = 1.0
DIFFERENT = -1.0
"""Log-odds, a chance of 0.73 and of 0.27."""
MANUAL_WEIGHTS: Weights = {
    "number": {"equal": 5.0, "differ": -5.0},  # PMID, arXiv, ...: a registry gives a work one number, and no supplement shares it
    "own number": {"equal": 12.0, "differ": -4.0},  # the same answer twice; a catalogue seldom lists a work twice
    "title": {"nothing alike": 0.5},
    "title's numbers": {"differ": -2.0},  # Cora's scanned titles are full of stray ones; elsewhere they tell parts and doses apart
    "title's words": {"differ": -2.0},  # mice and rats, children and adults: few such pairs are labelled
    "title's telling words": {"differ": -3.0},
    "doi": {"equal, titles too": 3.0},  # the labelled sets show it only in company that says the same
    "isbn": {"equal": 1.0},  # chapters share their book's
    "address": {"equal": 2.5},
    "venue's kind": {"one a journal": 0.0},  # a short name says no kind: it counts beside another year only
}
"""What no labelled set shows, set by hand."""
SAYS_ELSE = frozenset({"title's numbers", "title's words", "title's telling words"})
IDENTIFYING = frozenset({"doi", "number", "own number"})
ELSEWHERE = frozenset({"differ", "one a journal"})
CERTAIN = 20.0
"""Score of what is known and not weighed."""
VETO = -4.0
"""Log-odds, of all or of two numbers that one catalogue gave, at which a pair keeps two groups apart whatever the others say."""
NUMBERED = frozenset({"number", "own number"})


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one field says. A positive weight speaks for one work, a negative one against."""

    field: str
    what: str
    weight: float

    @property
    def speaks(self) -> Literal["for", "against"]:
        return "for" if self.weight >= 0 else "against"

    def __str__(self) -> str:
        return f"{self.field} {self.what} ({self.weight:+.1f})"


@dataclass(frozen=True, slots=True)
class Judgement:
    verdict: Verdict
    score: float
    """Log-odds that it is one work, as far as the weights are right."""
    evidence: tuple[Evidence, ...]
    """Strongest first."""
    relation: Relation | None = None
    """How they belong together although they are two."""

    @property
    def contradicts(self) -> bool:
        """Whether no third record can make them one work."""
        if self.score <= VETO or self.relation:
            return True
        return any(evidence.what == "differ" and evidence.field in NUMBERED and evidence.weight <= VETO for evidence in self.evidence)

    @property
    def chance(self) -> float:
        return 1 / (1 + exp(-max(-30.0, min(30.0, self.score))))

    def why(self) -> str:
        """The evidence on one line."""
        return ", ".join(map(str, self.evidence))


def judge(one: Record, other: Record, weights: Weights = WEIGHTS) -> Judgement:
    """Symmetric; reads nothing but the two records."""
    return judge_keys(make_keys(one), make_keys(other), weights)


def judge_keys(one: Keys, other: Keys, weights: Weights = WEIGHTS) -> Judgement:
    if kinds := _kinds(one, other):
        return kinds
    said = compare_keys(one, other)
    if one.kind == "page" == other.kind and _one_address(said):
        return Judgement("same", CERTAIN, (Evidence("address", "equal", CERTAIN),))
    weighed = _weighed_as_shipped(said) if weights is WEIGHTS else _weighed(said, weights)
    if relation := find_relation(one, other, said):
        return Judgement("different", min(weighed.score, DIFFERENT), weighed.evidence, relation)
    return weighed


def _weighed(said: tuple[FieldLevel, ...], weights: Weights) -> Judgement:
    score = score_levels(said, weights)
    evidence = tuple(sorted((Evidence(field, what, level_weight(field, what, weights)) for field, what in said), key=_strength))
    return Judgement(_verdict(said, score), score, evidence)


@lru_cache(maxsize=16_384)
def _weighed_as_shipped(said: tuple[FieldLevel, ...]) -> Judgement:
    """Of a search's pairs most say what others do."""
    return _weighed(said, WEIGHTS)


def _verdict(said: tuple[FieldLevel, ...], score: float) -> Verdict:
    fields = dict(said)
    numbered = any(level.startswith("equal") and field in IDENTIFYING for field, level in said)
    if "title" not in fields:
        return "unsure" if numbered or score > DIFFERENT else "different"
    if score <= DIFFERENT:
        return "different"
    titles_equal = fields["title"].startswith("equal")
    in_print = fields.get("pages", "differ") != "differ" or fields.get("abstract") == "equal"
    says_else = not SAYS_ELSE.isdisjoint(fields)
    there = fields.get("address") == "equal" or (fields.get("venue") == "alike" and "year" in fields)
    placed = fields["title"] == "equal" and there and fields.get("year", "equal") == "equal" and "authors" not in fields
    borne_out = numbered or in_print or (not _column(fields) and (placed or (not says_else and fields.get("authors", "none") != "none")))
    elsewhere = (fields.get("venue") == "other" and not numbered) or (fields.get("abstract", "equal") != "equal" and not titles_equal)
    two_places = fields.get("pages") == "differ" and elsewhere
    two_places |= fields.get("venue's kind") in ELSEWHERE and "apart" in fields.get("year", "") and not (numbered or in_print)
    return "same" if score >= SAME and borne_out and not two_places else "unsure"


def _one_address(said: tuple[FieldLevel, ...]) -> bool:
    """And no identifier that says otherwise."""
    return ("address", "equal") in said and not any(level == "differ" and field in IDENTIFYING for field, level in said)


def _column(fields: Mapping[str, str]) -> bool:
    """Whether it may be two of a series of which all are called alike: by what kind of text they are, or briefly, by one author."""
    return fields["title"] == "equal, generic" or (
        fields["title"].endswith("short") and fields.get("authors") == "the only one" and "apart" in fields.get("year", "")
    )


def score_levels(said: tuple[FieldLevel, ...], weights: Weights = WEIGHTS) -> float:
    return weights[""][""] + sum(level_weight(field, what, weights) for field, what in said)


def level_weight(field: str, what: str, weights: Weights = WEIGHTS) -> float:
    """0 for a level that no example showed."""
    own = MANUAL_WEIGHTS.get(field, {}).get(what)
    return weights.get(field, {}).get(what, 0.0) if own is None else own


def _kinds(one: Keys, other: Keys) -> Judgement | None:
    """Repositories, and what is none."""
    if "repository" not in {one.kind, other.kind}:
        return None
    if one.kind != other.kind:
        return Judgement("different", -CERTAIN, (Evidence("kind", f"{one.kind} and {other.kind}", -CERTAIN),))
    for scheme in ("github", "pypi", "own"):
        mine, theirs = one.identifier(scheme), other.identifier(scheme)
        if mine and theirs and (scheme != "own" or mine == theirs):
            same = mine == theirs
            score = CERTAIN if same else -CERTAIN
            return Judgement("same" if same else "different", score, (Evidence(scheme, "equal" if same else "differ", score),))
    return Judgement("unsure", 0.0, ())


def _strength(evidence: Evidence) -> tuple[float, str, str]:
    return (-abs(evidence.weight), evidence.field, evidence.what)

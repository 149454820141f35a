"""Judgement of two records: `judge` adds up the evidence of each field in log-odds.

1. A repository and a text are never one work. Two repositories are one only if `owner/name` or the distribution is equal. Two web pages
   with one address are one work unless their identifiers differ; their titles do not count, because search engines cut them.
2. Relations that are not identity (`relations.py`): a notice and its article, a preprint and its publication, parts of a series.
3. The score is the sum of the weights of all field levels (`evidence_weights.py`) and of the base weight of a pair.
4. A score of at least `SAME` is the same work, a score of at most `DIFFERENT` two works. A model or a person may decide the rest.
5. Two records without a title on both sides are never the same, because identifiers are too often assigned twice by mistake.
   Title and year alone are not enough. One of these must confirm them: an identifier; the pages; the abstract; an author, if the titles
   differ in no number and in no word except for spelling; or, if authors are unknown and a long title is equal, the address, or year and
   venue together.
   Records printed in two places are two works: pages and venue differ (without a shared identifier), or pages, title and abstract.
   Supplements print many works under one DOI.
   Author and venue are not enough if the title names a kind of text ("Editor's notes"), or if a short title by one author appears in two
   years: it may be a column. A meeting paper and a journal article of another year are not one work if nothing else is known.
6. A pair is doubtful, and so unsure at most, if something tells the records apart that nothing stronger explains: another word or number in
   the title, two DOIs, other pages or another issue of one volume, two years of a series, or other titles under one DOI.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from math import exp
from typing import Literal

from outrider.linkage.evidence import FieldLevel, compare_keys
from outrider.linkage.evidence_weights import WEIGHTS
from outrider.linkage.normalized_record import Keys, make_keys
from outrider.linkage.relations import Relation, find_relation
from outrider.state.records import Record

Verdict = Literal["same", "different", "unsure"]
Weights = Mapping[str, Mapping[str, float]]

SAME = 1.0
DIFFERENT = -1.0
"""Log-odds: probabilities of 0.73 and 0.27."""
MANUAL_WEIGHTS: Weights = {
    "number": {"equal": 5.0, "differ": -5.0},  # PMID, arXiv, ...: a registry gives a work one number, and no supplement shares it
    "own number": {"equal": 12.0, "differ": -4.0},  # the same answer twice; a catalogue seldom lists a work twice
    "title": {"nothing alike": 0.5, "in another language": 0.0},
    "title's numbers": {"differ": -2.0, "one has more": -2.0},  # Cora's scanned titles are full of stray ones
    "title's words": {"differ": -2.0, "alike": -2.0, "one has more": -2.0},  # mice and rats: few such pairs are labelled
    "title's telling words": {"differ": -3.0},
    "title's kind": {"series": 0.0},
    # in the labelled sets equal DOIs occur only together with fields that agree
    "doi": {"equal, titles too": 3.0, "equal, titles in two languages": 5.0},
    "isbn": {"equal": 1.0},  # chapters share their book's
    "address": {"equal": 2.5},
    "venue's kind": {"one a journal": 0.0},  # a short name does not tell the kind: it counts only together with another year
}
"""Weights set by hand, because the labelled sets do not show them."""
FULL_TITLES = frozenset({"equal", "nearly equal", "alike"})
OTHER_TITLES = frozenset({"other", "nothing alike"})
DIFFERING_TITLE = frozenset({"title's numbers", "title's words", "title's telling words"})
IDENTIFYING = frozenset({"doi", "number", "own number"})
OTHER_VENUE_KIND = frozenset({"differ", "one a journal"})
CERTAIN = 20.0
"""Score of a verdict that follows from a rule, without weighing."""
VETO = -4.0
"""Log-odds of a pair, or of two differing numbers of one catalogue, at which the pair keeps two groups apart regardless of other pairs."""
NUMBER_FIELDS = frozenset({"number", "own number"})


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence of one field. A positive weight is evidence for one work, a negative one against."""

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
    """Whether two records are one work, with the score and its evidence."""

    verdict: Verdict
    score: float
    """Log-odds that the records are one work."""
    evidence: tuple[Evidence, ...]
    """Strongest first."""
    relation: Relation | None = None
    """The relation between two different works."""

    @property
    def contradicts(self) -> bool:
        """Whether no third record can make them one work."""
        # two publications with one short title: other pages, another year, another journal or kind of venue
        fields = {evidence.field: evidence.what for evidence in self.evidence}
        other_venue = fields.get("venue") == "other" or fields.get("venue's kind") == "differ"
        in_print = other_venue and fields.get("pages") == "differ" and "apart" in fields.get("year", "")
        if self.score <= VETO or self.relation or (in_print and self.verdict != "same" and fields.get("title", "").endswith("short")):
            return True
        return any(evidence.what == "differ" and evidence.field in NUMBER_FIELDS and evidence.weight <= VETO for evidence in self.evidence)

    @property
    def chance(self) -> float:
        return 1 / (1 + exp(-max(-30.0, min(30.0, self.score))))

    def why(self) -> str:
        """The evidence in one line."""
        return ", ".join(map(str, self.evidence))


def judge(one: Record, other: Record, weights: Weights = WEIGHTS) -> Judgement:
    """Judge two records. Symmetric; reads only the two records."""
    return judge_keys(make_keys(one), make_keys(other), weights)


def judge_keys(one: Keys, other: Keys, weights: Weights = WEIGHTS) -> Judgement:
    """Judge two records by their keys. Symmetric."""
    if judgement := _judge_repositories(one, other):
        return judgement
    levels = compare_keys(one, other)
    one_page = one.kind == "page" == other.kind and ("address", "equal") in levels
    if one_page and not any(level == "differ" and field in IDENTIFYING for field, level in levels):
        return Judgement("same", CERTAIN, (Evidence("address", "equal", CERTAIN),))
    weighed = _weigh_with_defaults(levels) if weights is WEIGHTS else _weigh(levels, weights)
    if relation := find_relation(one, other, levels):
        return Judgement("different", min(weighed.score, DIFFERENT), weighed.evidence, relation)
    return weighed


def _weigh(levels: tuple[FieldLevel, ...], weights: Weights) -> Judgement:
    score = score_levels(levels, weights)
    evidence = tuple(
        sorted(
            (Evidence(field, what, level_weight(field, what, weights)) for field, what in levels),
            key=lambda item: (-abs(item.weight), item.field, item.what),
        )
    )
    return Judgement(_verdict(levels, score), score, evidence)


_weigh_with_defaults = lru_cache(maxsize=16_384)(partial(_weigh, weights=WEIGHTS))
"""Cached, because most pairs of a search have the same levels."""


def _verdict(levels: tuple[FieldLevel, ...], score: float) -> Verdict:
    fields = dict(levels)
    numbered = any(level.startswith("equal") and field in IDENTIFYING for field, level in levels)
    if "title" not in fields:
        return "unsure" if numbered or score > DIFFERENT else "different"
    if score <= DIFFERENT:
        return "different"
    if score < SAME or _is_doubtful(fields, numbered=numbered):
        return "unsure"
    titles_equal = fields["title"].startswith("equal")
    in_print = fields.get("pages", "differ") != "differ" or fields.get("abstract") == "equal"
    differing_title = not DIFFERING_TITLE.isdisjoint(fields)
    same_place = fields.get("address") == "equal" or (fields.get("venue") == "alike" and "year" in fields)
    same_issue = (
        fields["title"] in FULL_TITLES
        and not differing_title
        and same_place
        and fields.get("year", "equal") == "equal"
        and "authors" not in fields
    )
    # two parts of a column have a generic title, or a short title by one author in two years
    years_apart = "apart" in fields.get("year", "")
    one_author = fields.get("authors") == "the only one"
    may_be_column = fields["title"] == "equal, generic" or (fields.get("title", "").endswith("short") and one_author and years_apart)
    same_team = not differing_title and fields.get("authors", "none") != "none"
    confirmed = numbered or in_print or (not may_be_column and (same_issue or same_team))
    other_place = (fields.get("venue") == "other" and not numbered) or (fields.get("abstract", "equal") != "equal" and not titles_equal)
    two_places = fields.get("pages") == "differ" and other_place
    two_places |= fields.get("venue's kind") in OTHER_VENUE_KIND and years_apart and not (numbered or in_print)
    return "same" if confirmed and not two_places else "unsure"


def _is_doubtful(fields: Mapping[str, str], *, numbered: bool) -> bool:
    """Whether something tells the records apart, and nothing stronger explains it."""
    if fields.get("number") == "equal" or fields.get("own number") == "equal":
        return False
    # supplements print many works under one DOI, and on one page
    in_print = fields["pages"] != "differ" if "pages" in fields else numbered
    levels = {fields.get(field) for field in DIFFERING_TITLE}
    if fields["title"] == "in another language":  # the DOI is equal; it alone is no identity
        agrees = fields.get("year") == "equal" or fields.get("pages", "differ") != "differ"
        return not agrees and fields.get("authors", "none") in {"none", "some"}
    one_article = fields.get("pages") == "equal" and fields.get("doi", "").startswith("equal") and fields.get("abstract") == "equal"
    if ("differ" in levels or fields["title"] in OTHER_TITLES) and not one_article:
        return True
    if "alike" in levels and not (in_print and (numbered or fields["pages"] == "equal")):
        return True
    if "one has more" in levels and not ((in_print and numbered) or fields.get("abstract") == "equal"):
        return True
    one_place = fields.get("pages", "differ") != "differ" and fields.get("volume", "equal") == "equal"
    if fields.get("doi") == "differ" and not (one_place and fields["title"] in FULL_TITLES):
        return True
    return not numbered and (_are_two_in_one_volume(fields) or (not in_print and _may_be_two_years(fields)))


def _are_two_in_one_volume(fields: Mapping[str, str]) -> bool:
    """Whether the records have other pages in one volume, or one column's title in two issues of it."""
    if fields.get("volume") != "equal" or fields.get("venue", "alike") != "alike":
        return False
    kind = fields["title"].partition(", ")[2]
    # each issue may have its editorial on the first pages
    often = kind.startswith("generic") or (kind == "short" and fields.get("pages") != "equal")
    return fields.get("pages") == "differ" or (fields.get("issue") == "differ" and ("pages" not in fields or often))


def _may_be_two_years(fields: Mapping[str, str]) -> bool:
    """Whether the records may be two volumes of a series: in other years, by one author or institution, or with the title of a report."""
    year = fields.get("year", "equal")
    few_authors = fields.get("authors", "the only one") in {"the only one", "none", "some"}
    return "apart" in year and (not year.startswith("1 ") or few_authors or "title's kind" in fields)


def score_levels(levels: tuple[FieldLevel, ...], weights: Weights = WEIGHTS) -> float:
    """The log-odds of one work: the weights of all levels and the base weight of a pair."""
    return weights[""][""] + sum(level_weight(field, what, weights) for field, what in levels)


def level_weight(field: str, what: str, weights: Weights = WEIGHTS) -> float:
    """The weight of a level; 0 for a level without examples."""
    own = MANUAL_WEIGHTS.get(field, {}).get(what)
    return weights.get(field, {}).get(what, 0.0) if own is None else own


def _judge_repositories(one: Keys, other: Keys) -> Judgement | None:
    """The judgement of a pair with a repository, None for a pair without one."""
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

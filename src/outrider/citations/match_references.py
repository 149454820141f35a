"""The work behind a reference without a usable identifier, among known works.

A reference is a partial record: authors, year, title, journal, volume, pages, or one line of text (`metadata["unstructured"]`). There are
three rules, for three kinds of references. Each takes a work only where no second one fits nearly as well: a missing link costs less than
a false one.

1. **With a title**: the evidence of `linkage.judge_pair` must say that it is the same work. A reference's year and its DOI may be
   wrong: a year that differs by more than one needs the same pages, and a DOI that the work contradicts needs everything else to agree.
   The preprint of the work that it names counts as that work, where nothing else of that title is known.
2. **Without a title**, as many publishers deposit them: journal, volume and first page must agree, and year and first author must not
   contradict.
3. **One line of text**: the title of the work must stand in it, with the family name of its first author and its year, or its volume and
   first page.

A supplement, a correction or a comment repeats the title of another work: a word of the kind in only one of the two refuses (`NOTE`).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from outrider.linkage.evidence import compare_keys
from outrider.linkage.judge_pair import DIFFERING_TITLE, judge_keys
from outrider.linkage.names_and_titles import normal_title
from outrider.linkage.normalized_record import Keys, make_keys
from outrider.state.records import Paper
from outrider.text.words import STOP_WORDS

MOST_CANDIDATES = 30
"""Works that are compared with one reference: those that share its rarest words, its first page or its first author and year."""
COMMON = 2_000
"""A word, page or author of more works selects none."""
LEAST_WORDS = 3
"""Content words of a title that is looked for in a line of text."""
LEAST_CHARS = 20
YEARS_APART = 1
"""In print and online, a work has two years."""
VERSION_YEARS = 5
"""Between a talk and the article of the same title."""
MARGIN = 2.0
"""Log-odds by which the best work must be ahead of another one."""
NOTE = re.compile(
    r"\b(?:suppl(?:ement(?:ary|al)?)?|supporting information|appendix|erratum|errata|corrigend(?:um|a)|correction|retraction|retracted"
    r"|reply|comments?|commentary|response to|author response|letter to|preface|editorial|part [ivx\d]+|review of"
    r"|(?<!extended )abstracts?)\b",
    re.IGNORECASE,
)
YEAR = re.compile(r"(?<!\d)(1[5-9]\d\d|20\d\d)(?!\d)")
LINE_CHARS = 1_000


class ReferenceMatch(NamedTuple):
    """The work of a reference, and why."""

    key: str
    why: str


@dataclass(frozen=True, slots=True)
class _Work:
    key: str
    keys: Keys
    title: str
    notes: frozenset[str]
    words: frozenset[str]


class ReferenceMatcher:
    """Finds the works of references among these works."""

    def __init__(self, works: Mapping[str, Paper]) -> None:
        self._works: list[_Work] = []
        self._by_feature: defaultdict[str, list[int]] = defaultdict(list)
        for key in sorted(works):
            self._add(key, works[key])

    def _add(self, key: str, paper: Paper) -> None:
        work = _read_work(key, paper)
        self._works.append(work)
        for feature in _list_features(work):
            self._by_feature[feature].append(len(self._works) - 1)

    def match(self, reference: Paper) -> ReferenceMatch | None:
        """The one work that it names; None where none fits, or several do."""
        line = str(reference.metadata.get("unstructured") or "")[:LINE_CHARS]
        found = None
        if reference.title:
            found = self._match_title(reference)
        elif reference.pages and reference.volume:
            found = self._match_place(reference)
        if found is None and line and not reference.title:
            found = self._match_line(line)
        return found

    def _match_title(self, reference: Paper) -> ReferenceMatch | None:
        own = _read_work("", reference)
        bare = own.keys._replace(identifiers=())
        scored: list[tuple[float, str, _Work]] = []
        versions, placed = list[_Work](), set[str]()
        for work in self._candidates(_list_features(own)):
            if work.notes != own.notes:
                continue
            judgement = judge_keys(bare, work.keys)
            fields = {evidence.field: evidence.what for evidence in judgement.evidence}
            related = judgement.relation is not None and judgement.relation.kind in {"preprint of", "version of"}
            version = related or (judgement.relation is None and _is_version(fields, own.keys, work.keys))
            if fields.get("title", "").startswith(("equal", "nearly equal")) and fields.get("authors") != "none":
                versions.append(work)
            if judgement.verdict == "different" and not version:
                continue
            same = judgement.verdict == "same" and _years_agree(own.keys, work.keys, fields.get("pages", ""))
            dois = own.keys.identifier("doi"), work.keys.identifier("doi")
            contradicts = all(dois) and dois[0] != dois[1]
            if (same or version or _is_same_in_print(fields)) and (not contradicts or _all_else_agrees(fields)):
                scored.append((judgement.score, judgement.why(), work))
                placed |= {work.key} if _is_placed(fields) else set()
        # of a thesis and its report, a talk and its article, only the place in print tells which one is meant
        in_place = [entry for entry in scored if entry[2].key in placed]
        return _take_best(in_place or scored) if in_place or len(versions) < 2 else None

    def _match_place(self, reference: Paper) -> ReferenceMatch | None:
        own = _read_work("", reference).keys
        scored = []
        for work in self._candidates([f"page {own.volume} {own.pages.first}"]):
            theirs = work.keys
            same_place = theirs.volume == own.volume and theirs.pages.first == own.pages.first
            fields = dict(compare_keys(own, theirs, all_fields=True))
            if same_place and fields.get("venue") == "alike" and fields.get("authors", "") != "none" and _within(own.year, theirs.year):
                certainty = float(bool(own.authors)) + float(bool(own.year))
                scored.append((certainty, "journal, volume and page agree", work))
        return _take_best(scored)

    def _match_line(self, line: str) -> ReferenceMatch | None:
        text = f" {normal_title(line)} "
        years = {int(year) for year in YEAR.findall(line)}
        numbers = set(re.findall(r"\d+", line))
        notes = _find_notes(line)
        scored = []
        for work in self._candidates(f"word {word}" for word in dict.fromkeys(text.split()) if word not in STOP_WORDS):
            if not work.title or f" {work.title} " not in text or work.notes != notes:
                continue
            keys = work.keys
            author = bool(keys.authors) and keys.authors[0].family in text.replace(" ", "")
            year = keys.year != 0 and any(_within(keys.year, one) for one in years)
            place = bool(keys.volume and keys.pages.first) and {keys.volume, keys.pages.first} <= numbers
            long = len(work.title) >= LEAST_CHARS and len(work.words) >= LEAST_WORDS
            if (long and author and year) or (place and author and year) or (long and place and (author or year)):
                scored.append(
                    (float(len(work.title)) + MARGIN * (2 * place + author + year), "its title, author and year stand in the line", work)
                )
        return _take_best(scored)

    def _candidates(self, features: Iterable[str]) -> list[_Work]:
        """The works that share the rarest features, best first."""
        weights: Counter[int] = Counter()
        for feature in features:
            places = self._by_feature.get(feature, ())
            if len(places) <= COMMON:
                for place in places:
                    weights[place] += 1 + COMMON // (1 + len(places))
        best = sorted(weights, key=lambda place: (-weights[place], place))[:MOST_CANDIDATES]
        return [self._works[place] for place in best]


def _take_best(scored: list[tuple[float, str, _Work]]) -> ReferenceMatch | None:
    """The best work, unless another one is nearly as good."""
    scored.sort(key=lambda entry: (-entry[0], entry[2].key))
    if not scored or (len(scored) > 1 and scored[0][0] - scored[1][0] < MARGIN):
        return None
    return ReferenceMatch(scored[0][2].key, scored[0][1])


def _years_agree(one: Keys, other: Keys, pages: str) -> bool:
    return _within(one.year, other.year) or pages in {"equal", "first equal"} or one.server != other.server


def _is_same_in_print(fields: Mapping[str, str]) -> bool:
    """Whether a pair that records leave open is one work for a reference: it stands where the work stands, and the rest may be mistyped."""
    if not DIFFERING_TITLE.isdisjoint(fields) and fields.get("pages") != "equal":
        return False
    if fields.get("authors", "none") in {"none", "some"} or fields.get("pages") == "differ" or "title's kind" in fields:
        return False
    if fields.get("title", "") in {"equal", "equal, short", "nearly equal"}:
        in_print = fields.get("volume") == "equal" or fields.get("pages", "") in {"equal", "first equal"}
        return in_print and fields.get("venue") != "other" and fields.get("year") in {None, "equal", "1 apart", "1 apart, printed alike"}
    alike = fields.get("title", "").startswith(("alike", "nearly equal"))
    return alike and fields.get("pages") == "equal" and fields.get("venue") == "alike" and fields.get("year") == "equal"


def _is_version(fields: Mapping[str, str], one: Keys, other: Keys) -> bool:
    """Whether a talk and an article, or a report and either, have the same full title by the same team, a few years apart."""
    title, authors = fields.get("title", ""), fields.get("authors", "")
    few_years = not one.year or not other.year or abs(one.year - other.year) <= VERSION_YEARS
    same_team = authors in {"all", "both", "most"} or (authors == "the only one" and title == "equal")
    return (
        title in {"equal", "equal, short", "nearly equal"}
        and DIFFERING_TITLE.isdisjoint(fields)
        and same_team
        and few_years
        and "title's kind" not in fields
    )


def _is_placed(fields: Mapping[str, str]) -> bool:
    return fields.get("pages", "") in {"equal", "first equal"} or (fields.get("venue") == "alike" and fields.get("year") == "equal")


def _all_else_agrees(fields: Mapping[str, str]) -> bool:
    """Whether title, authors and place are the same, so that a differing DOI is a mistake or that of another version."""
    title = fields.get("title", "").startswith(("equal", "nearly equal"))
    return title and fields.get("authors") in {"all", "both", "the only one", "all of one"} and fields.get("pages", "differ") != "differ"


def _within(one: int, other: int) -> bool:
    return not one or not other or abs(one - other) <= YEARS_APART


def _read_work(key: str, paper: Paper) -> _Work:
    keys = make_keys(paper.model_copy(update={"abstract": "", "text": ""}))
    title = normal_title(paper.title)
    return _Work(key, keys, title, _find_notes(paper.title), frozenset(title.split()) - STOP_WORDS)


def _find_notes(text: str) -> frozenset[str]:
    return frozenset(note.lower()[:5] for note in NOTE.findall(text))


def _list_features(work: _Work) -> list[str]:
    """What selects a work for comparison: words of its title, its place in print, its first author and year."""
    features = [f"word {word}" for word in sorted(work.words)]
    if work.keys.pages.first and work.keys.volume:
        features.append(f"page {work.keys.volume} {work.keys.pages.first}")
    if work.keys.authors and work.keys.year:
        features.append(f"author {work.keys.authors[0].family} {work.keys.year}")
    return features


def make_reference(fields: Mapping[str, object], number: int = 0) -> Paper:
    """A reference from its fields, as a reader or a service gives them (`ingest.readers.jats.read_reference`)."""
    line = str(fields.get("unstructured") or "")
    own = {name: value for name, value in fields.items() if name in Paper.model_fields}
    return Paper.model_validate({**own, "doc_id": f"reference:{number}", "metadata": {"unstructured": line} if line else {}})

"""The work behind a reference without a usable identifier, among known works.

A reference is a partial record: authors, year, title, journal, volume, pages, or one line of text (`metadata["unstructured"]`). There are
three rules, for three kinds of references. Each takes a work only where no second one fits nearly as well: a missing link costs less than
a false one.

1. **With a title** (`compare_reference`): the evidence of `linkage.judge_pair` must say that it is the same work. A reference's year and
   its DOI may be wrong: a year that differs by more than one needs the same pages, and a DOI that the work contradicts needs everything
   else to agree. The preprint of the work that it names counts as that work, where nothing else of that title is known.
2. **Without a title**, as many publishers deposit them, or with an author's name in its place: journal, volume and first page must agree,
   and year and first author must not contradict.
3. **One line of text**: the title of the work must stand in it between two signs of punctuation, or behind its authors and a colon, with
   the family name of its first author and its year, or its volume and first page. A line without a title, as physicists write them, must
   have nothing but journal, volume and behind it the first page, year and authors of the work.

A supplement, a correction or a comment repeats the title of another work: a word of the kind in only one of the two refuses (`NOTE`).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from html import unescape
from itertools import combinations

from outrider.citations.compare_reference import (
    MARGIN,
    Candidate,
    ReferenceMatch,
    Work,
    are_names,
    are_within,
    choose_versions,
    compare_reference,
    find_notes,
    read_work,
    take_best,
)
from outrider.linkage.evidence import compare_keys, compare_venues
from outrider.linkage.names_and_titles import TAG, Name, normal_title, parse_name
from outrider.state.records import Paper
from outrider.text.words import STOP_WORDS

MOST_CANDIDATES = 30
"""Works that are compared with one reference: those that share its rarest words, its first page or its first author and year."""
COMMON = 2_000
"""A word, page or author of more works selects none."""
LEAST_WORDS = 3
"""Content words of a title that is looked for in a line of text."""
LEAST_CHARS = 20
YEAR = re.compile(r"(?<!\d)(1[5-9]\d\d|20\d\d)(?!\d)")
NUMBER = re.compile(r"\d+")
MOST_NUMBERS = 8
"""Of a line without a title: volume, page and a date."""
LAST_PAGE = re.compile(r"(?<=\d)\s*[-\u2010-\u2015]+\s*\d+")
"""Where another work may begin."""
ISSUE = re.compile(r"(?<=\d)\s*\(\s*(?!(?:1[5-9]|20)\d\d\b)\d+\s*\)|\b(?:no|nr|issue)\b\.?\s*\d+", re.IGNORECASE)
"""Behind a volume; four digits in parentheses may be a year."""
BESIDE_PLACE = frozenset("and et al ibid in no nr p pp page pages s seite v vol volume".split())
LINE_CHARS = 1_000
WORD = re.compile(r"[^\W_]+")
TITLE_END = re.compile(r"[.,;?!()\[\]\"“”„‘’'«»]")
"""A colon or a dash may stand before a subtitle."""
BETWEEN_NAMES = re.compile(r"\s*[/;]\s*|\s+(?:and|und|&)\s+")


class ReferenceMatcher:
    """Finds the works of references among these works."""

    def __init__(self, works: Mapping[str, Paper]) -> None:
        self._works: list[Work] = []
        self._by_feature: defaultdict[str, list[int]] = defaultdict(list)
        for key in sorted(works):
            self._add(key, works[key])

    def _add(self, key: str, paper: Paper) -> None:
        work = read_work(key, paper)
        self._works.append(work)
        for feature in _list_features(work):
            self._by_feature[feature].append(len(self._works) - 1)

    def match(self, reference: Paper, citing: str = "") -> ReferenceMatch | None:
        """The one work that it names; None where none fits, or several do. It is never the work `citing`, which may have the same title."""
        line = str(reference.metadata.get("unstructured") or "")[:LINE_CHARS]
        own = read_work("", reference)
        found = self._match_title(own, citing) if own.title else None
        if found is None and own.keys.pages.first and own.keys.volume:
            found = self._match_place(own, citing)
        if found is None and line and not own.title:
            found = self._match_line(line, citing) or self._match_place_in_line(line, citing)
        return found

    def _match_title(self, own: Work, citing: str) -> ReferenceMatch | None:
        comparisons = [compare_reference(own, work) for work in self._candidates(_list_features(own), citing)]
        return take_best(choose_versions(own.keys, [each for each in comparisons if each]))

    def _match_place(self, reference: Work, citing: str) -> ReferenceMatch | None:
        own, words = reference.keys, reference.title.split()
        scored = []
        for work in self._candidates([f"page {own.volume} {own.pages.first}"], citing):
            theirs = work.keys
            same_place = theirs.volume == own.volume and theirs.pages.first == own.pages.first and are_names(words, theirs.authors)
            fields = dict(compare_keys(own, theirs, all_fields=True))
            if same_place and fields.get("venue") == "alike" and fields.get("authors", "") != "none" and are_within(own.year, theirs.year):
                certainty = float(bool(own.authors)) + float(bool(own.year))
                scored.append(Candidate(work, certainty, "journal, volume and page agree"))
        return take_best(scored)

    def _match_line(self, line: str, citing: str) -> ReferenceMatch | None:
        text = f" {normal_title(line)} "
        line_words = _split_words(line)
        ahead, _, behind = line.partition(":")
        words_behind = _split_words(behind)
        years = {int(year) for year in YEAR.findall(line)}
        numbers = set(re.findall(r"\d+", line))
        notes = find_notes(line)
        scored = []
        features = (f"word {word}" for word in dict.fromkeys(text.split()) if word not in STOP_WORDS)
        for work in self._candidates(features, citing):
            if not work.title or f" {work.title} " not in text or work.notes != notes:
                continue
            keys = work.keys
            behind_names = _stands_alone(work.title, words_behind) and _is_list_of(keys.authors, ahead)
            if not behind_names and not _stands_alone(work.title, line_words):
                continue
            author = bool(keys.authors) and keys.authors[0].family in text.replace(" ", "")
            year = keys.year != 0 and any(are_within(keys.year, one) for one in years)
            place = bool(keys.volume and keys.pages.first) and {keys.volume, keys.pages.first} <= numbers
            long = len(work.title) >= LEAST_CHARS and len(work.words) >= LEAST_WORDS
            if (long and author and year) or (place and author and year) or (long and place and (author or year)):
                score = float(len(work.title)) + MARGIN * (2 * place + author + year)
                scored.append(Candidate(work, score, "its title, author and year stand in the line"))
        return take_best(scored)

    def _match_place_in_line(self, line: str, citing: str) -> ReferenceMatch | None:
        """By journal, volume, first page and year, where the line has nothing besides but authors: "Phys. Fluids 4, 1006 (1961)"."""
        years = {int(year) for year in YEAR.findall(line)}
        numbers = NUMBER.findall(ISSUE.sub(" ", LAST_PAGE.sub("", line)))[:MOST_NUMBERS]
        words = [word for word in normal_title(line).split() if not word.isdecimal()]
        places = dict.fromkeys(combinations(numbers, 2))  # the volume stands before the page
        scored = []
        for work in self._candidates((f"page {volume} {page}" for volume, page in places), citing):
            keys = work.keys
            if (
                (keys.volume, keys.pages.first) in places
                and keys.year in years
                and _is_venue(_leave_out_names(words, keys.authors), keys.venue)
            ):
                scored.append(Candidate(work, 0.0, "journal, volume, page and year agree"))
        return take_best(scored)

    def _candidates(self, features: Iterable[str], citing: str) -> list[Work]:
        """The works that share the rarest features, best first, without the citing one."""
        weights: Counter[int] = Counter()
        for feature in features:
            places = self._by_feature.get(feature, ())
            if len(places) <= COMMON:
                for place in places:
                    weights[place] += 1 + COMMON // (1 + len(places))
        best = sorted(weights, key=lambda place: (-weights[place], place))[:MOST_CANDIDATES]
        return [work for place in best if (work := self._works[place]).key != citing]


def _split_words(line: str) -> list[tuple[str, bool]]:
    """The words of a line, each with whether punctuation that may end a title stands before it; a last empty word ends the line."""
    plain, words, end = TAG.sub("", unescape(line)), list[tuple[str, bool]](), 0
    for match in WORD.finditer(plain):
        begins = end == 0 or TITLE_END.search(plain, end, match.start()) is not None
        for word in normal_title(match.group()).split():
            words.append((word, begins))
            begins = False
        end = match.end()
    return [*words, ("", True)]


def _stands_alone(title: str, line_words: Sequence[tuple[str, bool]]) -> bool:
    """Whether the words stand in the line between two signs of punctuation: no longer title has them."""
    title_words = title.split()
    size = len(title_words)
    return any(
        line_words[at][1] and line_words[at + size][1] and [word for word, _ in line_words[at : at + size]] == title_words
        for at in range(len(line_words) - size)
    )


def _is_list_of(authors: Sequence[Name], text: str) -> bool:
    """Whether it names only these authors: "Bischoff, Heike / Lee, Ann" or "Heike Bischoff, Ann Lee"."""
    known = {(name.family, name.initials[:1]) for name in authors}
    lists = ([parse_name(name) for name in BETWEEN_NAMES.split(some)] for some in (text, text.replace(",", ";")))
    return any(all(name and (name.family, name.initials[:1]) in known for name in names) for names in lists)


def _leave_out_names(words: Sequence[str], authors: Sequence[Name]) -> list[str]:
    """The words but for these authors, and what stands between names and numbers.

    A letter behind the last author and his initials belongs to the venue, even if it is an initial: `Phys. Rev. B`.
    """
    families = {word for name in authors for word in (name.family, *name.words)}
    initials = {word for name in authors for word in (name.initials, *name.initials)}
    end = max((at for at, word in enumerate(words, start=1) if word in families), default=0)
    while 0 < end < len(words) and words[end] in initials:
        end += 1
    own = families | initials
    return [word for at, word in enumerate(words) if not (at < end and word in own) and word not in BESIDE_PLACE]


def _is_venue(words: Sequence[str], venue: str) -> bool:
    """Whether the words are the venue or its abbreviation, each of them."""
    own = venue.split()
    each = all(any(word.startswith(one) or one.startswith(word) for one in own) for word in words)
    sections = {word for word in words if len(word) == 1 and word in own}  # the A of Phys. Rev. A, which is no abbreviation
    names = (" ".join(word for word in name if word not in sections) for name in (words, own))
    return compare_venues(*sorted(names)) == "alike" and (each or len(words) == 1)


def _list_features(work: Work) -> list[str]:
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

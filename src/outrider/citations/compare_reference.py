"""Comparison of a reference with one work, and the choice among several versions of a work.

A reference names a place in print. Of a talk, a report and an article with one title and one team, the place tells which one is meant: the
pages, then journal or volume with the year, then the year alone where no other is known to be of that year, then the journal alone where
all others are in other journals. A reference to print means what was printed: the version printed in its year, or the only one printed. At
last the authors tell, where all others have other ones. Otherwise none is taken.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from outrider.linkage.evidence import KINDS, SAME_TEAM
from outrider.linkage.judge_pair import DIFFERING_TITLE, judge_keys
from outrider.linkage.merge import richness
from outrider.linkage.names_and_titles import Name, normal_title
from outrider.linkage.normalized_record import Keys, make_keys
from outrider.state.records import Paper
from outrider.text.words import STOP_WORDS

YEARS_APART = 1
"""In print and online, a work has two years."""
VERSION_YEARS = 5
"""Between a talk and the article of the same title."""
MARGIN = 2.0
"""Log-odds by which the best work must be ahead of another one."""
LEAST_TEAM = 2
"""Authors that make a team even if a list of authors is cut; one more under a short title."""
LEAST_TITLE = 15
"""Letters of a title that may stand among remains of other fields."""
PAGE_DIGITS = 4
"""Of the number of a page that stands in a title."""
NOTE = re.compile(
    r"\b(?:suppl(?:ement(?:ary|al)?)?|supporting information|appendix|erratum|errata|corrigend(?:um|a)|correction|retraction|retracted"
    r"|reply|comments?|commentary|response to|author response|letter to|preface|editorial|part [ivx\d]+|review of"
    r"|(?<!extended )abstracts?)\b",
    re.IGNORECASE,
)
AROUND_NAME = re.compile(r"^\s*(?:and|&)\s+|[\s,]+(?:et\.?\s*al|and\s+others)\b\W*$|[\s:;&]+$|(?<=[^\W\d_]{3})\.$", re.IGNORECASE)
"""What a parser of lists of authors leaves at a name. "Wee Sun Lee." ends a list and has no initials."""
PLACE_IN_VENUE = re.compile(r"[\s,]+(?:vol\.?\s*)?(?P<volume>\d{1,4})\s*(?:\(\s*\d[^()]*\))?\s*:\s*(?P<pages>\d+(?:\s*[-–—]+\s*\d+)?)\W*$")
"""Volume, issue and pages behind the name of a journal: "J. Comput. Syst. Sci., 48(3):464-497"."""
PAGES_IN_VENUE = re.compile(
    r"[\s,]+(?:\((?P<year>(?:1[5-9]|20)\d\d)\)[\s,:]*(?:pp?\.?|pages?)?|pp?\.?|pages?)\s*(?P<pages>\d+\s*[-–—]+\s*\d+)\W*$", re.IGNORECASE
)
"""Pages, and a year, behind the name of a meeting: "Proc. 21st Symposium on Theory of Computing (1989) 433-444"."""
PLACE_IN_VOLUME = re.compile(r"(?P<volume>\d{1,4})\s*,\s*(?P<pages>\d+(?:\s*[-–—]+\s*\d+)?)")
"""Volume and first page, as physicists write them: "77, 3865"."""
HOST = re.compile(r"(?<!\b\w)(?<!\d{4})(?<!\d{4}\))[.?!]['’”\"]?\s+(?P<word>in):?\s+(?!vi[tv]|situ|silico)", re.IGNORECASE)
"""Between a title and the book in which it stands: "Notes on sorting. In Advances in Algorithms". A study may be in vitro."""
UNPUBLISHED = dict(KINDS)["report"]
REPORT_NUMBER = re.compile(r"\b[a-z]{2,} (?:[a-z]+ )?\d{2,4} \d+\b")
"""In a normal venue: "ucsc crl 91 44"."""
YEAR_WORD = re.compile(r"(?:1[5-9]|20)\d\d[a-z]?")
BESIDE_NAMES = frozenset({"and", "et", "al", "with"})
EQUAL_TITLE = frozenset({"equal", "equal, short", "nearly equal"})
OTHER_TEAM = frozenset({"most", "some"})
"""Levels at which each list has an author whom the other lacks, or may have one."""
SAME_PAGES = frozenset({"equal", "first equal"})


class ReferenceMatch(NamedTuple):
    """The work of a reference, and why."""

    key: str
    why: str


class Work(NamedTuple):
    """A known work, or a reference, in the form in which both are compared."""

    key: str
    keys: Keys
    title: str
    letters: str
    """The title without spaces."""
    notes: frozenset[str]
    words: frozenset[str]
    richness: tuple[int, bool, int, int, str]


class Candidate(NamedTuple):
    """A work that a reference may name."""

    work: Work
    score: float
    why: str
    fields: Mapping[str, str] = {}
    fits: bool = True
    version: bool = False
    """Whether title and authors say that it is a version of the work that the reference names."""


def read_work(key: str, paper: Paper) -> Work:
    paper = restore_fields(paper)
    keys = make_keys(paper)
    title = normal_title(paper.title)
    return Work(key, keys, title, title.replace(" ", ""), find_notes(paper.title), frozenset(title.split()) - STOP_WORDS, richness(paper))


def find_notes(text: str) -> frozenset[str]:
    """A supplement, a correction or a part is another work than the one whose title it repeats."""
    return frozenset(note.lower()[:5] for note in NOTE.findall(text))


def restore_fields(reference: Paper) -> Paper:
    """The reference with the fields that a parser left in another one, and names without "and" and "et al."."""
    title, venue = reference.title, reference.venue or ""
    host = HOST.search(title)
    if host and host.start() >= LEAST_TITLE and (host["word"] != "in" or title.islower()):  # "Ocimum sanctum Linn. in rats" has no book
        title, venue = title[: host.start()], venue or title[host.end() :]
    update: dict[str, object] = {
        "abstract": "",
        "text": "",
        "title": title,
        "venue": venue,
        "authors": tuple(AROUND_NAME.sub("", name) for name in reference.authors),
    }
    if reference.pages:
        return reference.model_copy(update=update)
    if in_volume := PLACE_IN_VOLUME.fullmatch(reference.volume or ""):
        update |= in_volume.groupdict()
    elif place := PLACE_IN_VENUE.search(venue) or PAGES_IN_VENUE.search(venue):
        fields = place.groupdict()
        update |= {"pages": fields["pages"], "venue": venue[: place.start()]}
        update |= {"volume": reference.volume or fields.get("volume"), "year": reference.year or int(fields.get("year") or 0) or None}
    return reference.model_copy(update=update)


def compare_reference(own: Work, work: Work) -> Candidate | None:
    """None if the work is another one."""
    if work.notes != own.notes or _is_first_part(work.keys) != _is_first_part(own.keys):
        return None
    keys = own.keys._replace(identifiers=())
    if _is_title_among_remains(own, work) or _has_stray_number(own, work):
        keys = keys._replace(title=work.keys.title)
    judgement = judge_keys(keys, work.keys)
    fields = {evidence.field: evidence.what for evidence in judgement.evidence}
    related = judgement.relation is not None and judgement.relation.kind in {"preprint of", "version of"}
    version = related or (judgement.relation is None and _is_version(fields, keys, work.keys))
    titled = fields.get("title", "").startswith(("equal", "nearly equal")) and fields.get("authors") != "none"
    if judgement.verdict == "different" and not version and not titled:
        return None
    same = judgement.verdict == "same" and _years_agree(keys, work.keys, fields.get("pages", ""))
    same = same or (judgement.verdict != "different" and _is_same_in_print(fields))
    dois = own.keys.identifier("doi"), work.keys.identifier("doi")
    contradicts = all(dois) and dois[0] != dois[1]
    fits = (same or version) and (not contradicts or _all_else_agrees(fields))
    return Candidate(work, judgement.score, judgement.why(), fields, fits, titled) if fits or titled else None


def choose_versions(own: Keys, candidates: Sequence[Candidate]) -> list[Candidate]:
    """The works that fit, and of several versions of one work the one whose place the reference names."""
    fitting = [each for each in candidates if each.fits]
    in_place = [each for each in fitting if _is_placed(each.fields)]
    versions = [each for each in candidates if each.version]
    if in_place or len(versions) < 2:
        return [each for each in in_place if each.fields.get("pages") in SAME_PAGES] or in_place or fitting
    return (
        _choose_by_year(own, fitting, versions)
        or _choose_by_venue(own, fitting, versions)
        or _choose_published(own, fitting, versions)
        or _choose_by_team(own, fitting, versions)
    )


def take_best(candidates: Sequence[Candidate]) -> ReferenceMatch | None:
    """The best work, unless another one is nearly as good; the fullest one of several records of one work."""
    if not candidates:
        return None
    best = max(candidates, key=lambda each: each.score)
    near = [each for each in candidates if best.score - each.score < MARGIN]
    if best.fields.get("title", "").startswith("equal"):  # "The strength of ..." is not "On the strength of ..."
        near = [each for each in near if each is best or each.fields["title"].startswith(("equal", "nearly equal"))]
    if not all(each is best or _are_one_work(best.work, each.work) for each in near):
        return None
    chosen = min(near, key=lambda each: (-each.score, each.work.richness, each.work.key))
    return ReferenceMatch(chosen.work.key, chosen.why)


def _choose_by_year(own: Keys, fitting: Sequence[Candidate], versions: Sequence[Candidate]) -> list[Candidate]:
    of_year = [each for each in fitting if own.year and each.work.keys.year == own.year and each.fields.get("venue's kind") != "differ"]
    if _is_in_print(own) and any(_is_in_print(each.work.keys) for each in of_year):
        of_year, versions = ([each for each in some if not _is_unpublished(each.work.keys)] for some in (of_year, versions))
    return of_year if not any(_may_be_of_year(own, each) for each in versions if each not in of_year) else []


def _may_be_of_year(own: Keys, version: Candidate) -> bool:
    """Whether its year is near the reference's, or unknown in the reference's journal."""
    year = version.work.keys.year
    return are_within(year, own.year) if year else version.fields.get("venue") == "alike"


def _choose_by_venue(own: Keys, fitting: Sequence[Candidate], versions: Sequence[Candidate]) -> list[Candidate]:
    there = [each for each in fitting if each.fields.get("venue") == "alike" and are_within(own.year, each.work.keys.year)]
    others = [each for each in versions if each not in there]
    return there if all(each.work.keys.venue and each.fields.get("venue") != "alike" for each in others) else []


def _choose_published(own: Keys, fitting: Sequence[Candidate], versions: Sequence[Candidate]) -> list[Candidate]:
    if not _is_in_print(own):
        return []
    published = [each for each in versions if not _is_unpublished(each.work.keys)]
    return [each for each in fitting if len(published) == 1 and each.work.key == published[0].work.key]


def _choose_by_team(own: Keys, fitting: Sequence[Candidate], versions: Sequence[Candidate]) -> list[Candidate]:
    team = [each for each in fitting if each.fields.get("authors") in SAME_TEAM and are_within(own.year, each.work.keys.year)]
    others = [each.fields.get("authors") for each in versions if each not in team]
    return team if others and OTHER_TEAM.issuperset(others) else []


def _is_in_print(keys: Keys) -> bool:
    return bool(keys.venue) and not _is_unpublished(keys)


def _is_unpublished(keys: Keys) -> bool:
    return bool(keys.server or UNPUBLISHED.search(keys.venue) or REPORT_NUMBER.search(keys.venue))


def _are_one_work(one: Work, other: Work) -> bool:
    same_place = one.keys.pages.first and one.keys.pages == other.keys.pages and one.keys.volume == other.keys.volume
    return bool(same_place) and judge_keys(one.keys, other.keys).verdict == "same"


def _is_title_among_remains(own: Work, work: Work) -> bool:
    """Whether the reference's title is the work's, with names, a year or the journal that a parser left before or behind it."""
    letters = work.letters
    if own.letters == letters or len(letters) < LEAST_TITLE or letters not in own.letters:
        return False
    words = own.title.split()
    for start in range(len(words)):
        end, text = start, ""
        while end < len(words) and letters.startswith(text := text + words[end]):  # a word may be broken: "classi fiers"
            end += 1
            if text == letters:
                return are_names(words[:start], work.keys.authors) and _are_of_venue(words[end:], own.keys, work.keys)
    return False


def _has_stray_number(own: Work, work: Work) -> bool:
    """Whether the number of a page of the citing text stands inside the title: "weakly 8 learning DNF"."""
    digits = len(own.letters) - len(work.letters)
    if not 0 < digits <= PAGE_DIGITS or own.keys.year != work.keys.year or min(len(own.keys.authors), len(work.keys.authors)) <= LEAST_TEAM:
        return False
    words = own.title.split()
    return any(word.isdecimal() and "".join((*words[:at], *words[at + 1 :])) == work.letters for at, word in enumerate(words[:-1]) if at)


def are_names(words: Sequence[str], authors: Sequence[Name]) -> bool:
    """Whether all words but years and initials are family names of these authors."""
    rest = [word for word in words if len(word) > 1 and word not in BESIDE_NAMES and not YEAR_WORD.fullmatch(word)]
    families = {name.family for name in authors}
    return families.issuperset(rest) or "".join(rest) in families


def _are_of_venue(words: Sequence[str], own: Keys, work: Keys) -> bool:
    venue = {*own.venue.split(), *work.venue.split()} - STOP_WORDS
    known = venue | STOP_WORDS | {str(work.year)}
    # "boosting in computation" is another title, "boosting computation" is not
    return not words or (words[0] not in STOP_WORDS and known.issuperset(words))


def _is_first_part(keys: Keys) -> bool:
    """Whether the title ends in "I". Records of one work may lack it, but a reference without it may mean any part."""
    return keys.title.tokens[-1:] == ("i",)


def _years_agree(one: Keys, other: Keys, pages: str) -> bool:
    return are_within(one.year, other.year) or pages in SAME_PAGES or one.server != other.server


def _is_same_in_print(fields: Mapping[str, str]) -> bool:
    """Whether a pair that records leave open is one work for a reference: it stands where the work stands, and the rest may be mistyped."""
    if fields.get("authors", "none") in {"none", "some"} or fields.get("pages") == "differ" or "title's kind" in fields:
        return False
    same_year, same_pages = fields.get("year") == "equal", fields.get("pages") == "equal"
    if DIFFERING_TITLE.isdisjoint(fields) and fields.get("title", "") in EQUAL_TITLE:
        in_print = fields.get("volume") == "equal" or fields.get("pages", "") in SAME_PAGES
        return in_print and fields.get("venue") != "other" and fields.get("year") in {None, "equal", "1 apart", "1 apart, printed alike"}
    if fields.get("title", "").startswith(("alike", "nearly equal")) and same_pages and fields.get("venue") == "alike" and same_year:
        return True
    return same_year and _is_word_lost(fields)


def _is_word_lost(fields: Mapping[str, str]) -> bool:
    """Whether one of two titles on one page has a word less, or one mistyped."""
    words_only = DIFFERING_TITLE & fields.keys() == {"title's words"} and fields["title's words"] in {"one has more", "alike"}
    at_place = fields.get("pages") in SAME_PAGES and fields.get("volume") != "differ" and fields.get("venue") == "alike"
    return words_only and at_place and fields["title"] in {"alike", "nearly equal", "similar", "one within the other"}


def _is_version(fields: Mapping[str, str], one: Keys, other: Keys) -> bool:
    """Whether a talk and an article, or a report and either, have the same full title by the same team, a few years apart."""
    title, authors = fields.get("title", ""), fields.get("authors", "")
    few_years = not one.year or not other.year or abs(one.year - other.year) <= VERSION_YEARS
    same_team = authors in {"all", "both", "most"} or (authors == "the only one" and title == "equal")
    least = LEAST_TEAM + title.endswith("short")
    same_team |= authors == "all of one" and min(len(one.authors), len(other.authors)) >= least
    return title in EQUAL_TITLE and DIFFERING_TITLE.isdisjoint(fields) and same_team and few_years and "title's kind" not in fields


def _is_placed(fields: Mapping[str, str]) -> bool:
    same_venue = fields.get("venue") == "alike" or (fields.get("volume") == "equal" and fields.get("venue") != "other")
    return fields.get("pages", "") in SAME_PAGES or (same_venue and fields.get("year") == "equal")


def _all_else_agrees(fields: Mapping[str, str]) -> bool:
    """Whether title, authors and place are the same, so that a differing DOI is a mistake or that of another version."""
    title = fields.get("title", "").startswith(("equal", "nearly equal"))
    return title and fields.get("authors") in {"all", "both", "the only one", "all of one"} and fields.get("pages", "differ") != "differ"


def are_within(one: int, other: int) -> bool:
    return not one or not other or abs(one - other) <= YEARS_APART

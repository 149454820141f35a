"""Evidence for or against one work, as a named level for each field of two records.

`evidence_weights.py` has the weights of the levels. A field that one record lacks is no evidence. Levels are coarse on purpose: each can be
read, counted and discussed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from operator import itemgetter

from rapidfuzz.distance import Indel

from outrider.linkage.names_and_titles import Name, Title
from outrider.linkage.normalized_record import Keys, resemblance
from outrider.linkage.title_differences import compare_titles, in_two_languages
from outrider.text.words import STOP_WORDS

FieldLevel = tuple[str, str]
"""A field and its level, e.g. ("pages", "equal")."""

NUMBER_SCHEMES = ("pmid", "pmcid", "arxiv", "openalex", "s2")
"""Schemes that give one number to one record of a work."""
REGISTERED = ("doi", "pmid", "pmcid", "arxiv")
TITLE_STEPS = ((0.985, "nearly equal"), (0.94, "alike"), (0.85, "similar"), (0.7, "related"))
NOTHING_ALIKE_BELOW = TITLE_STEPS[-1][0]
SHORT_TITLE = 4
"""A title with fewer distinct content words identifies no work: "Editorial", "Book review column"."""
MIN_MAIN_TITLE = 12
"""Least letters of a title before a subtitle that another title lacks."""
ONE_TITLE = frozenset({"equal", "nearly equal", "alike", "similar", "one within the other", "same words"})
"""Levels at which two titles may be one title."""
MIN_ACRONYM = 4
"""Least letters of a venue's acronym: three are too often the initials of other words."""
JOURNAL = frozenset({"j", "journal"})
SERIES = frozenset(
    """
    annual atlas bulletin catalogue census estimates factsheet forecast guideline guidelines index outlook proceedings programme projections
    recommendations report reports review series standards statistics status survey surveys trends update updates yearbook
    """.split()
)
"""Words of titles that return in another year."""
SAME_TEAM = frozenset({"all", "both"})
"""Levels at which two or more authors agree. A team rarely writes several editorials, so that it identifies even a generic title."""
LIKE_NAME = 0.79
"""Least Indel similarity of two spellings of one family name, such as "schapire" and "shapire"."""
SAME_ABSTRACT, LIKE_ABSTRACT, OTHER_ABSTRACT = 0.7, 0.3, 0.08
FEW_HASHES = 5
"""A sketch with fewer hashes is no evidence."""
KINDS = (
    ("meeting", re.compile(r"\b(?:proc\w*|conf\w*|workshop|symp\w*|meeting|congress)\b")),
    ("report", re.compile(r"\b(?:tech\w* rep\w*|report|thesis|dissertation|manuscript|unpublished|preprint|submitted|tr)\b")),
    ("journal", re.compile(r"\b(?:j|journal|trans|transactions|letters|review|annals)\b")),
)


def compare_keys(one: Keys, other: Keys, *, all_fields: bool = False) -> tuple[FieldLevel, ...]:
    """The levels of all fields that both records have; symmetric, in a fixed order.

    If title, identifiers and pages have nothing in common, the other fields are skipped unless `all_fields` is true.
    """
    return tuple(filter(itemgetter(1), _compare_fields(one, other, all_fields=all_fields)))


def _compare_fields(one: Keys, other: Keys, *, all_fields: bool) -> Iterator[FieldLevel]:
    identifiers = tuple(_identifiers(one, other))
    title = _title_level(one.title, other.title)
    named = title in ONE_TITLE and not (one.title.generic or other.title.generic)
    translated = title == "other" and ("doi", "equal") in identifiers and in_two_languages(one.title, other.title)
    doi = "equal, titles too" if named else "equal, titles in two languages" if translated else "equal"
    yield from (("doi", doi) if pair == ("doi", "equal") else pair for pair in identifiers)
    pages = _pages(one, other)
    if not all_fields and title == "other" and pages in {"", "differ"} and not any(level == "equal" for _, level in identifiers):
        yield "title", "nothing alike"
        return
    title = "in another language" if translated else title
    short = min(len(one.title.content), len(other.title.content)) < SHORT_TITLE
    authors = _authors(one.authors, other.authors)
    if translated and authors == "none":  # names are transliterated in many ways
        authors = ""
    level = _qualify(title, one.title, other.title) if short else title
    yield "title", f"{level}, authors too" if level == "equal, generic" and authors in SAME_TEAM else level
    if title in ONE_TITLE or title == "related":
        # a notice that is marked like the article has a number and a place of its own
        one_place = pages == "equal" and one.volume != "" and one.volume == other.volume
        shared = any(level == "equal" and field in {"doi", "number"} for field, level in identifiers)
        yield from compare_titles(one.title, other.title, marks=not (one_place or shared))
    if one.notice or other.notice or SERIES & {*one.title.tokens} & {*other.title.tokens}:
        yield "title's kind", "series"
    printed = pages in {"equal", "first equal"} or ("doi", "equal") in identifiers or ("number", "equal") in identifiers
    yield "authors", authors
    year = _years(one.year, other.year)
    yield "year", f"{year}, printed alike" if printed and year.endswith("apart") else year
    yield "pages", pages
    yield "volume", _equal(one.volume, other.volume)
    yield "issue", _equal(one.issue, other.issue)
    venue = compare_venues(*sorted((one.venue, other.venue)))
    yield "venue", "" if translated and venue == "other" else venue  # a journal's name is translated, too
    yield "venue's kind", _kinds(one.venue, other.venue)
    yield "abstract", _abstracts(one.abstract, other.abstract)


def _equal(one: str, other: str) -> str:
    return "" if not one or not other else "equal" if one == other else "differ"


def _identifiers(one: Keys, other: Keys) -> Iterator[FieldLevel]:
    if not one.identifiers or not other.identifiers:
        return
    mine, theirs = dict(one.identifiers), dict(other.identifiers)
    yield "doi", _equal(mine.get("doi", ""), theirs.get("doi", ""))
    numbers = {_equal(mine[scheme], theirs[scheme]) for scheme in NUMBER_SCHEMES if scheme in mine and scheme in theirs}
    yield "number", "equal" if "equal" in numbers else "differ" if numbers else ""
    yield "isbn", "equal" if mine.get("isbn") and mine.get("isbn") == theirs.get("isbn") else ""
    yield "address", "equal" if mine.get("url") and mine.get("url") == theirs.get("url") else ""
    if one.kind == "paper" == other.kind and not any(mine.get(scheme) == theirs[scheme] for scheme in REGISTERED if scheme in theirs):
        own = mine.get("own", ""), theirs.get("own", "")
        same_source = own[0].partition(" ")[0] == own[1].partition(" ")[0]  # numbers of two sources are no evidence
        yield "own number", _equal(*own) if same_source else ""
    elif mine.get("own") and mine.get("own") == theirs.get("own"):
        yield "own number", "equal"


def _qualify(level: str, one: Title, other: Title) -> str:
    if one.generic or other.generic:
        return f"{level}, generic" if level in ONE_TITLE or level == "related" else level
    return f"{level}, short" if level in ONE_TITLE else level


def _title_level(one: Title, other: Title) -> str:
    if not one.compact or not other.compact:
        return ""
    if one.compact == other.compact:
        return "equal"
    shorter, longer = sorted((one, other), key=lambda title: len(title.compact))
    alike = Indel.normalized_similarity(one.compact, other.compact, score_cutoff=NOTHING_ALIKE_BELOW)
    step = next((name for least, name in TITLE_STEPS if alike >= least), "other")
    if alike < TITLE_STEPS[1][0] and len(shorter.content) >= SHORT_TITLE - 1 and (shorter.compact in longer.compact):
        return "one within the other"
    if shorter.compact == longer.main and len(longer.main) >= MIN_MAIN_TITLE:
        return "one within the other"
    if step in {"related", "other"} and len(one.content) >= SHORT_TITLE and set(one.content) == set(other.content):
        return "same words"
    return step


def _authors(one: tuple[Name, ...], other: tuple[Name, ...]) -> str:
    """Compared by the shorter list, because lists are often cut."""
    if not one or not other:
        return ""
    if one == other:
        return _all(len(one))
    shorter, longer = sorted((one, other), key=lambda names: (len(names), names))
    # mostly the one at the same place, or one that is written alike
    common = sum(
        _same_person(name, longer[at]) or name in longer or any(_same_person(name, other) for other in longer)
        for at, name in enumerate(shorter)
    )
    share = common / len(shorter)
    if share == 1 and len(longer) - len(shorter) <= max(1, len(longer) // 4):
        return _all(len(shorter))
    if share == 1:
        return "all of one"
    return "most" if share >= 0.6 else "some" if common else "none"


def _all(count: int) -> str:
    return "the only one" if count == 1 else "both" if count == 2 else "all"


def _same_person(one: Name, other: Name) -> bool:
    (family, initials, words), (other_family, other_initials, other_words) = one, other
    if family == other_family:
        return not (initials and other_initials) or initials[0] in other_initials or other_initials[0] in initials
    if len(words) > 1 and len(other_words) > 1 and len({*words} & {*other_words}) > 1:
        return True
    return len(family) > 2 < len(other_family) and Indel.normalized_similarity(family, other_family, score_cutoff=LIKE_NAME) > 0


def _years(one: int, other: int) -> str:
    if not one or not other:
        return ""
    difference = abs(one - other)
    return "equal" if not difference else f"{difference} apart" if difference < 3 else "far apart"


def _pages(one: Keys, other: Keys) -> str:
    mine, theirs = one.pages, other.pages
    if not mine.first or not theirs.first:
        return ""
    if mine.first == theirs.first:
        return "equal" if mine.last == theirs.last and mine.last else "first equal"
    electronic = mine.first.removeprefix("e") == theirs.first.removeprefix("e")
    return "first equal" if electronic or mine.digits == theirs.digits or (mine.last and mine.last == theirs.last) else "differ"


@lru_cache(maxsize=65_536)
def compare_venues(one: str, other: str) -> str:
    """The level of two normal names; "" if unknown or in doubt.

    An abbreviation matches a name if each of its words begins a word of the name, or its letters are the initials.
    """
    if not one or not other:
        return ""
    if one == other:
        return "alike"
    mine, theirs = one.split(), other.split()
    shorter, longer = (mine, theirs) if len(mine) <= len(theirs) else (theirs, mine)
    if len(shorter) == 1 and shorter[0] == "".join(word[0] for word in longer if len(word) > 3 or len(longer) < 4):
        return "alike"
    if _has_acronym(mine, theirs) or _has_acronym(theirs, mine):
        return "alike"
    begins = [
        any(
            (word.startswith(whole) or whole.startswith(word)) and (min(len(word), len(whole)) > 1 or {word, whole} <= JOURNAL)
            for whole in longer
        )
        for word in shorter
    ]
    share = sum(begins) / len(shorter)
    return "alike" if share >= 0.75 else "other" if share <= 0.34 else ""


def _has_acronym(short: list[str], long: list[str]) -> bool:
    """Whether a word is the initials of words in sequence: "icml 15", "proceedings of the international conference on machine learning"."""
    initials = "".join(word[0] for word in long if word.isalpha() and word not in STOP_WORDS)
    return any(len(word) >= MIN_ACRONYM and word in initials for word in short if word.isalpha())


@lru_cache(maxsize=16_384)
def _kind(venue: str) -> str:
    return next((kind for kind, words in KINDS if words.search(venue)), "")


def _kinds(one: str, other: str) -> str:
    first, second = _kind(one), _kind(other)
    if first == second or not one or not other:
        return ""
    if first and second:
        return "differ"
    return "one a journal" if "journal" in {first, second} else ""


def _abstracts(one: tuple[int, ...], other: tuple[int, ...]) -> str:
    if min(len(one), len(other)) < FEW_HASHES:
        return ""
    shared = resemblance(one, other)
    if shared >= SAME_ABSTRACT:
        return "equal"
    return "alike" if shared >= LIKE_ABSTRACT else "other" if shared <= OTHER_ABSTRACT else "partly"

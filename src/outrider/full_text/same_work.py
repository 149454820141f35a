"""Judgement whether a text is that of a work

A wrong link, a supplement, a correction and a reply are refused. A text proves itself by its title and an author, or by an identifier and
one of both. Titles of PDFs are read from the page and are often wrong, so the work's title is also looked for in the beginning of the
text. Journals translate and shorten titles, and preprints change them: so an identifier with an author is enough, too.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from outrider.linkage.lookup_match import identifiers_contradict, titles_agree
from outrider.linkage.names_and_titles import normal_title, parse_name, parse_notice, parse_title
from outrider.linkage.normalized_record import parse_authors
from outrider.linkage.title_differences import compare_titles
from outrider.state.records import Record

START_CHARS = 6_000
"""The beginning of a text: title page and introduction, and not the list of references."""
HEAD_CHARS = 1_500
"""Where the title of the text itself stands, behind the name of a journal and a licence."""
LEAST_SCORE = 90.0
"""Indel similarity of a title with the most similar piece of a text, in per cent: hyphens, ligatures and line ends differ."""
SHORT_TITLE_WORDS = 3
"""A title of so few words is one of many: it proves nothing without an author or an identifier."""
LEAST_TITLE_CHARS = 8
LEAST_NAME_CHARS = 4
"""A shorter family name, such as Li, is a word of many texts."""
CORRECTED = r"correction|corrigendum|erratum|retraction|addendum|supplementary|supplemental|supporting information|supplement"
DISCUSSED = r"comments?|commentary|reply|response|rejoinder|review of|editorial"
BEFORE_TITLE = re.compile(rf"\b(?:(?P<corrected>{CORRECTED})\b(?: \w+){{0,8}}|(?P<discussed>{DISCUSSED})\b(?: \w+){{0,4}}) ?$")
"""Before the title of another work, in normalised text: the text is about that work. A journal may print the second kind above the title
of the work itself, so it counts only where no author of the work is named."""
COMPARED_SCHEMES = frozenset({"doi", "pmid", "pmcid", "arxiv"})
DIFFERENCES = frozenset({"title's numbers", "title's words", "title's telling words"})


class TextIdentity(NamedTuple):
    """What of a work a text shows."""

    has_title: bool
    has_other_title: bool
    """A title that is alike and has another number or another telling word: `Part 2`, `in rats`."""
    names_author: bool
    has_other_authors: bool
    has_identifier: bool
    has_other_identifier: bool
    about: str
    """The kind of text about the work that it is, such as `correction`; empty for none."""


def explain_other_work(work: Record, text: Record) -> str:
    """Why a text is not the work's; empty if it is. `text` has what was read from the text alone."""
    found = compare(work, text)
    title = text.title[:150]
    if found.about:
        return f"it is a text about the work ({found.about}), not the work"
    if found.has_identifier and (found.has_title or (found.names_author and not found.has_other_title)):
        return ""
    if not found.has_title:
        return f"it is another work: its title is {title!r}" if title else "it does not name the work"
    if found.has_other_title:
        return f"it is another work: its title is {title!r}"
    if found.has_other_authors:
        return "it has the title of the work and other authors"
    if found.has_other_identifier and not found.names_author:
        return "it has the title of the work and another identifier"
    if found.names_author or len(normal_title(work.title).split()) > SHORT_TITLE_WORDS:
        return ""
    return "it has the title of the work, which is short, and neither an author nor an identifier of it"


def compare(work: Record, text: Record) -> TextIdentity:
    start = text.full_text()[:START_CHARS]
    plain_start = normal_title(" ".join(start.split()))
    place, is_exact = _find_title(normal_title(work.title), plain_start)
    agrees = titles_agree(work.title, text.title)
    pairs = {pair for pair in text.identifiers.pairs() if pair[0] in COMPARED_SCHEMES}
    words = frozenset(plain_start.split())
    names = {name.family for name in parse_authors(work.authors)}
    theirs = {name.family for name in parse_authors(text.authors)}
    names_author = bool(names & theirs) or any(_is_named(author, words) for author in work.authors)
    differing = dict(compare_titles(parse_title(work.title), parse_title(text.title))) if agrees and not is_exact else {}
    return TextIdentity(
        has_title=agrees or place is not None,
        has_other_title=any(differing.get(field) == "differ" for field in DIFFERENCES),
        names_author=names_author,
        has_other_authors=bool(names and theirs) and not names_author,
        has_identifier=any(pair in pairs for pair in work.identifiers.pairs()),
        has_other_identifier=identifiers_contradict(work, text),
        about=_find_subject(work, text, "" if place is None or agrees else plain_start[max(0, place - 80) : place], named=names_author),
    )


def _find_subject(work: Record, text: Record, before: str, *, named: bool) -> str:
    """What kind of text about the work this is, by its title, or by what stands `before` the title of the work; empty for none."""
    notice = parse_notice(text.title)
    if notice and not parse_notice(work.title):
        return {"corrects": "a correction", "retracts": "a retraction"}.get(notice.partition(" /")[0], "a comment")
    match = BEFORE_TITLE.search(before)
    return "" if match is None or (match["discussed"] and named) else match["corrected"] or match["discussed"]


def _find_title(title: str, start: str) -> tuple[int | None, bool]:
    """Where the beginning of a text has a title, near enough, or None; and whether it has exactly this one."""
    if len(title) < LEAST_TITLE_CHARS:
        return None, False
    head = start[: HEAD_CHARS + len(title)]
    if (at := head.find(title)) >= 0:
        return at, True
    from rapidfuzz import fuzz

    match = fuzz.partial_ratio_alignment(title, head, score_cutoff=LEAST_SCORE)
    return (None if match is None else match.dest_start), False


def _is_named(author: str, words: frozenset[str]) -> bool:
    """Whether a text has an author's family name as marked by a comma, or else the last word; a short one with a given name."""
    name = parse_name(author)
    if name is None:
        return False
    family, comma, _ = author.partition(",")
    parts = normal_title(family).split() if comma else normal_title(author).split()[-1:]
    others = [word for word in name.words if word not in parts]
    if parts and words.issuperset(parts):
        return len("".join(parts)) >= LEAST_NAME_CHARS or any(word in words for word in others)
    return len(others) > 1 and words.issuperset(others)

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
CORRECTED = (
    r"correction|corrigendum|erratum|retraction|addendum|supplementary|supplemental|supporting information|supplement(?! \d)"
    r"|appendix(?: \w+)? (?:to|for|of)"
)
DISCUSSED = r"comments?|commentary|reply|response|rejoinder|review of|editorial"
NAMED_SUBJECT = r"(?:comments? on|(?:reply|response|rejoinder) to)(?: the)?(?: (?:paper|article))?"
BEFORE_TITLE = re.compile(
    rf"\b(?:(?P<corrected>{CORRECTED})\b(?: \w+){{0,8}}|(?P<subject>{NAMED_SUBJECT})|(?P<discussed>{DISCUSSED})\b(?: \w+){{0,4}}) ?$"
)
"""Before the title of another work, in normalised text: the text is about that work. A journal may print the second kind above the title
of the work itself, so it counts only where no author of the work is named. "Supplement 4" is an issue of a journal."""
BEHIND_TITLE = re.compile(
    r" ?(?:author |publisher )?(?P<about>erratum|corrigendum|correction|retraction|addendum|supporting information|(?:online )?appendix"
    r"|supplementa(?:ry|l) (?:materials?|information|data|appendix|methods?|text|files?|notes?))\b"
)
OTHER_PART = re.compile(r" ?(?:part (?:[2-9]|\d\d|ii+|iv|vi*|ix|two|three|four)|ii+|iv|vi+|ix)\b")
"""Behind the title of the work: the text is the second part of it, or a later one."""
LONGER_NUMBER = re.compile(r"(?<=\d)\d+|(?<=\b[ivx])[ivx]+\b")
"""Letters that belong to the last word of a title: the work is `Part I`, the text `Part II`. Any others are those of the next line."""
COLUMN = re.compile(r"^(?:\S+ ){0,3}(?:message|column|announcements|corner|newsletter|call for papers)$")
"""Normalised titles of what each issue of a journal has, such as "information director s message", by the same author."""
IDEOGRAPH = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
"""Scripts written without spaces: two characters are about a word, and a name has two or three."""
COMPARED_SCHEMES = frozenset({"doi", "pmid", "pmcid", "arxiv"})
DIFFERENCES = frozenset({"title's numbers", "title's words", "title's telling words"})


class TextIdentity(NamedTuple):
    """What of a work a text shows."""

    has_title: bool
    has_other_title: bool
    """A title that is alike and has another number or another telling word: `Part 2`, `in rats`."""
    names_author: bool
    has_other_authors: bool
    lacks_authors: bool
    """The title of the work stands in the text, which has another title of its own, or none, and names no author of the work."""
    has_identifier: bool
    has_other_identifier: bool
    about: str
    """The kind of text about the work that it is, such as `correction`; empty for none."""


class TitlePlace(NamedTuple):
    """Where a text has the title of a work, in normalised text."""

    words: str
    """The title as the text has it."""
    before: str
    behind: str

    @property
    def is_other_part(self) -> bool:
        return OTHER_PART.match(self.behind) is not None


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
    if found.lacks_authors:
        return "it has the title of the work and names none of its authors"
    plain_title = normal_title(work.title)
    is_short, is_generic = _is_short(plain_title), parse_title(work.title).generic or COLUMN.match(plain_title) is not None
    if found.has_other_identifier and (is_short or is_generic or not found.names_author):
        return "it has the title of the work and another identifier"
    if is_generic:
        return "its title is one of many texts, and no identifier of the work is in it"
    if found.names_author or not is_short:
        return ""
    return "it has the title of the work, which is short, and neither an author nor an identifier of it"


def compare(work: Record, text: Record) -> TextIdentity:
    plain_title = normal_title(work.title)
    plain_start = _normalise(text.full_text())
    # the first page of a PDF shows what stands around its title; an abstract would stand before it
    place = _find_title(plain_title, _normalise(text.text)) or _find_title(plain_title, plain_start)
    in_title = _find_title(plain_title, normal_title(text.title))
    agrees = titles_agree(work.title, text.title)
    has_title = agrees or place is not None
    if _is_short(plain_title) and not agrees:
        has_title = any(normal_title(line) == plain_title for line in text.text[:HEAD_CHARS].splitlines())
    pairs = {pair for pair in text.identifiers.pairs() if pair[0] in COMPARED_SCHEMES}
    words = frozenset(plain_start.split())
    names = {name.family for name in parse_authors(work.authors)}
    theirs = {name.family for name in parse_authors(text.authors)}
    names_author = bool(names & theirs) or any(_is_named(author, words, plain_start) for author in work.authors)
    is_exact = place is not None and place.words == plain_title
    theirs_title = place.words if place and not is_exact and not agrees else text.title if agrees and not is_exact else work.title
    differing = dict(compare_titles(parse_title(work.title), parse_title(theirs_title)))
    return TextIdentity(
        has_title=has_title,
        has_other_title=any(differing.get(field) == "differ" for field in DIFFERENCES)
        or any(one.is_other_part for one in (place, in_title) if one),
        names_author=names_author,
        has_other_authors=bool(names and theirs) and not names_author,
        lacks_authors=bool(names) and not names_author and not agrees,
        has_identifier=any(pair in pairs for pair in work.identifiers.pairs()),
        has_other_identifier=identifiers_contradict(work, text),
        about=_find_subject(work, text, None if agrees and text.kind == "page" else place, named=names_author),
    )


def _normalise(text: str) -> str:
    return normal_title(" ".join(text[:START_CHARS].split()))


def _is_short(title: str) -> bool:
    """Whether a normalised title has so few words that it is one of many."""
    return len(title.split()) + len(IDEOGRAPH.findall(title)) // 2 <= SHORT_TITLE_WORDS


def _find_subject(work: Record, text: Record, place: TitlePlace | None, *, named: bool) -> str:
    """What kind of text about the work this is, by its title, or by what stands around the title of the work; empty for none."""
    notice = parse_notice(text.title)
    if parse_notice(work.title):
        return ""
    if notice:
        return {"corrects": "a correction", "retracts": "a retraction"}.get(notice.partition(" /")[0], "a comment")
    if place is None:
        return ""
    if behind := BEHIND_TITLE.match(place.behind):
        return behind["about"]
    match = BEFORE_TITLE.search(place.before)
    if match is None or (match["discussed"] and named):
        return ""
    return match["corrected"] or match["subject"] or match["discussed"]


def _find_title(title: str, start: str) -> TitlePlace | None:
    """Where the beginning of a text has a title, or one that is nearly the same; None if it has none."""
    if len(title) + len(IDEOGRAPH.findall(title)) < LEAST_TITLE_CHARS:
        return None
    head = start[: HEAD_CHARS + len(title)]
    exact = re.search(rf"(?<!\w){re.escape(title)}(?!\w)", head)
    if (at := exact.start() if exact else head.find(title)) >= 0:
        longer = LONGER_NUMBER.match(head, at + len(title))
        end = longer.end() if longer else at + len(title)
    else:
        from rapidfuzz import fuzz

        match = fuzz.partial_ratio_alignment(title, head, score_cutoff=LEAST_SCORE)
        if match is None:
            return None
        at = head.rfind(" ", 0, match.dest_start + 1) + 1
        end = head.find(" ", max(match.dest_end, match.dest_start + len(title)) - 1)
        end = end if end >= 0 else len(head)
        if head[at:end].replace(" ", "").startswith(title.replace(" ", "")):  # "KCa 3.1", words that a line end divided
            return TitlePlace(title, start[max(0, at - 80) : at], "")
    return TitlePlace(head[at:end], start[max(0, at - 80) : at], start[end : end + 80])


def _is_named(author: str, words: frozenset[str], start: str) -> bool:
    """Whether a text has an author's family name; a short one only with a given name or an initial.

    It is marked by a comma, or is the last word, or the first one before initials.
    """
    name = parse_name(author)
    if name is None:
        return False
    family, comma, _ = author.partition(",")
    all_words = normal_title(author).split()
    parts = normal_title(family).split() if comma else all_words[:1] if all_words and len(all_words[-1]) == 1 else all_words[-1:]
    others = [word for word in name.words if word not in parts]
    if not (parts and words.issuperset(parts)):
        return len(others) > 1 and words.issuperset(others)
    whole = " ".join(parts)
    if len(whole) + 2 * bool(IDEOGRAPH.search(whole)) >= LEAST_NAME_CHARS or any(word in words for word in others):
        return True
    initials = "|".join(re.escape(word[0]) for word in all_words if word not in parts)
    near = rf"\b(?:(?:{initials}) (?:\w )?{re.escape(whole)}|{re.escape(whole)} (?:{initials}))\b"
    return bool(initials) and re.search(near, start) is not None

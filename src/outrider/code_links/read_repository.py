"""Papers that a repository names, and whether they are its own

Read are README, description, topics and links.

A README names many works: the paper of the software, those that it builds on, data sets, examples. Each mention gets points from the words,
heading, badge, BibTeX entry and names around it; at `OWN_POINTS` the paper is the repository's own. Precision goes before recall: a mention
in a table, in a list of references, or beside words such as *based on* needs the agreement of names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from outrider.code_links.names import (
    LEAST_TITLE_WORDS,
    NameInText,
    find_papers,
    is_archive,
    list_repository_names,
    normal_paper,
    page_name,
    parse_repository_address,
    squeeze,
    title_name,
)
from outrider.code_links.readme_structure import BibtexEntry, Line, Readme
from outrider.state.code_links import LinkEvidence, LinkKind
from outrider.state.records import Repository

OWN_POINTS = 4
MOST_CHARS = 400_000
"""Of a README that are read."""
MOST_MENTIONS = 400
WORDS_BEFORE, WORDS_AFTER = 110, 60
CITE_HEADING = re.compile(
    r"\b(?:cit(?:e|ing|ation|ations)|referencing|how to cite|publications?|papers?|attribution|bibtex|acknowledging)\b", re.IGNORECASE
)
REFERENCE_HEADING = re.compile(
    r"\b(?:references?|bibliography|related|acknowledge?ments?|credits?|see also|further reading|resources|used by|who uses|built with)\b",
    re.IGNORECASE,
)
CITE = re.compile(
    r"\b(?:please|consider|if you|when using|to|be sure to|feel free to|kindly|should|can|could|appreciate|"
    r"ask(?:ed)? (?:you )?to)\b[^.!?]{0,120}?\b(?:cit(?:e|ing|ations?)|reference the|referencing|use the following (?:"
    r"bibtex|citation|reference|publication))\b"
    r"|\b(?:cite|citing) (?:it|this|us|our|the)\b|\bcite as\b|\bhow to cite\b|\bcitations? to the following\b|\bthe current\s+reference\b",
    re.IGNORECASE,
)
CITE_OTHER = re.compile(
    r"\b(?:cite|citing)\s+(?:also\s+)?(?:the|both the)?\s*[\[`*\"“]*(?P<who>[A-Za-z][\w.+-]*)[\]`*\"”]*(?:\([^)]*\))?\s"
    r"+(?:publication|paper|article|preprint|project|package|library|framework|data ?set|software)\b",
    re.IGNORECASE,
)
GENERIC = frozenset(
    """the a an joss our original following corresponding arxiv above below main accompanying associated this these software relevant
    latest first second journal nature conference method methods system tool reference respective appropriate
    underlying research scientific""".split()
)
OUR_PAPER = re.compile(
    r"\bour (?:\w+ ){0,3}(?:paper|article|publication|preprint|manuscript|technical report|work)\b|\b(?:this|"
    r"the) (?:repository|repo|project|package|code|software|library|framework|toolbox) (?:accompanies|"
    r"is (?:described|presented|introduced|published|documented) in)"
    r"|\b(?:described|presented|introduced|detailed|published|validated)[^.!?]{0,60} in (?:our|the (?:following )?(?:p"
    r"aper|article))|\bpublished in\b|\baccompan(?:ies|ying)\b[^.!?]{0,40}\bpaper\b"
    r"|\bcode (?:for|of|to reproduce|accompanying)\b[^.!?]{0,60}\b(?:our|the) (?:\w+ ){0,3}(?:paper|article|manuscript)\b",
    re.IGNORECASE,
)
OFFICIAL = re.compile(
    r"(?<!un)(?<!non-)\bofficial\b[^.!?\n]{0,60}\b(?:implementation|code|repository|repo|release|codebase|source)\b", re.IGNORECASE
)
OTHERS = re.compile(
    r"\b(?:based (?:up)?on|inspired by|builds? (?:up)?on|built on|adapted from|derived from|derives from|"
    r"modified from|ported from|port of|proposed (?:in|by)|introduced by|originally|thanks to|borrow(?:s|"
    r"ed)?|re-?implement\w*|unofficial|non-official|implements?|implementation of|follow(?:s|ing) the (?:paper|"
    r"method|approach)|as (?:described|proposed|in) |data ?sets?|corpus|benchmark from|trained on|pre-?trained|"
    r"compar(?:e|ed|ison)|alternative to|algorithms? (?:of|from|by)|taken from|according to|inspiration|"
    r"(?:reproduces|reproduction of|replicates|replication of)\b(?![^.]{0,40}\bour\b)|"
    r"depends on|wrapper (?:for|around)|fork of|uses? the|love|for more details on|e\.g\.|for example|"
    r"example)\b",
    re.IGNORECASE,
)
TABLE = re.compile(r"^\s*\|.*\||^\s*[+|][-=+|]{3,}|<t[dr]\b", re.IGNORECASE)
REFERENCE_ITEM = re.compile(r"^\s*(?:[-*]\s*)?(?:\[#?[\w^-]{1,40}\]|\.\.\s+\[#?[\w-]+\]|\(\d{1,3}\)|\d{1,3}[.)])\s*[:.]?\s")
ET_AL = re.compile(r"\bet[ ]al\b", re.IGNORECASE)
BADGE = re.compile(r"!\[[^\]]*\]\(|<img\b|image::|\|[\w ]+\|")
JOSS = re.compile(r"joss\.theoj\.org/papers|10\.21105/joss", re.IGNORECASE)
PAPER_LABEL = re.compile(
    r"(?:\[|>|\b)(?:[📄📝📜📑🔗📖]\s*)?(?:the )?(?:\w+ )?(?:paper|arxiv|preprint|technical report|pdf|publication|"
    r"article)\s*(?:\(?pdf\)?)?\]?(?:</a>)?",
    re.IGNORECASE,
)
FORK = re.compile(r"\b(?:a )?(?:fork|mirror|clone|copy|port) of\b|\bmirror(?:ed)? from\b|\bforked from\b|\bunofficial\b", re.IGNORECASE)
AWESOME = re.compile(
    r"(?:^|[-_/])awesome(?:$|[-_])|\b(?:curated|awesome) list\b|\bpaper ?list\b|\breading list\b|\blist of (?:papers|resources|awesome)\b",
    re.IGNORECASE,
)
TOPIC = re.compile(r"(?:arxiv|arxiv-id)[-_]?(\d{4})[-_.]?(\d{4,5})", re.IGNORECASE)
PAPER_OF_DESCRIPTION = re.compile(
    r"(?<!un)(?:\bofficial\b[^.:]{0,60}?|\b(?:code|implementation|repository|source code|data and code) )\b(?:of|"
    r"for|to|accompanying)\b(?: (?:our|the))?(?: \w+){0,3}? paper\b[\s:,\"“'*_\[-]*(?P<title>[^\"”\n\]]{15,300})",
    re.IGNORECASE,
)
ARCHIVE_WORDS = re.compile(r"\b(?:zenodo (?:archive|doi|record)|release|version|archived?|software)\b", re.IGNORECASE)
SOFTWARE_ENTRIES = frozenset({"software", "misc", "manual", "online", "electronic"})
BASE = {"bibtex": 0.94, "badge": 0.9, "text": 0.88, "title": 0.82}


@dataclass(frozen=True, slots=True)
class Mention:
    """A paper in a README, judged."""

    name: str
    start: int
    end: int
    kind: LinkKind
    points: int
    form: str
    heading: str


class RepositoryReader:
    """Reads one repository's own texts."""

    def __init__(self, record: Repository) -> None:
        self.record = record
        self.names = list_repository_names(record)
        self.readme = Readme(record.text[:MOST_CHARS])

    @cached_property
    def words(self) -> frozenset[str]:
        """Spellings of its name without punctuation, of three letters or more."""
        own = self.record.identifiers
        parts = [own.github.partition("/")[2] if own.github else "", own.pypi or "", self.record.title.rpartition("/")[2]]
        parts += [name.rpartition("/")[2] for name in self.names if not name.startswith("doc:")]
        spelled = {squeeze(part) for part in parts if part} | {
            squeeze(re.sub(r"(?i)[-_.]?(?:py|python|js|rs|r|cpp|learn|pytorch|tf)$|^(?:py|python)[-_.]", "", part))
            for part in parts
            if part
        }
        return frozenset(word for word in spelled if len(word) >= 3)

    @cached_property
    def is_other(self) -> bool:
        """Whether its README may be that of another project: a fork or mirror."""
        return bool(self.record.is_fork) or FORK.search(self.record.description) is not None

    @cached_property
    def is_list(self) -> bool:
        return any(AWESOME.search(text) for text in (self.record.title, self.record.description, *self.names, self.readme.text[:300]))

    @cached_property
    def owner(self) -> str:
        return self.names[0].partition(":")[2].partition("/")[0] if self.names and "/" in self.names[0] else ""

    def read(self) -> Iterator[LinkEvidence]:
        """All evidence: own papers and archives by their best mention, other works by their first."""
        if not self.names:
            return
        yield from self._read_fields()
        best: dict[str, Mention] = {}
        for mention in self._mentions():
            known = best.get(mention.name)
            if known is None or _order(mention) > _order(known):
                best[mention.name] = mention
        for mention in best.values():
            yield self._make_evidence(mention)

    # The README

    def _mentions(self) -> Iterator[Mention]:
        text = self.readme.text
        places = [place for place, _ in zip(find_papers(text), range(MOST_MENTIONS), strict=False)]
        crowd = Counter(self.readme.section_start(place.start) for place in places)
        for place in places:
            entry = self.readme.entry(place.start)
            if entry is None:
                yield self._judge(place, crowd[self.readme.section_start(place.start)])
        yield from self._judge_entries()

    def _judge_entries(self) -> Iterator[Mention]:
        """BibTeX entries: all identifiers of one entry are one work; without any, its title names it."""
        first: BibtexEntry | None = None
        for entry in self.readme.entries:
            names = list(dict.fromkeys(self._list_entry_names(entry)))
            is_software = entry.kind in SOFTWARE_ENTRIES and not any(not is_archive(name) for name in names)
            title = title_name(entry.title)
            if not names and not is_software and title and len(title.split()) >= LEAST_TITLE_WORDS + 1:
                names = [title]
            points = self._count_entry_points(entry, first)
            first = first or entry
            for name in names:
                form = "title" if name.startswith("title:") else "bibtex"
                yield self._make_mention(NameInText(name, entry.start, entry.end), points, form)

    @staticmethod
    def _list_entry_names(entry: BibtexEntry) -> Iterator[str]:
        if doi := entry.fields.get("doi"):
            yield from (one.name for one in find_papers(doi))
        for name in ("eprint", "url", "journal", "note", "howpublished", "volume"):
            value = entry.plain(name)
            if name == "eprint" and (arxiv := normal_paper("arxiv", value.lower().removeprefix("arxiv:").split("v")[0])):
                yield arxiv
            else:
                yield from (one.name for one in find_papers(value))

    def _count_entry_points(self, entry: BibtexEntry, first: BibtexEntry | None) -> int:
        before = self.readme.paragraph(entry.start, before=2)[-500:]
        last = self.readme.paragraph(entry.start, before=1)[-260:]
        heading = self.readme.heading(entry.start)
        points = 3
        points += 2 * bool(CITE_HEADING.search(heading)) + 2 * bool(CITE.search(before)) + bool(OUR_PAPER.search(before))
        named = self._is_named(entry.title)
        points += 3 * named
        points -= 4 * bool(OTHERS.search(last) and not named)
        points -= 4 * (self._cites_other(last) and not named)
        points -= 3 * bool(REFERENCE_HEADING.search(heading) and not named and not CITE.search(before))
        if first is not None and not named and not (first.families & entry.families):
            points -= 3
        if entry.families and any(self._is_author(family) for family in entry.families):
            points += 1
        return points

    def _judge(self, place: NameInText, crowd: int) -> Mention:
        line, text = self.readme.line(place.start), self.readme.text
        heading = self.readme.heading(place.start)
        before = self.readme.paragraph(place.start, before=1)[-600:]
        sentence = _last_sentence(self.readme.paragraph(place.start)[-400:])
        around = f"{sentence} {_first_sentence(self.readme.after(place.end))}"
        label = text[max(line.start, place.start - 140) : place.start]
        named = self._is_named(_find_label(label, line.text)) or self._starts_named(sentence)
        in_table, in_references = bool(TABLE.search(line.text)), bool(REFERENCE_ITEM.match(line.text))
        if line.text.lstrip().startswith(("http", "(http")) and line.start:  # a link that is continued on the next line
            line_before = self.readme.line(line.start - 1)
            label, line = f"{line_before.text[-200:]}{label.lstrip()}", Line(line.number, line.start, f"{line_before.text} {line.text}")
        is_badge = bool(BADGE.search(line.text)) and not in_table
        cites = bool(CITE.search(before)) or bool(CITE.search(sentence))
        points = (
            3 * cites
            + bool(CITE.search(sentence))
            + 2 * bool(CITE_HEADING.search(heading))
            + 2 * bool(OUR_PAPER.search(around))
            + 4 * bool(OFFICIAL.search(around))
        )
        points += 3 * named + (not named and self._is_named(around))
        points += 2 * is_badge + bool(PAPER_LABEL.search(label[-60:]))
        points += 3 * bool(JOSS.search(place.name) and is_badge)
        points += bool(is_badge and line.number <= 60 and crowd <= 8)
        points -= 4 * ((in_table or in_references) and not named) + 3 * bool(in_references and named and not cites)
        points -= 4 * bool(OTHERS.search(around) and not OFFICIAL.search(around)) + 3 * bool(ET_AL.search(label[-80:]) and not cites)
        points -= 5 * (self._cites_other(before) or self._cites_other(sentence)) + 2 * bool(
            REFERENCE_HEADING.search(heading) and not CITE_HEADING.search(heading)
        )
        points -= 2 * (crowd > 6 and not cites and not named and not is_badge)
        points += is_archive(place.name) and ARCHIVE_WORDS.search(around) is not None
        return self._make_mention(place, points, "badge" if is_badge else "text", heading)

    def _make_mention(self, place: NameInText, points: int, form: str, heading: str | None = None) -> Mention:
        points -= 3 * self.is_list
        kind: LinkKind = "mentions"
        if is_archive(place.name):
            kind = "archive" if points >= (2 if form == "badge" else 3) and not self.is_other else "mentions"
        elif points >= OWN_POINTS and not self.is_other:
            kind = "repository's paper"
        elif points <= -2:
            kind = (
                "based on"
                if re.search(r"based|inspired|implement|port|derived|adapted", self.readme.paragraph(place.start)[-200:], re.IGNORECASE)
                else "mentions"
            )
        return Mention(
            place.name, place.start, place.end, kind, points, form, self.readme.heading(place.start) if heading is None else heading
        )

    def _make_evidence(self, mention: Mention) -> LinkEvidence:
        sure = BASE[mention.form] + min(0.05, 0.01 * max(0, mention.points - OWN_POINTS))
        return LinkEvidence(
            work=mention.name,
            target=self.names[0],
            kind=mention.kind,
            read_in=self.record.doc_id,
            place="README",
            field=mention.heading[:100],
            line=self.readme.line(mention.start).number,
            start=mention.start,
            end=mention.end,
            words=quote(self.readme.text, mention.start, min(mention.end, mention.start + 160)),
            confidence=round(sure if mention.kind not in ("mentions", "based on") else 0.3, 3),
        )

    # Other fields

    def _read_fields(self) -> Iterator[LinkEvidence]:
        record = self.record
        for tag in record.tags:
            if match := TOPIC.fullmatch(tag):
                yield self._say(f"arxiv:{match[1]}.{match[2]}", "repository's paper", "topics", "topics", tag, 0.85)
        if not self.is_other and not self.is_list and (match := PAPER_OF_DESCRIPTION.search(record.description)):
            title = title_name(
                re.split(r"[\"”]|\s[-–—|]\s|\. |, (?:published|accepted|in )|\((?:[A-Z]{3,}|arXiv)", match["title"])[0].rstrip(" .,)'*_")
            )
            if title and len(title.split()) > LEAST_TITLE_WORDS + 1:
                yield self._say(title, "repository's paper", "description", "description", record.description, BASE["title"])
        described = list(find_papers(record.description))
        for one in described:
            own = not self.is_other and not self.is_list and len(described) == 1 and not OTHERS.search(OFFICIAL.sub("", record.description))
            own = own or bool(OFFICIAL.search(record.description) and not self.is_other)
            kind: LinkKind = "archive" if is_archive(one.name) else "repository's paper" if own else "mentions"
            yield self._say(
                one.name, kind, "description", "description", quote(record.description, one.start, one.end), 0.85 if own else 0.3
            )
        yield from self._read_links()

    def _read_links(self) -> Iterator[LinkEvidence]:
        """Its home page and the links of its package: papers, archives, pages."""
        urls = self.record.metadata.get("project_urls")
        pairs = [(str(label), str(url)) for label, url in urls.items()] if isinstance(urls, dict) else []
        homepage = self.record.metadata.get("homepage")
        pairs += [("homepage", homepage)] if isinstance(homepage, str) else []
        for label, url in pairs:
            papers = list(find_papers(url))
            is_paper = re.search(r"paper|citation|doi|article|publication|preprint|arxiv|homepage", label, re.IGNORECASE) is not None
            for one in papers[:1]:
                kind: LinkKind = (
                    "archive" if is_archive(one.name) else "repository's paper" if is_paper and not self.is_other else "mentions"
                )
                yield self._say(one.name, kind, "metadata", label, url, 0.93 if is_paper else 0.3)
            is_page = not papers and not parse_repository_address(url) and re.search(r"home|doc|site|web", label, re.IGNORECASE)
            if is_page and not self.is_other and (page := page_name(url)):
                yield self._page(page, label, url)
        badges = self.record.metadata.get("badges")
        for badge in badges if isinstance(badges, list) else []:
            for one in find_papers(str(badge)):
                own = is_archive(one.name) or JOSS.search(one.name) is not None
                kind = "mentions" if not own or self.is_other else "archive" if is_archive(one.name) else "repository's paper"
                yield self._say(one.name, kind, "metadata", "badge", str(badge), 0.92 if own else 0.3)

    def _say(self, work: str, kind: LinkKind, place: str, field: str, words: str, confidence: float) -> LinkEvidence:
        return LinkEvidence(
            work=work, target=self.names[0], kind=kind, read_in=self.record.doc_id, place=place, field=field,
            words=" ".join(words.split())[:240], confidence=confidence,
        )  # fmt: skip

    def _page(self, page: str, label: str, url: str) -> LinkEvidence:
        return LinkEvidence(
            work=self.names[0],
            target=page,
            kind="page",
            read_in=self.record.doc_id,
            place="metadata",
            field=label,
            words=url,
            confidence=0.9,
        )

    # Agreement of names

    def _is_named(self, text: str) -> bool:
        """Whether a title or label begins with the repository's name, or has it as a word of its own."""
        squeezed = [squeeze(word) for word in re.findall(r"[\w.+-]+", text)]
        pairs = ("".join(pair) for pair in pairwise(squeezed))
        return (
            not self.words.isdisjoint(squeezed)
            or not self.words.isdisjoint(pairs)
            or any(squeeze(text).startswith(word) for word in self.words if len(word) >= 4)
        )

    def _starts_named(self, sentence: str) -> bool:
        """Whether a citation written in full has the name at the beginning of its title, after authors and year."""
        after_year = re.split(r"\(?\b(?:19|20)\d\d\)?[a-z]?\)?[.,:]?\s", sentence, maxsplit=1)
        return len(after_year) > 1 and any(squeeze(after_year[1][:80]).startswith(word) for word in self.words)

    def _cites_other(self, text: str) -> bool:
        """Whether the last request to cite names another work than this one."""
        matches = list(CITE_OTHER.finditer(text))
        if not matches:
            return False
        who = matches[-1]["who"].casefold()
        return (
            who not in GENERIC
            and squeeze(who) not in self.words
            and not any(squeeze(who) in word or word in squeeze(who) for word in self.words)
        )

    def _is_author(self, family: str) -> bool:
        squeezed = squeeze(family)
        known = {squeeze(name.split(",")[0] if "," in name else name.split()[-1]) for name in self.record.authors if name.split()}
        return len(squeezed) >= 4 and (squeezed in squeeze(self.owner) or squeezed in known)


def read_repository(record: Repository) -> Iterator[LinkEvidence]:
    """Evidence in a repository's own texts; most repositories name no paper, which costs one look at the text."""
    return RepositoryReader(record).read()


def quote(text: str, start: int, end: int) -> str:
    """The words around a place, on one line."""
    low, high = max(0, start - WORDS_BEFORE), min(len(text), end + WORDS_AFTER)
    while low and low < start and not text[low - 1].isspace():
        low += 1
    while high < len(text) and high > end and not text[high].isspace():
        high -= 1
    return " ".join(text[low:high].split())


def _order(mention: Mention) -> tuple[bool, int]:
    return mention.kind in ("repository's paper", "archive"), mention.points


def _last_sentence(text: str) -> str:
    return re.split(r"(?<=[.!?])\s+(?=[A-Z\[`*])|\n\s*[-*+]\s", text)[-1]


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[.!?])\s+(?=[A-Z])|\n\s*[-*+]\s", text)[0]


def _find_label(before: str, line: str) -> str:
    """The text of the link that a place is the address of: Markdown, reStructuredText or HTML."""
    markdown = re.search(r"\[([^\[\]]{1,300})\]\(\s*<?[^\s()]*$", before)
    rst = re.search(r"`([^`<]{1,300})<[^<>]*$", before)
    if match := markdown or rst:
        return match[1]
    html = re.search(r"href=[\"']?[^\"'>]*[\"']?[^>]*>(.{1,300}?)</a>", line)
    return re.sub(r"<[^<>]*>", "", html[1]) if html and "href" in before[-60:] else ""

"""Units of a text: sentences, list items, table rows and code, with the headings above.

Offsets are in characters of the unchanged text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from outrider.distiller.structure.block import Block, BlockKind, holds_links_alone
from outrider.distiller.structure.inline_markup import strip_inline_markup
from outrider.distiller.structure.read_structure import read_structure
from outrider.distiller.structure.references import EDIT_LINK
from outrider.state.distilling import Reading, UnitKind
from outrider.text.content_cache import ContentCache
from outrider.text.sentences import MAX_SENTENCE_CHARS, sentence_spans
from outrider.text.words import stems

UNREAD_SECTION = re.compile(
    r"(?:table of )?contents|(?:our )?(?:contributors|sponsors?(?:hip)?|backers|supporters)|authors?|credits|thanks|acknowledge?ments?",
    re.IGNORECASE,
)
"""Titles of sections that list people or other sections."""
ABOUT_AUTHORS = re.compile(
    r"authors?(?: ?['’]s?)? (?:contributions?|details|information)|contributions of (?:the )?authors|pre-?publication history",
    re.IGNORECASE,
)
"""Titles of sections of a paper that never answer, though they are prose like the others."""
LEAD_IN = re.compile(r":{1,2}\s*\Z")
HEADING_MARKS = re.compile(r"[ \t]+#+[ \t]*$|<[^>]+>|[*`_]{1,2}(?=\S)|(?<=\S)[*`_]{1,2}|[ :]+$")
BLANK_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*)+(?=\S)|\n(?:[ \t]*\n)+")
MAX_CODE_LINES, CODE_LINES = 24, 14
"""Code with more lines than the first is divided into parts of at most so many as the second."""
BEGINNING = 5_000
"""Characters in which the first sentence stands."""
MAX_ABSTRACT_UNITS, MAX_ABSTRACT_BLOCKS = 40, 8
"""Sentences and paragraphs; a letter has more paragraphs, and no aim, method and result."""
NO_ABSTRACTS = frozenset({"repository", "page"})
"""Kinds of records."""
MAX_CONTEXT_CHARS = 300
"""Of a heading and of what introduces a unit; each unit below has them."""
MIN_WORD_CHARS = 3
"""Word characters of a unit; a shorter one is a bullet, a rule or a lone symbol, and says nothing."""
HEADING_WORD = re.compile(r"[^\W\d_]+[.:]")
WORD_CHARACTER = re.compile(r"\w")
DRAWN = re.compile(r"[\u2500-\u257f]")
MOST_DRAWN = 0.15
"""Share of lines and corners among the characters of code; a drawn table has more."""
FRAME = re.compile(r"[┌┏╭╔┬┳┯┰╤╥╦┼╋╇╈╪╬]")
"""Characters of a frame's upper edge and of crossings, which a tree of files does not have."""
MAX_KEPT_CHARS = 20_000
"""Of a text whose units are kept."""
KEPT_BYTES = 16 * 2**20
BYTES_A_UNIT, BYTES_A_CHAR = 500, 5
"""Measured on abstracts: a unit, its text and a list of its stems, which are shared strings."""
QUOTED = re.compile(r"[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*>")
"""The beginning of a line that is quoted, perhaps in an item."""
NEAR = 50
"""Characters before a block in which its line begins if it is quoted."""
QUOTE_MARKS = re.compile(r"(?<=\n)[ \t]*>[ \t>]*")
LINK_STARTS = "[!@#^-"
"""Characters with which a sentence begins that is made of links between notes, citations and tags alone."""
T = TypeVar("T")
KINDS: dict[BlockKind, UnitKind] = {"paragraph": "sentence", "item": "item", "row": "row", "code": "code", "caption": "sentence"}
"""Kinds of blocks that can answer. Headings and terms are context of others; badges, links alone and furniture are left out."""


@dataclass(frozen=True, slots=True)
class Unit:
    """`text[start:end]`, without white space around it."""

    start: int
    end: int
    kind: UnitKind = "sentence"
    block: int = 0
    """Number of its block: paragraph, item, row or piece of code."""
    section: tuple[str, ...] = ()
    """The headings above it, from the highest level down, without their marks."""
    introduced_by: str = ""
    """The sentence with a colon that stands before its list, table or code; a definition's term; a table's header."""


@dataclass(frozen=True, slots=True)
class SegmentedText:
    """A text and its units, in order, without overlap."""

    reading: Reading
    units: tuple[Unit, ...]
    _kept: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def text(self, at: int) -> str:
        unit = self.units[at]
        return self.reading.text[unit.start : unit.end]

    def may_answer(self, at: int) -> bool:
        """Not a section about its authors, nor one word before the sentences of its paragraph, which is their heading (`Model. We use`)."""
        unit = self.units[at]
        has_more = at + 1 < len(self.units) and self.units[at + 1].block == unit.block
        if has_more and unit.kind == "sentence" and HEADING_WORD.fullmatch(self.reading.text, unit.start, unit.end):
            return False
        return not any(ABOUT_AUTHORS.fullmatch(title) for title in unit.section)

    def goes_on(self, at: int) -> bool:
        """Whether the unit before it is one of its section, which a reader has in mind."""
        return at > 0 and self.units[at - 1].section == self.units[at].section

    def texts(self) -> list[str]:
        return [self.reading.text[unit.start : unit.end] for unit in self.units]

    def is_abstract(self) -> bool:
        """Whether it is short prose without sections, as abstracts are. The text of a repository or a page is none, however short."""
        if self.reading.kind in NO_ABSTRACTS:
            return False
        few = len(self.units) <= MAX_ABSTRACT_UNITS and len({unit.block for unit in self.units}) <= MAX_ABSTRACT_BLOCKS
        return few and all(unit.kind == "sentence" and not unit.section for unit in self.units)

    def once(self, name: str, compute: Callable[[], T]) -> T:
        """What `compute` makes of this text alone; computed once, also for later searches of the same text."""
        if name not in self._kept:
            self._kept[name] = compute()
        result: T = self._kept[name]
        return result

    def plain_texts(self) -> list[str]:
        """The words of each unit without marks, as engines read them; code as it is."""
        pairs = zip(self.units, self.texts(), strict=True)
        return self.once("plain", lambda: [text if unit.kind == "code" else strip_inline_markup(text) for unit, text in pairs])

    def stems(self) -> list[list[str]]:
        """The stemmed content words of each unit, for engines and for repeats."""
        return self.once("stems", lambda: list(map(stems, self.plain_texts())))


def segment_text(reading: Reading) -> SegmentedText:
    """Split a text into units, in time linear in its length. The units of texts like abstracts are kept for later searches."""
    if len(reading.text) > MAX_KEPT_CHARS:
        return SegmentedText(reading, tuple(find_units(reading.text)))
    units, kept = _keep_units(reading.text)
    return SegmentedText(reading, units, kept)


def find_units(text: str) -> list[Unit]:
    """The units that can answer, in order, with kinds and sections; offsets are in characters."""
    units: list[Unit] = []
    headings: list[tuple[int, str]] = []
    lead_in = ""
    for number, block in enumerate(read_structure(text)):
        if block.kind == "heading":
            level = block.level
            headings = [heading for heading in headings if heading[0] < level] + [(level, _plain_heading(text, block))]
            lead_in = ""
        elif kind := KINDS.get(block.kind):
            section = tuple(title for _, title in headings)
            if any(UNREAD_SECTION.fullmatch(title) for title in section):
                continue
            of_lead_in = lead_in if block.kind != "paragraph" else ""
            spans = _spans(text, block)
            units += [
                Unit(start, end, kind, number, section, (block.introduced_by or of_lead_in)[:MAX_CONTEXT_CHARS]) for start, end in spans
            ]
            if block.kind == "paragraph":
                lead_in = text[slice(*spans[-1])] if spans and LEAD_IN.search(text, block.start, block.end) else ""
    return units


def _find_kept_units(text: str) -> tuple[tuple[Unit, ...], dict[str, Any]]:
    return tuple(find_units(text)), {}


def _estimate_size(entry: tuple[tuple[Unit, ...], dict[str, Any]]) -> int:
    """Of the units, their texts and their stems, before these are there."""
    units, _ = entry
    return sum(BYTES_A_UNIT + BYTES_A_CHAR * (unit.end - unit.start) for unit in units)


_keep_units = ContentCache(_find_kept_units, _estimate_size, KEPT_BYTES)


def find_first_sentence(text: str) -> str:
    """The first sentence of a text's prose, on one line; empty if there is none near its beginning."""
    beginning = text[:BEGINNING]
    return next((" ".join(beginning[unit.start : unit.end].split()) for unit in find_units(beginning) if unit.kind == "sentence"), "")


def _spans(text: str, block: Block) -> list[tuple[int, int]]:
    """Of prose and of very long rows the sentences, of other rows the whole, of long code its parts."""
    if block.kind == "code":
        spans = [span for span in _divide_code(text, block) if not _is_drawn(text[slice(*span)])]
    elif block.kind == "row" and block.end - block.start <= MAX_SENTENCE_CHARS:
        spans = [(block.start, block.end)]
    else:
        own = text[block.start : block.end]
        if ">" in own and QUOTED.match(text[max(0, block.start - NEAR) : block.start + 1].rpartition("\n")[2]):
            own = QUOTE_MARKS.sub(lambda marks: " " * len(marks[0]), own)  # each further line of a quote has them
        spans = [(block.start + start, block.start + end) for start, end in sentence_spans(own)]
    spans = [span for span in spans if len(WORD_CHARACTER.findall(text, *span)) >= MIN_WORD_CHARS]
    return [span for span in spans if block.kind == "code" or text[span[0]] not in LINK_STARTS or not holds_links_alone(text[slice(*span)])]


def _is_drawn(code: str) -> bool:
    """Whether code is a table or a frame that a program has drawn with lines."""
    return FRAME.search(code) is not None and len(DRAWN.findall(code)) > MOST_DRAWN * len("".join(code.split()))


def _divide_code(text: str, block: Block) -> Iterator[tuple[int, int]]:
    """Short code as a whole. Longer code is divided at blank lines into parts of at most `CODE_LINES` lines, where its lines allow it."""
    start = end = next_start = block.start
    is_long = text.count("\n", block.start, block.end) >= MAX_CODE_LINES
    for part in (*BLANK_LINES.finditer(text, block.start, block.end), None):
        last = part.start() if part else block.end
        if is_long and end > start and text.count("\n", start, last) >= CODE_LINES:
            yield start, end
            start = next_start
        end, next_start = last, part.end() if part else block.end
    if end > start:
        yield start, end


def _plain_heading(text: str, block: Block) -> str:
    """The first line of a heading without its marks."""
    line = text[block.start : block.end].lstrip("#=-~^\"'` \t\n").split("\n")[0]
    return " ".join(HEADING_MARKS.sub("", EDIT_LINK.sub("", line[:MAX_CONTEXT_CHARS])).split())

"""A text as units that can be kept or left out: sentences, headings, list items, table rows, pieces of code.

Where units begin and end is `text.sentences`; here is what each of them is, and with which others it stands together.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from outrider.state.distilling import Reading, UnitKind
from outrider.text.sentences import FENCE, sentence_spans
from outrider.text.words import stems

MARKED_HEADING = re.compile(r"\#{1,6}[ \t]+\S")
TAGGED_HEADING = re.compile(r"<h([1-6])\b", re.IGNORECASE)
NUMBERED_HEADING = re.compile(r"\d+(?:\.\d+)*\.?[ \t]+[^\W\d_]")
ITEM = re.compile(r"(?:[-*+•‣◦–][ \t]|\(?\d{1,3}[.)][ \t]|\(?[a-z][.)][ \t])")
ROW = re.compile(r"\|.*\||[^\t\n]+(?:\t[^\t\n]*){2,}")
ENDS_SENTENCE = re.compile(r"[.!?…。！？;,:]['\"”’)\]]*$")
MAX_HEADING_CHARS = 90
MAX_HEADING_WORDS = 12
PLAIN_LEVEL = 7
"""Of a heading that nothing but its shape gives away: it ends at the next heading of any kind."""


@dataclass(frozen=True, slots=True)
class Unit:
    """`text[start:end]`, without white space around it."""

    start: int
    end: int
    kind: UnitKind = "sentence"
    block: int = 0
    """Number of its paragraph; blank lines part paragraphs."""
    level: int = 0
    """Of a heading: 1 is the highest."""


@dataclass(frozen=True, slots=True)
class SegmentedText:
    """A text and its units, in order, without overlap."""

    reading: Reading
    units: tuple[Unit, ...]
    _stems: list[list[str]] = field(default_factory=list, init=False, repr=False, compare=False)

    def text(self, at: int) -> str:
        unit = self.units[at]
        return self.reading.text[unit.start : unit.end]

    def texts(self) -> list[str]:
        return [self.reading.text[unit.start : unit.end] for unit in self.units]

    def stems(self) -> list[list[str]]:
        """Of each unit its content words, stemmed; found once, for engines and for repeats."""
        if len(self._stems) != len(self.units):
            self._stems[:] = map(stems, self.texts())
        return self._stems


def segment_text(reading: Reading) -> SegmentedText:
    """Linear in the length of the text."""
    return SegmentedText(reading, tuple(find_units(reading.text)))


def find_units(text: str) -> list[Unit]:
    spans = sentence_spans(text)
    units: list[Unit] = []
    block = 0
    for at, (start, end) in enumerate(spans):
        if at and _parted(text, spans[at - 1][1], start):
            block += 1
        kind, level = _kind(text, spans, at)
        units.append(Unit(start, end, kind, block, level))
    return units


def _parted(text: str, before: int, after: int) -> bool:
    return text.count("\n", before, after) > 1


def _kind(text: str, spans: Sequence[tuple[int, int]], at: int) -> tuple[UnitKind, int]:
    start, end = spans[at]
    said = text[start : min(end, start + 200)]
    if FENCE.match(said):
        return "code", 0
    if not _begins_line(text, start):
        return "sentence", 0
    # By four spaces or a tab, as Markdown has code; a list's second line is indented by less
    if text[max(0, start - 5) : start].endswith(("\n    ", "\n\t")):
        return "code", 0
    if level := _heading(text, said, spans, at):
        return "heading", level
    if ROW.match(said):
        return "row", 0
    return ("item", 0) if ITEM.match(said) else ("sentence", 0)


def _heading(text: str, said: str, spans: Sequence[tuple[int, int]], at: int) -> int:
    """Of what begins a line: its level, 0 where it is none."""
    start, end = spans[at]
    if end - start > MAX_HEADING_CHARS:
        return 0
    if MARKED_HEADING.match(said):
        return len(said) - len(said.lstrip("#"))
    if tagged := TAGGED_HEADING.match(said):
        return int(tagged[1])
    return PLAIN_LEVEL if _looks_like_one(text, said, spans, at) else 0


def _looks_like_one(text: str, said: str, spans: Sequence[tuple[int, int]], at: int) -> bool:
    """A short line of its own, without a full stop, with words and more text behind it."""
    follows = at + 1 < len(spans) and "\n" in text[spans[at][1] : spans[at + 1][0]]
    words = said.split()
    if not follows or ENDS_SENTENCE.search(said) or "\n" in said or len(words) > MAX_HEADING_WORDS:
        return False
    first = said.lstrip("0123456789.) \t")[:1]
    own_paragraph = _parted(text, spans[at][1], spans[at + 1][0]) and (at == 0 or _parted(text, spans[at - 1][1], spans[at][0]))
    return bool(NUMBERED_HEADING.match(said)) or (first.isupper() and (own_paragraph or said.isupper()) and not ROW.match(said))


def _begins_line(text: str, start: int) -> bool:
    line = text.rfind("\n", max(0, start - 200), start) + 1
    return not text[line:start].strip() if line or start < 200 else False

"""Units of a text: sentences, headings, list items, table rows and code.

Their boundaries come from `text.sentences`; this module decides their kinds and paragraphs.
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
"""Level of a heading that is recognised only by its shape; its section ends at the next heading of any kind."""


@dataclass(frozen=True, slots=True)
class Unit:
    """`text[start:end]`, without white space around it."""

    start: int
    end: int
    kind: UnitKind = "sentence"
    block: int = 0
    """Number of its paragraph; blank lines separate paragraphs."""
    level: int = 0
    """Level of a heading; 1 is the highest."""


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
        """The stemmed content words of each unit; computed once, for engines and for repeats."""
        if len(self._stems) != len(self.units):
            self._stems[:] = map(stems, self.texts())
        return self._stems


def segment_text(reading: Reading) -> SegmentedText:
    """Split a text into units, in time linear in its length."""
    return SegmentedText(reading, tuple(find_units(reading.text)))


def find_units(text: str) -> list[Unit]:
    """The units of a text in order, with their kinds and paragraphs; offsets are in characters."""
    spans = sentence_spans(text)
    units: list[Unit] = []
    block = 0
    for at, (start, end) in enumerate(spans):
        if at and _is_paragraph_break(text, spans[at - 1][1], start):
            block += 1
        kind, level = _classify(text, spans, at)
        units.append(Unit(start, end, kind, block, level))
    return units


def _is_paragraph_break(text: str, before: int, after: int) -> bool:
    return text.count("\n", before, after) > 1


def _classify(text: str, spans: Sequence[tuple[int, int]], at: int) -> tuple[UnitKind, int]:
    """The kind of a unit, and the level of a heading."""
    start, end = spans[at]
    beginning = text[start : min(end, start + 200)]
    line = text.rfind("\n", max(0, start - 200), start) + 1
    if FENCE.match(beginning):
        return "code", 0
    if not (line or start < 200) or text[line:start].strip():
        return "sentence", 0  # not at the beginning of a line
    if text[max(0, start - 5) : start].endswith(("\n    ", "\n\t")):
        return "code", 0  # indented like a Markdown code block; continuation lines of lists are indented less
    if end - start <= MAX_HEADING_CHARS:
        if MARKED_HEADING.match(beginning):
            return "heading", len(beginning) - len(beginning.lstrip("#"))
        if tag := TAGGED_HEADING.match(beginning):
            return "heading", int(tag[1])
        if _looks_like_heading(text, beginning, spans, at):
            return "heading", PLAIN_LEVEL
    if ROW.match(beginning):
        return "row", 0
    return ("item", 0) if ITEM.match(beginning) else ("sentence", 0)


def _looks_like_heading(text: str, beginning: str, spans: Sequence[tuple[int, int]], at: int) -> bool:
    """Whether the unit is a short separate line without a full stop, with words, and followed by more text."""
    follows = at + 1 < len(spans) and "\n" in text[spans[at][1] : spans[at + 1][0]]
    if not follows or ENDS_SENTENCE.search(beginning) or "\n" in beginning or len(beginning.split()) > MAX_HEADING_WORDS:
        return False
    if NUMBERED_HEADING.match(beginning):
        return True
    first = beginning.lstrip("0123456789.) \t")[:1]
    own_paragraph = _is_paragraph_break(text, spans[at][1], spans[at + 1][0]) and (
        at == 0 or _is_paragraph_break(text, spans[at - 1][1], spans[at][0])
    )
    return first.isupper() and (own_paragraph or beginning.isupper()) and not ROW.match(beginning)

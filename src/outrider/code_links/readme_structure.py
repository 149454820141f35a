"""Heading, paragraph, line and BibTeX entry of a place in a README"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

HEADING = re.compile(
    r"^ {0,3}#{1,6}[ \t]+(?P<markdown>[^\n]{1,200})$|^(?P<rst>[^\n]{2,120})\n(?P<line>[=\-~^\"'*+#.`])(?P=line){2,}[ \t"
    r"]*$|<h[1-6][^>]*>(?P<html>[^<]{1,200})",
    re.MULTILINE,
)
BLANK = re.compile(r"\n[ \t]*\n")
ENTRY = re.compile(r"@([A-Za-z]{4,20})\s*\{\s*([^,\s{}]{0,200})\s*,")
FIELD = re.compile(r"([A-Za-z][\w-]{1,30})\s*=\s*")
MAX_ENTRY = 6_000
MARKUP = re.compile(r"\{\\[^{}]*\{?[^{}]*\}?\}|[{}\\$\"]")
TAG = re.compile(r"<[^<>]{0,500}>")


@dataclass(frozen=True, slots=True)
class BibtexEntry:
    kind: str
    """Lower case, such as `article`."""
    fields: dict[str, str]
    start: int
    end: int

    @property
    def title(self) -> str:
        return self.plain("title")

    def plain(self, name: str) -> str:
        return " ".join(MARKUP.sub("", self.fields.get(name, "").replace("\\_", "_")).split())

    @property
    def families(self) -> frozenset[str]:
        """Family names of the authors in lower case."""
        people = re.split(r"\s+and\s+", self.plain("author"))
        families = (person.partition(",")[0] if "," in person else person.split()[-1] if person.split() else "" for person in people)
        return frozenset(family.strip().casefold() for family in families if len(family.strip()) > 1)


@dataclass(frozen=True, slots=True)
class Line:
    number: int
    start: int
    text: str


class Readme:
    """A README, read once."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(match.end() for match in re.finditer(r"\n", self.text))]

    @cached_property
    def _headings(self) -> tuple[list[int], list[str]]:
        pairs = [
            (match.start(), TAG.sub("", match["markdown"] or match["rst"] or match["html"] or "")) for match in HEADING.finditer(self.text)
        ]
        return [start for start, _ in pairs], [" ".join(title.strip("#*: \t").split()) for _, title in pairs]

    @cached_property
    def _paragraphs(self) -> list[int]:
        return [0, *(match.end() for match in BLANK.finditer(self.text))]

    @cached_property
    def entries(self) -> tuple[BibtexEntry, ...]:
        return tuple(find_bibtex(self.text))

    def line(self, at: int) -> Line:
        number = bisect_right(self._starts, at)
        start = self._starts[number - 1]
        end = self._starts[number] - 1 if number < len(self._starts) else len(self.text)
        return Line(number, start, self.text[start:end])

    def heading(self, at: int) -> str:
        """The last heading before a place; empty before the first."""
        starts, titles = self._headings
        place = bisect_right(starts, at)
        return titles[place - 1] if place else ""

    def section_start(self, at: int) -> int:
        starts, _ = self._headings
        place = bisect_right(starts, at)
        return starts[place - 1] if place else 0

    def paragraph(self, at: int, before: int = 0) -> str:
        """The text of the paragraph of a place up to it, with those `before` it in the same section."""
        place = bisect_right(self._paragraphs, at)
        start = max(self._paragraphs[max(0, place - 1 - before)], self.section_start(at))
        return self.text[start:at]

    def after(self, at: int, most: int = 160) -> str:
        """The rest of the paragraph."""
        place = bisect_right(self._paragraphs, at)
        end = self._paragraphs[place] if place < len(self._paragraphs) else len(self.text)
        return self.text[at : min(end, at + most)]

    def entry(self, at: int) -> BibtexEntry | None:
        return next((entry for entry in self.entries if entry.start <= at < entry.end), None)


def find_bibtex(text: str) -> Iterator[BibtexEntry]:
    """BibTeX entries anywhere in a text; one that never ends is left out. Linear in the length of the text."""
    for match in ENTRY.finditer(text):
        end = _find_end(text, match.end())
        if end is not None:
            yield BibtexEntry(match[1].lower(), _read_fields(text[match.end() : end - 1]), match.start(), end)


def _find_end(text: str, at: int) -> int | None:
    depth = 1
    for place in range(at, min(len(text), at + MAX_ENTRY)):
        char = text[place]
        if char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
            if not depth:
                return place + 1
    return None


def _read_fields(body: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    at = 0
    while match := FIELD.search(body, at):
        value, at = _read_value(body, match.end())
        fields.setdefault(match[1].lower(), value)
    return fields


def _read_value(body: str, at: int) -> tuple[str, int]:
    """A value in braces, quotes or bare, and the place after it."""
    if at >= len(body):
        return "", at
    depth, quoted = 0, body[at] == '"'
    for place in range(at + quoted, len(body)):
        char = body[place]
        depth += (char == "{") - (char == "}")
        if (quoted and char == '"' and depth <= 0) or (not quoted and depth <= 0 and char in ",}"):
            return body[at + quoted : place + (char == "}")], place + 1
    return body[at + quoted :], len(body)

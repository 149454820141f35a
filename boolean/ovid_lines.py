"""The lines of an Ovid search history: their numbers, their comments, what goes on in the next line."""

from __future__ import annotations

import re
from dataclasses import dataclass

from outrider.state.boolean import Node

_COMMENT = re.compile(r"\[[^\[\]]*\]")
_FIRST = re.compile(r"\s*#?1\s*(?:[.):\t]|\s(?=\s*\S))\s*(?!(?:and|or|not|adj\d*)\b)\S", re.IGNORECASE)
_HITS = re.compile(r"(?<=[\s./)])\(\s*\d[\d,]*\s*\)\s*$")


@dataclass(frozen=True, slots=True)
class OvidLine:
    """One numbered line. `said` is what it says, blanks in place of comments, so that its offsets hold; `start` is where it begins."""

    number: int
    said: str
    start: int
    tree: Node | None = None


def lines_of(text: str) -> list[OvidLine]:
    """Every line that says something. Numbers that were written count, where the first line is number 1; else they are counted."""
    blank = _COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)
    every = [(found.start(), found.group()) for found in re.finditer(r"[^\n]+", blank) if found.group().strip()]
    if every and _FIRST.match(every[0][1]):
        numbered = _numbered(every, blank)
        if len(numbered) > 1 or len(every) == 1:
            return numbered
    return [_line(number, start, said) for number, (start, said) in enumerate(every, 1)]


def _numbered(every: list[tuple[int, str]], text: str) -> list[OvidLine]:
    """A line that does not begin with the next number goes on from the one before."""
    begun: list[tuple[int, int, int]] = []
    for start, said in every:
        found = re.match(rf"\s*#?{len(begun) + 1}\s*(?:[.):]\s*|\s+|(?=[^\w\s/,-]))", said)
        end = start + len(said)
        if found:
            begun.append((len(begun) + 1, start + found.end(), end))
        else:
            number, first, _ = begun[-1]
            begun[-1] = (number, first, end)
    return [_line(number, start, text[start:end], numbered=True) for number, start, end in begun]


def _line(number: int, start: int, said: str, *, numbered: bool = False) -> OvidLine:
    if numbered:
        said = _HITS.sub("", said)
    return OvidLine(number, said.strip(), start + len(said) - len(said.lstrip()))

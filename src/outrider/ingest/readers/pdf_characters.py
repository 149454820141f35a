"""Characters of a PDF page as text: TeX's codes and accents, lines from right to left."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect
from collections.abc import Sequence
from itertools import groupby

TEX_CHARACTERS = {
    "\x0b": "ff", "\x0c": "fi", "\x0e": "ffi", "\x0f": "ffl", "\x10": "“", "\x11": "”", "\x15": "–", "\x16": "—",
    "\x1b": "ff", "\x1c": "fi", "\x1d": "fl", "\x1e": "ffi", "\x1f": "ffl",
}  # fmt: skip
"""Codes of TeX's text fonts (OT1, T1), which PDFium gives as they are where a font does not name its characters."""
TEX_CHARACTER = re.compile(rf"(?<=[^\W\d_])[{''.join(TEX_CHARACTERS)}]|[{''.join(TEX_CHARACTERS)}](?=[^\W\d_])")
ACCENTS = dict(zip("¨´`ˆ˜˚ˇ˝˘˙", "\u0308\u0301\u0300\u0302\u0303\u030a\u030c\u030b\u0306\u0307", strict=True))
ACCENTED = re.compile(rf"(?<=[^\W\d_])([{''.join(ACCENTS)}])([^\W\d_])|(?<![\w`´])([{''.join(ACCENTS)}])([A-ZÀ-Þ])(?=[a-z])")
"""An accent that stands before its letter, as TeX sets it."""
RIGHT_TO_LEFT = re.compile(r"[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
LAM, ALEFS = "\u0644", "\u0627\u0622\u0623\u0625"
"""The letters of the one ligature that Arabic must have: lam comes first."""
CLOSING = ")]}»"
MIRRORED = dict(zip("([{«)]}»", ")]}»([{«", strict=True))
SAME_PLACE = 0.01
"""Points."""


def repair(text: str) -> str:
    r"""The text with TeX's ligatures, quotes and accents as characters: `modi\x1ced`, `Universit¨at` become `modified`, `Universität`."""

    def compose(match: re.Match[str]) -> str:
        accent, letter = (part for part in match.groups() if part)
        whole = unicodedata.normalize("NFC", letter + ACCENTS[accent])
        return whole if len(whole) == 1 else match.group()

    return ACCENTED.sub(compose, TEX_CHARACTER.sub(lambda match: TEX_CHARACTERS[match.group()], text))


def order_for_reading(line: Sequence[tuple[str, float]]) -> list[tuple[int, str]]:
    """The characters of a line, given as (character, x of its origin), with their places in the line, in the order of reading.

    PDFium turns lines with Hebrew or Arabic around by the order in which they were drawn, which differs from program to program. Their
    places on the page do not: this undoes the display of Unicode's bidirectional algorithm (UAX 9) for one level of embedding.
    """
    if not any(RIGHT_TO_LEFT.match(char) for char, _ in line):
        return [(place, char) for place, (char, _) in enumerate(line)]
    units = [(_direction("".join(line[place][0] for place in unit)), unit) for unit in _make_units(line)]
    leftwards = sum(direction == "R" for direction, _ in units)
    base = "R" if leftwards >= sum(direction == "L" for direction, _ in units) else "L"
    resolved = _resolve_neutral([direction for direction, _ in units], base)
    runs = [
        (direction, [unit for _, (_, unit) in run]) for direction, run in groupby(zip(resolved, units, strict=True), lambda pair: pair[0])
    ]
    order: list[int] = []
    for direction, run in runs if base == "L" else reversed(runs):
        for unit in reversed(run) if direction == "R" else run:
            order.extend(unit)
    ordered = [line[place][0] for place in order]
    brackets = [char for char in ordered if char in MIRRORED]
    if base == "R" and brackets and brackets[0] in CLOSING and sum(char in CLOSING for char in brackets) * 2 == len(brackets):
        ordered = [MIRRORED.get(char, char) for char in ordered]  # as shapes, which mirror in a line that runs to the left
    return list(zip(order, ordered, strict=True))


def _make_units(line: Sequence[tuple[str, float]]) -> list[list[int]]:
    """Places of characters that belong together, from left to right: a letter with its marks, the letters of one glyph."""
    glyphs: list[list[int]] = []
    for place, (_, x) in enumerate(line):
        last = glyphs[-1] if glyphs else []
        same_glyph = last and abs(line[last[-1]][1] - x) < SAME_PLACE
        if same_glyph and all(RIGHT_TO_LEFT.match(line[other][0]) for other in (last[-1], place)):
            last.append(place)
        else:
            glyphs.append([place])
    units: list[list[int]] = []
    marks: list[list[int]] = []
    for glyph in glyphs:
        letters = [place for place in glyph if not unicodedata.combining(line[place][0])]
        if not letters:
            marks.append(glyph)
        elif len(letters) == 1:
            units.append(letters + [place for place in glyph if place not in letters])
        elif len(letters) == 2:
            units.append(sorted(glyph, key=lambda place: line[place][0] in ALEFS) if line[letters[1]][0] == LAM else glyph)
        else:
            units.append(glyph[::-1])  # a word in one glyph: PDFium turns it around with the line
    letters_by_x = sorted((unit for unit in units if RIGHT_TO_LEFT.match(line[unit[0]][0])), key=lambda unit: line[unit[0]][1])
    places_of_letters = [line[unit[0]][1] for unit in letters_by_x]
    for glyph in marks:  # drawn on their own, beside or over their letter
        x = line[glyph[0]][1]
        near = bisect(places_of_letters, x)
        if around := letters_by_x[max(0, near - 2) : near + 2]:
            min(around, key=lambda unit: (abs(line[unit[0]][1] - x), abs(unit[0] - glyph[0]))).extend(glyph)
        else:
            units.append(glyph)
    return sorted(units, key=lambda unit: (line[unit[0]][1], _rank(line[unit[0]][0])))


def _rank(char: str) -> int:
    """Order of characters with one origin: that of a blank is the one of the letter that it precedes in reading."""
    return 0 if RIGHT_TO_LEFT.match(char) else 1 if char.isspace() else 2


def _direction(text: str) -> str:
    kinds = {unicodedata.bidirectional(char) for char in text}
    return "R" if kinds & {"R", "AL"} else "L" if kinds & {"L", "EN", "AN"} else ""


def _resolve_neutral(directions: Sequence[str], base: str) -> list[str]:
    """Blanks and punctuation have the direction of their neighbours where these agree, else that of the line."""
    after = base
    following: list[str] = []
    for direction in reversed(directions):
        after = direction or after
        following.append(after)
    before = base
    resolved: list[str] = []
    for direction, after in zip(directions, reversed(following), strict=True):
        before = direction or before
        resolved.append(direction or (before if before == after else base))
    return resolved

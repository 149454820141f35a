"""PDFium through its C interface: the text of pages, and lines with position and type size.

`repair` and `order_for_reading` turn the characters of a page into text: TeX's codes and accents, lines from right to left.
"""

from __future__ import annotations

import ctypes
import math
import os
import re
import threading
import unicodedata
from bisect import bisect
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import groupby, pairwise
from operator import ne
from pathlib import Path
from typing import Any

LOCK = threading.Lock()
"""PDFium runs in one thread at a time. ctypes releases the GIL, so other threads go on during a call."""
BOLD = re.compile(r"bold|black|heavy|demi|semib|^(?:[A-Z]{6}\+)?(?:(?:CM|SF)(?:BX|B|SSBX|CSC|BSY)|Nimbus.*-Medi(?:Ital)?$)", re.IGNORECASE)
"""Names of bold fonts: most say so, the Computer Modern fonts of TeX do not, nor does the Times that TeX has instead (NimbusRomNo9L)."""
COLUMN_GAP = 1.6
"""Space between two words, in sizes of type, that separates columns. Justified lines stay below one."""
WIDGET, FREE_TEXT = 20, 3
"""Annotations with text of their own (`FPDF_ANNOT_WIDGET`, `FPDF_ANNOT_FREETEXT`)."""
WRONG_PASSWORD, UNKNOWN_SECURITY = 4, 5
REASONS = {1: "unknown error", 2: "the file cannot be read", 3: "no PDF, or damaged beyond repair", 6: "the page is missing or damaged"}
HYPHEN = "\x02"
"""PDFium's mark of a hyphen that ends a line, among the characters of a page. No line end follows it. Its text has U+FFFE there."""
PRINTED_LINE = re.compile(r"[^\s](?:[^\r\n]*[^\s])?")
ENDS_SENTENCE = re.compile(r"[.!?…。！？:;,]\W*$")
GAP = 1.45
"""Step to a line that begins a paragraph, at least: in usual steps of the page, and in sizes of type."""
MAX_LINE_CHARS = 40_000
"""Layout is read from this many characters of a page at most: a title page has fewer, and each costs calls."""


class PdfError(Exception):
    """PDFium cannot open a document or a page."""


class PasswordRequired(PdfError):
    """The document is encrypted, and the empty password does not open it."""


class UnknownEncryption(PdfError):
    """The document is encrypted by a method that PDFium does not have, such as certificates or DRM."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of one column, upright, in the order of the page's content. Lengths in points, `y` of the baseline upwards."""

    text: str
    size: float
    bold: bool
    left: float
    right: float
    y: float
    page: int = 0

    @property
    def words(self) -> int:
        """Words; in scripts without spaces two characters count as one."""
        return max(len(self.text.split()), sum("\u2e80" <= char <= "\ud7ff" for char in self.text) // 2)


@cache
def load_pdfium() -> Any:
    """The C interface, initialised. It is never torn down: at exit an abandoned reader thread may still be in it."""
    import pypdfium2_raw

    config = pypdfium2_raw.FPDF_LIBRARY_CONFIG(version=2)
    pypdfium2_raw.FPDF_InitLibraryWithConfig(config)
    return pypdfium2_raw


class PdfFile:
    """An open document. Each call takes the lock, so that two files can be read in turn."""

    def __init__(self, path: Path) -> None:
        """Raises `PdfError`."""
        with LOCK:
            self._api = load_pdfium()
            self._document = self._api.FPDF_LoadDocument(os.fsencode(path), None)
            code = self._api.FPDF_GetLastError() if not self._document else 0
            self.pages: int = self._api.FPDF_GetPageCount(self._document) if self._document else 0
        if code == WRONG_PASSWORD:
            raise PasswordRequired
        if code == UNKNOWN_SECURITY:
            raise UnknownEncryption
        if not self._document:
            raise PdfError(REASONS.get(code, f"error {code}"))

    def __enter__(self) -> PdfFile:
        return self

    def __exit__(self, *_: object) -> None:
        with LOCK:
            self._api.FPDF_CloseDocument(self._document)

    def read_information(self, key: str) -> str:
        """A value of the document information, such as `Title`; empty if it has none."""
        with LOCK:
            return self._read_utf16(self._api.FPDF_GetMetaText, self._document, key.encode())

    def list_attachments(self) -> list[str]:
        with LOCK:
            count = self._api.FPDFDoc_GetAttachmentCount(self._document)
            files = (self._api.FPDFDoc_GetAttachment(self._document, number) for number in range(min(count, 100)))
            return [self._read_utf16(self._api.FPDFAttachment_GetName, file) for file in files if file]

    def read_text(self, number: int) -> tuple[str, bool]:
        """The text of a page (from 0), with that of filled form fields and text boxes, and whether the page shows anything.

        Raises `PdfError`.
        """
        with LOCK, self._open_text(number) as (page, text):
            count = self._api.FPDFText_CountChars(text)
            if count <= 0:
                return "", self._api.FPDFPage_CountObjects(page) > 0
            buffer = (ctypes.c_ushort * (count * 2 + 1))()
            written = self._api.FPDFText_GetText(text, 0, count, buffer)
            whole = bytes(buffer)[: max(written - 1, 0) * 2].decode("utf-16-le", errors="replace")
            places: Sequence[int] = range(count)
            if len(whole) != count or RIGHT_TO_LEFT.search(whole):  # a character that PDFium's text lacks or has in two parts
                characters = self._list_characters(text, count)
                whole, places = "".join(char for _, char in characters), [index for index, _ in characters]
            parts = [whole[start:end] for start, end in pairwise((0, *self._find_gaps(text, whole, places), len(whole)))]
            return repair(_pair_surrogates("\n".join(parts)).replace("\ufffe", "-\n")), True

    def _find_gaps(self, text: Any, whole: str, places: Sequence[int]) -> list[int]:
        """Where in the text of a page a line begins that stands apart from the one above: below a heading, a title, a paragraph.

        `places` are the numbers of its characters. Measured are the first and the last character of each line, of which PDFium's may be
        several on the page, joined by hyphens. A bold line that ends no sentence is a heading.
        """
        api, lines = self._api, [match.span() for match in PRINTED_LINE.finditer(whole)]
        x, y, matrix = ctypes.c_double(), ctypes.c_double(), self._api.FS_MATRIX()
        measured: list[tuple[float, float, float]] = []
        for start, end in lines:
            api.FPDFText_GetCharOrigin(text, places[end - 1], x, y)
            last = y.value
            api.FPDFText_GetCharOrigin(text, places[start], x, y)
            api.FPDFText_GetMatrix(text, places[start], matrix)
            size = api.FPDFText_GetFontSize(text, places[start]) * math.hypot(matrix.c, matrix.d)
            before, _, bottom = measured[-1] if measured else (0.0, 0.0, 0.0)
            is_raised = size < before and -before < bottom - y.value < 0.5 * before  # the mark of a footnote belongs to its line
            measured.append((before, bottom, bottom) if is_raised else (size, y.value, last))
        steps = [(size, other, bottom - y) for (size, _, bottom), (other, y, _) in pairwise(measured)]
        bold = [self._is_bold(text, places[start]) and self._is_bold(text, places[end - 1]) for start, end in lines]
        titled = [one and not ENDS_SENTENCE.search(whole, max(start, end - 20), end) for one, (start, end) in zip(bold, lines, strict=True)]
        even = sorted(step for size, other, step in steps if _is_same_size(size, other) and 0 < step < 3 * size)
        usual = even[len(even) // 4] if even else 0.0
        return [
            start
            for (start, end), (size, other, step), changes in zip(lines[1:], steps, map(ne, titled, titled[1:]), strict=True)
            if step > (0.5 * max(size, other) if changes or not _is_same_size(size, other) else max(GAP * usual, GAP * other))
            and not next(filter(str.isalpha, whole[start:end]), "").islower()
        ]

    def read_lines(self, number: int) -> list[Line]:
        """The lines of a page (from 0) in its main direction. Raises `PdfError`."""
        with LOCK, self._open_text(number) as (_, text):
            words = list(self._read_words(text))
        if not words:
            return []
        turn = Counter(round(word.angle / (math.pi / 2)) % 4 for word in words).most_common(1)[0][0]
        upright = [word.rotate(turn) for word in words if abs(math.remainder(word.angle - turn * math.pi / 2, math.tau)) < 0.05]
        lines: list[Line] = []
        line: list[_Word] = []
        for word in upright:
            if line and (word.new_line or _is_apart(line[-1], word)):
                lines.append(_make_line(line, number))
                line = []
            line.append(word)
        return [*lines, _make_line(line, number)] if line else lines

    @contextmanager
    def _open_text(self, number: int) -> Iterator[tuple[Any, Any]]:
        api = self._api
        page = api.FPDF_LoadPage(self._document, number)
        if page and self._has_text_annotations(page) and api.FPDFPage_Flatten(page, api.FLAT_NORMALDISPLAY) == api.FLATTEN_SUCCESS:
            api.FPDF_ClosePage(page)  # flattening shows only in a page that is loaded afterwards
            page = api.FPDF_LoadPage(self._document, number)
        if not page:
            raise PdfError(REASONS[6])
        try:
            text = api.FPDFText_LoadPage(page)
            if not text:
                raise PdfError("its text cannot be read")
            try:
                yield page, text
            finally:
                api.FPDFText_ClosePage(text)
        finally:
            api.FPDF_ClosePage(page)

    def _has_text_annotations(self, page: Any) -> bool:
        for number in range(self._api.FPDFPage_GetAnnotCount(page)):
            if annotation := self._api.FPDFPage_GetAnnot(page, number):
                kind = self._api.FPDFAnnot_GetSubtype(annotation)
                self._api.FPDFPage_CloseAnnot(annotation)
                if kind in (WIDGET, FREE_TEXT):
                    return True
        return False

    def _read_utf16(self, call: Any, *arguments: Any) -> str:
        length = call(*arguments, None, 0)
        if length <= 2:
            return ""
        buffer = ctypes.create_string_buffer(length)
        call(*arguments, ctypes.cast(buffer, call.argtypes[-2]), length)
        return buffer.raw[: length - 2].decode("utf-16-le", errors="replace")

    def _list_characters(self, text: Any, count: int) -> list[tuple[int, str]]:
        """The characters of a page with their numbers, in the order of reading. U+FFFE is a hyphen that ends a line."""
        api = self._api
        characters = [(index, chr(api.FPDFText_GetUnicode(text, index))) for index in range(count)]
        characters = [(i, "\ufffe" if char == HYPHEN and api.FPDFText_IsHyphen(text, i) == 1 else char) for i, char in characters]
        if not RIGHT_TO_LEFT.search("".join(char for _, char in characters)):
            return characters
        x, y = ctypes.c_double(), ctypes.c_double()
        ordered: list[tuple[int, str]] = []
        for ends_line, group in groupby(characters, lambda pair: pair[1] in "\r\n\ufffe"):
            line, places = list(group), []
            for index, char in line:
                api.FPDFText_GetCharOrigin(text, index, x, y)
                places.append((char, x.value))
            ordered.extend(line if ends_line else [(line[place][0], char) for place, char in order_for_reading(places)])
        return ordered

    def _read_words(self, text: Any) -> Iterator[_Word]:
        """Runs of characters without white space. `new_line` where PDFium starts a line."""
        word: list[tuple[int, str]] = []
        new_line = True
        characters = self._list_characters(text, min(self._api.FPDFText_CountChars(text), MAX_LINE_CHARS))
        for index, char in [*characters, (0, "\n")]:
            if char in TEX_CHARACTERS or not char.isspace():
                word.append((index, "-" if char == "\ufffe" else char))
                if char != "\ufffe":
                    continue
            if word and (measured := self._measure_word(text, word)):
                measured.new_line = new_line
                yield measured
                new_line = False
            word = []
            new_line = new_line or char in "\r\n\ufffe"

    def _is_bold(self, text: Any, index: int) -> bool:
        name = ctypes.create_string_buffer(100)
        self._api.FPDFText_GetFontInfo(text, index, name, 100, None)
        return bool(BOLD.search(name.value.decode("utf-8", errors="replace")))

    def _measure_word(self, text: Any, word: Sequence[tuple[int, str]]) -> _Word | None:
        api = self._api
        first = word[0][0]
        x, y = ctypes.c_double(), ctypes.c_double()
        matrix = api.FS_MATRIX()
        box = api.FS_RECTF()
        if not (api.FPDFText_GetMatrix(text, first, matrix) and api.FPDFText_GetCharOrigin(text, first, x, y)):
            return None
        places = [index for index, _ in word]
        in_order = places[-1] - first == len(places) - 1  # else the line was turned around, and any character may be the last
        corners = [(x.value, y.value)]
        for index in places[-1:] if in_order else places:
            api.FPDFText_GetLooseCharBox(text, index, box)
            corners += [(box.left, box.bottom), (box.right, box.top)]
        size = api.FPDFText_GetFontSize(text, first) * math.hypot(matrix.c, matrix.d)
        bold = self._is_bold(text, first)
        characters = repair(_pair_surrogates("".join(char for _, char in word)))
        return _Word(characters, size, bold, math.atan2(matrix.b, matrix.a), corners)


@dataclass(slots=True)
class _Word:
    text: str
    size: float
    bold: bool
    angle: float
    """Radians, anticlockwise."""
    corners: list[tuple[float, float]]
    """The origin of the first character, and corners of the characters that end the word."""
    new_line: bool = False

    @property
    def left(self) -> float:
        return min(x for x, _ in self.corners)

    @property
    def right(self) -> float:
        return max(x for x, _ in self.corners)

    @property
    def y(self) -> float:
        return self.corners[0][1]

    def rotate(self, quarters: int) -> _Word:
        """The word after its page was turned clockwise by this many quarters."""
        for _ in range(quarters):
            self.corners = [(y, -x) for x, y in self.corners]
        return self


def _is_same_size(size: float, other: float) -> bool:
    return abs(size - other) <= 0.06 * max(size, other)


def _pair_surrogates(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _is_apart(word: _Word, following: _Word) -> bool:
    """Whether the next word stands in another column or line though PDFium puts both into one."""
    size = max(word.size, following.size, 1.0)
    gap = max(following.left - word.right, word.left - following.right)
    return gap >= COLUMN_GAP * size or abs(following.y - word.y) > size


def _make_line(words: list[_Word], page: int) -> Line:
    sizes: Counter[float] = Counter()
    bold = total = 0
    for word in words:
        sizes[round(word.size, 1)] += len(word.text)
        bold += len(word.text) * word.bold
        total += len(word.text)
    size = max(sizes, key=lambda size: (sizes[size], size))
    baselines = sorted(word.y for word in words if round(word.size, 1) == size)
    return Line(
        text=" ".join(word.text for word in words),
        size=size,
        bold=bold * 2 > total,
        left=min(word.left for word in words),
        right=max(word.right for word in words),
        y=baselines[len(baselines) // 2],
        page=page,
    )


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

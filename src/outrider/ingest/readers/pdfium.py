"""PDFium through its C interface: the text of pages, and their lines with position and size of type."""

from __future__ import annotations

import ctypes
import math
import os
import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

LOCK = threading.Lock()
"""PDFium runs in one thread at a time. ctypes releases the GIL, so other threads go on during a call."""
BOLD = re.compile(r"bold|black|heavy|demi|semib|^(?:[A-Z]{6}\+)?(?:CM|SF)(?:BX|B|SSBX|CSC|BSY)", re.IGNORECASE)
"""Names of bold fonts: most say so, the Computer Modern fonts of TeX do not."""
COLUMN_GAP = 1.6
"""Space between two words, in sizes of type, that separates columns. Justified lines stay below one."""
WIDGET, FREE_TEXT = 20, 3
"""Annotations with text of their own (`FPDF_ANNOT_WIDGET`, `FPDF_ANNOT_FREETEXT`)."""
WRONG_PASSWORD, UNKNOWN_SECURITY = 4, 5
REASONS = {1: "unknown error", 2: "the file cannot be read", 3: "no PDF, or damaged beyond repair", 6: "the page is missing or damaged"}
HYPHEN = "\x02"
"""PDFium's mark of a hyphen that ends a line, among the characters of a page. No line end follows it. Its text has U+FFFE there."""
TEX_CHARACTERS = {
    "\x0b": "ff", "\x0c": "fi", "\x0e": "ffi", "\x0f": "ffl", "\x10": "“", "\x11": "”", "\x15": "–", "\x16": "—",
    "\x1b": "ff", "\x1c": "fi", "\x1d": "fl", "\x1e": "ffi", "\x1f": "ffl",
}  # fmt: skip
"""Codes of TeX's text fonts (OT1, T1) which PDFium gives as they are where a font does not name its characters."""
TEX_CHARACTER = re.compile(rf"(?<=[^\W\d_])[{''.join(TEX_CHARACTERS)}]|[{''.join(TEX_CHARACTERS)}](?=[^\W\d_])")
ACCENTS = {
    "¨": "\u0308",
    "´": "\u0301",
    "`": "\u0300",
    "ˆ": "\u0302",
    "˜": "\u0303",
    "˚": "\u030a",
    "ˇ": "\u030c",
    "˝": "\u030b",
    "˘": "\u0306",
    "˙": "\u0307",
}
ACCENTED = re.compile(rf"(?<=[^\W\d_])([{''.join(ACCENTS)}])([^\W\d_])|([{''.join(ACCENTS)}])(?<![\w`´][`´])([A-ZÀ-Þ])(?=[a-z])")
"""An accent that stands before its letter, as TeX sets it."""
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


def repair(text: str) -> str:
    r"""The text with TeX's ligatures, quotes and accents as characters: `modi\x1ced`, `Universit¨at` become `modified`, `Universität`."""

    def compose(match: re.Match[str]) -> str:
        accent, letter = (part for part in match.groups() if part)
        whole = unicodedata.normalize("NFC", letter + ACCENTS[accent])
        return whole if len(whole) == 1 else match.group()

    return ACCENTED.sub(compose, TEX_CHARACTER.sub(lambda match: TEX_CHARACTERS[match.group()], text))


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
            return repair(bytes(buffer)[: max(written - 1, 0) * 2].decode("utf-16-le", errors="replace").replace("\ufffe", HYPHEN)), True

    def read_lines(self, number: int) -> list[Line]:
        """The lines of a page (from 0) in its main direction. Raises `PdfError`."""
        with LOCK, self._open_text(number) as (_, text):
            words = list(self._read_words(text))
        if not words:
            return []
        turn = Counter(round(word.angle / (math.pi / 2)) % 4 for word in words).most_common(1)[0][0]
        upright = [word.turned(turn) for word in words if abs(math.remainder(word.angle - turn * math.pi / 2, math.tau)) < 0.05]
        return list(_make_lines(upright, number))

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

    def _read_words(self, text: Any) -> Iterator[_Word]:
        """Runs of characters without white space. `new_line` where PDFium starts a line."""
        api = self._api
        characters: list[str] = []
        start, new_line = 0, True
        count = min(api.FPDFText_CountChars(text), MAX_LINE_CHARS)
        for index in range(count + 1):
            char = chr(api.FPDFText_GetUnicode(text, index)) if index < count else "\n"
            if char in TEX_CHARACTERS or not char.isspace():
                if not characters:
                    start = index
                characters.append("-" if char == HYPHEN else char)
                if char != HYPHEN:
                    continue
            if characters and (word := self._measure_word(text, "".join(characters), start, index - 1)):
                word.new_line = new_line
                yield word
                new_line = False
            characters = []
            new_line = new_line or char in ("\r", "\n", HYPHEN)

    def _measure_word(self, text: Any, characters: str, first: int, last: int) -> _Word | None:
        api = self._api
        x, y = ctypes.c_double(), ctypes.c_double()
        matrix = api.FS_MATRIX()
        box = api.FS_RECTF()
        if not (api.FPDFText_GetMatrix(text, first, matrix) and api.FPDFText_GetCharOrigin(text, first, x, y)):
            return None
        api.FPDFText_GetLooseCharBox(text, last, box)
        size = api.FPDFText_GetFontSize(text, first) * math.hypot(matrix.c, matrix.d)
        name = ctypes.create_string_buffer(100)
        api.FPDFText_GetFontInfo(text, first, name, 100, None)
        bold = bool(BOLD.search(name.value.decode("utf-8", errors="replace")))
        angle = math.atan2(matrix.b, matrix.a)
        characters = characters.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return _Word(repair(characters), size, bold, angle, (x.value, y.value), (box.left, box.bottom, box.right, box.top))


@dataclass(slots=True)
class _Word:
    text: str
    size: float
    bold: bool
    angle: float
    """Radians, anticlockwise."""
    start: tuple[float, float]
    """The origin of the first character."""
    last: tuple[float, float, float, float]
    """The box of the last character: left, bottom, right, top."""
    new_line: bool = False

    @property
    def end(self) -> float:
        return self.last[2]

    def turned(self, quarters: int) -> _Word:
        """The word after its page was turned clockwise by this many quarters."""
        for _ in range(quarters):
            left, bottom, right, top = self.last
            self.start = (self.start[1], -self.start[0])
            self.last = (bottom, -right, top, -left)
        return self


def _make_lines(words: list[_Word], page: int) -> Iterator[Line]:
    line: list[_Word] = []
    for word in words:
        if line and (word.new_line or _is_apart(line[-1], word)):
            yield _make_line(line, page)
            line = []
        line.append(word)
    if line:
        yield _make_line(line, page)


def _is_apart(word: _Word, following: _Word) -> bool:
    """Whether the next word stands in another column or line though PDFium puts both into one."""
    size = max(word.size, following.size, 1.0)
    gap = following.start[0] - word.end
    return not -2 * size < gap < COLUMN_GAP * size or abs(following.start[1] - word.start[1]) > size


def _make_line(words: list[_Word], page: int) -> Line:
    sizes: Counter[float] = Counter()
    bold = total = 0
    for word in words:
        sizes[round(word.size, 1)] += len(word.text)
        bold += len(word.text) * word.bold
        total += len(word.text)
    size = max(sizes, key=lambda size: (sizes[size], size))
    baselines = sorted(word.start[1] for word in words if round(word.size, 1) == size)
    return Line(
        text=" ".join(word.text for word in words),
        size=size,
        bold=bold * 2 > total,
        left=min(word.start[0] for word in words),
        right=max(word.end for word in words),
        y=baselines[len(baselines) // 2],
        page=page,
    )

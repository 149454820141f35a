"""Detection of the encoding of a text from all its bytes.

A single-byte encoding is guessed from the letters that the text would have. Read in a wrong encoding, a text has signs and capitals
inside its words, letters of two scripts in one word, or letters that no one language has together. The cost of an encoding counts these for
the cheapest language, relative to the characters beyond ASCII. The alphabets are those of the languages' Wikipedia articles on their
orthography.
"""

from __future__ import annotations

import codecs
import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it starts with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
MULTI_BYTE = ("gb18030", "big5", "shift_jis", "euc_jp", "euc_kr")
SINGLE_BYTE = ("cp1252", "iso8859_2", "cp1251", "koi8_r", "cp1253", "cp1255", "cp1256")
"""Given to charset-normalizer as rivals of `MULTI_BYTE`; among single-byte encodings `guess_single_byte` decides."""
SAMPLE_BYTES = 64 * 1024
AROUND_BYTES = 40
STRETCH_BYTES = 1024
BEYOND_ASCII = re.compile(rb"[\x80-\xff]+(?:[\x00-\x7f]{1,%d}[\x80-\xff]+){0,400}[\x00-\x7f]{0,%d}" % (AROUND_BYTES, AROUND_BYTES))
ASCII = bytes(range(0x80))
CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\ufffe\uffff]")
MAX_CONTROL_SHARE = 0.001
MAX_NULL_SHARE = 0.01
MAX_INVALID_SHARE = 0.05
"""Of the bytes of a text with a byte order mark."""
UTF_16_NULL_SHARE = 0.1
"""Of every second byte: spaces, digits and punctuation alone are more, in any script written with spaces."""
PIECE = re.compile(rb'[^\n\r ,"]*[\n\r ,"]|[^\n\r ,"]+')
"""No character of `MULTI_BYTE` lies across its ends."""
MAX_DAMAGED_SHARE = 0.02
NO_ENCODINGS = frozenset({"idna", "punycode", "undefined", "unicode_escape", "unicode-escape", "raw_unicode_escape", "raw-unicode-escape"})
"""Python codecs that are no encodings of texts."""
FEW_BYTES = 8
"""Fewer bytes beyond ASCII say nothing about an encoding: `caf\\xe9` would be taken for Cyrillic."""


class Evidence(StrEnum):
    """How an encoding was found."""

    MARK = "byte order mark"
    VALID = "valid"
    FIT = "best fit"
    NULLS = "null bytes"
    DECLARED = "declared"
    GUESS = "guessed"


@dataclass(frozen=True, slots=True)
class Encoding:
    """An encoding by Python's name, and what its bytes show."""

    name: str
    evidence: Evidence
    invalid: int = 0
    """Bytes that are no text in this encoding; U+FFFD replaces them."""
    first_line: int = 0
    """The line of the first of them, from 1."""

    @property
    def is_certain(self) -> bool:
        return self.evidence is not Evidence.GUESS and not self.invalid

    def metadata(self) -> dict[str, str]:
        """The note in a record's metadata: none for UTF-8."""
        guessed = " (guessed)" if self.evidence is Evidence.GUESS else ""
        return {} if self.name in ("utf-8", "utf-8-sig") else {"encoding": f"{self.name}{guessed}"}

    def describe(self) -> str:
        """For a report: `utf-8 (best fit), 1 invalid byte replaced by U+FFFD, the first in line 12`."""
        count = "1 invalid byte" if self.invalid == 1 else f"{self.invalid:,} invalid bytes"
        replaced = f", {count} replaced by U+FFFD, the first in line {self.first_line}" if self.invalid else ""
        return f"{self.name} ({self.evidence}){replaced}"


def detect_byte_order_mark(start: bytes) -> str | None:
    """The encoding that the byte order mark at the start of a file names."""
    return next((name for mark, name in MARKS if start.startswith(mark)), None)


class Sample:
    """Bytes beyond ASCII with their context, from which an encoding can be guessed; they may occur late in a text.

    Never cut inside a character, which would rule out the very encoding that it is in: a second byte of any of `MULTI_BYTE` may
    be a letter, but neither white space nor one of `,"`.
    """

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._rest = b""

    def feed(self, chunk: bytes) -> None:
        if self._size < SAMPLE_BYTES:
            text = self._rest + chunk
            end = max(map(text.rfind, (b"\n", b"\r", b" ", b",", b'"'))) + 1
            if not end and len(text) > SAMPLE_BYTES:
                end = len(text)  # a text without white space: better cut somewhere than held whole
            self._rest = text[end:]
            self._keep(text[:end])

    def guess(self) -> str:
        """The most likely encoding of texts from before UTF-8; Windows-1252 if there is no evidence for another."""
        self._keep(self._rest)
        self._rest = b""
        sample = b"\n".join(self._parts)
        best = None
        if len(sample.translate(None, ASCII)) >= FEW_BYTES:
            # the guess rules out an encoding for one invalid byte: leave out the pieces that alone speak against an encoding
            pieces = [piece for piece in PIECE.findall(sample) if not piece.isascii()]
            damaged: set[bytes] = set()
            for name in MULTI_BYTE:
                if not _is_valid(sample, name):
                    invalid = [piece for piece in pieces if not _is_valid(piece, name)]
                    damaged.update(invalid if len(invalid) <= max(1, MAX_DAMAGED_SHARE * len(pieces)) < len(pieces) else ())
            whole = b"".join(piece for piece in PIECE.findall(sample) if piece not in damaged) if damaged else sample
            if any(_is_valid(whole, name) for name in MULTI_BYTE):  # else none of them can be the best
                from charset_normalizer import from_bytes

                best = from_bytes(whole, cp_isolation=[*MULTI_BYTE, *SINGLE_BYTE], preemptive_behaviour=False).best()
        return best.encoding if best is not None and best.encoding in MULTI_BYTE else guess_single_byte(sample)

    def _keep(self, text: bytes) -> None:
        end = 0
        for match in _find_beyond_ascii(text):
            part = text[max(end, match.start() - AROUND_BYTES) : match.end()]
            end = match.end()
            self._parts.append(part)
            self._size += len(part)
            if self._size >= SAMPLE_BYTES:
                break


def _find_beyond_ascii(text: bytes) -> Iterator[re.Match[bytes]]:
    """The matches of `BEYOND_ASCII`, past stretches of ASCII at a tenth of the time that the expression takes for them."""
    at = 0
    while at < len(text):
        if text[at : at + STRETCH_BYTES].isascii():
            at += STRETCH_BYTES
        elif match := BEYOND_ASCII.search(text, at):
            yield match
            at = match.end()


def _is_valid(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


class NotText(ValueError):
    """Bytes that are empty, binary, or false to their own byte order mark."""


class EncodingDetector:
    """Finds the encoding of a text from all its bytes, given piece by piece.

    A byte order mark decides. Else the text is UTF-8 where at least as many bytes beyond ASCII continue a valid character as are invalid:
    a text in another encoding has next to none that do (GB 2312 about one of seven), so a few damaged bytes do not turn a file into
    another encoding. Else it is UTF-16 where null bytes stand at every second place only, else what was declared, else a guess.
    """

    def __init__(self) -> None:
        self.size = 0
        self._mark: str | None = None
        self._nulls = [0, 0]
        """At even and at odd places."""
        self._utf8 = _CountingDecoder("utf-8")

    def feed(self, chunk: bytes) -> None:
        if not self.size:
            self._mark = detect_byte_order_mark(chunk)
        if b"\x00" in chunk:
            for place in (0, 1):
                self._nulls[(self.size + place) % 2] += chunk[place::2].count(0)
        self.size += len(chunk)
        self._utf8.feed(chunk)

    def check_nulls(self) -> None:
        """Raises `NotText` for more null bytes than are noise in a text that is otherwise UTF-8."""
        if sum(self._nulls) > max(1, MAX_NULL_SHARE * self.size):
            raise NotText("binary, not text (null bytes)")

    def find(self, read: Callable[[], Iterable[bytes]], declared: str | None = None) -> Encoding:
        """The encoding of the bytes that were fed; `read` gives them again. Raises `NotText`."""
        if not self.size:
            raise NotText("is empty")
        self._utf8.feed(b"", last=True)
        invalid, valid = self._utf8.invalid, self.size - self._utf8.chars - self._utf8.invalid
        pairs = max(1, self.size // 2)
        fits_utf8 = valid >= invalid
        if self._mark:
            decoder = self._utf8 if self._mark == "utf-8-sig" else _count(read(), self._mark)
            if decoder.invalid > max(valid - 2 if self._mark == "utf-8-sig" else 0, MAX_INVALID_SHARE * self.size):
                raise NotText(f"starts as {self._mark} but is not: {decoder.invalid:,} of {self.size:,} bytes are invalid")
            return Encoding(self._mark, Evidence.MARK, decoder.invalid, decoder.first_line)
        for name, place in (("utf-16-le", 1), ("utf-16-be", 0)):
            if self._nulls[place] > UTF_16_NULL_SHARE * pairs and self._nulls[1 - place] <= MAX_NULL_SHARE * pairs and not self.size % 2:
                decoder = _count(read(), name, counts_controls=True)
                if not decoder.invalid and decoder.controls <= MAX_CONTROL_SHARE * decoder.chars:
                    return Encoding(name, Evidence.NULLS)
        if fits_utf8:
            return Encoding("utf-8", Evidence.FIT if invalid else Evidence.VALID, invalid, self._utf8.first_line)
        if sum(self._nulls):
            raise NotText("binary, not text (null bytes)")
        codec = find_codec(declared)
        name = codec or _guess(read())
        decoder = _count(read(), name)
        return Encoding(name, Evidence.DECLARED if codec else Evidence.GUESS, decoder.invalid, decoder.first_line)


class _CountingDecoder:
    """Counts characters and invalid bytes of a text that is given piece by piece."""

    def __init__(self, name: str, *, counts_controls: bool = False) -> None:
        self.chars = self.invalid = self.controls = 0
        self.first_line = 0
        """Of the first invalid byte, from 1; 0 without one."""
        self._decoder = codecs.getincrementaldecoder(name)(ERRORS)
        self._lines = 0
        self._counts_controls = counts_controls

    def feed(self, chunk: bytes, *, last: bool = False) -> None:
        _errors.invalid, _errors.first = 0, -1
        text = self._decoder.decode(chunk, last)
        self.chars += len(text)
        if self._counts_controls:
            self.controls += sum(1 for _ in CONTROL.finditer(text))
        if _errors.invalid:
            self.invalid += _errors.invalid
            self.first_line = self.first_line or self._lines + chunk.count(b"\n", 0, max(_errors.first, 0)) + 1
        self._lines += chunk.count(b"\n")


class _Errors(threading.local):
    """Counts of the decoder's error handler; each thread decodes by itself."""

    invalid = 0
    first = -1


_errors = _Errors()
ERRORS = "outrider.count"


def _count_invalid(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    if _errors.first < 0:
        _errors.first = error.start
    _errors.invalid += error.end - error.start
    return "", error.end


codecs.register_error(ERRORS, _count_invalid)


def _guess(chunks: Iterable[bytes]) -> str:
    sample = Sample()
    for chunk in chunks:
        sample.feed(chunk)
    return sample.guess()


def _count(chunks: Iterable[bytes], name: str, *, counts_controls: bool = False) -> _CountingDecoder:
    decoder = _CountingDecoder(name, counts_controls=counts_controls)
    for chunk in chunks:
        decoder.feed(chunk)
    decoder.feed(b"", last=True)
    return decoder


def find_codec(name: str | None) -> str | None:
    """Python's name of a declared encoding; None for an unknown one, one of no texts (`idna`), or one that needs more than a byte."""
    try:
        known = codecs.lookup(name).name if name and b"a".decode(name) == "a" else None
    except (LookupError, ValueError):  # a UnicodeError is a ValueError
        return None
    return None if known in NO_ENCODINGS else known


@dataclass(frozen=True, slots=True)
class DecodedText:
    """Text with line feeds only and without stray control characters."""

    text: str
    encoding: Encoding


def decode_text(data: bytes, declared: str | None = None) -> DecodedText:
    """A whole text; invalid bytes become U+FFFD. An encoding that is `declared` is believed where the bytes are not UTF-8.

    Raises `NotText`.
    """
    if not data.strip():
        raise NotText("is empty")
    detector = EncodingDetector()
    detector.feed(data)
    encoding = detector.find(lambda: (data,), declared)
    text = data.decode(encoding.name, errors="replace")
    controls = sum(1 for _ in CONTROL.finditer(text))
    if controls > max(1, MAX_CONTROL_SHARE * len(text)):
        raise NotText(f"binary, not text ({controls} control characters)")
    plain = CONTROL.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    if not plain.strip():
        raise NotText("is empty")
    return DecodedText(plain, encoding)


LANGUAGES = {
    "Western": {
        "French": "àâæçéèêëîïôœùûüÿ", "German": "äöüß", "Spanish": "áéíñóúü", "Portuguese": "àáâãçéêíóôõúü", "Italian": "àèéìíòóùú",
        "Dutch": "áèéêëïóöü", "Danish": "æøåéóäö", "Swedish": "åäöéü", "Icelandic": "áðéíóúýþæö", "Catalan": "àçèéíïòóúü",
    },
    "Central European": {
        "Polish": "ąćęłńóśźż", "Czech": "áčďéěíňóřšťúůýž", "Slovak": "áäčďéíĺľňóôŕšťúýž", "Hungarian": "áéíóöőúüű", "Romanian": "ăâîșțşţ",
        "Croatian": "čćđšž", "German": "äöüß",
    },
    "Turkish": {"Turkish": "çğıöşüâîû"},
    "Baltic": {"Lithuanian": "ąčęėįšųūž", "Latvian": "āčēģīķļņšūž", "Estonian": "äõöüšž"},
    "Cyrillic": {"Russian": "абвгдеёжзийклмнопрстуфхцчшщъыьэюя", "Ukrainian": "абвгґдеєжзиіїйклмнопрстуфхцчшщьюя",
                 "Serbian": "абвгдђежзијклљмнњопрстћуфхцчџш"},
    "Greek": {"Greek": "αβγδεζηθικλμνξοπρστυφχψωςάέήίόύώϊϋΐΰ"},
    "Hebrew": {"Hebrew": "אבגדהוזחטיךכלםמןנסעףפץצקרשת"},
    "Arabic": {"Arabic": "ءآأؤإئابةتثجحخدذرزسشصضطظعغفقكلمنهوىي" + "ًٌٍَُِّْ", "Persian": "ءآأؤئابپتثجچحخدذرزژسشصضطظعغفقکگلمنهوي"},
}  # fmt: skip
ENCODINGS = {
    "cp1252": "Western", "cp1250": "Central European", "iso8859_2": "Central European", "cp1255": "Hebrew",
    "cp1251": "Cyrillic", "koi8_r": "Cyrillic", "cp1254": "Turkish", "cp1257": "Baltic", "cp1253": "Greek", "cp1256": "Arabic",
    "mac_roman": "Western", "cp850": "Western", "cp866": "Cyrillic", "iso8859_5": "Cyrillic",
}  # fmt: skip
"""The most likely first: it wins where several fit alike. Hebrew read as Cyrillic would be letters only, not the other way round."""
SIGNS = frozenset("\xa0°±µ×÷§©®™–—‘’“”„‚•…€£«»‹›¿¡ª²³¹º½¼¾·†‡‰´")
INSIDE_WORDS = frozenset("\xa0’‘´–—·…×/")
CONTEXT = re.compile(r"(?=(.[^\x00-\x7f].))", re.DOTALL)
ALL_LETTERS_COST = 0.1
"""Of a text whose letters no single language of the encoding has, as a bibliography's names: between a pure text and a wrong reading."""
BOUNDED_BYTES = 2**14


def guess_single_byte(sample: bytes) -> str:
    """The encoding of `ENCODINGS` in which the sample looks most like a text."""
    costs = {name: _rate(sample[:BOUNDED_BYTES].decode(name, errors="replace"), group) for name, group in ENCODINGS.items()}
    return min(costs, key=costs.__getitem__)  # the first of equals


def _rate(text: str, group: str) -> float:
    contexts = Counter(CONTEXT.findall(f" {text} "))
    count = contexts.total()
    if not count:
        return 0.0
    faults = sum(times for context, times in contexts.items() if _is_fault(context))
    letters: Counter[str] = Counter()
    for context, times in contexts.items():
        if context[1].isalpha() and context[1] not in SIGNS:
            letters[context[1].lower()[0]] += times
    total = letters.total()
    alphabets = LANGUAGES[group].values()
    cost = min(total - sum(letters[letter] for letter in alphabet) for alphabet in alphabets)
    every = total - sum(letters[letter] for letter in set("".join(alphabets))) + ALL_LETTERS_COST * total
    return (faults + min(cost, every)) / count


@cache
def _is_fault(context: str) -> bool:
    """Whether the character in the middle cannot stand between its neighbours in a text."""
    before, char, after = context[0], context[1], context[2]
    if char in SIGNS:
        return before.isalpha() and after.isalpha() and char not in INSIDE_WORDS
    if not char.isalpha():  # a point of Hebrew or Arabic stands on a letter or on another point
        return unicodedata.category(char)[0] != "M" or not (before.isalpha() or unicodedata.category(before)[0] == "M")
    if char.isupper() and before.islower():
        return True
    if before.isdigit() and after.isdigit():
        return True
    return any(other.isalpha() and _find_script(other) != _find_script(char) for other in (before, after))


@cache
def _find_script(char: str) -> str:
    return "LATIN" if char.isascii() else unicodedata.name(char, "").partition(" ")[0]

"""Detection of a text's encoding: byte order mark, UTF-8, declaration, or a marked guess."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it starts with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
GUESSES = ("cp1252", "iso8859_2", "cp1251", "koi8_r", "gb18030", "big5", "shift_jis", "euc_jp", "euc_kr", "cp1253", "cp1255", "cp1256")
SAMPLE_BYTES = 64 * 1024
AROUND_BYTES = 40
BEYOND_ASCII = re.compile(rb"[\x80-\xff]+(?:[\x00-\x7f]{1,%d}[\x80-\xff]+){0,400}[\x00-\x7f]{0,%d}" % (AROUND_BYTES, AROUND_BYTES))
CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\ufffe\uffff]")
MAX_CONTROL_SHARE = 0.001
FEW_BYTES = 8
"""Fewer bytes beyond ASCII say nothing about an encoding: `caf\\xe9` would be taken for Cyrillic."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """An encoding by Python's name."""

    name: str
    guessed: bool = False

    def metadata(self) -> dict[str, str]:
        """What a record's metadata says about it: nothing for UTF-8."""
        return {} if self.name in ("utf-8", "utf-8-sig") else {"encoding": f"{self.name} (guessed)" if self.guessed else self.name}


def detect_byte_order_mark(start: bytes) -> str | None:
    """The encoding that the byte order mark at the start of a file names."""
    return next((name for mark, name in MARKS if start.startswith(mark)), None)


class Sample:
    """Bytes beyond ASCII with their context, from which an encoding can be guessed; they may occur late in a text.

    Never cut inside a character, which would rule out the very encoding that it is in: a second byte of any of `GUESSES` may
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

    def guess(self) -> Encoding:
        """The most likely encoding of texts from before UTF-8; Windows-1252 if there is no evidence for another."""
        from charset_normalizer import from_bytes

        self._keep(self._rest)
        self._rest = b""
        sample = b"\n".join(self._parts)
        best = None
        if sum(byte > 0x7F for byte in sample) >= FEW_BYTES:
            best = from_bytes(sample, cp_isolation=list(GUESSES), preemptive_behaviour=False).best()
        return Encoding(best.encoding if best is not None and best.encoding in GUESSES else "cp1252", guessed=True)

    def _keep(self, text: bytes) -> None:
        end = 0
        for match in BEYOND_ASCII.finditer(text):
            part = text[max(end, match.start() - AROUND_BYTES) : match.end()]
            end = match.end()
            self._parts.append(part)
            self._size += len(part)
            if self._size >= SAMPLE_BYTES:
                break


class NotText(ValueError):
    """Bytes that are empty, binary, or false to their own byte order mark."""


@dataclass(frozen=True, slots=True)
class DecodedText:
    """Text with line feeds only and without stray control characters."""

    text: str
    encoding: Encoding


def decode_text(data: bytes, declared: str | None = None) -> DecodedText:
    """A whole text. An encoding that is `declared` is believed where the bytes are not UTF-8. Raises `NotText`."""
    if not data.strip():
        raise NotText("is empty")
    text, encoding = _decode(data, declared)
    controls = sum(1 for _ in CONTROL.finditer(text))
    if controls > max(1, MAX_CONTROL_SHARE * len(text)):
        raise NotText(f"binary, not text ({controls} control characters)")
    plain = CONTROL.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    if not plain.strip():
        raise NotText("is empty")
    return DecodedText(plain, encoding)


def _decode(data: bytes, declared: str | None) -> tuple[str, Encoding]:
    encoding = detect_byte_order_mark(data) or "utf-8"
    try:
        return data.decode(encoding), Encoding(encoding)
    except UnicodeDecodeError as broken:
        if encoding != "utf-8":
            raise NotText(f"starts as {encoding} but is not: {broken.reason} at byte {broken.start}") from broken
    if b"\x00" in data:
        raise NotText("binary, not text (null bytes)")
    if declared:
        try:
            b"a".decode(declared)
        except (LookupError, UnicodeError):
            pass  # no such encoding, or no text encoding, or one that needs more than a byte
        else:
            return data.decode(declared, errors="replace"), Encoding(codecs.lookup(declared).name)
    sample = Sample()
    sample.feed(data)
    guess = sample.guess()
    return data.decode(guess.name, errors="replace"), guess

"""Bytes into text: UTF-8 or a marked encoding where possible, otherwise a guess that is named, never a binary file."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from outrider.state.errors import UnreadableFile

MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it starts with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
GUESSES = ("cp1252", "iso8859_2", "cp1251", "koi8_r", "gb18030", "big5", "shift_jis", "euc_jp", "euc_kr", "cp1253", "cp1255", "cp1256")
GUESS_BYTES = 64 * 1024
FEW_BYTES = 8
"""Fewer bytes beyond ASCII say nothing about an encoding: `caf\\xe9` would be taken for Cyrillic."""
CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\ufffe\uffff]")
MAX_CONTROL_SHARE = 0.001


@dataclass(frozen=True, slots=True)
class Decoded:
    """Text with line feeds only and without stray control characters; `encoding` as Python names it."""

    text: str
    encoding: str
    guessed: bool

    def said(self) -> dict[str, str]:
        """What a record's metadata says about it: nothing for UTF-8."""
        return (
            {} if self.encoding in ("utf-8", "utf-8-sig") else {"encoding": f"{self.encoding} (guessed)" if self.guessed else self.encoding}
        )


def decoded(path: Path, declared: Callable[[bytes], str | None] = lambda data: None) -> Decoded:
    """A text file, whole. `declared` may read an encoding out of the bytes; it is believed where they are not UTF-8.

    Raises `UnreadableFile` for one that is empty, binary, or false to its own byte order mark.
    """
    data = path.read_bytes()
    if not data.strip():
        raise UnreadableFile(f"{path}: is empty")
    text, encoding, guessed = _decode(path, data, declared(data))
    controls = sum(1 for _ in CONTROL.finditer(text))
    if controls > max(1, MAX_CONTROL_SHARE * len(text)):
        raise UnreadableFile(f"{path}: binary, not text ({controls} control characters)")
    plain = CONTROL.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    if not plain.strip():
        raise UnreadableFile(f"{path}: is empty")
    return Decoded(plain, encoding, guessed)


def _decode(path: Path, data: bytes, declared: str | None) -> tuple[str, str, bool]:
    encoding = next((name for mark, name in MARKS if data.startswith(mark)), "utf-8")
    try:
        return data.decode(encoding), encoding, False
    except UnicodeDecodeError as broken:
        if encoding != "utf-8":
            raise UnreadableFile(f"{path}: starts as {encoding} but is not: {broken.reason} at byte {broken.start}") from broken
    if b"\x00" in data:
        raise UnreadableFile(f"{path}: binary, not text (null bytes)")
    if declared and _known(declared):
        return data.decode(declared, errors="replace"), codecs.lookup(declared).name, False
    guess = _guess(data)
    return data.decode(guess, errors="replace"), guess, True


def _known(encoding: str) -> bool:
    try:
        b"a".decode(encoding)
    except (LookupError, UnicodeError):  # no such encoding, or no text encoding, or one that needs more than a byte
        return False
    return True


def _guess(data: bytes) -> str:
    """The likeliest of the encodings that texts were written in before UTF-8; Windows-1252 where nothing speaks for another."""
    from charset_normalizer import from_bytes

    start = data[:GUESS_BYTES]
    if sum(byte > 0x7F for byte in start) < FEW_BYTES:
        return "cp1252"
    best = from_bytes(start, cp_isolation=list(GUESSES), preemptive_behaviour=False).best()
    return best.encoding if best is not None and best.encoding in GUESSES else "cp1252"

"""Bytes into text: UTF-8 or a marked encoding where possible, otherwise a guess that is named, never a binary file."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from outrider.ingest.readers.encoding import Encoding, Sample, marked
from outrider.state.errors import UnreadableFile

CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\ufffe\uffff]")
MAX_CONTROL_SHARE = 0.001


@dataclass(frozen=True, slots=True)
class Decoded:
    """Text with line feeds only and without stray control characters."""

    text: str
    encoding: Encoding

    def said(self) -> dict[str, str]:
        """What a record's metadata says about the encoding."""
        return self.encoding.said()


def decoded(path: Path, declared: Callable[[bytes], str | None] = lambda data: None) -> Decoded:
    """A text file, whole. `declared` may read an encoding out of the bytes; it is believed where they are not UTF-8.

    Raises `UnreadableFile` for one that is empty, binary, or false to its own byte order mark.
    """
    data = path.read_bytes()
    if not data.strip():
        raise UnreadableFile(f"{path}: is empty")
    text, encoding = _decode(path, data, declared(data))
    controls = sum(1 for _ in CONTROL.finditer(text))
    if controls > max(1, MAX_CONTROL_SHARE * len(text)):
        raise UnreadableFile(f"{path}: binary, not text ({controls} control characters)")
    plain = CONTROL.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    if not plain.strip():
        raise UnreadableFile(f"{path}: is empty")
    return Decoded(plain, encoding)


def _decode(path: Path, data: bytes, declared: str | None) -> tuple[str, Encoding]:
    encoding = marked(data) or "utf-8"
    try:
        return data.decode(encoding), Encoding(encoding)
    except UnicodeDecodeError as broken:
        if encoding != "utf-8":
            raise UnreadableFile(f"{path}: starts as {encoding} but is not: {broken.reason} at byte {broken.start}") from broken
    if b"\x00" in data:
        raise UnreadableFile(f"{path}: binary, not text (null bytes)")
    if declared and _known(declared):
        return data.decode(declared, errors="replace"), Encoding(codecs.lookup(declared).name)
    sample = Sample()
    sample.feed(data)
    guess = sample.guess()
    return data.decode(guess.name, errors="replace"), guess


def _known(encoding: str) -> bool:
    try:
        b"a".decode(encoding)
    except (LookupError, UnicodeError):  # no such encoding, or no text encoding, or one that needs more than a byte
        return False
    return True

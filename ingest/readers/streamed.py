"""Text files read a piece at a time: the encoding found first, the size bounded also behind gzip, binary files refused.

`decoded` reads a document whole and guesses among more encodings; these are for files of many records, which may be large.
"""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from outrider.ingest.entry import ReadOptions
from outrider.state.errors import UnreadableFile

CHUNK_BYTES = 2**16
MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it starts with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
NOT_IN_CP1252 = b"\x81\x8d\x8f\x90\x9d"
MAX_NUL_SHARE = 0.01


@contextmanager
def open_text(path: Path, options: ReadOptions, newline: str | None = None) -> Iterator[TextIO]:
    """The file as text, unpacked where its name ends in `.gz`; read through once before, so that it is refused in time.

    UTF-8 where the bytes are UTF-8 or a byte order mark says otherwise, else Windows-1252, else Latin-1, which takes any
    byte. `newline` as for `open`. Raises `UnreadableFile` for a file that is empty, binary, no gzip archive, or larger
    than `options.max_bytes` (unpacked).
    """
    encoding = _encoding(path, options.max_bytes)
    with _whole_archive(path):
        if _packed(path):
            with gzip.open(path, "rt", encoding=encoding, errors="replace", newline=newline) as text:
                yield cast("TextIO", text)
        else:
            with path.open(encoding=encoding, errors="replace", newline=newline) as text:
                yield text


def refuse_large(path: Path, options: ReadOptions) -> None:
    """Raises `UnreadableFile` for a file of no bytes or of more than `options.max_bytes`."""
    size = path.stat().st_size
    if not size:
        raise UnreadableFile(f"{path}: is empty")
    if size > options.max_bytes:
        raise UnreadableFile(f"{path}: {size:,} bytes, more than the limit of {options.max_bytes:,}")


def _packed(path: Path) -> bool:
    return path.suffix.lower() == ".gz"


@contextmanager
def _whole_archive(path: Path) -> Iterator[None]:
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UnreadableFile(f"{path}: not a whole gzip file: {error}") from error


def _encoding(path: Path, max_bytes: int) -> str:
    scan = _Scan()
    with _whole_archive(path), gzip.open(path) if _packed(path) else path.open("rb") as file:
        for chunk in iter(lambda: cast("BinaryIO", file).read(CHUNK_BYTES), b""):
            scan.feed(chunk)
            if scan.bytes > max_bytes:
                unpacked = " when unpacked" if _packed(path) else ""
                raise UnreadableFile(f"{path}: more than the limit of {max_bytes:,} bytes{unpacked}")
    if not scan.bytes:
        raise UnreadableFile(f"{path}: is empty")
    if scan.binary():
        raise UnreadableFile(f"{path}: binary, not text (null bytes)")
    return scan.encoding()


class _Scan:
    """What can be said of a file's encoding after all its bytes went by."""

    def __init__(self) -> None:
        self.bytes = 0
        self.nuls = 0
        self.mark: str | None = None
        self.utf8 = True
        self.cp1252 = True
        self.decoder = codecs.getincrementaldecoder("utf-8")()

    def feed(self, chunk: bytes) -> None:
        if not self.bytes:
            self.mark = next((name for mark, name in MARKS if chunk.startswith(mark)), None)
        self.bytes += len(chunk)
        self.nuls += chunk.count(0)
        if self.utf8:
            try:
                self.decoder.decode(chunk)
            except UnicodeDecodeError:
                self.utf8 = False
        self.cp1252 = self.cp1252 and not any(byte in chunk for byte in NOT_IN_CP1252)

    def binary(self) -> bool:
        """Null bytes are noise in a text that is UTF-8 but for them, as long as they are few."""
        wide = self.mark is not None and self.mark != "utf-8-sig"
        return not wide and self.nuls > 0 and (not self.utf8 or self.nuls > max(1, MAX_NUL_SHARE * self.bytes))

    def encoding(self) -> str:
        if self.mark:
            return self.mark
        return "utf-8" if self.utf8 else "cp1252" if self.cp1252 else "latin-1"

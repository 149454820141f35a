"""Bytes of a file into text: UTF-8 or a marked encoding where possible, otherwise a guess that is named, never a binary file.

Text files read a piece at a time: the encoding found first, the size bounded also behind gzip, binary files refused.

`decoded` reads a document whole; these are for files of many records, which may be large.
"""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from pydantic import JsonValue

from outrider.ingest.entry import Entry, Parsed, ReadOptions
from outrider.state.errors import UnreadableFile
from outrider.text.encoding import Decoded, Encoding, NoText, Sample, marked
from outrider.text.encoding import decoded as decoded_bytes


def decoded(path: Path, declared: Callable[[bytes], str | None] = lambda data: None) -> Decoded:
    """A text file, whole. `declared` may read an encoding out of the bytes; it is believed where they are not UTF-8.

    Raises `UnreadableFile` for one that is empty, binary, or false to its own byte order mark.
    """
    data = path.read_bytes()
    try:
        return decoded_bytes(data, declared(data))
    except NoText as why:
        raise UnreadableFile(f"{path}: {why}") from why


CHUNK_BYTES = 2**16
Parse = Callable[[TextIO], Iterator[Parsed]]
MAX_NUL_SHARE = 0.01


def entries_or_error(path: Path, options: ReadOptions, parse: Parse, nothing: UnreadableFile) -> Iterator[Parsed]:
    """`entries_of`; raises `nothing` where the file holds no entry."""
    empty = True
    for parsed in entries_of(path, options, parse):
        empty = False
        yield parsed
    if empty:
        raise nothing


def entries_of(path: Path, options: ReadOptions, parse: Parse, newline: str | None = None) -> Iterator[Parsed]:
    """What `parse` finds in the file; where it is not UTF-8, each record's metadata says in what encoding it was read.

    The file is unpacked where its name ends in `.gz`, and read through once before, so that it is refused in time: it is UTF-8
    where its bytes are, or what its byte order mark says, else a guess. `newline` as for `open`. Raises `UnreadableFile` for
    a file that is empty, binary, no gzip archive, or larger than `options.max_bytes` (unpacked).
    """
    encoding = _encoding(path, options.max_bytes)
    said: dict[str, JsonValue] = {**encoding.said()}
    with _opened(path, encoding.name, newline) as stream:
        for parsed in parse(stream):
            yield _with_metadata(parsed, said) if said and isinstance(parsed, Entry) else parsed


def _with_metadata(entry: Entry, said: Mapping[str, JsonValue]) -> Entry:
    """What the file itself says under the same name goes before."""
    return replace(entry, record=entry.record.model_copy(update={"metadata": {**said, **entry.record.metadata}}))


@contextmanager
def _opened(path: Path, encoding: str, newline: str | None) -> Iterator[TextIO]:
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
        raise UnreadableFile(f"{path}: {size:,} bytes, more than the limit of {options.max_bytes:,} (ingest.max_bytes)")


def _packed(path: Path) -> bool:
    return path.suffix.lower() == ".gz"


@contextmanager
def _whole_archive(path: Path) -> Iterator[None]:
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UnreadableFile(f"{path}: not a whole gzip file: {error}") from error


def _encoding(path: Path, max_bytes: int) -> Encoding:
    scan = _Scan()
    with _whole_archive(path), gzip.open(path) if _packed(path) else path.open("rb") as file:
        for chunk in iter(lambda: cast("BinaryIO", file).read(CHUNK_BYTES), b""):
            scan.feed(chunk)
            if scan.bytes > max_bytes:
                unpacked = " when unpacked" if _packed(path) else ""
                raise UnreadableFile(f"{path}: more than the limit of {max_bytes:,} bytes{unpacked} (ingest.max_bytes)")
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
        self.sample = Sample()
        self.decoder = codecs.getincrementaldecoder("utf-8")()

    def feed(self, chunk: bytes) -> None:
        if not self.bytes:
            self.mark = marked(chunk)
        self.bytes += len(chunk)
        self.nuls += chunk.count(0)
        if self.utf8:
            try:
                self.decoder.decode(chunk)
            except UnicodeDecodeError:
                self.utf8 = False
        self.sample.feed(chunk)

    def binary(self) -> bool:
        """Null bytes are noise in a text that is UTF-8 but for them, as long as they are few."""
        wide = self.mark is not None and self.mark != "utf-8-sig"
        return not wide and self.nuls > 0 and (not self.utf8 or self.nuls > max(1, MAX_NUL_SHARE * self.bytes))

    def encoding(self) -> Encoding:
        return Encoding(self.mark) if self.mark else Encoding("utf-8") if self.utf8 else self.sample.guess()

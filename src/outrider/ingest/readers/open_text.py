"""Opening of files as text: encoding, gzip, a limit on size, refusal of binary files.

`text.encoding` finds the encoding from all bytes of a file. What is invalid in it becomes U+FFFD. The file's report names the encoding,
how it was found and how many bytes were replaced; records name one that is not UTF-8. `read_text` reads a document whole;
`read_entries` streams files of many records, which may be large.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from pydantic import JsonValue

from outrider.ingest.entry import Entry, Parsed, ReadOptions
from outrider.state.errors import UnreadableFile
from outrider.text.encoding import DecodedText, Encoding, EncodingDetector, NotText, decode_text

CHUNK_BYTES = 2**16
Parse = Callable[[TextIO], Iterator[Parsed]]


def read_text(path: Path, options: ReadOptions | None = None, declared: Callable[[bytes], str | None] = lambda data: None) -> DecodedText:
    """A text file, whole. `declared` may read an encoding from the bytes; it is used if they are not UTF-8.

    Raises `UnreadableFile` for a file that is empty, binary, or contradicts its own byte order mark.
    """
    data = path.read_bytes()
    try:
        text = decode_text(data, declared(data))
    except NotText as error:
        raise UnreadableFile(f"{path}: {error}") from error
    if options is not None and options.on_encoding is not None:
        options.on_encoding(text.encoding)
    return text


def read_entries(
    path: Path, options: ReadOptions, parse: Parse, *, newline: str | None = None, nothing: UnreadableFile | None = None
) -> Iterator[Parsed]:
    """The entries that `parse` reads from the file; if it is not UTF-8, each record's metadata names the encoding.

    The file is unpacked if its name ends in `.gz`. It is read through once before, so that all its bytes decide on the encoding and it is
    refused in time. `newline` as for `open`. Raises `UnreadableFile` for a file that is empty, binary, no gzip archive, or larger than
    `options.max_bytes` (unpacked), and `nothing` for one without entries.
    """
    packed = path.suffix.lower() == ".gz"
    encoding = _detect_encoding(path, options.max_bytes, packed=packed)
    if options.on_encoding is not None:
        options.on_encoding(encoding)
    notes: dict[str, JsonValue] = {**encoding.metadata()}
    empty = True
    with (
        _archive_errors(path),
        gzip.open(path, "rt", encoding=encoding.name, errors="replace", newline=newline)
        if packed
        else path.open(encoding=encoding.name, errors="replace", newline=newline) as stream,
    ):
        for entry in parse(cast("TextIO", stream)):
            empty = False
            if notes and isinstance(entry, Entry):  # a field of the file with the same name takes precedence
                record = entry.record.model_copy(update={"metadata": {**notes, **entry.record.metadata}})
                yield Entry(record, entry.own_id, entry.cited)
            else:
                yield entry
    if empty and nothing is not None:
        raise nothing


def refuse_large(path: Path, options: ReadOptions) -> None:
    """Raises `UnreadableFile` for an empty file or one of more than `options.max_bytes`."""
    size = path.stat().st_size
    if not size:
        raise UnreadableFile(f"{path}: is empty")
    if size > options.max_bytes:
        raise UnreadableFile(f"{path}: {size:,} bytes, more than the limit of {options.max_bytes:,} (ingest.max_bytes)")


@contextmanager
def _archive_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UnreadableFile(f"{path}: not a whole gzip file: {error}") from error


def _detect_encoding(path: Path, max_bytes: int, *, packed: bool) -> Encoding:
    detector = EncodingDetector()
    for chunk in _read_chunks(path, packed):
        detector.feed(chunk)
        if detector.size > max_bytes:
            unpacked = " when unpacked" if packed else ""
            raise UnreadableFile(f"{path}: more than the limit of {max_bytes:,} bytes{unpacked} (ingest.max_bytes)")
    try:
        encoding = detector.find(lambda: _read_chunks(path, packed))
        if encoding.name in ("utf-8", "utf-8-sig"):
            detector.check_nulls()
    except NotText as error:
        raise UnreadableFile(f"{path}: {error}") from error
    return encoding


def _read_chunks(path: Path, packed: bool) -> Iterator[bytes]:
    with _archive_errors(path), gzip.open(path) if packed else path.open("rb") as file:
        yield from iter(lambda: cast("BinaryIO", file).read(CHUNK_BYTES), b"")

"""The file of a recording, written whole, and read with limits

A zip with `recording.json` and a folder `blobs`, whose files are named by the sha-256 of their content and hold one JSON value each.
"""

from __future__ import annotations

import io
import json
import os
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from outrider.recorder.codec import Json, Unreadable, digest, dump
from outrider.state.errors import BadRequest
from outrider.state.model import Model

FORMAT = 1
INDEX, BLOBS = "recording.json", "blobs/"
MOST_FILES, MOST_FILE_BYTES, MOST_BYTES = 200_000, 64 << 20, 1 << 30
"""Limits on what a recording may unpack to: a zip bomb is small."""
MOST_RATIO = 400
"""Deflate reaches 1,032 on zeros alone; answers of services stay below 100."""
METHODS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
"""LZMA takes as much memory as the file says."""
BLOB_NAME = re.compile(r"[0-9a-f]{64}")
EPOCH = (1980, 1, 1, 0, 0, 0)
"""The same recording is the same file."""
Kind = Literal["search", "analyze", "citations", "systematic", "candidates"]


class CallEntry(Model):
    """A call of a port, or blocking work of a node."""

    node: str
    port: str
    method: str
    key: str = Field("", description="Digest of port, method and question.")
    question: str = Field("", description="Blob of the arguments.")
    began: int
    ended: int
    at: float
    outcome: Literal["value", "error", "cancelled", "open"]
    answer: str = Field("", description="Blob of the value or the error.")
    spendings: tuple[tuple[str, float | None, int | None, int | None, float | None], ...] = ()
    harvest: str = ""
    awaited: bool = Field(True, description="Whether its end has a place in the order of the run; else it ended at once.")


class UpdateEntry(Model):
    node: str
    blob: str
    sha256: str


class LeftOut(Model):
    """A text that the recording does not hold, since its licence does not allow it to be passed on."""

    doc_id: str
    licence: str
    chars: int


class Index(Model):
    """`recording.json`."""

    format: int
    outrider: str
    kind: Kind
    made_at: str
    request: dict[str, Any]
    limits: dict[str, Any] = Field(default_factory=dict)
    earlier: str = Field("", description="Blob of what the first state has of the searches before on the same thread.")
    settings: dict[str, Any]
    environment: dict[str, str]
    prompts: dict[str, str] = Field(description="Texts by name.")
    facts: dict[str, Any] = Field(default_factory=dict, description="Values of the services that no port has.")
    ports: dict[str, Any]
    calls: tuple[CallEntry, ...]
    readings: dict[str, tuple[float, ...]]
    updates: tuple[UpdateEntry, ...]
    began: float
    response_sha256: str
    response_bytes: int
    left_out: tuple[LeftOut, ...] = ()
    redacted: tuple[str, ...] = Field((), description="Ids of records that lack a secret, so that their hashes are others.")


@dataclass(frozen=True, slots=True)
class Recording:
    """An index and its blobs."""

    index: Index
    blobs: Mapping[str, bytes] = field(repr=False)
    path: str = ""

    def blob(self, name: str) -> bytes:
        """Raises `Unreadable` where the file lacks it."""
        content = self.blobs.get(name)
        if content is None:
            raise Unreadable(f"it names a part {name[:12]} that it does not hold")
        return content

    def value(self, name: str) -> Json:
        try:
            return json.loads(self.blob(name))
        except (ValueError, RecursionError) as error:
            raise Unreadable(f"its part {name[:12]} is no JSON") from error


def write_recording(path: Path, index: Index, blobs: Mapping[str, bytes]) -> int:
    """Write the file at once, and return its size. Raises `OSError`."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        archive.writestr(_describe_file(INDEX), dump(index.model_dump(exclude_defaults=True)))  # pydantic would write null for infinity
        for name in sorted(blobs):
            archive.writestr(_describe_file(BLOBS + name), blobs[name])
    content = buffer.getvalue()
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.touch(mode=0o600)  # queries are private
        part.write_bytes(content)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return len(content)


def _describe_file(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o600 << 16
    return entry


def is_recording(path: Path) -> bool:
    """Whether a file is a zip, as recordings are and manifests are not; it may still be no whole recording."""
    try:
        with path.open("rb") as stream:
            return stream.read(2) == b"PK" or path.suffix.lower() == ".zip"
    except OSError:
        return False


def read_recording(path: Path) -> Recording:
    """Read a recording into memory; nothing is written. Raises `BadRequest` with the reason for any other file."""
    try:
        with zipfile.ZipFile(path) as archive:
            parts = dict(_read_parts(archive, path))
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OSError) as error:
        if isinstance(error, BadRequest):
            raise
        raise BadRequest(f"{path} is no whole recording: {error or type(error).__name__}") from error
    if INDEX not in parts:
        raise BadRequest(f"{path} is no recording: it holds no {INDEX}")
    index = _read_index(parts.pop(INDEX), path)
    return Recording(index, {name.removeprefix(BLOBS): content for name, content in parts.items()}, str(path))


def _read_index(content: bytes, path: Path) -> Index:
    try:
        fields = json.loads(content)
        version = fields.get("format") if isinstance(fields, dict) else None
        if isinstance(version, int) and version != FORMAT:
            raise BadRequest(f"{path} has the format {version} of recordings, and this version of Outrider reads format {FORMAT}")
        return Index.model_validate(fields)
    except (ValidationError, ValueError, RecursionError) as error:
        if isinstance(error, BadRequest):
            raise
        where = ".".join(map(str, error.errors()[0]["loc"])) if isinstance(error, ValidationError) else str(error)
        raise BadRequest(f"{path} is no recording: its {INDEX} cannot be read ({where})") from error


def _read_parts(archive: zipfile.ZipFile, path: Path) -> Iterator[tuple[str, bytes]]:
    entries = archive.infolist()
    if len(entries) > MOST_FILES:
        raise BadRequest(f"{path} is refused: it holds {len(entries):,} files, and a recording at most {MOST_FILES:,}")
    names = [entry.filename for entry in entries]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BadRequest(f"{path} is refused: it holds {twice[:80]!r} twice")
    total = 0
    for entry in entries:
        name = entry.filename
        if name != INDEX and not (name.startswith(BLOBS) and BLOB_NAME.fullmatch(name.removeprefix(BLOBS))):
            raise BadRequest(f"{path} is no recording: it holds the file {name[:80]!r}")
        content = _read_part(archive, entry, path, MOST_BYTES - total)
        total += len(content)
        if name != INDEX and digest(content) != name.removeprefix(BLOBS):
            raise BadRequest(f"{path} is refused: the content of {name} is not the one of its name")
        yield name, content


def _read_part(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, path: Path, left: int) -> bytes:
    """The content, of which no more is unpacked than the limits allow: the size that a zip names may be a lie."""
    most = min(MOST_FILE_BYTES, left)
    if entry.flag_bits & 0x1:
        raise BadRequest(f"{path} is no recording: {entry.filename[:80]!r} is encrypted")
    if entry.compress_type not in METHODS:
        raise BadRequest(f"{path} is refused: {entry.filename[:80]!r} is compressed by a method that no recording has")
    if entry.file_size > most or entry.file_size > MOST_RATIO * max(entry.compress_size, 1) + (1 << 16):
        raise BadRequest(f"{path} is refused: {entry.filename[:80]!r} unpacks to {entry.file_size:,} bytes")
    with archive.open(entry) as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        raise BadRequest(f"{path} is refused: {entry.filename[:80]!r} unpacks to more than {most:,} bytes")
    return content

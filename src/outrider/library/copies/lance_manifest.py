"""What the manifest of a Lance table says of its files.

A manifest is a protocol buffer (Lance's `table.proto`). It lies where the last 16 bytes of its file say, and says where in the same file
the section of the indexes lies, each after its length in 4 bytes (Lance's table format).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

INDEXES_AT = 6
INDEX, INDEX_UUID, INDEX_NAME, UUID_BYTES = 1, 1, 3, 1
FRAGMENT, FRAGMENT_FILE, FILE_PATH, FILE_BYTES = 2, 2, 1, 6
"""Numbers of the fields that are read here."""
FOOTER = b"LANC"
VARINT, EIGHT_BYTES, BYTES, FOUR_BYTES = 0, 1, 2, 5
"""Kinds of values (Protocol Buffers' encoding)."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The files of one version."""

    indexes: tuple[tuple[str, uuid.UUID], ...]
    """The name of each index, and the identifier of each of its parts."""
    rows: tuple[tuple[str, int], ...]
    """The name of each file of rows, and its bytes; 0 where an earlier Lance has not written that."""

    @classmethod
    def parse(cls, content: bytes) -> Manifest:
        """Raises `ValueError` for what is no manifest."""
        if content[-4:] != FOOTER:
            raise ValueError("no manifest of a Lance table")
        manifest = _read_section(content, int.from_bytes(content[-16:-8], "little"))
        places = [value for number, value in _iter_fields(manifest) if number == INDEXES_AT and isinstance(value, int)]
        indexes: list[tuple[str, uuid.UUID]] = []
        for index in [index for place in places for index in _list_messages(_read_section(content, place), INDEX)]:
            (name,), (part,) = _list_messages(index, INDEX_NAME), _list_messages(index, INDEX_UUID)
            (identifier,) = _list_messages(part, UUID_BYTES)
            indexes.append((name.decode(), uuid.UUID(bytes=identifier)))
        files = [file for fragment in _list_messages(manifest, FRAGMENT) for file in _list_messages(fragment, FRAGMENT_FILE)]
        rows = [(path.decode(), _find_number(file, FILE_BYTES)) for file in files for path in _list_messages(file, FILE_PATH)]
        return cls(tuple(indexes), tuple(rows))


def _read_section(content: bytes, start: int) -> bytes:
    size = int.from_bytes(content[start : start + 4], "little")
    section = content[start + 4 : start + 4 + size]
    if len(section) < size:
        raise ValueError("a manifest that is cut")
    return section


def _list_messages(message: bytes, field: int) -> list[bytes]:
    return [value for number, value in _iter_fields(message) if number == field and isinstance(value, bytes)]


def _find_number(message: bytes, field: int) -> int:
    """0 where it is not there, which is how a 0 is written."""
    return next((value for number, value in _iter_fields(message) if number == field and isinstance(value, int)), 0)


def _iter_fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(message):
        key, at = _read_varint(message, at)
        kind = key & 7
        if kind == VARINT:
            value, at = _read_varint(message, at)
            yield key >> 3, value
            continue
        if kind == BYTES:
            size, at = _read_varint(message, at)
        elif kind in (EIGHT_BYTES, FOUR_BYTES):
            size = 8 if kind == EIGHT_BYTES else 4
        else:
            raise ValueError(f"a manifest with a value of the unknown kind {kind}")
        if at + size > len(message):
            raise ValueError("a manifest that is cut")
        yield key >> 3, message[at : at + size]
        at += size


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            raise ValueError("a manifest that is cut")
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError("a manifest with a number of more than 70 bits")

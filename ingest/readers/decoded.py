"""Bytes of a file into text: UTF-8 or a marked encoding where possible, otherwise a guess that is named, never a binary file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from outrider.state.errors import UnreadableFile
from outrider.text.encoding import Decoded, NoText
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

"""Keys of many records in a file: a few bytes of memory for each, whatever they say."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from outrider.identity.encoding import decoded
from outrider.identity.keys import Keys

REMEMBERED = 20_000
"""Keys that were read last stay in memory, about 2 KB each."""


class KeyFile:
    """Written once, front to back; then read at any place. Close it."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w+b")
        self._starts = array("Q", [0])
        self.at = lru_cache(maxsize=REMEMBERED)(self._read)

    def __len__(self) -> int:
        return len(self._starts) - 1

    def add(self, said: bytes) -> None:
        """What `encoded` gave."""
        self._file.write(said)
        self._starts.append(self._starts[-1] + len(said))

    def __iter__(self) -> Iterator[Keys]:
        self._file.seek(0)
        for at in range(len(self)):
            yield decoded(self._file.read(self._starts[at + 1] - self._starts[at]))

    def _read(self, at: int) -> Keys:
        self._file.seek(self._starts[at])
        return decoded(self._file.read(self._starts[at + 1] - self._starts[at]))

    def close(self) -> None:
        self.at.cache_clear()
        self._file.close()

"""Keys of many records in a file, with eight bytes of memory a record."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from outrider.identity.encoding import decode
from outrider.identity.keys import Keys

CACHED_KEYS = 20_000
"""Size of the cache of decoded keys, about 3 KB each."""


class KeyFile:
    """A file that is written once, in order, and then read at any place. The caller closes it."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w+b")
        self._starts = array("Q", [0])
        self.at = lru_cache(maxsize=CACHED_KEYS)(self._read)

    def __len__(self) -> int:
        return len(self._starts) - 1

    def add(self, encoded_key: bytes) -> None:
        """Append the bytes that `encode` returned."""
        self._file.write(encoded_key)
        self._starts.append(self._starts[-1] + len(encoded_key))

    def __iter__(self) -> Iterator[Keys]:
        self._file.seek(0)
        for at in range(len(self)):
            yield decode(self._file.read(self._starts[at + 1] - self._starts[at]))

    def _read(self, at: int) -> Keys:
        self._file.seek(self._starts[at])
        return decode(self._file.read(self._starts[at + 1] - self._starts[at]))

    def close(self) -> None:
        self.at.cache_clear()
        self._file.close()

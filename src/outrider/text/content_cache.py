"""A bounded cache of what is computed from a text alone, such as its words.

Searches meet the same texts again: the records of a library. An entry is found by the digest of its text, which is not kept. The least
recently used entries are dropped once all together are too large.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from typing import Generic, TypeVar

T = TypeVar("T")
ENTRY_BYTES = 200
"""About what an entry takes besides its value."""


class ContentCache(Generic[T]):
    """Calls `compute` for a text that is not known. `size` estimates a result in bytes. For any thread; two may compute the same."""

    def __init__(self, compute: Callable[[str], T], size: Callable[[T], int], most_bytes: int) -> None:
        self._compute = compute
        self._size = size
        self._most_bytes = most_bytes
        self._bytes = 0
        self._entries: OrderedDict[bytes, T] = OrderedDict()
        self._changing = threading.Lock()

    def __call__(self, text: str) -> T:
        key = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        with self._changing:
            if key in self._entries:
                self._entries.move_to_end(key)
                return self._entries[key]
        result = self._compute(text)
        with self._changing:
            if key not in self._entries:
                self._entries[key] = result
                self._bytes += self._size(result) + ENTRY_BYTES
            while self._bytes > self._most_bytes:
                _, dropped = self._entries.popitem(last=False)
                self._bytes -= self._size(dropped) + ENTRY_BYTES
        return result

    def __len__(self) -> int:
        return len(self._entries)

"""Canonical bytes of keys, for storage and for a total order.

Equal keys have equal bytes.
"""

from __future__ import annotations

import marshal
from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from outrider.linkage.author_names import Name
from outrider.linkage.keys import Keys, Pages
from outrider.linkage.titles import Title

VERSION = 0
"""Marshal version 0 writes no references: with them the bytes would depend on which objects happen to be shared."""
TITLE_BYTES, DIGEST_BYTES = 48, 16


def encode(key: Keys) -> bytes:
    plain: Any = (*key[:2], *key[4:5], *key[6:], tuple(key.title), tuple(map(tuple, key.authors)), tuple(key.pages))
    return marshal.dumps(plain, VERSION)


def decode(encoded_key: bytes) -> Keys:
    """Only for bytes that `encode` returned in this process: marshal trusts its input."""
    kind, identifiers, year, *rest, title, authors, pages = marshal.loads(encoded_key)  # noqa: S302
    return Keys(kind, identifiers, Title(*title), tuple(Name(*name) for name in authors), year, Pages(*pages), *rest)


def sort_key(key: Keys, name: str = "", encoded_key: bytes | None = None) -> bytes:
    """Sort key of `TITLE_BYTES + DIGEST_BYTES` bytes: the title, then a digest of all fields and of `name`.

    `name` distinguishes equal keys. Pass `encoded_key` if `encode(key)` is already known.
    """
    title = _title(key)
    whole = (encode(key) if encoded_key is None else encoded_key) + name.encode("utf-8", "surrogatepass")
    return title + blake2b(whole, digest_size=DIGEST_BYTES).digest()


def sort_places(keys: Sequence[Keys], names: Sequence[str] = ()) -> list[int]:
    """Indexes of `keys` in the order of `sort_key`, which is computed in full only for equal titles."""
    titles = [_title(key) for key in keys]
    holders = Counter(titles)
    return sorted(
        range(len(keys)),
        key=lambda at: titles[at] if holders[titles[at]] == 1 else sort_key(keys[at], names[at] if names else ""),
    )


def _title(key: Keys) -> bytes:
    return key.title.compact.encode("utf-8", "surrogatepass")[:TITLE_BYTES].ljust(TITLE_BYTES)

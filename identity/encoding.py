"""Keys as bytes and back: the same keys always give the same bytes, so that these tell what is equal, and put all keys in one order."""

from __future__ import annotations

import marshal
from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from outrider.identity.keys import Keys, Pages
from outrider.identity.names import Name
from outrider.identity.titles import Title

VERSION = 0
"""Of marshal: without references, which would depend on which objects happen to be one."""
TITLE_BYTES, DIGEST_BYTES = 48, 16


def encoded(key: Keys) -> bytes:
    plain: Any = (*key[:2], *key[4:5], *key[6:], tuple(key.title), tuple(map(tuple, key.authors)), tuple(key.pages))
    return marshal.dumps(plain, VERSION)


def decoded(said: bytes) -> Keys:
    """Only of what `encoded` gave in this process: marshal trusts its input."""
    kind, identifiers, year, *rest, title, authors, pages = marshal.loads(said)  # noqa: S302
    return Keys(kind, identifiers, Title(*title), tuple(Name(*name) for name in authors), year, Pages(*pages), *rest)


def place_of(key: Keys, name: str = "", said: bytes | None = None) -> bytes:
    """Where it stands among others, in `TITLE_BYTES + DIGEST_BYTES`: by title, equal titles by all else; `name` sets equal keys apart.

    `said` is `encoded(key)` where that is at hand.
    """
    title = _title(key)
    whole = (encoded(key) if said is None else said) + name.encode("utf-8", "surrogatepass")
    return title + blake2b(whole, digest_size=DIGEST_BYTES).digest()


def in_order(keys: Sequence[Keys], names: Sequence[str] = ()) -> list[int]:
    """Places by `place_of`, which is only made whole for those whose titles are equal."""
    titles = [_title(key) for key in keys]
    holders = Counter(titles)
    return sorted(
        range(len(keys)),
        key=lambda at: titles[at] if holders[titles[at]] == 1 else place_of(keys[at], names[at] if names else ""),
    )


def _title(key: Keys) -> bytes:
    return key.title.compact.encode("utf-8", "surrogatepass")[:TITLE_BYTES].ljust(TITLE_BYTES)

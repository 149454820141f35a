"""Author names as family name and initials, in a form that compares equal for one person.

`Curie, Marie`, `Marie Curie`, `M. Curie`, `Curie MS` and `CURIE M` are one person. Particles belong to the family name and are dropped
(`van Beethoven` becomes `beethoven`). A name in Han or kana without a space stays whole. A single word is taken as a family name.
"""

from __future__ import annotations

import re
from functools import lru_cache
from html import unescape
from typing import NamedTuple

from outrider.linkage.titles import normal_title

PARTICLES = frozenset(
    "al auf ben bin da das de del della den der des di do dos du el la las le les lo los ten ter van vom von zu zum zur".split()
)
AFTER_NAMES = frozenset("jr sr ii iii iv phd md".split())
NOBODY = frozenset("anonymous anon unknown author al others na none".split())
LOST = re.compile(r"[?\ufffd]")
"""Replacement characters of letters that a wrong encoding lost."""
INITIALS = re.compile(r"(?:[^\W\d_]\.?-?){1,4}")
MAX_NAME_CHARS = 200


class Name(NamedTuple):
    family: str
    initials: str
    """Initials of the known given names, in order."""
    words: tuple[str, ...] = ()
    """All long words of the name, sorted: family names come first in East Asia, and some people have two."""


@lru_cache(maxsize=65_536)
def parse_name(text: str) -> Name | None:
    """None for text that names nobody: empty, "et al", "Anonymous"."""
    family, comma, given = unescape(text)[:MAX_NAME_CHARS].partition(",")
    if not comma or not normal_title(given):
        family, given = _split_name(family.split())
    words = [word for word in normal_title(family).split() if word not in AFTER_NAMES]
    family_words = [word for word in words if word not in PARTICLES] or words
    if not family_words or family_words[-1] in NOBODY:
        return None
    parts = [part for part in given.replace(".", " ").replace("-", " ").split() if not LOST.search(part)]
    # `MS`, `M.S.` and `Marie-Sophie` have two given names
    given_words = [list(part.lower()) if part.isupper() and len(part) <= 3 else normal_title(part).split() for part in parts]
    initials = "".join(word[0] for part in given_words for word in part if word not in AFTER_NAMES)
    long = {word for word in (*words, *normal_title(given).split()) if len(word) > 2 and word not in PARTICLES}
    return Name("".join(family_words), initials, tuple(sorted(long)))


def _split_name(words: list[str]) -> tuple[str, str]:
    """Family and given names of a name without a comma. Initials are given names; without initials, the family name is last."""
    bare = [word for word in words if normal_title(word) not in AFTER_NAMES] or words
    short = [word for word in bare if INITIALS.fullmatch(word) and (word.isupper() or "." in word or len(word) == 1)]
    long = [word for word in bare if word not in short]
    if not long:
        longest = max(bare, key=len, default="")
        return longest, " ".join(word for word in bare if word != longest)
    if bare[-1] in short and bare[0] not in short:
        return " ".join(long), " ".join(short)
    start = len(long) - 1
    while start > 0 and normal_title(long[start - 1]) in PARTICLES:
        start -= 1
    family = long[start:]
    return " ".join(family), " ".join(bare[: len(bare) - len(family)])

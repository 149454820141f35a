"""The words of a term as services can be asked for them: what the evaluator looks for, one word of an index after the other."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import groupby, product

from outrider.boolean.occurrences import STAND_INS
from outrider.boolean.words import WILD
from outrider.state.boolean import Near, Pattern, Words
from outrider.text.tokens import CONTINUOUS, tokens

MOST_CHOICES = 48
"""Ways of choosing one term of each side of a proximity that are written out."""
_JOINED = re.compile(r"(?<=\w)['’._](?=\w)")
_OUTSIDE = re.compile(r"[^\w'’.]+|(?<!\w)['’.]|['’.](?!\w)")


def pieces(words: Iterable[str]) -> tuple[str, ...]:
    """The words of an index that a phrase asks for, signs in their places: `post-mort*` is `post`, `mort*`."""
    return tuple(piece for word in words for piece in _cut(word))


def _cut(word: str) -> Iterator[str]:
    """As `boolean.occurrences.matchers` parts a word."""
    signs = WILD.findall(word)
    stand_ins = dict(zip((letter for letter in STAND_INS if letter not in word), signs, strict=False))
    letters = iter(stand_ins)
    for token in tokens(WILD.sub(lambda _: next(letters), word)):
        if token.strip("".join(stand_ins)):
            yield "".join(stand_ins.get(char, char) for char in token)


def is_wild(piece: str) -> bool:
    return WILD.search(piece) is not None


def stem(piece: str) -> str:
    """What stands before the first sign."""
    return WILD.split(piece, maxsplit=1)[0]


def is_sayable(word: str) -> bool:
    """Whether services part texts around it as we do: not known of scripts without spaces, nor of figures such as `²`."""
    return not CONTINUOUS.search(word) and all(unicodedata.category(char) != "No" for char in word)


def is_joined(word: str) -> bool:
    """Whether most indexes hold as one word what is parted here: `Crohn's`, `U.S.`."""
    return _JOINED.search(word) is not None


def phrases(words: tuple[str, ...]) -> tuple[str, ...]:
    """Words without signs as a service may hold them: parted as here, and as they are written where one is joined."""
    parted = " ".join(pieces(words))
    text = " ".join(words).replace("’", "'")
    if not is_joined(text) or not text.isascii():
        return (parted,)
    written = " ".join(_OUTSIDE.sub(" ", text.lower()).split())
    return (parted,) if written == parted else (parted, written)


def runs(words: tuple[str, ...]) -> tuple[tuple[bool, tuple[str, ...]], ...]:
    """A phrase in parts that services can be asked for one by one: words without signs next to each other, and single ones with a sign."""
    grouped = groupby(enumerate(words), key=lambda one: one[0] + 1 if is_wild(one[1]) else 0)
    return tuple((bool(wild), tuple(word for _, word in group)) for wild, group in grouped)


def choices(pattern: Near) -> tuple[tuple[str, ...], ...] | None:
    """What a proximity of plain terms stands for, each choice as all its words; None where it holds signs, or says too much."""
    sides = [_alternatives(part) for part in pattern.parts]
    plain = [side for side in sides if side is not None]
    count = 1
    for side in plain:
        count *= len(side)
    if len(plain) < len(sides) or count > MOST_CHOICES:
        return None
    return tuple(tuple(word for term in chosen for word in term) for chosen in product(*plain))


def _alternatives(part: Pattern) -> list[tuple[str, ...]] | None:
    if isinstance(part, Words):
        cut = pieces(part.words)
        plain = not any(is_wild(word) or is_joined(word) or not is_sayable(word) for word in part.words)
        return [cut] if cut and plain else None
    if isinstance(part, Near):
        return None
    found = [_alternatives(inner) for inner in part.parts]
    return [term for one in found for term in one or ()] if all(found) else None


def slop(count: int, distance: int) -> int:
    """How far Lucene's sloppy phrase must reach to find so many words in any order with so many others between.

    A word's place less its number in the phrase differs by at most that much (`SloppyPhraseMatcher`), in a window of so many places.
    """
    return distance + 2 * (count - 1)

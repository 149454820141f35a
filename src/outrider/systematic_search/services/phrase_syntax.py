"""The words of a term as services can be asked for them: what the evaluator looks for, one word of an index after the other.

Texts as a service that looks for words can be asked for them: phrases, truncation and proximity in its own signs.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, product

from outrider.boolean.occurrences import STAND_INS, WILD
from outrider.boolean.relax import all_of, any_of
from outrider.state.boolean import Dates, Either, Field, Heading, Leaf, Near, Pattern, Text, Words
from outrider.systematic_search.services.relax import Bound, Bounded, Nothing, Wider
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


LABELS = {
    Field.ALL: "all fields (authors and journals among them)",
    Field.MESH: "words of headings",
    Field.BODY: "the full text",
    Field.JOURNAL_WORDS: "words of journals",
}


@dataclass(frozen=True, slots=True)
class Speech:
    """How a service is asked for words. Each of the three says None for what it has no sign for."""

    name: str
    searched: frozenset[Field]
    """Fields in which it looks for words, all of them at once."""
    lacking: frozenset[Field]
    """Fields that its records have not: nothing there matches them."""
    phrase: Callable[[str], Bound | None]
    wild: Callable[[str], Bound | None]
    dated: bool = True
    near: Callable[[tuple[str, ...], int], Bound | None] = lambda words, distance: None

    def leaf(self, leaf: Leaf) -> Bounded:
        match leaf:
            case Text(pattern, fields):
                return self._text(pattern, fields)
            case Heading():
                return Bounded(Nothing(f"{self.name} has no headings that can be asked for"))
            case Dates():
                whole = f"{self.name} can be asked for dates of the whole query only"
                return Bounded(Wider(whole) if self.dated else Nothing(f"{self.name} has no dates of publication"))
        return Bounded(Wider("it asks for every record"))

    def _text(self, pattern: Pattern, fields: tuple[Field, ...]) -> Bounded:
        unsaid = [field for field in fields if field not in self.searched and field not in self.lacking]
        if unsaid:
            named = ", ".join(LABELS.get(field, field.value.replace("_", " ")) for field in unsaid)
            return Bounded(Wider(f"{self.name} cannot be asked for {named}"))
        if self.searched.isdisjoint(fields):
            return Bounded(Nothing(f"{self.name} has no such field"))
        return self._pattern(pattern)

    def _pattern(self, pattern: Pattern) -> Bounded:
        match pattern:
            case Words(words):
                return self._words(words)
            case Either(parts):
                return self._either(parts)
            case Near():
                return self._near(pattern)

    def _words(self, words: tuple[str, ...]) -> Bounded:
        term = f"“{' '.join(words)}”"
        parts = runs(words)
        said = [bound for wild, run in parts for bound in self._said(run, wild=wild)]
        if not said:
            return self._unsaid(term)
        in_one = len(parts) == 1 and len(said) == 1
        return Bounded(all_of(said), () if in_one else (f"{term} is asked for part by part",))

    def _said(self, run: tuple[str, ...], *, wild: bool) -> list[Bound]:
        """What can be said of a run; where it holds a word that cannot be said, each of the others by itself."""
        if wild:
            return [] if is_joined(run[0]) or not is_sayable(run[0]) else self._of_pieces(pieces(run))
        if all(map(is_sayable, run)):
            said = [self.phrase(text) for text in phrases(run)]
            return [any_of(bound for bound in said if bound is not None)] if all(said) else []
        return [bound for word in run if is_sayable(word) for bound in self._said((word,), wild=False)]

    def _of_pieces(self, cut: tuple[str, ...]) -> list[Bound]:
        said = [self.wild(piece) if is_wild(piece) else self.phrase(piece) for piece in cut]
        return [bound for bound in said if bound is not None]

    def _unsaid(self, term: str) -> Bounded:
        return Bounded(Wider(f"{self.name} cannot be asked for {term}"))

    def _either(self, parts: tuple[Pattern, ...]) -> Bounded:
        """All of them, or none: an alternative that is left out would lose hits."""
        found = [self._pattern(part) for part in parts]
        wider = next((one for one in found if isinstance(one.bound, Wider)), None)
        if wider is not None:
            return Bounded(wider.bound)
        return Bounded(any_of(one.bound for one in found), tuple(note for one in found for note in one.widened))

    def _near(self, pattern: Near) -> Bounded:
        chosen = choices(pattern)
        said = [self.near(words, pattern.distance) for words in chosen or ()]
        if chosen and all(said):
            order = ("a proximity is asked for in any order",) if pattern.ordered else ()
            return Bounded(any_of(bound for bound in said if bound is not None), order)
        found = [one for part in pattern.parts if not isinstance((one := self._pattern(part)).bound, Wider)]
        if not found:
            return self._unsaid("a proximity of such words")
        notes = tuple(note for one in found for note in one.widened)
        return Bounded(all_of(one.bound for one in found), (*notes, "a proximity is asked for as words that stand anywhere"))

"""Phrases, truncation and proximity in the query syntax of services.

A term is split into the words of an index, as our evaluator splits it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, product
from math import prod

from outrider.boolean.occurrences import STAND_INS, WILD
from outrider.boolean.relax import join_all, join_any
from outrider.state.boolean import Dates, Either, Field, Heading, Leaf, Near, Pattern, Text, Words
from outrider.systematic_search.services.translate import Condition, Nothing, RelaxedPart, Wider
from outrider.text.words import UNSEGMENTED, tokens

MOST_CHOICES = 48
"""Combinations of one term from each side of a proximity that are written out."""
_JOINED = re.compile(r"(?<=\w)['’._](?=\w)")
_OUTSIDE = re.compile(r"[^\w'’.]+|(?<!\w)['’.]|['’.](?!\w)")
LABELS = {
    Field.ALL: "all fields (authors and journals among them)",
    Field.MESH: "words of headings",
    Field.BODY: "the full text",
    Field.JOURNAL_WORDS: "words of journals",
}


def pieces(words: Iterable[str]) -> tuple[str, ...]:
    """The words of an index that a phrase asks for, with their wildcards: `post-mort*` gives `post`, `mort*`."""
    return tuple(piece for word in words for piece in _split_word(word))


def _split_word(word: str) -> Iterator[str]:
    """Splits a word as `boolean.occurrences.make_matchers` does."""
    signs = WILD.findall(word)
    stand_ins = dict(zip((letter for letter in STAND_INS if letter not in word), signs, strict=False))
    letters = iter(stand_ins)
    for token in tokens(WILD.sub(lambda _: next(letters), word)):
        if token.strip("".join(stand_ins)):
            yield "".join(stand_ins.get(char, char) for char in token)


def is_wild(piece: str) -> bool:
    """Whether a word has a wildcard."""
    return WILD.search(piece) is not None


def stem(piece: str) -> str:
    """The letters before the first wildcard."""
    return WILD.split(piece, maxsplit=1)[0]


def is_expressible(word: str) -> bool:
    """Whether services split texts around the word as we do: unknown for scripts without spaces and for figures such as `²`."""
    return not UNSEGMENTED.search(word) and all(unicodedata.category(char) != "No" for char in word)


def is_joined(word: str) -> bool:
    """Whether most indexes keep as one word what we split: `Crohn's`, `U.S.`."""
    return _JOINED.search(word) is not None


def phrases(words: tuple[str, ...]) -> tuple[str, ...]:
    """Spellings of words without wildcards in a service's index: split as here, and as written if a word is joined."""
    split = " ".join(pieces(words))
    text = " ".join(words).replace("’", "'")
    if not is_joined(text) or not text.isascii():
        return (split,)
    spelling = " ".join(_OUTSIDE.sub(" ", text.lower()).split())
    return (split,) if spelling == split else (split, spelling)


def runs(words: tuple[str, ...]) -> tuple[tuple[bool, tuple[str, ...]], ...]:
    """Parts of a phrase for separate searches: single words with wildcards (True), and runs of the plain words between them (False)."""
    grouped = groupby(enumerate(words), key=lambda numbered: numbered[0] + 1 if is_wild(numbered[1]) else 0)
    return tuple((bool(wild), tuple(word for _, word in group)) for wild, group in grouped)


def choices(pattern: Near) -> tuple[tuple[str, ...], ...] | None:
    """The combinations of words that a proximity of plain terms matches; None with wildcards, and beyond `MOST_CHOICES`."""
    sides = [alternatives for part in pattern.parts if (alternatives := _list_alternatives(part))]
    if len(sides) < len(pattern.parts) or prod(map(len, sides)) > MOST_CHOICES:
        return None
    return tuple(tuple(word for term in terms for word in term) for terms in product(*sides))


def _list_alternatives(part: Pattern) -> list[tuple[str, ...]] | None:
    if isinstance(part, Words):
        split = pieces(part.words)
        plain = not any(is_wild(word) or is_joined(word) or not is_expressible(word) for word in part.words)
        return [split] if split and plain else None
    if isinstance(part, Near):
        return None
    inner = [_list_alternatives(inner) for inner in part.parts]
    return [term for terms in inner for term in terms or ()] if all(inner) else None


def slop(count: int, distance: int) -> int:
    """The slop with which Lucene's sloppy phrase finds `count` words in any order with at most `distance` others between them.

    In a window of that many places, a word's place minus its number in the phrase varies by at most this much (`SloppyPhraseMatcher`).
    """
    return distance + 2 * (count - 1)


@dataclass(frozen=True, slots=True)
class PhraseSyntax:
    """How one service writes terms. `phrase`, `wild` and `near` return None for what its syntax cannot express."""

    name: str
    searched: frozenset[Field]
    """Fields that the service searches for words, all of them at once."""
    lacking: frozenset[Field]
    """Fields that its records do not have: nothing there matches."""
    phrase: Callable[[str], Condition | None]
    wild: Callable[[str], Condition | None]
    dated: bool = True
    near: Callable[[tuple[str, ...], int], Condition | None] = lambda words, distance: None

    def translate_leaf(self, leaf: Leaf) -> RelaxedPart:
        """The leaf in the service's syntax; `Wider` or `Nothing` if the service cannot express it."""
        match leaf:
            case Text(pattern, fields):
                unsearched = [field for field in fields if field not in self.searched and field not in self.lacking]
                if unsearched:
                    labels = ", ".join(LABELS.get(field, field.value.replace("_", " ")) for field in unsearched)
                    return self._refuse(labels)
                if self.searched.isdisjoint(fields):
                    return RelaxedPart(Nothing(f"{self.name} has no such field"))
                return self._translate_pattern(pattern)
            case Heading():
                return RelaxedPart(Nothing(f"{self.name} has no searchable headings"))
            case Dates():
                whole = f"{self.name} supports dates for the whole query only"
                return RelaxedPart(Wider(whole) if self.dated else Nothing(f"{self.name} has no dates of publication"))
        return RelaxedPart(Wider("it asks for every record"))

    def _translate_pattern(self, pattern: Pattern) -> RelaxedPart:
        match pattern:
            case Words(words):
                term = f"“{' '.join(words)}”"
                parts = runs(words)
                conditions = [condition for wild, run in parts for condition in self._translate_run(run, wild=wild)]
                if not conditions:
                    return self._refuse(term)
                in_one = len(parts) == 1 and len(conditions) == 1
                return RelaxedPart(join_all(conditions), () if in_one else (f"{term} is sent part by part",))
            case Either(alternatives):
                # all alternatives or none: leaving one out would lose hits
                relaxed = [self._translate_pattern(part) for part in alternatives]
                wider = next((part for part in relaxed if isinstance(part.condition, Wider)), None)
                if wider is not None:
                    return RelaxedPart(wider.condition)
                return RelaxedPart(join_any(part.condition for part in relaxed), tuple(note for part in relaxed for note in part.widened))
            case Near():
                return self._translate_near(pattern)

    def _translate_run(self, run: tuple[str, ...], *, wild: bool) -> list[Condition]:
        """The expressible part of a run; if it holds a word that cannot be expressed, each other word by itself."""
        if wild:
            if is_joined(run[0]) or not is_expressible(run[0]):
                return []
            parts = [self.wild(piece) if is_wild(piece) else self.phrase(piece) for piece in pieces(run)]
            return [condition for condition in parts if condition is not None]
        if all(map(is_expressible, run)):
            spellings = [self.phrase(text) for text in phrases(run)]
            return [join_any(condition for condition in spellings if condition is not None)] if all(spellings) else []
        return [condition for word in run if is_expressible(word) for condition in self._translate_run((word,), wild=False)]

    def _refuse(self, term: str) -> RelaxedPart:
        return RelaxedPart(Wider(f"{self.name} cannot search for {term}"))

    def _translate_near(self, pattern: Near) -> RelaxedPart:
        combinations = choices(pattern)
        conditions = [self.near(words, pattern.distance) for words in combinations or ()]
        if combinations and all(conditions):
            order = ("a proximity is sent in any order",) if pattern.ordered else ()
            return RelaxedPart(join_any(condition for condition in conditions if condition is not None), order)
        relaxed = [part for inner in pattern.parts if not isinstance((part := self._translate_pattern(inner)).condition, Wider)]
        if not relaxed:
            return self._refuse("a proximity of such words")
        notes = tuple(note for part in relaxed for note in part.widened)
        return RelaxedPart(join_all(part.condition for part in relaxed), (*notes, "a proximity is sent as words anywhere in the record"))

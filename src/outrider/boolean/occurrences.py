"""The words of a term: which are kept as written, and what the signs inside them stand for.

Where a pattern occurs in a column of words.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise

from outrider.state.boolean import Either, Near, Pattern, Words
from outrider.text.tokens import separate_words, tokens

WILD = re.compile(r"\*|\{\*\d{1,3}\}|\{\?\}|\{#\}")
"""Any characters, at most so many, one or none, exactly one."""
MOST_WILD = 4
"""Signs in one word; each more makes matching slower."""
QUOTES = '"“”„‟″«»'
"""What opens and closes a phrase, in any combination."""
_NOT_KEPT = re.compile(rf"[{QUOTES}\[\]\x00-\x1f\x7f-\x9f]")
_BRACE = re.compile(r"[{}]")


def split_term(text: str) -> tuple[str, ...]:
    """The words of a term, without what could not be printed and read again, and without those that hold neither letter nor digit."""
    words = (_without_braces(word) for word in _NOT_KEPT.sub(" ", text).split())
    return tuple(word for word in words if tokens(WILD.sub("", word)))


def _without_braces(word: str) -> str:
    """Braces stay only where they are one of our signs."""
    signs = WILD.findall(word)
    parts = [_BRACE.sub("", part) for part in WILD.split(word)]
    return parts[0] + "".join(sign + part for sign, part in zip(signs, parts[1:], strict=True))


def wild(word: str) -> bool:
    """Whether a sign stands in the word."""
    return bool(WILD.search(word))


def stem_length(word: str) -> int:
    """Letters and digits before the first sign, in the word that it stands in."""
    before = WILD.split(word, maxsplit=1)[0]
    found = tokens(before)
    return len(found[-1]) if found and tokens(before[-1]) else 0


STRIDE = 2**40
"""Between the first positions of two texts of one column: farther than any text is long, and than any proximity reaches."""

BETWEEN = " \0 "
"""Between two texts of one column: neither a word nor part of one."""

Interval = tuple[int, int]
Occurrence = tuple[Interval, ...]
"""The words that an occurrence uses: intervals of positions, both ends included, in order and apart from each other."""
ANY = "[^ \0]"
"""Any character of a word."""
Matcher = str | re.Pattern[str]
"""Of one word of a column: the word itself, or what it must look like."""


@dataclass(slots=True)
class Column:
    """The words of one field. A field may hold several texts: no pattern runs from one into the next.

    Most questions are answered by looking into `said`, where each word stands between blanks, without cutting it into words.
    """

    text: str
    _texts: list[list[str]] | None = None
    _words: set[str] | None = None
    _positions: dict[str, list[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, texts: Iterable[str]) -> Column:
        return cls(f" {BETWEEN.join(map(separate_words, texts))} ")

    @property
    def texts(self) -> list[list[str]]:
        if self._texts is None:
            self._texts = [text.split() for text in self.text.split(BETWEEN)]
        return self._texts

    @property
    def words(self) -> set[str]:
        if self._words is None:
            self._words = {word for text in self.texts for word in text}
        return self._words

    def where(self, matcher: Matcher) -> Sequence[int]:
        """The positions of the words that are meant, not in order."""
        if isinstance(matcher, str):
            return self.positions().get(matcher, ()) if self.may_hold(matcher) else ()
        found = [word for word in self.words if matcher.fullmatch(word)]
        return [position for word in found for position in self.positions()[word]]

    def may_hold(self, matcher: Matcher) -> bool:
        """False only where no such word is there; of a word by itself it is certain."""
        return not isinstance(matcher, str) or f" {matcher} " in self.text

    def positions(self) -> dict[str, list[int]]:
        if not self._positions:
            for number, text in enumerate(self.texts):
                for position, word in enumerate(text, number * STRIDE):
                    self._positions.setdefault(word, []).append(position)
        return self._positions


@cache
def make_matchers(word: str) -> tuple[Matcher, ...]:
    """What a written word asks for: one matcher for each word of the index that it is parted into (`post-mort*`: `post`, `mort*`).

    A sign that stands alone after such a parting asks for nothing.
    """
    signs = WILD.findall(word)
    stand_ins = dict(zip((letter for letter in STAND_INS if letter not in word), signs, strict=False))
    letters = iter(stand_ins)
    found = tokens(WILD.sub(lambda _: next(letters), word))
    return tuple(_matcher(token, stand_ins) for token in found if token.strip("".join(stand_ins)))


STAND_INS = "\U00010330\U00010331\U00010332\U00010333\U00010334\U00010335\U00010336\U00010337"
"""Gothic letters: the tokenizer leaves them as they are, so that one can stand for a sign."""


def _matcher(token: str, stand_ins: dict[str, str]) -> Matcher:
    if not any(letter in token for letter in stand_ins):
        return token
    return re.compile("".join(_expression(stand_ins[char]) if char in stand_ins else re.escape(char) for char in token))


def _expression(sign: str) -> str:
    """The regular expression of `*`, `{*3}`, `{?}` or `{#}`."""
    if sign.startswith("{*"):
        return f"{ANY}{{0,{int(sign[2:-1])}}}"
    return {"*": f"{ANY}*", "{?}": f"{ANY}?", "{#}": ANY}[sign]


_EXPRESSION = re.compile(re.escape(ANY) + r"(?:\*|\?|\{0,\d+\})?")


def letters(pattern: re.Pattern[str]) -> list[str]:
    """What stands before, between and behind the signs of a word's pattern, as the word must hold it."""
    return _EXPRESSION.split(pattern.pattern)


def make_phrase_pattern(asked: Sequence[Matcher]) -> re.Pattern[str]:
    """What finds the words next to each other, in this order, in a column's `said`."""
    words = (re.escape(one) if isinstance(one, str) else one.pattern for one in asked)
    return re.compile(f" {' +'.join(words)} ")


def find_occurrences(pattern: Pattern, column: Column) -> Iterator[Occurrence]:
    """Every occurrence, some of them perhaps more than once. The first one comes without looking for the others."""
    match pattern:
        case Words(words):
            for start, end in _runs(words, column):
                yield ((start, end),)
        case Either(parts):
            for part in parts:
                yield from find_occurrences(part, column)
        case Near():
            yield from _near(pattern, column)


def _runs(words: Iterable[str], column: Column) -> Iterator[Interval]:
    """Where the words stand next to each other, in order of their places."""
    asked = [matcher for word in words for matcher in make_matchers(word)]
    if not all(map(column.may_hold, asked)):
        return
    starts = set(column.where(asked[0]))
    for step, matcher in enumerate(asked[1:], 1):
        if not starts:
            return
        starts &= {position - step for position in column.where(matcher)}
    yield from ((start, start + len(asked) - 1) for start in sorted(starts))


def _near(pattern: Near, column: Column) -> Iterator[Occurrence]:
    parts = [sorted(set(find_occurrences(part, column))) for part in pattern.parts]
    if not all(parts):
        return
    longest = sum(max(one[-1][1] - one[0][0] + 1 for one in part) for part in parts)
    order = range(len(parts)) if pattern.ordered else sorted(range(len(parts)), key=lambda number: (len(parts[number]), number))
    yield from _chosen([parts[number] for number in order], (), longest + pattern.distance, pattern)


def _chosen(parts: list[list[Occurrence]], chosen: tuple[Occurrence, ...], longest: int, pattern: Near) -> Iterator[Occurrence]:
    """Chooses one occurrence of each part that is left; `longest` is how long all of them together may be."""
    if not parts:
        if _between(chosen) <= pattern.distance:
            yield tuple(sorted(interval for one in chosen for interval in one))
        return
    for one in _in_reach(parts[0], chosen, longest):
        if pattern.ordered and chosen and one[0][0] <= chosen[-1][-1][1]:
            continue
        if all(_apart(one, other) for other in chosen):
            yield from _chosen(parts[1:], (*chosen, one), longest, pattern)


def _in_reach(part: list[Occurrence], chosen: tuple[Occurrence, ...], longest: int) -> Iterator[Occurrence]:
    """Those that together with the chosen ones are not longer than `longest`."""
    if not chosen:
        yield from part
        return
    first, last = min(one[0][0] for one in chosen), max(one[-1][1] for one in chosen)
    for one in part[bisect_left(part, ((last - longest + 1, 0),)) :]:
        if one[0][0] >= first + longest:
            return
        if max(last, one[-1][1]) - min(first, one[0][0]) < longest:
            yield one


def _between(chosen: Sequence[Occurrence]) -> int:
    """Words among the occurrences that lie in none of them, where what an occurrence spans counts as in it."""
    spans = sorted((one[0][0], one[-1][1]) for one in chosen)
    between, reached = 0, spans[0][1]
    for start, end in spans[1:]:
        between += max(0, start - reached - 1)
        reached = max(reached, end)
    return between


def _apart(one: Occurrence, other: Occurrence) -> bool:
    """Whether no word is used by both."""
    return all(left[1] < right[0] for left, right in pairwise(sorted((*one, *other))))

"""Words with wildcards, and the occurrences of a pattern in a column of words."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise

from outrider.state.boolean import Either, Near, Pattern, Words
from outrider.text.strip_markup import fold_text
from outrider.text.words import separate_words, tokens

WILD = re.compile(r"\*|\{\*\d{1,3}\}|\{\?\}|\{#\}")
"""The wildcards: any characters, at most that many, one or none, exactly one."""
MOST_WILD = 4
"""Wildcards in one word; each more makes matching slower."""
QUOTES = '"“”„‟″«»'
"""Characters that open and close a phrase, in any combination."""
_UNPRINTABLE = re.compile(rf"[{QUOTES}\[\]\x00-\x1f\x7f-\x9f]")
_BRACE = re.compile(r"[{}]")
STRIDE = 2**40
"""Distance between the first positions of two texts of a column: longer than any text and than any proximity."""
BETWEEN = " \0 "
"""Separator of the texts of a column: no part of a word."""
STAND_INS = "\U00010330\U00010331\U00010332\U00010333\U00010334\U00010335\U00010336\U00010337"
"""Gothic letters: the tokenizer does not change them, so one can stand for a wildcard."""
Interval = tuple[int, int]
Occurrence = tuple[Interval, ...]
"""The words of an occurrence: ordered, disjoint intervals of positions, both ends included."""
ANY = "[^ \0]"
"""Any character of a word."""
Matcher = str | re.Pattern[str]
"""Matches one word of a column: the word itself, or a pattern."""
_EXPRESSION = re.compile(re.escape(ANY) + r"(?:\*|\?|\{0,\d+\})?")


def split_term(text: str) -> tuple[str, ...]:
    """The words of a term that have a letter or digit, folded, without characters that a printed query cannot contain."""
    words = []
    for word in _UNPRINTABLE.sub(" ", fold_text(text)).split():
        # braces stay only in our own wildcards
        parts = [_BRACE.sub("", part) for part in WILD.split(word)]
        words.append(parts[0] + "".join(sign + part for sign, part in zip(WILD.findall(word), parts[1:], strict=True)))
    return tuple(word for word in words if tokens(WILD.sub("", word)))


def stem_length(word: str) -> int:
    """Letters and digits before the first wildcard, within its own word of the index."""
    before = fold_text(WILD.split(word, maxsplit=1)[0])
    words = tokens(before)
    return len(words[-1]) if words and tokens(before[-1]) else 0


@dataclass(slots=True)
class Column:
    """The words of one field. A field may have several texts; no pattern matches across two of them.

    Most tests search `text`, where each word stands between blanks, and never split it into words.
    """

    text: str
    _texts: list[list[str]] | None = None
    _words: set[str] | None = None
    _positions: dict[str, list[int]] = field(default_factory=dict)

    @classmethod
    def from_texts(cls, texts: Iterable[str]) -> Column:
        return cls(f" {BETWEEN.join(separate_words(fold_text(text)) for text in texts)} ")

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
        """The positions of the matching words, in no order."""
        if isinstance(matcher, str):
            return self.positions().get(matcher, ()) if self.may_hold(matcher) else ()
        words = [word for word in self.words if matcher.fullmatch(word)]
        return [position for word in words for position in self.positions()[word]]

    def may_hold(self, matcher: Matcher) -> bool:
        """False only if no word matches; True for a pattern may be wrong."""
        return not isinstance(matcher, str) or f" {matcher} " in self.text

    def positions(self) -> dict[str, list[int]]:
        if not self._positions:
            for number, text in enumerate(self.texts):
                for position, word in enumerate(text, number * STRIDE):
                    self._positions.setdefault(word, []).append(position)
        return self._positions


@cache
def make_matchers(word: str) -> tuple[Matcher, ...]:
    """One matcher for each word of the index in a written word (`post-mort*`: `post`, `mort*`).

    A wildcard that stands alone after splitting is ignored.
    """
    stand_ins = dict(zip((letter for letter in STAND_INS if letter not in word), WILD.findall(word), strict=False))
    letters = iter(stand_ins)
    matchers: list[Matcher] = []
    for token in tokens(WILD.sub(lambda _: next(letters), word)):
        parts = []
        for char in token:
            sign = stand_ins.get(char, "")
            if sign.startswith("{*"):
                parts.append(f"{ANY}{{0,{int(sign[2:-1])}}}")
            else:
                parts.append({"*": f"{ANY}*", "{?}": f"{ANY}?", "{#}": ANY, "": re.escape(char)}[sign])
        if token.strip("".join(stand_ins)):
            matchers.append(token if stand_ins.keys().isdisjoint(token) else re.compile("".join(parts)))
    return tuple(matchers)


def letters(pattern: re.Pattern[str]) -> list[str]:
    """The fixed letters before, between and after the wildcards of a word's pattern."""
    return _EXPRESSION.split(pattern.pattern)


def make_phrase_pattern(matchers: Sequence[Matcher]) -> re.Pattern[str]:
    """A pattern for adjacent words in this order in a column's `text`."""
    words = (re.escape(matcher) if isinstance(matcher, str) else matcher.pattern for matcher in matchers)
    return re.compile(f" {' +'.join(words)} ")


def find_occurrences(pattern: Pattern, column: Column) -> Iterator[Occurrence]:
    """Every occurrence, possibly repeated. Lazy: the first one comes before the others are searched."""
    match pattern:
        case Words(words):
            matchers = [matcher for word in words for matcher in make_matchers(word)]
            starts = set(column.where(matchers[0])) if all(map(column.may_hold, matchers)) else set()
            for step, matcher in enumerate(matchers[1:], 1):
                if not starts:
                    return
                starts &= {position - step for position in column.where(matcher)}
            yield from (((start, start + len(matchers) - 1),) for start in sorted(starts))
        case Either(parts):
            for part in parts:
                yield from find_occurrences(part, column)
        case Near():
            sides = [sorted(set(find_occurrences(part, column))) for part in pattern.parts]
            if not all(sides):
                return
            longest = sum(max(occurrence[-1][1] - occurrence[0][0] + 1 for occurrence in side) for side in sides)
            order = range(len(sides)) if pattern.ordered else sorted(range(len(sides)), key=lambda number: (len(sides[number]), number))
            yield from _combine([sides[number] for number in order], (), longest + pattern.distance, pattern)


def _combine(parts: list[list[Occurrence]], picks: tuple[Occurrence, ...], longest: int, pattern: Near) -> Iterator[Occurrence]:
    """Add one occurrence of each remaining part to the picks; together they span at most `longest` words."""
    if not parts:
        # words inside the span of an occurrence do not count as words between
        spans = sorted((occurrence[0][0], occurrence[-1][1]) for occurrence in picks)
        between, end_so_far = 0, spans[0][1]
        for start, end in spans[1:]:
            between += max(0, start - end_so_far - 1)
            end_so_far = max(end_so_far, end)
        if between <= pattern.distance:
            yield tuple(sorted(interval for occurrence in picks for interval in occurrence))
        return
    for occurrence in _find_in_reach(parts[0], picks, longest):
        if pattern.ordered and picks and occurrence[0][0] <= picks[-1][-1][1]:
            continue
        # no word may be used twice
        if all(left[1] < right[0] for other in picks for left, right in pairwise(sorted((*occurrence, *other)))):
            yield from _combine(parts[1:], (*picks, occurrence), longest, pattern)


def _find_in_reach(part: list[Occurrence], picks: tuple[Occurrence, ...], longest: int) -> Iterator[Occurrence]:
    """The occurrences that together with the picks span at most `longest` words."""
    if not picks:
        yield from part
        return
    first, last = min(occurrence[0][0] for occurrence in picks), max(occurrence[-1][1] for occurrence in picks)
    for occurrence in part[bisect_left(part, ((last - longest + 1, 0),)) :]:
        if occurrence[0][0] >= first + longest:
            return
        if max(last, occurrence[-1][1]) - min(first, occurrence[0][0]) < longest:
            yield occurrence

"""Differences between two titles, word by word, and whether each carries meaning.

The words of both titles are aligned. Words that stand against each other are harmless if they are one word: in another spelling, inflected,
joined or split, a number in another form ("II" and "2"), or misspelt (`spelling.py`). Every other difference speaks against one work.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import chain
from typing import NamedTuple

from rapidfuzz.distance import OSA, Indel, Levenshtein

from outrider.linkage.names_and_titles import (
    GENERIC,
    GREEK_NAMES,
    NOTICES,
    NUMBER_WORDS,
    OMISSIBLE_SIGNS,
    SIGNS,
    TELLING,
    Title,
    roman_number,
)
from outrider.linkage.spelling import are_near, are_opposed, is_known, is_misspelt, is_slip, load_dictionary, one_form
from outrider.text.words import STOP_WORDS

Words = Sequence[str]
OPPOSED_FUNCTION_WORDS = frozenset("after before during with without above below over under up down in out his her from to".split())
YEAR = re.compile(r"(?:19|20)\d\d")
LANGUAGE_SIGNS = frozenset({"++", "#"})
"""Signs that no reference omits: "C", "C++" and "C#"."""
FUNCTION_OR_TELLING = STOP_WORDS | TELLING
OMISSIBLE_WORDS = GENERIC | frozenset("approach pp study system systems".split())
"""Words that a reference may omit."""
MONTHS = frozenset("january february march april may june july august september october november december".split())
OMISSIBLE_NUMBERS = STOP_WORDS | MONTHS | {"+", "-"} | OMISSIBLE_SIGNS.keys()
"""Dates, signs and articles that a reference may omit."""
ORDINAL = re.compile(r"(\d+)(?:st|nd|rd|th)?")
PART_WORDS = frozenset("part parts vol volume book chapter section series no number issue band teil tome partie parte study paper".split())
LOOK_ALIKES = {"eta": "n", "gamma": "y", "mu": "u", "nu": "v", "rho": "p", "chi": "x", "omega": "w"}
"""Greek letters, and the Latin letter that typists write for them."""
MIN_MISSPELT_NUMBER = 5
"""Letters of a number word that may be misspelt: "foruth"."""
MAX_ACRONYM = 6
"""Letters of an acronym. One that differs in a letter is another one: "HIV" and "HBV"."""
FOREIGN_FUNCTION_WORDS = frozenset(
    """
    al am aus ao au aux avec bei beim chez con da dans das degli dei del della delle dem den der des det di dos du durch een ein eine
    einer el em en et fur gli het il im la las le les lo los mit nach nel nella nos och og om os para par per por sobre sul sur till um
    una und une uno van ved vom von y zum zur
    """.split()
)
"""Function words of languages other than English, without accents. A single letter may be a number or a name."""
ENGLISH_FUNCTION_WORDS = frozenset(word for word in STOP_WORDS if len(word) > 1) - frozenset(
    "an as at do have here in me my no nor on one over so than under will".split()
)
"""Function words of English that other languages lack."""
ALIKE = 0.7
"""Least Indel similarity of two words that may be one with several typing errors, if other fields say so."""
MAX_ERRORS = 2
"""Most keystrokes between such words, unless one is the beginning of the other."""
CUT_TITLE, CUT_WORD, MIN_CUT_WORD = 80, 30, 2
"""Letters from which on a title that another one continues may be cut between two words, and within a word; least letters of that word."""


def compare_titles(one: Title, other: Title, *, marks: bool = True) -> Iterator[tuple[str, str]]:
    """(field, level) of numbers, telling words and other words that differ; nothing if only the spelling differs. Symmetric.

    Without `marks` it is no difference that only one work is marked as retracted.
    """
    levels = dict[str, str]()
    if one.tokens != other.tokens:
        levels |= TitleComparison(*sorted((one, other), key=lambda title: title.tokens)).levels()
    if marks and one.retracted != other.retracted:
        levels["title's telling words"] = "differ"
    yield from levels.items()


def in_two_languages(one: Title, other: Title) -> bool:
    """Whether one title is in English and the other is not, by their words and script."""
    return bool(one.tokens and other.tokens) and is_english(one) != is_english(other)


def is_english(title: Title) -> bool:
    """Whether the function words of a title are English, or, without any, most of its words."""
    foreign, english = (sum(map(words.__contains__, title.tokens)) for words in (FOREIGN_FUNCTION_WORDS, ENGLISH_FUNCTION_WORDS))
    if foreign or english:
        return english > foreign
    words = [token for token in title.tokens if not is_number(token)]
    return 2 * sum(word in load_dictionary() for word in words) >= len(words)


class Region(NamedTuple):
    """What stands between two words that titles share: words of both, and whether they could be an addition before or behind a title."""

    mine: Words
    theirs: Words
    added: bool


class TitleComparison:
    """The differences of two titles in a fixed order."""

    def __init__(self, one: Title, other: Title) -> None:
        self._one, self._other = one, other

    def levels(self) -> Iterator[tuple[str, str]]:
        regions = [self._remove_counterparts(region) for region in self._regions()]
        every_mine = Counter(chain.from_iterable(region.mine for region in regions))
        every_theirs = Counter(chain.from_iterable(region.theirs for region in regions))
        inside = [region for region in regions if not region.added]
        # a word on both sides only moved
        mine = set(Counter(chain.from_iterable(region.mine for region in inside)) - every_theirs)
        theirs = set(Counter(chain.from_iterable(region.theirs for region in inside)) - every_mine)
        parts = {word for region in regions if region.added for word in _part_numbers([*region.mine, *region.theirs])}
        if level := _number_level(mine, theirs, parts):
            yield "title's numbers", level
        if any({*region.mine, *region.theirs} & (NOTICES if region.added else TELLING) for region in regions):
            yield "title's telling words", "differ"
        opposed = any(OPPOSED_FUNCTION_WORDS & {*region.mine} and OPPOSED_FUNCTION_WORDS & {*region.theirs} for region in regions)
        # a word that one title repeats is no other word
        mine, theirs = mine.difference(self._other.tokens), theirs.difference(self._one.tokens)
        if level := "differ" if opposed or _is_replaced(mine, theirs) else _word_level(mine, theirs):
            yield "title's words", level

    def _regions(self) -> Iterator[Region]:
        """The regions in which the titles differ."""
        one, other = self._one.tokens, self._other.tokens
        start = other_start = 0
        for op in (*Levenshtein.opcodes(one, other), None):
            if op is None or op.tag == "equal":
                end, other_end = (len(one), len(other)) if op is None else (op.src_start, op.dest_start)
                if start < end or other_start < other_end:
                    yield self._make_region((start, end), (other_start, other_end))
                if op:
                    start, other_start = op.src_end, op.dest_end

    def _make_region(self, mine: tuple[int, int], theirs: tuple[int, int]) -> Region:
        words, other_words = self._one.tokens[slice(*mine)], self._other.tokens[slice(*theirs)]
        at_end = mine[1] == len(self._one.tokens) and theirs[1] == len(self._other.tokens)
        least = CUT_WORD if len(words) == len(other_words) else CUT_TITLE
        long = sum(map(len, self._one.tokens[: mine[0]])) >= least
        if at_end and long and (_is_cut(words, other_words) or _is_cut(other_words, words)):
            return Region((), (), added=False)
        if at_end and (_ends_in_dots(self._one, words, other_words) or _ends_in_dots(self._other, other_words, words)):
            return Region((), (), added=False)
        added = (not other_words and _is_added(self._one, *mine)) or (not words and _is_added(self._other, *theirs))
        return Region(words, other_words, added)

    def _remove_counterparts(self, region: Region) -> Region:
        """The region without the words that both sides have in some form."""
        left, right = list[str](), list(region.theirs)
        if _join(region.mine) == _join(region.theirs):
            return Region((), (), region.added)
        for word in region.mine:
            counterpart = next((other for other in right if self._same(word, other)), None)
            if counterpart is None:
                left.append(word)
            else:
                right.remove(counterpart)
        joined, other_joined = _join(left), _join(right)
        divided = len(left) != len(right) and left and right
        if joined == other_joined or (divided and are_near(joined, other_joined) and self._misspelt(joined, other_joined)):
            return Region((), (), region.added)
        return Region(left, right, region.added)

    def _same(self, one: str, other: str) -> bool:
        """Whether a word of the first title and a word of the second are one word, one number or one sign."""
        if one == other or SIGNS.get(one, one) == SIGNS.get(other, other):
            return True
        if 1 in {len(one), len(other)} and {one, other} & GREEK_NAMES:  # "TNF-a" has lost the Greek letter of "TNF-alpha"
            return one[0] == other[0] or LOOK_ALIKES.get(one, one) == LOOK_ALIKES.get(other, other)
        if is_number(one) and is_number(other):
            return number_value(one) is not None and number_value(one) == number_value(other)
        if is_slip(one, other):
            return True
        shorter = min(len(one), len(other))
        if shorter < MIN_MISSPELT_NUMBER and (is_number(one) or is_number(other)):
            return False
        acronyms = one in self._one.acronyms and other in self._other.acronyms and shorter <= MAX_ACRONYM
        return one_form(one, other) or (not acronyms and are_near(one, other) and self._misspelt(one, other))

    def _misspelt(self, one: str, other: str) -> bool:
        """Whether one is the other with a typing error. Without a dictionary of the language nobody can tell: "niños", "niñas"."""
        return self._in_english and is_misspelt(one, other)

    @cached_property
    def _in_english(self) -> bool:
        return is_english(self._one) and is_english(self._other)


def _join(words: Words) -> str:
    """The words without blanks and hyphens: "NF-κB" has a hyphen before a blank since its letter is spelled out."""
    return "".join(words).replace("-", "")


def _is_cut(one: Words, other: Words) -> bool:
    """Whether one is a single word that was cut, and the other begins with that word."""
    if len(one) != 1 or not other or len(one[0]) < MIN_CUT_WORD or not (other[0].startswith(one[0]) and other[0].isalpha()):
        return False
    return not is_number(one[0]) and one[0] not in load_dictionary()


def _ends_in_dots(title: Title, words: Words, others: Words) -> bool:
    """Whether the title was cut at these last words, of which there may be none or the beginning of one: "ageing in C…"."""
    begins = len(words) == 1 and len(others) > 0 and others[0].startswith(words[0])
    return len(title.tokens) in title.breaks and (not words or begins)


def _is_added(title: Title, start: int, end: int) -> bool:
    """Whether these words stand before or behind the title of another, apart by punctuation, or another title was cut before them."""
    if end == len(title.tokens):
        return start in title.breaks or sum(map(len, title.tokens[:start])) >= CUT_TITLE
    return start == 0 and end in title.breaks


def _part_numbers(added: Words) -> Iterator[str]:
    """Numbers that make an addition the number of a part: all of "II", the number in "Part B: methods", none in "Smith J. 1996"."""
    if len(added) == 1 or PART_WORDS & {*added}:
        yield from filter(is_number, added)


@lru_cache(maxsize=65_536)
def number_value(word: str) -> int | None:
    """The value of digits, of an ordinal, a number word or a Roman numeral; None for every other word."""
    if match := ORDINAL.fullmatch(word):
        return int(match.group(1))
    return NUMBER_WORDS.get(word) or roman_number(word)


@lru_cache(maxsize=65_536)
def is_number(word: str) -> bool:
    """Whether a word counts, names or signs: digits in it, a numeral, a month, a single Latin letter, a Greek letter, `+`."""
    if len(word) == 1 or word in MONTHS:
        return word.isascii() or word.isdigit() or word in SIGNS
    numeral = number_value(word) is not None or (word[-1] in "abcd" and number_value(word[:-1]) is not None)
    return numeral or word in SIGNS or word in GREEK_NAMES or any(map(str.isdigit, word))


def _number_level(mine: Collection[str], theirs: Collection[str], parts: Collection[str]) -> str:
    numbers, others = ({word for word in words if is_number(word)} for words in (mine, theirs))
    if (numbers and others) or (numbers | others) & LANGUAGE_SIGNS:
        return "differ"
    telling = any(word not in OMISSIBLE_NUMBERS and not YEAR.fullmatch(word) for word in (*numbers, *others, *parts))
    return "one has more" if telling else ""


def _is_replaced(mine: Collection[str], theirs: Collection[str]) -> bool:
    """Whether a number of one title stands for a word of the other: "LTE networks" and "5G networks"."""
    numbers, others = (any(map(is_number, words)) for words in (mine, theirs))
    words, other_words = (any(not is_number(word) for word in {*words} - STOP_WORDS - OMISSIBLE_WORDS) for words in (mine, theirs))
    return (numbers and other_words and not words) or (others and words and not other_words)


def _word_level(mine: Collection[str], theirs: Collection[str]) -> str:
    words, others = ({word for word in some if word not in FUNCTION_OR_TELLING and not is_number(word)} for some in (mine, theirs))
    if words and others:
        pairs = [[_are_alike(word, other) for other in others] for word in words]
        alike = len(words) == len(others) and all(map(any, pairs)) and all(map(any, zip(*pairs, strict=True)))
        return "alike" if alike else "differ"
    return "one has more" if (words | others) - OMISSIBLE_WORDS else ""


def _are_alike(one: str, other: str) -> bool:
    """Whether two words may be one with typing errors, or one is the other cut short: not both are known."""
    if is_known(one) and is_known(other):
        return False
    if OSA.distance(one, other, score_cutoff=MAX_ERRORS) > MAX_ERRORS and not one.startswith(other) and not other.startswith(one):
        return False
    return Indel.normalized_similarity(one, other) >= ALIKE and not are_opposed(one, other)

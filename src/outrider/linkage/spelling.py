"""Spelling: whether two words are one word in another form, or with a typing error.

Two words of the dictionary are two words, however alike: "male" and "female", "Niger" and "Nigeria". A word a keystroke away from a word of
the dictionary, and not in it, is a typing error. Two unknown words may be two names: "Hubei" and "Hebei". Dictionaries lack many terms of
the sciences, so opposed prefixes and chemical endings ("hyponatraemia", "hypernatraemia") are never taken for typing errors.
"""

from __future__ import annotations

import gzip
import json
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Container, Iterable
from functools import cache, lru_cache
from importlib.resources import files

from rapidfuzz.distance import OSA, Postfix, Prefix

from outrider.text.words import STOP_WORDS

MIN_STEM = 4
"""Least length of what two words share beside opposed prefixes or endings."""
PREFIXES = frozenset(
    """
    an ab ad ana ante anti apo auto allo bi brady contra counter de deca di dis dys ecto en endo epi ex exo extra eth eu hecto hemi hepta
    hetero hexa homo hydro hyper hypo il im in infra inter intra intro ir iso levo dextro macro mal maxi mega meso meta meth micro mid milli
    mini mis mono multi nano neo non nor normo octa oligo ortho out over para pent penta per peri pico poly post pre pro prop re semi
    sub super supra syn tachy tele tetra trans tri un under uni ultra xeno
    """.split()
) | {""}
"""Prefixes that change the meaning: two of them, or one and none, before the same stem make two words."""
MAX_PREFIX = max(map(len, PREFIXES))
ENDINGS = tuple(
    frozenset(group.split())
    for group in ("ate ite ide", "ates ites ides", "ane ene yne one", "ol al yl", "ase ose", "itis osis", "ectomy otomy", "ic ous")
)
"""Groups of chemical and medical endings: two of one group after the same stem make two words."""
SUBSTANCE = re.compile(
    r"(?:(?<!e)ase|cillin|flozin|gliptin|mab|mycin|nib|olol|oprazole|pril|prost|sartan|setron|statin|tidine|triptan|vir|xaban)s?$"
)
"""Endings of enzymes, and stems of International Nonproprietary Names (WHO): a dictionary that knows one need not know its relatives."""
BRITISH = tuple(
    (re.compile(pattern), american)
    for pattern, american in (
        (r"practis", "practic"),
        (r"[ao]e", "e"),
        (r"ge(?=ing$|ments?$)", "g"),
        (r"leuco", "leuko"),
        (r"^tyre", "tire"),
        (r"(?<=..)our", "or"),
        (r"(?<=..)is(?=(?:e|ed|es|er|ers|ing|ation|ations)$)", "iz"),
        (r"ys(?=(?:e|ed|es|er|ing)$)", "yz"),
        (r"tre(?=s?$)", "ter"),
        (r"ogue?(?=(?:s|ing|ed|er|ers)?$)", "og"),
        (r"enc(?=es?$)", "ens"),
        (r"sulph", "sulf"),
        (r"ll", "l"),
        (r"mme(?=s?$)", "m"),
        (r"^grey", "gray"),
        (r"ical(?=ly$|$)", "ic"),
        (r"ine$", "in"),
    )
)
"""British spellings and their American forms. Both words are changed, so that a change that is no translation does no harm."""
DOUBLED = re.compile(r"([^aeiou\d\W])\1")
"""A doubled consonant."""
UMLAUTS = tuple((re.compile(f"{vowel}e"), vowel) for vowel in "aou")
SHORT_FORMS = {
    "dept": "department", "dr": "doctor", "intl": "international", "mcg": "microg", "mt": "mount", "st": "saint", "ug": "microg",
    "um": "microm", "univ": "university", "vs": "versus",
}  # fmt: skip
MIN_LETTERS, MIN_LETTERS_TWO_ERRORS, MIN_LETTERS_UNKNOWN, MIN_LETTERS_PARTICIPLE = 4, 8, 5, 5
"""Least letters of a misspelt word: with one error, with two, and with one if neither form is in the dictionary; and of a participle."""


def one_form(one: str, other: str) -> bool:
    """Whether two words are one word, inflected, or spelled as in Britain and in America."""
    return one == other or not _forms(one).isdisjoint(_forms(other))


def are_near(one: str, other: str) -> bool:
    """Whether one or, in long words, two keystrokes make one word of letters into the other (optimal string alignment)."""
    shorter, longer = sorted((one, other), key=len)
    if not (one.isalpha() and other.isalpha()) or len(longer) < MIN_LETTERS:
        return False
    most = 2 if len(shorter) >= MIN_LETTERS_TWO_ERRORS else 1
    return OSA.distance(one, other, score_cutoff=most) <= most


@lru_cache(maxsize=65_536)
def is_misspelt(one: str, other: str) -> bool:
    """Whether one of two near English words (`are_near`) is the other with a typing error."""
    known = sum(map(is_known, (one, other)))
    certain = known == 1 and not (SUBSTANCE.search(one) and SUBSTANCE.search(other))
    return (certain or (known < 2 and _is_keystroke(one, other))) and not are_opposed(one, other)


def _is_keystroke(one: str, other: str) -> bool:
    """Whether two unknown words differ as typing errors do and names seldom.

    Two letters are exchanged, a consonant is doubled or not, or a long word lacks a letter inside.
    """
    shorter, longer = sorted((one, other), key=len)
    if len(shorter) < MIN_LETTERS_UNKNOWN or OSA.distance(one, other, score_cutoff=1) != 1:
        return False
    if len(shorter) == len(longer):
        return Counter(one) == Counter(other)
    inside = shorter[0] == longer[0] and shorter[-1] == longer[-1]
    return DOUBLED.sub(r"\1", one) == DOUBLED.sub(r"\1", other) or (inside and len(shorter) >= MIN_LETTERS_TWO_ERRORS)


@lru_cache(maxsize=65_536)
def is_known(word: str) -> bool:
    """Whether a word, its American form, or what follows a prefix in it, is in the dictionary."""
    words = load_dictionary()
    if word in words or _replace(word, BRITISH) in words:
        return True
    return any(word[size:] in words and word[:size] in PREFIXES for size in range(2, min(MAX_PREFIX, len(word) - MIN_STEM) + 1))


def is_slip(one: str, other: str) -> bool:
    """Whether one is a function word of two or more letters, and the other the same word with a typing error: "of" and "o"."""
    function_words = {one, other} & STOP_WORDS
    if len(function_words) != 1 or len(min(function_words)) == 1 or not (one + other).isalpha():
        return False
    return OSA.distance(one, other, score_cutoff=1) == 1


def are_opposed(one: str, other: str) -> bool:
    """Whether two words differ in a prefix or an ending that changes the meaning: "intranasal" and "internasal"."""
    ends = range(MIN_STEM, Postfix.similarity(one, other) + 1)
    beginnings = range(MIN_STEM, Prefix.similarity(one, other) + 1)
    return any({one[: len(one) - size], other[: len(other) - size]} <= PREFIXES for size in ends) or any(
        {one[size:], other[size:]} <= group for size in beginnings for group in ENDINGS
    )


WORD_A_LINE = re.compile(rb'\{\n"[^"\n]*": \d+,?\n')
"""Beginning of a JSON object with one name a line."""
BLOCK_BYTES = 4_096


class _SortedLines:
    """The names in the lines of such an object, which are in order. Making a text or a line of each takes longer than finding the few
    hundred that a run asks for.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        places = (data.find(b'\n"', at) for at in range(0, len(data), BLOCK_BYTES))
        self._starts = [start for start in places if start >= 0]
        self._first = [data[start + 2 : data.index(b'"', start + 2)] for start in self._starts]
        """The first name of each block."""

    def are_in_order(self) -> bool:
        """Whether there are several blocks, and in order."""
        return len(self._first) > 1 and self._first == sorted(self._first)

    def __contains__(self, word: object) -> bool:
        name = str(word).encode("utf-8", "surrogatepass")
        block = bisect_right(self._first, name)
        if not block:
            return False
        end = self._starts[block] if block < len(self._starts) else len(self._data)
        return self._data.find(b'\n"%b": ' % name, self._starts[block - 1], end) >= 0


@cache
def load_dictionary() -> Container[str]:
    """English words in small letters (the frequency list of pyspellchecker: 160,572 words)."""
    data = gzip.decompress((files("spellchecker") / "resources" / "en.json.gz").read_bytes())
    if WORD_A_LINE.match(data) and b"\\" not in data:  # which begins an escape
        lines = _SortedLines(data)
        if lines.are_in_order():
            return lines
    return frozenset(json.loads(data))


@lru_cache(maxsize=65_536)
def _forms(word: str) -> frozenset[str]:
    singular = {SHORT_FORMS.get(word, word)}
    if len(word) >= MIN_LETTERS and word.endswith("s") and not word.endswith("ss"):
        singular |= {word[:-1], *([word[:-2]] if word.endswith("es") else []), *([f"{word[:-3]}y"] if word.endswith("ies") else [])}
    if len(word) >= MIN_LETTERS_PARTICIPLE and word.endswith("ed"):
        singular |= {word[:-1], word[:-2]}
    return frozenset(_replace(form, rules) for form in singular for rules in (BRITISH, UMLAUTS))


def _replace(word: str, rules: Iterable[tuple[re.Pattern[str], str]]) -> str:
    for pattern, form in rules:
        word = pattern.sub(form, word)
    return word

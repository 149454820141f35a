"""Titles in a form in which the same title compares equal, in any script."""

from __future__ import annotations

import html
import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple

from outrider.text.words import STOP_WORDS, words

NUMBER = re.compile(r"\d+")
TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
NOT_WORD = re.compile(r"[\W_]+")
ACCENTS = re.compile(r"[\u0300-\u034e\u0350-\u036f]+")
"""The combining marks of Latin, Greek and Cyrillic letters; others are looked up."""
ASCII_NOT_WORD = {code: " " for code in range(128) if not chr(code).isalnum()}
"""For `str.translate`: what the rest does to text without accents, five times as fast."""


def normal_title(title: str) -> str:
    """Case folded, accents, markup and punctuation dropped, words separated by one space; empty for a title without a word."""
    plain = TAG.sub(" ", html.unescape(title))
    if plain.isascii():
        return " ".join(plain.lower().translate(ASCII_NOT_WORD).split())
    letters = ACCENTS.sub("", unicodedata.normalize("NFKD", plain).casefold())
    if letters.isascii():
        return " ".join(letters.translate(ASCII_NOT_WORD).split())
    if any(map(unicodedata.combining, set(letters))):
        letters = "".join(char for char in letters if not unicodedata.combining(char))
    return NOT_WORD.sub(" ", unicodedata.normalize("NFC", letters)).strip()


MAX_TITLE_CHARS = 500
"""Of a title what is compared; the time of some steps grows with its square."""

NOTE = re.compile(
    r"""[(\[][^()\[\]]*\b(?:preprint|postprint|manuscript|version|v\d+)\b[^()\[\]]*[)\]]\W*$
      | \bpreprint\W*$
      | \s[-–—:]\s(?:book\ review|(?:guest\ )?editor(?:'?s'?|ial)(?:\ (?:foreword|introduction|note|preface))?|foreword|preface)\W*$
      | [(\[][^()\[\]]*\b(?:abstract|demo|demonstration|keynote|panel|poster|session|talk|tutorial)\b[^()\[\]]*[)\]]\W*$
      | [\[(](?:in\s)?(?:chinese|czech|danish|dutch|english|finnish|french|german|hungarian|italian|japanese|korean|norwegian|polish
          |portuguese|russian|spanish|swedish|turkish|ukrainian)[\])]\W*$""",
    re.IGNORECASE | re.VERBOSE,
)
"""What catalogues add to a title: it belongs to no work."""
AHEAD = re.compile(r"^\W*(?:(?:1[89]|20)\d\d\b\W+|(?:panel|tutorial|short report|research article|original article)\s*:\s+)", re.IGNORECASE)
"""What references put ahead of a title: a year, a kind of text."""
SUBTITLE = re.compile(r"(?<=\w)(?::|\?|\.|\s[-–—])\s|(?<=\w)—")
GREEK = {
    ord(letter): f" {name} "
    for letter, name in zip("αβγδεκλμω", "alpha beta gamma delta epsilon kappa lambda mu omega".split(), strict=True)
}

TELLING = frozenset(
    """
    i ii iii iv v vi vii viii ix x one two three four five six seven eight nine ten
    first second third fourth fifth sixth seventh eighth ninth tenth
    no non not without
    addendum appendix comment commentary correction corrigendum editorial erratum errata letter protocol reply response retracted
    retraction supplement supplementary
    """.split()
)
"""Words that make another work of the same title, if they stand in one of two titles only."""
GENERIC = frozenset(
    """
    abstract abstracts acknowledgement acknowledgements advances announcement announcements annual address appendix article articles author
    authors book books calendar chair chairman column comment commentary comments conclusion conclusions contents contributors
    correction corrections correspondence corrigendum discussion discussions editor editorial editorials editors errata erratum
    foreword front guest highlights index influential introduction introductory invited issue journal keynote letter
    letters list matter meeting meetings memoriam message minutes news newsletter note notes notice notices obituary overview panel
    perspective perspectives poster posters papers preface president proceedings profile profiles readers
    remarks reminiscences reply report reports response results retraction retracted review reviewers reviews
    section selected session special statement summaries summary supplement symposium title treasurer tutorial welcome workshop
    """.split()
)
"""Words of titles that name a kind of text; a title without any other says next to nothing about which work it is."""


class Title(NamedTuple):
    whole: str
    """Normal, without notes such as "(preprint)" or "[French]"."""
    compact: str
    """Without its spaces: "K<sub>Ca</sub>3.1" and "KCa3.1" are one."""
    main: str
    """Compact, without the subtitle."""
    content: tuple[str, ...]
    """Its content words, sorted, each once."""
    telling: tuple[str, ...]
    """Its telling words, sorted."""
    numbers: tuple[str, ...]
    """Its numbers in order."""
    generic: bool
    """Whether it names a kind of text, as many works do: "Editorial", "Book reviews"."""


@lru_cache(maxsize=32_768)
def parse_title(said: str) -> Title:
    bare = (NOTE.sub("", AHEAD.sub("", said)).strip() or said).translate(GREEK)[:MAX_TITLE_CHARS]
    whole = normal_title(bare)
    every = words(whole)
    content = tuple(sorted(set(every) - STOP_WORDS))
    telling = tuple(sorted(word for word in whole.split() if word in TELLING))
    main = normal_title(SUBTITLE.split(bare, maxsplit=1)[0]).replace(" ", "")
    return Title(whole, whole.replace(" ", ""), main, content, telling, tuple(NUMBER.findall(whole)), not set(content) - GENERIC)


AHEAD_OF_TITLE = re.compile(
    r"""^\W*(?:(?P<retracts>(?:notice\ of\ )?retraction(?:\ (?:note|notice|statement))?)
      | (?P<corrects>(?:author'?s?'?\ |publisher'?s?\ )?(?:correction|corrigend(?:um|a)|errat(?:um|a)|addend(?:um|a))s?)
      | (?P<comments>(?:author'?s?'?\ )?(?:reply|response|comment|commentary|invited\ commentary|editorial\ comment)s?))
      (?:\ (?:to|for|on|of)(?:\ the\ (?:article|paper))?(?P<of>\b))?
      (?P<mark>\s*[-:.,–—"“‘'«\[(]+)?\s*(?P<title>\S.*)$""",
    re.IGNORECASE | re.VERBOSE,
)
BEHIND_TITLE = re.compile(
    r"^(?P<title>.*\S)\s*[\[(:–—-]\s*(?:(?P<retracts>retraction)|(?P<corrects>erratum|corrigendum|correction))\W*$", re.IGNORECASE
)


@lru_cache(maxsize=16_384)
def parse_notice(title: str) -> str:
    """`corrects / X`, where X is the compact title that a notice is about; "" for what is no notice."""
    found = _notice(title)
    if not found:
        return ""
    kind = "retracts" if found["retracts"] else "corrects" if found["corrects"] else "comments on"
    return f"{kind} / {parse_title(found['title']).compact}"


def article_title(title: str) -> str:
    """The title that a notice is about; of what is no notice its own."""
    found = _notice(title)
    return found["title"] if found else title


def _notice(title: str) -> re.Match[str] | None:
    found = AHEAD_OF_TITLE.match(title)
    if found and found["of"] is None and not found["mark"]:
        found = None  # "Response surfaces of ..." is an article
    return found or BEHIND_TITLE.match(title)

"""Normal forms of author names and titles, which compare equal for one person or title.

A name becomes a family name and initials: `Curie, Marie`, `Marie Curie`, `M. Curie`, `Curie MS` and `CURIE M` are one person. Particles
belong to the family name and are dropped (`van Beethoven` becomes `beethoven`). A name in Han or kana without a space stays whole. A single
word is taken as a family name.

A title may be in any script.
"""

from __future__ import annotations

import html
import re
import unicodedata
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

from outrider.text.strip_markup import fold_text
from outrider.text.words import FOLDED, STOP_WORDS, words

PARTICLES = frozenset(
    "al auf ben bin da das de del della den der des di do dos du el la las le les lo los ten ter van vom von zu zum zur".split()
)
AFTER_NAMES = frozenset("jr sr ii iii iv phd md".split())
NOBODY = frozenset("anonymous anon unknown author al others na none".split())
LOST = re.compile(r"[?\ufffd]")
"""Replacement characters of letters that a wrong encoding lost."""
INITIALS = re.compile(r"(?:[^\W\d_]\.?-?){1,4}")
MAX_NAME_CHARS = 200
NUMBER = re.compile(r"\d+")
TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
NOT_WORD = re.compile(r"[\W_]+")
ACCENTS = re.compile(r"[\u0300-\u034e\u0350-\u036f]+")
"""Combining marks of Latin, Greek and Cyrillic letters; other scripts need a look-up of each character."""
ASCII_NOT_WORD = {code: " " for code in range(128) if not chr(code).isalnum()}
"""Table for `str.translate`: the same result for ASCII text, five times as fast."""
MAX_TITLE_CHARS = 500
"""Longer titles are cut, because the time of some steps grows with the square of the length."""
NOTE = re.compile(
    r"""[(\[][^()\[\]]*\b(?:preprint|postprint|manuscript|version|v\d+)\b[^()\[\]]*[)\]]\W*$
      | \bpreprint\W*$
      | (?:[.,]['’”"]?\s+in:?|[.,]['’”"])\s+(?:the\ )?proc(?:\.|eedings)\s+of\s.*$
      | \s[-–—:]\s(?:book\ review|(?:guest\ )?editor(?:'?s'?|ial)(?:\ (?:foreword|introduction|note|preface))?|foreword|preface)\W*$
      | [(\[][^()\[\]]*\b(?:abstract|demo|demonstration|(?:experience|industrial|short)\ paper|keynote|panel|poster|session|talk|tutorial)\b
          [^()\[\]]*[)\]]\W*(?=:|$)
      | [(\[](?:(?:with\ )?consumer\ summary|(?:structured|conference|meeting)\ abstract|cochrane\ review|systematic\ review|references
          |(?:epub|online|published)\ ahead\ of\ print|in\ press)[)\]]\W*$
      | [(\[](?:retracted|withdrawn)(?:\ (?:article|paper|chapter|publication|manuscript))?(?:[.,:;]?\s+see\b[^()\[\]]*)?[.]?[)\]]\W*$
      | \((?:article|publication)\ with\ expression\ of\ concern\b[^()]*\)\W*$
      | [\[(](?:(?:article\ )?in\s)?(?:chinese|czech|danish|dutch|english|finnish|french|german|hungarian|italian|japanese|korean|norwegian
          |polish|portuguese|russian|spanish|swedish|turkish|ukrainian)[\])]\W*$
      | \[(?:(?:published\ )?(?:erratum|errata|correction|retraction)\ (?:appears\ )?in\b
          |(?:corrected\ and\ )?republished\ (?:from|in)\b|summary\ for\ patients\ in\b|updated?\ (?:in|of)\b
          |see\ (?:comments?|correction|erratum)\b
          |comments?\ (?:in|on)\b|retracted\ article\b|research\ support\b|review\b|corrected\b|letter\b|editorial\b|comment\b|\d+\ refs?\b)
          [^\[\]]*\]\W*$""",
    re.IGNORECASE | re.VERBOSE,
)
"""Notes that catalogues add to a title, and a volume of proceedings that a parser of references left behind it."""
MARKS_OF_NOTES = ("(", "[", " -", " –", " —", " :", " proc", " Proc")
"""Every note has one of them, or is "preprint". The test saves most titles the expression."""
YEAR_AHEAD = re.compile(r"^\W*(?:1[89]|20)\d\d\b\W+(?=\w)")
AHEAD = re.compile(r"^\W*(?:panel|tutorial|short report|research article|original article)\s*:\s+", re.IGNORECASE)
"""Kinds of text that references put before a title."""
RETRACTED_AHEAD = re.compile(
    r"^[\s\[(<*“\"']*retracted(?: (?:article|paper|chapter|publication|manuscript))?\s*[:\])>—–][\s\])>:]*(?=\w)", re.IGNORECASE
)
"""The mark of a retracted work. Some publishers put it ahead of the title of the notice as well."""
SUBTITLE = re.compile(r"(?<=\w)(?::|\?|\.|\s[-–—])\s|(?<=\w)—")
GREEK = dict(
    zip(
        "αβγδεζηθικλμνξοπρστυφχψω",
        """
        alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau upsilon phi chi psi omega
        """.split(),
        strict=True,
    )
)
FOLDED_LETTERS = str.maketrans(FOLDED | {letter.upper(): latin for letter, latin in FOLDED.items() if len(letter.upper()) == 1})
"""Letters of other alphabets without a decomposition, and their Latin form: "ø" and "o"."""
GREEK_LETTERS = {ord(letter): f" {name} " for small, name in GREEK.items() for letter in (small, small.upper())}
MICRO = re.compile(r"[µμ](?=(?:[glmsALMV]|mol)\b)")
"""The sign of micro before a unit."""
YEAR_RANGE = re.compile(r"\b(1[5-9]|20)(\d\d)\s?[-–—/]\s?(\d\d)\b(?![-–—/])")
"""Two years, the second without its century: "1990-95"."""
GREEK_NAMES = frozenset(GREEK.values())
NUMBER_WORDS = {
    word: value
    for words_in_order in (
        """
        one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty
        """,
        """
        first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth sixteenth
        seventeenth eighteenth nineteenth twentieth
        """,
    )
    for value, word in enumerate(words_in_order.split(), start=1)
}
ROMAN = re.compile(r"(?=.)(?P<hundreds>c{0,3})(?P<tens>x[lc]|l?x{0,3})(?P<ones>i[xv]|v?i{0,3})")
"""Roman numerals below 400."""
ROMAN_PARTS = {"": 0, "i": 1, "ii": 2, "iii": 3, "iv": 4, "v": 5, "vi": 6, "vii": 7, "viii": 8, "ix": 9}
TENS_AS_ONES = str.maketrans("xlc", "ivx")
OMISSIBLE_SIGNS = {"<": "<", ">": ">", "≤": "≤", "≥": "≥", "<=": "≤", ">=": "≥", "♂": "male", "♀": "female", "↑": "↑", "↓": "↓"}
"""Signs that many catalogues lose: they tell works apart only against another one."""
SIGNS = OMISSIBLE_SIGNS | {"+": "positive", "-": "negative", "positive": "positive", "negative": "negative", "++": "++", "#": "#"}
"""Signs and what they mean. Some belong to the word before them: "CD4+", "ER-", "C++", "C#"."""
NOTICES = frozenset(
    """
    addendum appendix comment commentaries commentary comments correction corrections corrigendum discussion editorial erratum errata
    letter obituary protocol rejoinder replies reply response responses retracted retraction summary supplement supplementary
    update updated
    """.split()
)
TELLING = NOTICES | {"no", "non", "not", "without"}
"""Words that show a different work if only one of two titles has them."""
MOJIBAKE = re.compile("[\u00c2-\u00f4][\u0080-\u00bf\u0152-\u2122]")
TOKEN = re.compile(
    r"""(?P<word>[^\W_]+(?:(?<=\d)[.,]\d+)*)(?P<sign>\+{1,2}(?!\w)|\#|[-−](?=[/;:)\].]|\s(?!\s*(?:and|et|or|to|und|y)\b)|$))?
      | (?P<mark>[<>]=?|[≤≥♂♀↑↓]) | \((?P<alone>[+−-])\) | (?<=\))(?P<behind>[+−-])(?=[\s/,;:.]|$)""",
    re.VERBOSE,
)
"""A word with a sign. The hyphen of "pre- and postoperative" is none."""
SPELLED_OUT = {"b2b": "business to business", "b2c": "business to consumer", "p2p": "peer to peer"}
BREAK = re.compile(r"[.,:;?!|·()\[\]\"“”«»—–]|\s-\s")
ELLIPSIS = re.compile(r"(?:…|\.{3})\W*$")
BY_NAME = re.compile(r"by\s(?=[A-Z][\w.]*\s[A-Z])")
"""Before the authors in "Data mining by Jiawei Han"."""
UNDIVIDED = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
"""Scripts written without spaces, of which each character is a word."""
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
"""Words that name a kind of text. A title that has no other words hardly identifies a work."""
AHEAD_OF_TITLE = re.compile(
    r"""^\W*(?:(?P<retracts>(?:notice\ of\ )?retraction(?:\ (?:note|notice|statement))?)
      | (?P<corrects>(?:author'?s?'?\ |publisher'?s?\ )?(?:correction|corrigend(?:um|a)|errat(?:um|a)|addend(?:um|a))s?)
      | (?P<comments>(?:author'?s?'?\ )?(?:reply|response|comment|commentary|invited\ commentary|editorial\ comment)s?))
      (?:\ (?:to|for|on|of)(?:\ the\ (?:article|paper))?(?P<of>\b))?
      (?P<mark>\s*[-:.,–—"“‘'«\[(]+)?\s*(?P<title>\S.*)$""",
    re.IGNORECASE | re.VERBOSE,
)
BEHIND_TITLE = re.compile(
    r"""^(?P<title>.*\S)\s*[\[(:–—-]\s*
    (?:(?P<retracts>retraction(?:\ of(?::|\ vol\b)[^()\[\]]*)?)|(?P<corrects>erratum|corrigendum|correction))\W*$""",
    re.IGNORECASE | re.VERBOSE,
)


class Name(NamedTuple):
    """An author's name in normal form."""

    family: str
    initials: str
    """Initials of the known given names, in order."""
    words: tuple[str, ...] = ()
    """All long words of the name, sorted: family names come first in East Asia, and some people have two."""


@lru_cache(maxsize=65_536)
def parse_name(text: str) -> Name | None:
    """None for text that names nobody: empty, "et al", "Anonymous"."""
    family, comma, forenames = html.unescape(text)[:MAX_NAME_CHARS].partition(",")
    if not comma or not normal_title(forenames):
        family, forenames = _split_name(family.split())
    words = [word for word in normal_title(family).split() if word not in AFTER_NAMES]
    family_words = [word for word in words if word not in PARTICLES] or words
    if not family_words or family_words[-1] in NOBODY:
        return None
    parts = [part for part in forenames.replace(".", " ").replace("-", " ").split() if not LOST.search(part)]
    # `MS`, `M.S.` and `Marie-Sophie` have two given names
    given_words = [list(part.lower()) if part.isupper() and len(part) <= 3 else normal_title(part).split() for part in parts]
    initials = "".join(word[0] for part in given_words for word in part if word not in AFTER_NAMES)
    long = {word for word in (*words, *normal_title(forenames).split()) if len(word) > 2 and word not in PARTICLES}
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


def normal_title(title: str) -> str:
    """The title in case-folded words without accents, markup and punctuation, separated by one space; empty if it has no word."""
    if title.isascii() and title.isalnum():  # one word, as most parts of names are
        return title.lower()
    plain = html.unescape(title)
    if "<" in plain:
        plain = TAG.sub(" ", plain)
    if plain.isascii():
        return " ".join(plain.lower().translate(ASCII_NOT_WORD).split())
    letters = ACCENTS.sub("", unicodedata.normalize("NFKD", plain).casefold())
    if letters.isascii():
        return " ".join(letters.translate(ASCII_NOT_WORD).split())
    if any(map(unicodedata.combining, set(letters))):
        letters = "".join(char for char in letters if not unicodedata.combining(char))
    return NOT_WORD.sub(" ", unicodedata.normalize("NFC", letters)).strip()


class Title(NamedTuple):
    """A title in normal form, with the words and numbers that tell works apart."""

    whole: str
    """Normal, without notes such as "(preprint)" or "[French]", and without a year ahead."""
    compact: str
    """Without spaces: "K<sub>Ca</sub>3.1" and "KCa3.1" are equal."""
    main: str
    """Compact, without the subtitle."""
    content: tuple[str, ...]
    """Distinct content words, sorted."""
    tokens: tuple[str, ...]
    """Case-folded words in order, with decimals as one word, and signs that tell works apart: "c", "++"."""
    breaks: tuple[int, ...]
    """Places among the tokens before which the title has punctuation: 4 in "A new boosting algorithm, in: Proceedings".

    The number of tokens, too, if the title ends with dots, because it was cut.
    """
    acronyms: tuple[str, ...]
    """The tokens in capitals, if the title has small letters too, sorted."""
    generic: bool
    """Whether the title only names a kind of text: "Editorial", "Book reviews"."""
    retracted: bool = False
    """Whether "RETRACTED:" stands ahead, which no other part has."""


@lru_cache(maxsize=32_768)
def parse_title(text: str) -> Title:
    """The parts of a title by which two titles are compared; empty parts for text without a word."""
    if MOJIBAKE.search(text):  # its UTF-8 was read as Windows-1252: "forÃªts" becomes "forêts"
        with suppress(UnicodeError):
            text = text.encode("cp1252").decode("utf-8")
    unmarked = RETRACTED_AHEAD.sub("", text)
    complete = YEAR_RANGE.sub(r"\1\2-\1\3", strip_notes(fold_text(unmarked)))[:MAX_TITLE_CHARS]
    if not complete.isascii():
        complete = MICRO.sub("micro", complete).translate(GREEK_LETTERS)[:MAX_TITLE_CHARS]
    bare = YEAR_AHEAD.sub("", complete)
    whole = normal_title(bare)
    content = tuple(sorted(set(whole.split() if whole.isascii() else words(whole)) - STOP_WORDS))
    main = normal_title(SUBTITLE.split(bare, maxsplit=1)[0]).replace(" ", "")
    generic = not set(content) - GENERIC
    return Title(whole, whole.replace(" ", ""), main, content, *_split_title(complete), generic, unmarked != text)


def strip_notes(title: str) -> str:
    """The title without what catalogues and references add to it, or the title itself if nothing else is left."""
    bare, longer = AHEAD.sub("", title), ""
    if not any(mark in bare for mark in MARKS_OF_NOTES) and "preprint" not in bare.lower():
        return bare or title
    while bare != longer:
        bare, longer = NOTE.sub("", bare).rstrip(), bare
    return bare or title


def _split_title(text: str) -> tuple[tuple[str, ...], tuple[int, ...], tuple[str, ...]]:
    """The tokens, the breaks and the acronyms of a title."""
    plain = TAG.sub(" ", text)
    if not plain.isascii():
        plain = ACCENTS.sub("", unicodedata.normalize("NFKD", plain)).translate(FOLDED_LETTERS)
    capitals_only, divided = plain.isupper(), plain.isascii() or not UNDIVIDED.search(plain)
    tokens, breaks, acronyms, end = list[str](), list[int](), set[str](), 0
    for match in TOKEN.finditer(plain):
        start = match.start()
        word, sign, mark, alone, behind = match.groups()
        if (plain[end:start] != " " and BREAK.search(plain, end, start)) or (word == "by" and BY_NAME.match(plain, start)):
            breaks.append(len(tokens))
        end = match.end()
        if word:
            folded = word.casefold().replace(",", "")
            if folded in SPELLED_OUT:
                tokens += SPELLED_OUT[folded].split()
            elif divided or not UNDIVIDED.search(folded):
                tokens.append(folded)
            else:
                tokens += folded
            if not capitals_only and len(word) > 1 and word.isupper():
                acronyms.add(folded)
        if sign := sign or mark or alone or behind:
            tokens.append(sign.replace("−", "-"))
    if ELLIPSIS.search(plain):
        breaks.append(len(tokens))
    return tuple(tokens), tuple(breaks), tuple(sorted(acronyms))


def roman_number(word: str) -> int | None:
    """The value of a Roman numeral below 400 in lower case, None for every other word."""
    match = ROMAN.fullmatch(word)
    if not match:
        return None
    tens = match["tens"].translate(TENS_AS_ONES)
    return 100 * len(match["hundreds"]) + 10 * ROMAN_PARTS[tens] + ROMAN_PARTS[match["ones"]]


@lru_cache(maxsize=16_384)
def parse_notice(title: str) -> str:
    """`corrects / X`, where X is the compact title that a notice is about; "" if the title is not of a notice."""
    match = _match_notice(title)
    if not match:
        return ""
    kind = "retracts" if match["retracts"] else "corrects" if match["corrects"] else "comments on"
    return f"{kind} / {parse_title(match['title']).compact}"


def article_title(title: str) -> str:
    """The title that a notice is about, or the title itself if it is not of a notice."""
    match = _match_notice(title)
    return match["title"] if match else title


def _match_notice(title: str) -> re.Match[str] | None:
    match = AHEAD_OF_TITLE.match(title)
    if match and match["of"] is None and not match["mark"]:
        match = None  # "Response surfaces of ..." is an article
    return match or BEHIND_TITLE.match(title)

"""Values of fields compared as a whole: dates, authors, journals, headings and qualifiers.

MeSH qualifiers have NLM's names, two-letter codes, and former names. Source: NLM, "MeSH Qualifiers with Scope Notes" and "Qualifiers by
Allowable Category" (nlm.nih.gov/mesh/topsubscope.html, nlm.nih.gov/mesh/2009/introduction/topcat.html). NLM removed eight of them between
2017 and 2019; older strategies and records have them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from outrider.boolean.diagnostics import BooleanSyntaxError
from outrider.boolean.field_tags import Tag
from outrider.boolean.occurrences import WILD, Column, Matcher, find_occurrences, make_matchers
from outrider.state.boolean import Dates, Span, Words
from outrider.text.strip_markup import fold_text
from outrider.text.words import separate_words

DATE = re.compile(r"(\d{4})(?:[/-](\d{1,2})(?:[/-](\d{1,2}))?)?")
OPEN_START, OPEN_END = "1000", "3000"
"""PubMed leaves the end of a range open by the year 3000; a start before the invention of printing is as open."""
MOST_INITIALS = 3
_INITIALS = re.compile(r"[^\W\d_](?:[.-]+[^\W\d_])*\.?")
"""`J`, `J.`, `J.A.`, `J.-P.`, but not `JA`, which may be a name."""


_TRUNCATED_DATE = re.compile(r"(\d{3,8})\s*\*")
_DIGITS = re.compile(r"(\d{4})(\d{2})(\d{2})?")
_HYPHEN_RANGE = re.compile(r"(\d{4}|\d{6}|\d{8})?\s*[-–]\s*(\d{4}|\d{6}|\d{8})?")


def convert_hyphen_range(value: str) -> str:
    """`2010-2014` as `2010:2014`; an end that is left out is open. Another value stays."""
    match = _HYPHEN_RANGE.fullmatch(value.strip())
    if match is None or not any(match.groups()):
        return value
    return f"{match.group(1) or OPEN_START}:{match.group(2) or OPEN_END}"


def convert_truncated_date(value: str) -> str:
    """`2012*` as `2012`, `201206*` as `2012/06`, `201*` as `2010:2019`. Another value stays."""
    match = _TRUNCATED_DATE.fullmatch(value.strip())
    if match is None:
        return value
    digits = match.group(1)
    return f"{digits}0:{digits}9" if len(digits) == 3 else digits if len(digits) in (4, 6, 8) else value


def is_dates(tags: tuple[Tag, ...]) -> bool:
    return bool(tags) and all(tag.kind in ("dates", "entry") for tag in tags)


def date_node(value: str, entry: bool, text: str, at: Span) -> Dates:
    """Parse `2019`, `2019/06`, `201906`, `2019*`, `2019:2021`, `2019/01/01 : 3000`. Raises `BooleanSyntaxError` for other values."""
    parts = [part.strip() for part in convert_truncated_date(value).split(":")]
    if len(parts) > 2:
        raise BooleanSyntaxError("a range of dates has two ends", text, at.start, ["2019:2021"])
    dates = [normal_date(part, text, at) for part in parts]
    start: str | None = None if len(dates) == 2 and dates[0] <= OPEN_START else dates[0]
    end: str | None = None if len(dates) == 2 and dates[-1] >= OPEN_END else dates[-1]
    if start and end and start[: len(end)] > end[: len(start)]:
        raise BooleanSyntaxError("a range of dates starts after its end", text, at.start)
    return Dates(start, end, "entry" if entry else "publication", at)


def normal_date(value: str, text: str, at: Span) -> str:
    """`2019/06/30` with two digits each; a missing month or day stays missing."""
    date = _DIGITS.fullmatch(value) or DATE.fullmatch(value)
    if date is None:
        is_relative = "last" in value.lower() or "day" in value.lower()
        hint = "; a time relative to today changes from run to run, name the dates" if is_relative else ""
        raise BooleanSyntaxError(f"“{value}” is no date{hint}", text, at.start, ["2019", "2019/06", "2019/06/30"])
    year, month, day = date.groups()
    if (month and not 1 <= int(month) <= 12) or (day and not 1 <= int(day) <= 31):
        raise BooleanSyntaxError(f"“{value}” is no date of the calendar", text, at.start, ["year/month/day"])
    return "/".join([year, *(f"{int(part):02d}" for part in (month, day) if part)])


def is_author(words: tuple[str, ...], author: str) -> bool:
    """Whether the words name the author, as in PubMed: `smith j`, `smith ja`, `smith john`, `john smith`, `smith`.

    Records write `Surname, Given`, `Given Surname` or `Surname G.H.`. Either the words are adjacent in the name (surname first, or last, or
    after the first given name), or they are the surname and initials, of which the name may have more: PubMed User Guide, "Searching by
    author".
    """
    *before, initials = [matcher for word in words for matcher in make_matchers(word)]
    for surname, forenames in _read_author(author):
        orders = (" ".join((*surname, *forenames)), " ".join((*forenames, *surname)), " ".join((*forenames[:1], *surname)))
        if next(find_occurrences(Words(words), Column.from_texts(orders)), None) is not None:
            return True
        are_initials = isinstance(initials, str) and len(initials) <= MOST_INITIALS and before == surname
        if are_initials and "".join(name[0] for name in forenames).startswith(str(initials)):
            return True
    return False


def author_initials(author: str) -> list[str]:
    """The initials that `is_author` accepts for this author: `j`, `ja`, and each letter of `Smith JA`, which is no word of the name."""
    forms: list[str] = []
    for _, forenames in _read_author(author):
        initials = "".join(name[0] for name in forenames)
        forms += [initials[:length] for length in range(1, min(len(initials), MOST_INITIALS) + 1)]
        forms += [name for name in forenames if len(name) == 1]
    return list(dict.fromkeys(forms))


def _read_author(author: str) -> Iterator[tuple[list[str], list[str]]]:
    """Surname and given names, in each reading of the name: without a comma `Smith JA` may have initials, as in MEDLINE, or a surname.

    Otherwise the last word is the surname, or what stands before initials: `Smith J.A.`.
    """
    surname, comma, forenames = fold_text(author).partition(",")
    if comma:
        yield separate_words(surname).split(), separate_words(forenames).split()
        return
    parts = surname.split()
    length = len(parts)
    while length and _INITIALS.fullmatch(parts[length - 1]):
        length -= 1
    if 0 < length < len(parts):
        yield separate_words(" ".join(parts[:length])).split(), separate_words(" ".join(parts[length:])).split()
        return
    words = separate_words(surname).split()
    yield words[-1:], words[:-1]
    *names, last = author.split() or [""]
    if 1 < len(last) <= MOST_INITIALS and last.isalpha() and last.isupper() and not all(map(str.isupper, names)):
        yield words[:-1], list(words[-1])


def whole_value(words: Iterable[str]) -> Callable[[list[str]], bool]:
    """A test whether a value has these words and no others. `*` at the very end allows further words, too."""
    parts = [word for word in words if make_matchers(word)]
    return whole([matcher for word in parts for matcher in make_matchers(word)], open_end=bool(parts) and parts[-1].endswith("*"))


def whole(matchers: list[Matcher], *, open_end: bool = False) -> Callable[[list[str]], bool]:
    """A test whether a value matches word by word; `open_end` allows further words."""
    if all(isinstance(matcher, str) for matcher in matchers) and not open_end:
        return lambda value: value == matchers

    def holds(value: list[str]) -> bool:
        if len(value) < len(matchers) or (len(value) > len(matchers) and not open_end):
            return False
        pairs = zip(matchers, value, strict=False)
        return all(word == matcher if isinstance(matcher, str) else matcher.fullmatch(word) for matcher, word in pairs)

    return holds


CURRENT = {
    "ab": "abnormalities", "ad": "administration & dosage", "ae": "adverse effects", "ag": "agonists", "aa": "analogs & derivatives",
    "an": "analysis", "ah": "anatomy & histology", "ai": "antagonists & inhibitors", "bi": "biosynthesis", "bl": "blood",
    "bs": "blood supply", "cf": "cerebrospinal fluid", "cs": "chemical synthesis", "ci": "chemically induced", "ch": "chemistry",
    "cl": "classification", "co": "complications", "cn": "congenital", "cy": "cytology", "df": "deficiency", "di": "diagnosis",
    "dg": "diagnostic imaging", "dh": "diet therapy", "de": "drug effects", "dt": "drug therapy", "ec": "economics", "ed": "education",
    "em": "embryology", "en": "enzymology", "ep": "epidemiology", "es": "ethics", "eh": "ethnology", "et": "etiology", "ge": "genetics",
    "gd": "growth & development", "hi": "history", "im": "immunology", "in": "injuries", "ir": "innervation", "is": "instrumentation",
    "ip": "isolation & purification", "lj": "legislation & jurisprudence", "me": "metabolism", "mt": "methods", "mi": "microbiology",
    "mo": "mortality", "nu": "nursing", "og": "organization & administration", "ps": "parasitology", "py": "pathogenicity",
    "pa": "pathology", "pk": "pharmacokinetics", "pd": "pharmacology", "ph": "physiology", "pp": "physiopathology", "po": "poisoning",
    "pc": "prevention & control", "px": "psychology", "re": "radiation effects", "rt": "radiotherapy", "rh": "rehabilitation",
    "sc": "secondary", "st": "standards", "sn": "statistics & numerical data", "sd": "supply & distribution", "su": "surgery",
    "tu": "therapeutic use", "th": "therapy", "to": "toxicity", "tm": "transmission", "tr": "transplantation", "td": "trends",
    "ul": "ultrastructure", "ur": "urine", "ve": "veterinary", "vi": "virology",
}  # fmt: skip
FORMER = {
    "ct": ("contraindications", ""),
    "du": ("diagnostic use", ""),
    "ma": ("manpower", ""),
    "ra": ("radiography", "diagnostic imaging"),
    "ri": ("radionuclide imaging", "diagnostic imaging"),
    "se": ("secretion", "metabolism"),
    "us": ("ultrasonography", "diagnostic imaging"),
    "ut": ("utilization", "statistics & numerical data"),
}
"""Code: the former name, and the qualifier that NLM uses instead."""
QUALIFIERS = CURRENT | {code: name for code, (name, _) in FORMER.items()}
_ENTRY_TERMS = {"pathophysiology": "physiopathology", "aetiology": "etiology", "side effects": "adverse effects"}
_AND = re.compile(r"&|\band\b", re.IGNORECASE)
_SUCCESSORS = dict(FORMER.values())


def _normal(name: str) -> str:
    """In lower case without `and`, which the words of a term do not have as `&`."""
    return " ".join(_AND.sub(" ", name).split()).lower()


_NAMES = {_normal(name): name for name in QUALIFIERS.values()}
AMPERSAND_PAIRS = frozenset((words[0], words[2]) for name in _NAMES.values() if len(words := name.split()) > 2 and words[1] == "&")
"""The words around `&` in names of qualifiers."""


def find_qualifier(text: str) -> str | None:
    """The qualifier's name for a name or a two-letter code; a text with a wildcard stays, if it matches a name. None for any other."""
    name = _normal(text)
    if name in _NAMES:
        return _NAMES[name]
    if name in QUALIFIERS:
        return QUALIFIERS[name]
    if name in _ENTRY_TERMS:
        return _ENTRY_TERMS[name]
    if WILD.search(text):
        pattern = re.compile(".*".join(map(re.escape, WILD.split(name))))
        return text if any(pattern.fullmatch(known) for known in _NAMES) else None
    return None


def find_successor(name: str) -> str | None:
    """For a former qualifier the current one, or an empty text where there is none; None for a current qualifier."""
    return _SUCCESSORS.get(name)


def list_qualifiers() -> list[str]:
    """All names and codes, for suggestions."""
    return sorted({*_NAMES.values(), *QUALIFIERS})

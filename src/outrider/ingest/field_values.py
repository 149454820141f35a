"""Parsing of field values: text, lists of names or keywords, author strings, years, counts.

Nothing is guessed: a value that does not state a year or a number gives None.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from html import unescape

from pydantic import JsonValue

AND = re.compile(r"\s*(?:,|\s)\s*(?:and|&)\s+", re.IGNORECASE)
INITIALS = re.compile(r"(?:[^\W\d_]{1,2}\.[\s-]*|[^\W\d_](?:[\s-]+|$))+")
LEADING_INITIAL = re.compile(r"(?:^|\s)[^\W\d_]\.?\s+\w{2,}")
RUN_TOGETHER = re.compile(r"(?<=[A-Z]\.)(?=[^\W\d_a-z][\w'’-]+\s)")
FAMILY_AND_INITIALS = re.compile(r"[^\W\d_][\w'’-]+(?:\s[\w'’-]+)*(?:\s(?:[A-Z]\.)(?:[\s-]?[A-Z]\.)*)(?:\s(?:Jr|Sr|I{2,3}|IV)\.?)?")
NAME_GAP = re.compile(r"\s*;\s*|\s*,?\s+and\s+|\s*,\s*")
MAX_AUTHOR_CHARS = 10_000
MAX_DEPTH = 64
"""Values nested deeper are refused: parsers and hashes downstream recurse."""
ENTITY = re.compile(r"&(?:#\d{1,7}|#x[\da-f]{1,6}|[a-z]{2,8}\d{0,2});", re.IGNORECASE)
"""Decoded before a list is cut at `;`."""
LINE_END = re.compile(r"[\n\r]")
SURROGATE = re.compile(r"[\ud800-\udfff]")
YEAR = re.compile(r"(?<!\d)(1\d{3}|20\d{2}|21\d{2})(?!\d)")
COMPACT_DATE = re.compile(r"((?:1\d|20|21)\d{2})(?:0[1-9]|1[0-2])(?:[0-2]\d|3[01])")
EXACT_YEAR = re.compile(r"\d{4}(?:\.0)?")
YEARS = range(1000, 2200)
WHOLE_NUMBER = re.compile(r"\d{1,18}(?:\.0+)?")
NAME_KEYS = (
    ("family", "last", "lastName", "last_name", "LN"),
    ("given", "first", "firstName", "first_name", "FN"),
    ("name", "literal", "display_name", "full_name"),
)
"""Keys of a family name, of given names, and of a whole name."""
QUOTED = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
PYTHON_LIST = re.compile(rf"\[\s*{QUOTED}(?:\s*,\s*{QUOTED})*\s*\]", re.DOTALL)
ABSENT_WORD = r"(?:nan|NaN|NAN|NaT|None|null|NULL|<NA>|#N/A|N/A|n/a)"
ABSENT = re.compile(
    rf"{ABSENT_WORD}(?:\s*[-–]+\s*{ABSENT_WORD})?|"
    r"(?i:\[no [\w ()/]{3,40} available\]|\[not available\]\.?|\(?no pagination(?: specified)?\)?)"
)
"""What pandas, R and databases write where there is no value."""
MAX_ABSENT_CHARS = 60
ISSN = re.compile(r"(?<![\dXx])(?<!\d-)(\d{4})[-–]?(\d{3}[\dXx])(?![\dXx-])")
ISSN_NOTE = re.compile(r"\([^()]*\)|\b[ep]?-?ISSN\b-?:?", re.IGNORECASE)
SOURCES = (
    re.compile(r"(?P<venue>.+?) \((?P<year>\d{4})\) (?P<volume>[^\s:()]+)?(?::(?P<issue>[^\s()]+))?(?: \((?P<pages>[^()]+)\))?(?:\.|$)"),
    re.compile(
        r"(?P<venue>.+?)\.? (?:[A-Z][a-z]+(?:[/-][A-Z][a-z]+)? )?(?P<year>\d{4})(?: [A-Z][a-z]+(?:[/-][A-Z][a-z]+)?(?: \d{1,2})?)?;"
        r"(?P<volume>[^\s:(]+)(?: ?\((?P<issue>[^()]*)\))?(?::(?P<pages>[\w-]+))?(?:[.;]|$)"
    ),
    re.compile(
        r"(?P<venue>.+?)\. (?:Conference:.*\. )?(?:Vol\.? ?)?(?P<volume>(?!(?:1[89]|20)\d\d[; ])\d+[A-Za-z]?)"
        r"(?: ?\((?P<issue>(?!pp?[ .]|no pag)[^()]*)\))?(?P<tail>$|[:,. (].*)"
    ),
)
"""Journal, volume, issue, pages and year in one line: Embase, Journals@Ovid and PubMed, other databases of Ovid."""
MAX_SOURCE_CHARS = 2_000
DIGIT = re.compile(r"\d")
SOURCE_PAGES = re.compile(r"(?:^:\s?|\bpp?\.?\s?|:\s)([A-Za-z]*\d\w*(?:[-–]\w+)?)|,\s(\d+[-–]\d+)\.?$")
SOURCE_YEAR = re.compile(r"(?<=[\s,(])((?:1[89]|20)\d\d)(?=[\s.,;)]|$)")
GENERATIONS = frozenset({"jr", "sr", "ii", "iii", "iv", "2nd", "3rd", "md", "phd"})
"""What follows a name and is none."""
MAX_INITIALS = 4
BRACKETS = r"()\[\]（）"


class TooDeep(ValueError):
    """A value is nested more than `MAX_DEPTH` levels deep."""


def clean(value: object, depth: int = 0) -> JsonValue:
    """The same JSON value without what no store takes: null characters, lone surrogates (U+FFFD instead), NaN (null instead).

    Raises `TooDeep`.
    """
    if depth > MAX_DEPTH:
        raise TooDeep(f"nested more than {MAX_DEPTH} levels deep")
    if isinstance(value, str):  # as most are
        text = value.replace("\x00", "")
        return text if text.isascii() else SURROGATE.sub("\ufffd", text)
    match value:
        case list():
            return [clean(item, depth + 1) for item in value]
        case dict():
            return {str(clean(str(key))): clean(item, depth + 1) for key, item in value.items()}
        case float() if not math.isfinite(value):
            return None
        case None | bool() | int() | float():
            return value
    raise TypeError(f"no JSON value: {type(value).__name__}")


def format_scalar(value: JsonValue) -> str | None:
    """A string or number as text, whole numbers without a fraction; None for anything else and for blank text."""
    if isinstance(value, str):
        return value.strip() or None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def one_line(text: str) -> str:
    """The text with single blanks between words and no null characters."""
    return " ".join(text.replace("\x00", "").split())


def is_empty(value: JsonValue) -> bool:
    """True of None, of blank text, and of an empty list or object."""
    if isinstance(value, str):
        return not value or value.isspace()
    return value is None or (isinstance(value, list | dict) and not value)


def parse_list(value: JsonValue, *, commas: bool = False) -> tuple[str, ...]:
    """Names or keywords: a list, a list written as a string (JSON's or Python's), else a string cut at `;` and line ends.

    With `commas`, a string without those is cut at commas. Persons given as objects become `Family, Given`.
    """
    if isinstance(value, str):
        literal = parse_list_literal(value)
        if literal is None:
            value = ENTITY.sub(lambda match: unescape(match.group()), value) if "&" in value else value
            literal = split_list(value, commas=commas)
        value = literal
    items = value if isinstance(value, list) else [value]
    names = (parse_person(item) if isinstance(item, dict) else format_scalar(item) for item in items)
    return tuple(line for name in names if name and (line := one_line(name)))


def parse_person(person: Mapping[str, JsonValue]) -> str | None:
    """The name in an object such as CSL's `{"family": ..., "given": ...}` or `{"name": ...}`."""
    family, first, whole = (
        next((text for key in keys if (text := format_scalar(person.get(key)))), None) for keys in NAME_KEYS
    )  # fmt: skip
    if not family:
        return whole or first
    # CSL: `van Gogh, Vincent` and `Beethoven, Ludwig van`
    family = " ".join(filter(None, (format_scalar(person.get("non-dropping-particle")), family)))
    first = " ".join(filter(None, (first, format_scalar(person.get("dropping-particle")))))
    return ", ".join(filter(None, (family, first, format_scalar(person.get("suffix")))))


def parse_year(value: JsonValue) -> tuple[int | None, bool]:
    """The year in a value, and whether the value holds nothing else: `2019` does not, `2019/08/01` and `c2019` do."""
    if isinstance(value, dict):  # CSL: {"date-parts": [[2019, 8, 1]]}, or as text
        parts = value.get("date-parts")
        first = parts[0] if isinstance(parts, list) and parts else None
        year = parse_year(first[0])[0] if isinstance(first, list) and first else None
        if year is None:  # Zotero: {"date-parts": [[]], "literal": "Spring 2009"}
            return parse_year(value.get("raw") or value.get("literal"))[0], False
        return year, isinstance(first, list) and len(first) == 1
    text = format_scalar(value) if not isinstance(value, list) else None
    if text is None:
        return None, False
    if EXACT_YEAR.fullmatch(text):
        year = int(float(text))
        return (year, True) if year in YEARS else (None, False)
    match = COMPACT_DATE.fullmatch(text) or YEAR.search(text)
    return (int(match.group(1)), text.strip("/ -") == match.group(1)) if match else (None, False)


def parse_count(value: JsonValue) -> int | None:
    """The whole number that a value is; None for any other."""
    text = format_scalar(value)
    return int(text.partition(".")[0]) if text and WHOLE_NUMBER.fullmatch(text) else None


def parse_list_literal(text: str) -> list[JsonValue] | None:
    """The list of strings that a string spells as JSON or Python, as programs write it into spreadsheets; else None."""
    text = text.strip()
    if not (text.startswith("[") and text.endswith("]")):
        return None
    try:
        items = json.loads(text)
    except (ValueError, RecursionError):
        quoted = re.findall(QUOTED, text, re.DOTALL) if PYTHON_LIST.fullmatch(text) else []
        return [re.sub(r"\\(.)", r"\1", item[1:-1]) for item in quoted] or None
    return list(items) if isinstance(items, list) and all(isinstance(item, str) for item in items) else None


def split_list(text: str, *, commas: bool) -> list[JsonValue]:
    """The text cut at semicolons and line ends; with `commas` at commas, if it has neither.

    Nothing is cut inside parentheses: `cyst (diagnosis; surgery); colon`, `1,2-xylene, benzene`.
    """
    lines = LINE_END.split(text.strip())
    items = [item for line in lines for item in _cut(line, ";；")]
    return [*(_cut(lines[0], ",") if commas and len(items) == 1 else items)]


def _cut(line: str, separators: str) -> list[str]:
    """The line cut at separators outside closed parentheses. A comma between digits is no separator where others have a blank behind."""
    if not any(separator in line for separator in separators):
        return [line]
    opened: list[int] = []
    pairs: dict[int, int] = {}
    for bracket in re.finditer(rf"[{BRACKETS}]", line):
        if bracket.group() in "([（":
            opened.append(bracket.start())
        elif opened:
            pairs[opened.pop()] = bracket.start()
    closing = set(pairs.values())
    spaced = separators == "," and ", " in line
    parts: list[str] = []
    start = depth = 0
    for match in re.finditer(rf"[{BRACKETS}{separators}]", line):
        at = match.start()
        depth += (at in pairs) - (at in closing)
        if match.group() in separators and not depth and not (spaced and line[at - 1 : at].isdigit() and line[at + 1 : at + 2].isdigit()):
            parts.append(line[start:at])
            start = at + 1
    return [*parts, line[start:]]


@lru_cache(maxsize=1_024)
def split_authors(text: str) -> tuple[str, ...]:
    """The names in one string, in order; the whole string if it does not show where a name ends.

    Recognised: `Blum, A., Furst, M., & Rudich, S.`, `A. Blum, M. Furst and S. Rudich`, `Alfons Kemper, Ada Lovelace, Alan Turing`,
    `Liu R., Adler D.G.`, `Liu R, Adler DG`, and ASySD's `Adeli K.Lewis G. F.`. `Garcia Marquez, Gabriel Jose` may be one name, and is not
    cut.
    """
    if len(text) > MAX_AUTHOR_CHARS:
        return (text,)
    names = text.strip(" ,")
    has_and = "&" in names or "and" in names.lower()  # most have none, and the expression is slow
    parts = AND.split(names) if has_and else [names]
    return tuple(name for part in parts if part for name in _split_at_commas(part)) or (text,)


def _split_at_commas(part: str) -> Sequence[str]:
    pieces = [piece for piece in (piece.strip() for piece in part.split(",")) if piece]
    if len(pieces) < 2:
        names = [name.strip() for name in RUN_TOGETHER.split(part)]
        return names if all(map(FAMILY_AND_INITIALS.fullmatch, names)) else [part.strip(" ,")]
    names = []
    for place, piece in enumerate(pieces):  # initials and generations that stand alone belong to the name before them
        if place and (
            piece.casefold().strip(".") in GENERATIONS or (INITIALS.fullmatch(piece) and not INITIALS.fullmatch(pieces[place - 1]))
        ):
            names[-1] += f", {piece}"
        else:
            names.append(piece)
    initials = [_ends_in_initials(name) for name in names]
    if len(names) > 1 and (all(initials) or (initials[0] and names[0].endswith("."))):
        return names  # a family name comes first without a comma, so that commas stand between names
    certain = len(names) < len(pieces) or len(names) > 2 or any(map(LEADING_INITIAL.search, names))
    return names if len(names) > 1 and all(" " in name for name in names) and certain else [part.strip(" ,")]


def _ends_in_initials(name: str) -> bool:
    """`Liu R.`, `van der Berg A.-M.`, `Adler DG`, `Liu R. Jr.`; not `DE LA CRUZ`."""
    words = name.replace(",", " ").split()
    if words and words[-1].casefold().strip(".") in GENERATIONS:
        words.pop()
    if len(words) < 2 or "," in name:
        return False
    last = re.sub(r"[.\-’']", "", words[-1])
    dotted = words[-1].endswith(".") or "." in words[-1]
    return last.isalpha() and last.isupper() and len(last) <= MAX_INITIALS and (dotted or any(map(str.islower, "".join(words[:-1]))))


def split_name_line(line: str) -> tuple[str, ...]:
    """Names from one line, cut at `;` if it has one; else at ` and ` and commas, unless it is one `Surname, Given`."""
    if ";" in line:
        names = line.split(";")
    elif line.count(",") == 1 and " and " not in line and " " not in line.split(",", maxsplit=1)[0].strip():
        names = [line]
    else:
        names = NAME_GAP.split(line)
    return tuple(filter(None, (name.strip(" ,") for name in names)))


def is_absent(text: str) -> bool:
    """Whether a text stands for a missing value: blank, `nan` and what else programs write for one, `[No abstract available]`."""
    text = text.strip()
    return not text or (len(text) <= MAX_ABSENT_CHARS and ABSENT.fullmatch(text) is not None)


def parse_issns(text: str) -> tuple[tuple[str, ...], str]:
    """Return the valid ISSNs in a text (ISO 3297) as `1234-5679`, each once, and what else it says; notes such as `(Print)` say nothing."""
    issns: dict[str, None] = {}

    def take(match: re.Match[str]) -> str:
        digits = (match.group(1) + match.group(2)).upper()
        values = [10 if digit == "X" else int(digit) for digit in digits]
        if sum(value * (8 - place) for place, value in enumerate(values)) % 11:
            return match.group()
        issns[f"{digits[:4]}-{digits[4:]}"] = None
        return ""

    rest = ISSN_NOTE.sub("", ISSN.sub(take, text)) if text else ""
    return tuple(issns), rest.strip(" ;,.\n")


def parse_source(text: str) -> dict[str, str]:
    """Venue, year, volume, issue and pages of the one line in which Ovid and Embase name them; empty for another form.

    `Lancet. 390(10095):697-708, 2017 Aug 12.`, `Lancet (2017) 390:10095 (697-708)`, `Lancet August 2017;390(10095):697-708`.
    """
    if len(text) > MAX_SOURCE_CHARS or not DIGIT.search(text):  # as the name of a database, which others write there
        return {}
    match = next(filter(None, (source.match(text) for source in SOURCES)), None)
    if match is None:
        return {}
    parts = match.groupdict()
    tail = parts.pop("tail", None) or ""
    for name, pattern in (("pages", SOURCE_PAGES), ("year", SOURCE_YEAR)):
        in_tail = pattern.search(tail)
        parts[name] = parts.get(name) or (next(filter(None, in_tail.groups())) if in_tail else None)
    return {name: value.strip(" .") for name, value in parts.items() if value and value.strip(" .")}

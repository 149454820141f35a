"""Several authors in one string, as tables and catalogues write them.

`Blum, A., Furst, M., & Rudich, S.`, `A. Blum, M. Furst and S. Rudich`, `Alfons Kemper, Ada Lovelace, Alan Turing`, and ASySD's
`Adeli K.Lewis G. F.`. Cut only where the parts must be names: `Garcia Marquez, Gabriel Jose` may be one, and stays as it is.

Values as files give them, read: text, lists of names, years, counts. Nothing is guessed: what a value does not say is None.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from html import unescape

from pydantic import JsonValue

AND = re.compile(r"\s*(?:,|\s)\s*(?:and|&)\s+", re.IGNORECASE)
INITIALS = re.compile(r"(?:[^\W\d_]{1,2}\.[\s-]*|[^\W\d_](?:[\s-]+|$))+")
LEADING_INITIAL = re.compile(r"(?:^|\s)[^\W\d_]\.?\s+\w{2,}")
RUN_TOGETHER = re.compile(r"(?<=[A-Z]\.)(?=[^\W\d_a-z][\w'’-]+\s)")
FAMILY_AND_INITIALS = re.compile(r"[^\W\d_][\w'’-]+(?:\s[\w'’-]+)*(?:\s(?:[A-Z]\.)(?:[\s-]?[A-Z]\.)*)(?:\s(?:Jr|Sr|I{2,3}|IV)\.?)?")
MAX_CHARS = 10_000


def parted_authors(said: str) -> tuple[str, ...]:
    """The names in one string, in order; the string itself where it does not show where one ends."""
    if len(said) > MAX_CHARS:
        return (said,)
    parts = [part for part in AND.split(said.strip(" ,")) if part]
    return tuple(name for part in parts for name in _parted(part)) or (said,)


def _parted(part: str) -> Sequence[str]:
    pieces = [piece for piece in (piece.strip() for piece in part.split(",")) if piece]
    if len(pieces) < 2:
        names = [name.strip() for name in RUN_TOGETHER.split(part)]
        return names if all(map(FAMILY_AND_INITIALS.fullmatch, names)) else [part.strip(" ,")]
    names = list(_paired(pieces))
    if len(names) == 1 or not all(" " in name for name in names):
        return [part.strip(" ,")]
    told = len(names) < len(pieces) or len(names) > 2 or any(map(LEADING_INITIAL.search, names))
    return names if told else [part.strip(" ,")]


def _paired(pieces: Sequence[str]) -> Iterator[str]:
    """Initials that stand alone belong to the name before them."""
    at = 0
    while at < len(pieces):
        initials = at + 1 < len(pieces) and not INITIALS.fullmatch(pieces[at]) and INITIALS.fullmatch(pieces[at + 1])
        yield f"{pieces[at]}, {pieces[at + 1]}" if initials else pieces[at]
        at += 2 if initials else 1


MAX_DEPTH = 64
"""Values nested deeper are refused: parsers and hashes downstream recurse."""
ENTITY = re.compile(r"&(?:#\d{1,7}|#x[\da-f]{1,6}|[a-z]{2,8}\d{0,2});", re.IGNORECASE)
"""Written out before a list is cut at `;`."""
SURROGATE = re.compile(r"[\ud800-\udfff]")
YEAR = re.compile(r"(?<!\d)(1\d{3}|20\d{2}|21\d{2})(?!\d)")
COMPACT_DATE = re.compile(r"((?:1\d|20|21)\d{2})(?:0[1-9]|1[0-2])(?:[0-2]\d|3[01])")
EXACT_YEAR = re.compile(r"\d{4}(?:\.0)?")
YEARS = range(1000, 2200)
WHOLE = re.compile(r"\d{1,18}(?:\.0+)?")
FAMILY = ("family", "last", "lastName", "last_name", "LN")
GIVEN = ("given", "first", "firstName", "first_name", "FN")
NAMED = ("name", "literal", "display_name", "full_name")
QUOTED = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
PYTHON_LIST = re.compile(rf"\[\s*{QUOTED}(?:\s*,\s*{QUOTED})*\s*\]", re.DOTALL)


class TooDeep(ValueError):
    """A value is nested more than `MAX_DEPTH` levels deep."""


def clean(value: object, depth: int = 0) -> JsonValue:
    """The same JSON value without what no store takes: null characters, lone surrogates (U+FFFD instead), NaN (null instead).

    Raises `TooDeep`.
    """
    if depth > MAX_DEPTH:
        raise TooDeep(f"nested more than {MAX_DEPTH} levels deep")
    match value:
        case str():
            return SURROGATE.sub("\ufffd", value.replace("\x00", ""))
        case list():
            return [clean(item, depth + 1) for item in value]
        case dict():
            return {str(clean(str(key))): clean(item, depth + 1) for key, item in value.items()}
        case float() if not math.isfinite(value):
            return None
        case None | bool() | int() | float():
            return value
    raise TypeError(f"no JSON value: {type(value).__name__}")


def scalar(value: JsonValue) -> str | None:
    """A string or number as text, whole numbers without a fraction; None for anything else and for nothing."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    return text.strip() or None


def one_line(text: str) -> str:
    return " ".join(text.replace("\x00", "").split())


def empty(value: JsonValue) -> bool:
    return value is None or (isinstance(value, str | list | dict) and not value) or (isinstance(value, str) and not value.strip())


def listed(value: JsonValue, *, commas: bool = False) -> tuple[str, ...]:
    """Names or keywords: a list as it is, a list written into a string (JSON's or Python's), else cut at `;` and line ends.

    With `commas` a string without those is cut at commas. Persons given as objects become `Family, Given`.
    """
    if isinstance(value, str):
        spelled = spelled_out(value)
        value = spelled if spelled is not None else cut(ENTITY.sub(lambda found: unescape(found.group()), value), commas=commas)
    items = value if isinstance(value, list) else [value]
    names = (person(item) if isinstance(item, dict) else scalar(item) for item in items)
    return tuple(line for name in names if name and (line := one_line(name)))


def person(given: Mapping[str, JsonValue]) -> str | None:
    """The name in an object such as CSL's `{"family": ..., "given": ...}` or `{"name": ...}`."""
    family, first, whole = (_first_scalar(given, keys) for keys in (FAMILY, GIVEN, NAMED))
    return f"{family}, {first}" if family and first else family or whole or first


def year_of(value: JsonValue) -> tuple[int | None, bool]:
    """The year that a value states, and whether it states nothing else: `2019` does, `2019/08/01` and `c2019` say more."""
    if isinstance(value, dict):  # CSL: {"date-parts": [[2019, 8, 1]]}
        parts = value.get("date-parts")
        first = parts[0] if isinstance(parts, list) and parts else None
        year = first[0] if isinstance(first, list) and first else None
        return year_of(year)[0], isinstance(first, list) and len(first) == 1
    text = scalar(value) if not isinstance(value, list) else None
    if text is None:
        return None, False
    if EXACT_YEAR.fullmatch(text):
        year = int(float(text))
        return (year, True) if year in YEARS else (None, False)
    found = COMPACT_DATE.fullmatch(text) or YEAR.search(text)
    return (int(found.group(1)), text.strip("/ -") == found.group(1)) if found else (None, False)


def count_of(value: JsonValue) -> int | None:
    text = scalar(value)
    return int(text.partition(".")[0]) if text and WHOLE.fullmatch(text) else None


def _first_scalar(given: Mapping[str, JsonValue], keys: tuple[str, ...]) -> str | None:
    return next((text for key in keys if (text := scalar(given.get(key)))), None)


def spelled_out(text: str) -> list[JsonValue] | None:
    """The list of strings that a string spells out, as spreadsheets get it from programs."""
    text = text.strip()
    if not (text.startswith("[") and text.endswith("]")):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        quoted = re.findall(QUOTED, text, re.DOTALL) if PYTHON_LIST.fullmatch(text) else []
        return [re.sub(r"\\(.)", r"\1", item[1:-1]) for item in quoted] or None
    return list(found) if isinstance(found, list) and all(isinstance(item, str) for item in found) else None


def cut(text: str, *, commas: bool) -> list[JsonValue]:
    if commas and not re.search(r"[;\n]", text.strip()):
        return [*text.split(",")]
    return [*re.split(r"[;\n\r]", text)]

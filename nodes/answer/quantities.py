"""Numbers of a text with sign, percent, bound and measure, and those that a sentence adds.

Amounts are compared as decimal texts, so that no digit is lost. What can be read in two ways (`1,5` as a decimal or as a list, the 5 of
`5-10 %` with or without the percent sign) has several readings.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from typing import NamedTuple

from outrider.text.strip_markup import fold_text

DASHES = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212\ufe63\uff0d", "-"))
MIDDLE_DOT = re.compile(r"(?<=\d)·(?=\d)")
"""The decimal point of some journals."""
ENCLOSED = re.compile("[\u2460-\u249b\u24ea-\u24ff\u2776-\u2793\u3251-\u325f\u32b1-\u32bf]")
"""Numbers in circles, in brackets and with a full stop."""
HAN_DIGITS, HAN_PLACES = "零一二三四五六七八九", {"十": 10, "百": 100, "千": 1_000}
HAN_NUMBER = re.compile(rf"[〇{HAN_DIGITS}{''.join(HAN_PLACES)}]{{2,}}")
"""One such sign alone is mostly part of a word."""
UNITS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
WORDS = {word: str(value) for value, word in enumerate(UNITS.split())}
TENS = {word: f"{value}0" for value, word in enumerate("twenty thirty forty fifty sixty seventy eighty ninety".split(), start=2)}
SCALES = {"hundred": 2, "thousand": 3, "million": 6, "mn": 6, "billion": 9, "bn": 9, "trillion": 12}
"""Places by which the decimal point moves."""
SHORT_SCALES = {"k": 3, "m": 6, "b": 9}
"""As in `30M downloads`; `5m` may also be a measure."""
_SCALE = rf"[\s-]?(?P<scale>{'|'.join(SCALES)})s?\b"
_WORD = "|".join(sorted((*WORDS, *TENS), key=len, reverse=True))
QUANTITY = re.compile(
    rf"""
    (?P<number>(?<![\d.,])\d{{1,3}}(?:[ \u00a0\u2009\u202f'’]\d{{3}})+(?!\d)(?:\.\d+)?  # 10 000
      | \d+(?:[.,]\d+)* | (?<![\w.])\.\d+)
      (?:[eE](?P<exponent>[+-]?\d{{1,2}})(?!\w))?
    | (?P<fraction>[\u00bc-\u00be\u2150-\u215e])
    | \b(?P<tens>{"|".join(TENS)})-(?P<ones>{"|".join(UNITS.split()[1:10])})\b
    | \b(?P<word>{_WORD})(?=(?:-?fold)?\b)
    | \ban?\ (?P<article>)(?=(?:{"|".join(SCALES)})\b)
    """,
    re.VERBOSE | re.IGNORECASE,
)
AFTER = re.compile(
    rf"(?:{_SCALE}|(?P<short>[kmb])(?!\w))?(?P<percent>\s?(?:%|per[ -]?cent\b|pct\b|percentage\s+points?\b))?", re.IGNORECASE
)
MEASURES = {
    name: measure
    for measure, names in {
        "g": "g gram grams", "kg": "kg kilogram kilograms", "mg": "mg milligram milligrams", "ug": "ug µg μg mcg microgram micrograms",
        "ng": "ng", "l": "l litre litres liter liters", "dl": "dl", "ml": "ml", "m": "metre metres meter meters", "km": "km", "cm": "cm",
        "mm": "mm", "nm": "nm", "um": "um µm μm", "s": "s sec secs second seconds", "ms": "ms millisecond milliseconds",
        "min": "min mins minute minutes", "h": "h hr hrs hour hours", "d": "day days", "wk": "wk wks week weeks", "mo": "month months",
        "y": "yr yrs year years", "kb": "kb kib", "mb": "mb mib", "gb": "gb gib", "tb": "tb tib", "hz": "hz", "khz": "khz", "mhz": "mhz",
        "ghz": "ghz", "k": "kelvin", "mmol": "mmol", "umol": "umol µmol μmol", "mol": "mol",
        "usd": "usd dollar dollars", "eur": "eur euro euros",
    }.items()
    for name in names.split()
}  # fmt: skip
"""Measures by their names. Only two known ones that differ are a contradiction."""
MEASURE = re.compile(rf"[\s-]?({'|'.join(sorted(map(re.escape, MEASURES), key=len, reverse=True))})(?![\w])", re.IGNORECASE)
_LESS = r"(?:<|≤|⩽|(?:less|fewer|lower|smaller|shorter|younger)\s+than|below|at\s+most|(?:no|not)\s+(?:more|greater)\s+than|up\s+to)"
_MORE = (
    r"(?:>|≥|⩾|(?:more|greater|higher|larger|longer|older)\s+than|above|exceed(?:s|ed|ing)?|at\s+least|(?:no|not)\s+(?:less|fewer)\s+than)"
)
BOUND = re.compile(rf"(?:(?P<less>{_LESS})|(?P<more>{_MORE}))=?\s*(?:an?\s+)?[+-]?\Z", re.IGNORECASE)
BOUND_AFTER = re.compile(
    r"\s*(?:(?:years?|months?|days?|hours?)\s+)?(?:of\s+age\s+)?(?:or|and)\s+"
    r"(?:(?P<less>less|fewer|lower|younger|shorter|below|under|earlier)|(?P<more>more|older|greater|higher|longer|above|over|later|newer|up))\b(?!\s+(?:an?|the|than|\d))"
    r"|(?P<plus>\+(?!\s*\w))",
    re.IGNORECASE,
)
"""`65 years or older`, `3.8+`."""
NEAR = 24
"""Characters before a number in which a bound stands."""
CHAIN = re.compile(r"\s*(?:-|to|and|or|,|/|vs\.?|versus|through|until|&|,\s*and|,\s*or)\s*[+-]?\Z", re.IGNORECASE)
"""What stands between the numbers of a range or list, whose last one has the percent sign, scale or measure of all."""
MAX_CHAIN = 10
PRONOUN_BEFORE = re.compile(r"\b(?:no|this|that|the|each|any|which|every|some|such|another|other)\s+\Z", re.IGNORECASE)
PRONOUN_AFTER = re.compile(r"\s+(?:of|another|or\s+more|can|may|might|should|must|could|would|needs?|has\s+to)\b", re.IGNORECASE)
"""Where `one` is no number."""
THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?\Z")
SPACED = re.compile(r"[ \u00a0\u2009\u202f'’]")


class Value(NamedTuple):
    amount: str
    """Decimal digits without leading or trailing zeros, with a minus sign; a version such as `3.11.2` as it stands."""
    percent: bool = False
    bound: str = ""
    """`<` for at most or less than, `>` for at least or more than, else empty."""
    measure: str = ""


Readings = tuple[tuple[Value, ...], ...]
"""The ways to read one quantity; each may be several numbers."""


class _Part(NamedTuple):
    """A quantity with its place. Each amount is a way to read it."""

    start: int
    end: int
    amounts: tuple[tuple[str, ...], ...]
    negative: bool
    bound: str
    scale: int
    short_scale: int
    percent: bool
    measure: str


def read_quantities(text: str) -> list[Readings]:
    """All numbers of a text, in order."""
    plain = ENCLOSED.sub(lambda match: f" {unicodedata.numeric(match[0]):.0f} ", fold_text(text).translate(DASHES))
    plain = HAN_NUMBER.sub(lambda match: f" {_read_han_number(match[0])} ", MIDDLE_DOT.sub(".", plain))
    parts = list(_find_parts(plain))
    quantities: list[Readings] = []
    for at, part in enumerate(parts):
        scales, percents, measures = {part.scale, part.short_scale}, {part.percent}, {part.measure}
        # What stands behind the last of a list belongs to all.
        for before, after in pairwise(parts[at : at + MAX_CHAIN]):
            if (before.scale or before.percent or before.measure) or not CHAIN.fullmatch(plain[before.end : after.start]):
                break
            scales |= {after.scale, after.short_scale}
            percents.add(after.percent)
            measures.add(after.measure)
        ways = product(part.amounts, sorted(scales), sorted(percents), sorted(measures))
        quantities.append(
            tuple(
                tuple(Value(_place(amount, scale, negative=part.negative), percent, part.bound, measure) for amount in amounts)
                for amounts, scale, percent, measure in ways
            )
        )
    return quantities


def find_new_numbers(sentence: str, texts: Sequence[str]) -> list[str]:
    """Amounts of the sentence that no text has; with another sign, bound or measure an amount is another one."""
    values = {value for text in texts for readings in read_quantities(text) for reading in readings for value in reading}
    by_amount: dict[tuple[str, bool], list[Value]] = {}
    for value in values:
        by_amount.setdefault((value.amount, value.percent), []).append(value)

    def is_in_texts(value: Value) -> bool:
        same = by_amount.get((value.amount, value.percent), ())
        measures = {one.measure for one in same} - {""}
        is_other_measure = value.measure and measures and value.measure not in measures
        return not is_other_measure and any(value.bound in ("", one.bound) for one in same)

    return [
        " ".join(value.amount for value in readings[0])
        for readings in read_quantities(sentence)
        if not any(all(map(is_in_texts, reading)) for reading in readings)
    ]


def _find_parts(plain: str) -> Iterator[_Part]:
    for match in QUANTITY.finditer(plain):
        start = match.start()
        if (match["word"] or "").lower() == "one" and (
            PRONOUN_BEFORE.search(plain[max(0, start - NEAR) : start]) or PRONOUN_AFTER.match(plain, match.end())
        ):
            continue
        after = AFTER.match(plain, match.end())
        assert after is not None  # noqa: S101 - it also matches nothing
        end = after.end()
        measure = None if after["percent"] else MEASURE.match(plain, end)
        bound = BOUND.search(plain[max(0, start - NEAR) : start])
        above = BOUND_AFTER.match(plain, end)
        yield _Part(
            start,
            measure.end() if measure else end,
            _read_amounts(match),
            negative=_is_negative(plain, start),
            bound=("<" if bound["less"] else ">") if bound else ("<" if above["less"] else ">") if above else "",
            scale=SCALES[after["scale"].lower()] if after["scale"] else 0,
            short_scale=SHORT_SCALES.get((after["short"] or "").lower(), SCALES.get((after["scale"] or "").lower(), 0)),
            percent=bool(after["percent"]),
            measure=MEASURES[measure[1].lower()] if measure else "",
        )


def _read_han_number(signs: str) -> int:
    """`十三`, `一百二十` by places, `一三` by digits."""
    digits = [0 if sign == "〇" else HAN_DIGITS.find(sign) for sign in signs]
    if HAN_PLACES.keys().isdisjoint(signs):
        return int("".join(map(str, digits)))
    total = digit = 0
    for sign, value in zip(signs, digits, strict=True):
        if place := HAN_PLACES.get(sign):
            total, digit = total + (digit or 1) * place, 0
        else:
            digit = value
    return total + digit


def _is_negative(plain: str, start: int) -> bool:
    """Whether a minus sign stands before the number: no hyphen of a word or range."""
    if start == 0 or plain[start - 1] != "-":
        return False
    before = plain[max(0, start - NEAR) : start - 1]
    return not before or ((before[-1] in "([{=<>≤≥~±:;,/\"'" or before[-1].isspace()) and not re.search(r"[\d%]\s*\Z", before))


def _read_amounts(match: re.Match[str]) -> tuple[tuple[str, ...], ...]:
    if match["tens"]:
        return ((str(int(TENS[match["tens"].lower()]) + int(WORDS[match["ones"].lower()])),),)
    if match["word"]:
        word = match["word"].lower()
        return ((WORDS.get(word) or TENS[word],),)
    if match["fraction"]:
        return ((f"{unicodedata.numeric(match['fraction']):.6f}",),)
    if match["article"] is not None:
        return (("1",),)
    digits = "".join(char if char.isascii() else str(unicodedata.digit(char, 0)) if char.isdigit() else char for char in match["number"])
    exponent = int(match["exponent"] or 0)
    return tuple(tuple(_shift(one, exponent) for one in reading) for reading in _read_digits(digits))


def _read_digits(digits: str) -> list[tuple[str, ...]]:
    """The ways to read digits with separators."""
    if SPACED.search(digits):
        joined = SPACED.sub("", digits)
        return [(joined,), tuple(SPACED.split(digits))] if " " in digits else [(joined,)]
    if "," not in digits:
        return [(digits,)]
    if THOUSANDS.match(digits) and not digits.startswith("0"):
        return [(digits.replace(",", ""),)]
    parts = tuple(digits.split(","))
    if len(parts) > 2 or "." in digits:
        return [parts]
    return [(".".join(parts),)] if parts[0] == "0" else [(".".join(parts),), parts]


def _place(amount: str, scale: int, *, negative: bool) -> str:
    shifted = _shift(amount, scale)
    if shifted.count(".") > 1:  # a version
        return shifted
    whole, _, decimals = shifted.partition(".")
    whole, decimals = whole.lstrip("0") or "0", decimals.rstrip("0")
    plain = f"{whole}.{decimals}" if decimals else whole
    return f"-{plain}" if negative and plain != "0" else plain


def _shift(amount: str, places: int) -> str:
    """The decimal text with its point moved to the right, or to the left where `places` is negative."""
    if not places or amount.count(".") > 1:
        return amount
    whole, _, decimals = amount.partition(".")
    if places > 0:
        padded = decimals.ljust(places, "0")
        return f"{whole}{padded[:places]}.{padded[places:]}"
    padded = whole.rjust(-places + 1, "0")
    return f"{padded[:places]}.{padded[places:]}{decimals}"

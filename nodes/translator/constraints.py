"""Years and stars that the words of a request name. The search mode has no effect on them."""

from __future__ import annotations

import re

from outrider.settings.model import StarsSettings
from outrider.state.intent import Constraints, NumberRange

YEAR = r"((?:19|20)\d{2})"
SINCE = re.compile(rf"\b(?:since|from|starting(?: in)?)\s+{YEAR}\b(?:\s+on(?:wards?)?\b)?", re.IGNORECASE)
AFTER = re.compile(rf"\b(?:after|newer than|later than)\s+{YEAR}\b", re.IGNORECASE)
BEFORE = re.compile(rf"\b(?:before|older than|earlier than|prior to)\s+{YEAR}\b", re.IGNORECASE)
UNTIL = re.compile(rf"\b(?:until|up to|till|by)\s+{YEAR}\b", re.IGNORECASE)
BETWEEN = re.compile(rf"\b(?:(?:between|from)\s+)?{YEAR}\s*(?:-|–|to|and|until|through)\s*{YEAR}\b", re.IGNORECASE)
IN_YEAR = re.compile(rf"\b(?:in|of|published in|during)\s+{YEAR}\b", re.IGNORECASE)
LAST_YEARS = re.compile(
    r"\b(?:in |over |from |of |during )?(?:the )?(?:last|past|recent)\s+(\d{1,2}|two|three|five|ten)\s+years\b", re.IGNORECASE
)
NUMBERS = {"two": 2, "three": 3, "five": 5, "ten": 10}

STAR_WORDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("popular", re.compile(r"\b(?:popular|widely[- ]used|mainstream|famous)\b", re.IGNORECASE)),
    ("mature", re.compile(r"\b(?:mature|stable|established|battle[- ]tested)\b", re.IGNORECASE)),
    ("new", re.compile(r"\b(?:new|recent|fresh|emerging|up-and-coming)\b", re.IGNORECASE)),
    ("lightweight", re.compile(r"\b(?:small|lightweight|minimal|tiny)\b", re.IGNORECASE)),
)
STARS = re.compile(
    r"\b(?:with |having )?(?:(over|more than|at least|under|fewer than|less than|at most)\s+)?(\d[\d,]*)(k)?\+?\s+stars\b", re.IGNORECASE
)
UPPER = frozenset({"under", "fewer than", "less than", "at most"})


def read_constraints(query: str, bounds: StarsSettings, this_year: int) -> tuple[Constraints, str]:
    """The constraints, and the query without its years and numbers of stars.

    Words such as "stable" stay: "stable diffusion" is not about stars alone.
    """
    years, rest = _read_years(query, this_year)
    stars = star_range(query, bounds)
    rest = " ".join(STARS.sub(" ", rest).split())
    return Constraints(years=years, stars=stars or NumberRange(min=bounds.default_min), stars_named=stars is not None), rest


def star_range(query: str, bounds: StarsSettings) -> NumberRange | None:
    """The number of stars in the query, else the range of the first of popular, mature, new, lightweight that it names."""
    if match := STARS.search(query):
        count = int(match.group(2).replace(",", "")) * (1000 if match.group(3) else 1)
        return NumberRange(max=count) if (match.group(1) or "").lower() in UPPER else NumberRange(min=count)
    ranges = {
        "popular": NumberRange(min=bounds.popular_min),
        "mature": NumberRange(min=bounds.mature_min),
        "new": NumberRange(min=bounds.emerging_min, max=bounds.emerging_max),
        "lightweight": NumberRange(min=bounds.emerging_min, max=bounds.lightweight_max),
    }
    return next((ranges[word] for word, pattern in STAR_WORDS if pattern.search(query)), None)


def _read_years(query: str, this_year: int) -> tuple[NumberRange, str]:
    if match := BETWEEN.search(query):
        low, high = sorted((int(match.group(1)), int(match.group(2))))
        return NumberRange(min=low, max=high), _cut_out(query, match)
    if match := LAST_YEARS.search(query):
        count = NUMBERS.get(match.group(1).lower()) or int(match.group(1))
        return NumberRange(min=this_year - count), _cut_out(query, match)
    low_bound: int | None = None
    high_bound: int | None = None
    for pattern, low_offset, high_offset in ((SINCE, 0, None), (AFTER, 1, None), (BEFORE, None, -1), (UNTIL, None, 0), (IN_YEAR, 0, 0)):
        match = pattern.search(query)
        if not match:
            continue
        year = int(match.group(1))
        low_bound = year + low_offset if low_offset is not None else low_bound
        high_bound = year + high_offset if high_offset is not None else high_bound
        query = _cut_out(query, match)
    if low_bound is not None and high_bound is not None and low_bound > high_bound:
        low_bound, high_bound = high_bound, low_bound
    return NumberRange(min=low_bound, max=high_bound), query


def _cut_out(query: str, match: re.Match[str]) -> str:
    return " ".join((query[: match.start()] + " " + query[match.end() :]).split())

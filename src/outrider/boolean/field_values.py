"""Dates and ranges of dates as queries write them.

Authors, as PubMed looks for them: `smith j`, `smith ja`, `smith john`, `john smith`, `smith`.

Values that are compared as a whole: journals, publication types, headings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from outrider.boolean.diagnostics import BooleanSyntaxError
from outrider.boolean.field_tags import Tag
from outrider.boolean.occurrences import Column, Matcher, find_occurrences, make_matchers
from outrider.state.boolean import Dates, Span, Words
from outrider.text.tokens import tokens

DATE = re.compile(r"(\d{4})(?:[/-](\d{1,2})(?:[/-](\d{1,2}))?)?")
OPEN_START, OPEN_END = "1000", "3000"
"""PubMed's own way of leaving an end open is the year 3000; a start before printing is the same."""


def is_dates(tags: tuple[Tag, ...]) -> bool:
    return bool(tags) and all(tag.kind in ("dates", "entry") for tag in tags)


def date_node(said: str, entry: bool, text: str, at: Span) -> Dates:
    """`2019`, `2019/06`, `2019:2021`, `2019/01/01 : 3000`; `BooleanSyntaxError` for what is no date."""
    parts = [part.strip() for part in said.split(":")]
    if len(parts) > 2:
        raise BooleanSyntaxError("a range of dates has two ends", text, at.start, ["2019:2021"])
    dates = [normal_date(part, text, at) for part in parts]
    start: str | None = None if len(dates) == 2 and dates[0] <= OPEN_START else dates[0]
    end: str | None = None if len(dates) == 2 and dates[-1] >= OPEN_END else dates[-1]
    if start and end and start[: len(end)] > end[: len(start)]:
        raise BooleanSyntaxError("a range of dates starts after its end", text, at.start)
    return Dates(start, end, "entry" if entry else "publication", at)


def normal_date(said: str, text: str, at: Span) -> str:
    """`2019/06/30` with two digits each, as far as it was said."""
    found = DATE.fullmatch(said)
    if found is None:
        hint = (
            "; a time relative to today changes from run to run, name the dates" if "last" in said.lower() or "day" in said.lower() else ""
        )
        raise BooleanSyntaxError(f"“{said}” is no date{hint}", text, at.start, ["2019", "2019/06", "2019/06/30"])
    year, month, day = found.groups()
    if (month and not 1 <= int(month) <= 12) or (day and not 1 <= int(day) <= 31):
        raise BooleanSyntaxError(f"“{said}” is no date of the calendar", text, at.start, ["year/month/day"])
    return "/".join([year, *(f"{int(part):02d}" for part in (month, day) if part)])


MOST_INITIALS = 3


def is_author(words: tuple[str, ...], author: str) -> bool:
    """Whether the author is meant. Records write `Surname, Given` or `Given Surname`.

    Either the words stand next to each other in the name (surname first, or last, or behind the first given name); or they are the surname
    and then initials, of which the name may have more: PubMed's User Guide, "Searching by author".
    """
    surname, given = _parted(author)
    orders = (" ".join((*surname, *given)), " ".join((*given, *surname)), " ".join((*given[:1], *surname)))
    column = Column.of(orders)
    if next(find_occurrences(Words(words), column), None) is not None:
        return True
    asked = [matcher for word in words for matcher in make_matchers(word)]
    *before, initials = asked
    if not isinstance(initials, str) or len(initials) > MOST_INITIALS or list(before) != surname:
        return False
    return _initials(given).startswith(initials)


def author_initials(author: str) -> list[str]:
    """Every form of the initials that `is_author` knows for this author: `j`, `ja`."""
    said = _initials(_parted(author)[1])
    return [said[:length] for length in range(1, min(len(said), MOST_INITIALS) + 1)]


def _initials(given: list[str]) -> str:
    return "".join(name[0] for name in given)


def _parted(author: str) -> tuple[list[str], list[str]]:
    """Surname and given names; without a comma the last word is the surname."""
    surname, comma, given = author.partition(",")
    if comma:
        return tokens(surname), tokens(given)
    words = tokens(author)
    return words[-1:], words[:-1]


def whole_value(words: Iterable[str]) -> Callable[[list[str]], bool]:
    """Whether a value has these words and no others. `*` at the very end takes in further words, too."""
    said = [word for word in words if make_matchers(word)]
    return whole([matcher for word in said for matcher in make_matchers(word)], open_end=bool(said) and said[-1].endswith("*"))


def whole(asked: list[Matcher], *, open_end: bool = False) -> Callable[[list[str]], bool]:
    """As `whole_value`, of words that were parted before."""
    if all(isinstance(matcher, str) for matcher in asked) and not open_end:
        return lambda value: value == asked

    def holds(value: list[str]) -> bool:
        if len(value) < len(asked) or (len(value) > len(asked) and not open_end):
            return False
        return all(word == one if isinstance(one, str) else one.fullmatch(word) for one, word in zip(asked, value, strict=False))

    return holds

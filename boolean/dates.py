"""Dates and ranges of dates as queries write them."""

from __future__ import annotations

import re

from outrider.boolean.errors import BooleanSyntaxError
from outrider.boolean.pubmed_tags import Tag
from outrider.state.boolean import Dates, Span

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

"""Schedules of saved searches: words, intervals and cron expressions, in a stated time zone

A time of the clock that occurs twice, when summer time ends, counts once: the first time. One that does not occur, when it begins, is as
much later as the clock was put forward. An interval is counted in elapsed time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import pairwise

from outrider.settings.model import load_time_zone
from outrider.state.errors import BadRequest

WORDS = {"daily": "0 6 * * *", "weekly": "0 6 * * 1", "monthly": "0 6 1 * *"}
"""At 6 in the morning; weekly on Monday, monthly on the first."""
EVERY = re.compile(r"every (?P<count>[1-9]\d{0,4}) ?(?P<unit>min|h|d)(?:ours?|ays?|utes?)?")
_PART = r"(?:\*|\d{1,2}|[a-z]{3})(?:-(?:\d{1,2}|[a-z]{3}))?(?:/\d{1,2})?"
CRON = re.compile(rf"{_PART}(?:,{_PART})*(?: {_PART}(?:,{_PART})*){{4}}")
"""The five fields that every cron reads; croniter reads random and hashed ones as well."""
UNITS = {"min": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}
SHORTEST = timedelta(minutes=15)
"""Services are asked each time."""
MOST_CHARS = 200
TAKES = "a schedule is daily, weekly, monthly, an interval such as 'every 6 h', or a cron expression such as '30 7 * * 1-5'"


@dataclass(frozen=True, slots=True)
class Schedule:
    """Exactly one of `cron` and `interval` is set."""

    zone: tzinfo
    cron: str = ""
    interval: timedelta | None = None

    def next_after(self, moment: datetime) -> datetime:
        """The first time after a moment, which is that of the last run; in UTC."""
        if self.interval is not None:
            return moment.astimezone(UTC) + self.interval
        from croniter import croniter

        times = croniter(self.cron, moment.astimezone(self.zone).replace(tzinfo=None))
        while True:
            # without a zone: the clock alone decides, and `fold` is 0
            due: datetime = times.get_next(datetime).replace(tzinfo=self.zone).astimezone(UTC)
            if due > moment:
                return due


def parse_schedule(text: str, zone: str) -> Schedule:
    """Raises `BadRequest` for a text that is no schedule, an unknown time zone, and a schedule of less than 15 minutes."""
    from croniter import CroniterError, croniter

    time_zone = load_time_zone(zone)
    words = " ".join(text.split()).lower()
    if match := EVERY.fullmatch(words):
        schedule = Schedule(time_zone, interval=int(match["count"]) * UNITS[match["unit"]])
    else:
        cron = WORDS.get(words, words)
        if len(cron) > MOST_CHARS or not CRON.fullmatch(cron):
            raise BadRequest(f"{text[:MOST_CHARS]!r} is no schedule; {TAKES}")
        schedule = Schedule(time_zone, cron=cron)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    try:
        times = [schedule.next_after(start)]
        times += [schedule.next_after(times[0])]
        if schedule.cron and times[1] - times[0] >= SHORTEST:  # a list such as `0,5 * * * *` has unequal gaps
            clock = croniter(schedule.cron, start.replace(tzinfo=None))
            naive = [clock.get_next(datetime) for _ in range(100)]
            times = [*min(pairwise(naive), key=lambda pair: pair[1] - pair[0])]
    except (CroniterError, ValueError, OverflowError) as error:
        raise BadRequest(f"{text[:MOST_CHARS]!r} is no schedule ({error}); {TAKES}") from error
    if times[1] - times[0] < SHORTEST:
        raise BadRequest(f"{text[:MOST_CHARS]!r} runs again within 15 minutes; services are asked each time, so choose a longer interval")
    return schedule

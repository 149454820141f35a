"""Schedules: their forms, the hours that summer time drops and repeats, and what is no schedule."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from outrider.saved_searches.schedule import parse_schedule
from outrider.state.errors import BadRequest


def list_times(schedule: str, zone: str, start: datetime, count: int) -> list[str]:
    """The next times, in UTC."""
    times, moment = [], start
    for _ in range(count):
        moment = parse_schedule(schedule, zone).next_after(moment)
        times.append(f"{moment:%m-%d %H:%M}")
    return times


@pytest.mark.parametrize(
    ("schedule", "times"),
    [
        ("daily", ["03-02 06:00", "03-03 06:00"]),
        ("Weekly", ["03-02 06:00", "03-09 06:00"]),
        ("monthly", ["04-01 06:00", "05-01 06:00"]),
        ("every 6 h", ["03-01 18:30", "03-02 00:30"]),
        ("every  2 days", ["03-03 12:30", "03-05 12:30"]),
        ("30 7 * * 1-5", ["03-02 07:30", "03-03 07:30"]),
        ("0 6,18 * * sun", ["03-01 18:00", "03-08 06:00"]),
    ],
)
def test_each_form_has_its_next_times(schedule: str, times: list[str]) -> None:
    sunday = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
    assert list_times(schedule, "UTC", sunday, 2) == times


def test_an_hour_that_summer_time_drops_is_later_and_one_that_it_repeats_counts_once() -> None:
    spring, autumn = datetime(2026, 3, 27, 12, tzinfo=UTC), datetime(2026, 10, 23, 12, tzinfo=UTC)
    assert list_times("30 2 * * *", "Europe/Berlin", spring, 3) == ["03-28 01:30", "03-29 01:30", "03-30 00:30"]
    assert list_times("30 2 * * *", "Europe/Berlin", autumn, 3) == ["10-24 00:30", "10-25 00:30", "10-26 01:30"]
    assert list_times("every 6 h", "Europe/Berlin", datetime(2026, 3, 28, 23, tzinfo=UTC), 2) == ["03-29 05:00", "03-29 11:00"]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/St_Johns"])
@pytest.mark.parametrize("schedule", ["daily", "30 2 * * *", "15 1 * * *", "0 */4 * * *"])
def test_over_a_year_no_day_is_left_out_and_none_is_doubled(zone: str, schedule: str) -> None:
    plan, moment = parse_schedule(schedule, zone), datetime(2026, 1, 1, tzinfo=UTC)
    times = [moment := plan.next_after(moment) for _ in range(6 * 365 if "/" in schedule else 365)]
    gaps = {later - earlier for earlier, later in pairwise(times)}
    step = timedelta(hours=4 if "/" in schedule else 24)
    assert min(gaps) >= step - timedelta(hours=2)
    assert max(gaps) <= step + timedelta(hours=1)


@pytest.mark.parametrize(
    ("schedule", "zone"),
    [
        ("", "UTC"), ("soon", "UTC"), ("every 0 h", "UTC"), ("every 5 min", "UTC"), ("* * * * *", "UTC"), ("0,5 * * * *", "UTC"),
        ("61 * * * *", "UTC"), ("0 0 30 2 *", "UTC"), ("0 0 * * * *", "UTC"), ("@daily", "UTC"), ("r(0-5) * * * *", "UTC"),
        ("H H * * *", "UTC"), ("daily\0", "UTC"), ("1" * 10_000, "UTC"), ("every 99999 d " * 9, "UTC"), ("daily", ""),
        ("daily", "Mars/Olympus"),
        ("daily", "../../etc/passwd"), ("daily", "/etc/passwd"),
    ],
)  # fmt: skip
def test_what_is_no_schedule_is_refused(schedule: str, zone: str) -> None:
    with pytest.raises(BadRequest):
        parse_schedule(schedule, zone)

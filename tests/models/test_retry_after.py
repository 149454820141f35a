"""How long a server wants us to wait."""

from __future__ import annotations

import time
from collections.abc import Iterator
from email.utils import formatdate

import pytest

from outrider.models.retry_after import retry_after_s

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": formatdate(NOW + 30, usegmt=True)}, 30.0),
        ({"retry-after": formatdate(NOW - 30, usegmt=True)}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
    ],
)
def test_retry_after_is_read_in_seconds_and_as_a_date(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers, NOW) == seconds


def test_a_date_counts_by_the_clock_of_the_server() -> None:
    ahead = {"retry-after": "Wed, 21 Oct 2065 07:28:10 GMT", "date": "Wed, 21 Oct 2065 07:28:00 GMT"}
    assert retry_after_s(ahead, now=0.0) == 10.0
    assert retry_after_s({"retry-after": "Thu, 01 Jan 1970 00:00:10 GMT", "date": "x"}, now=0.0) == 10.0
    assert retry_after_s({"retry-after": "soon", "date": ahead["date"]}, now=0.0) is None


@pytest.fixture
def _in_new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("_in_new_york")
@pytest.mark.parametrize("date", ["Fri Jan 15 08:00:30 2027", "Fri, 15 Jan 2027 08:00:30 -0000"])
def test_a_date_without_a_zone_is_in_utc(date: str) -> None:
    assert retry_after_s({"retry-after": date}, NOW) == 30.0

"""Dates in HTTP headers."""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime


def parse_http_date(text: str) -> float | None:
    """Seconds since the epoch; None for what is no date. One without a zone, as of `asctime`, is in UTC (RFC 9110, 5.6.7)."""
    try:
        date = parsedate_to_datetime(text)
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError, IndexError):
        return None

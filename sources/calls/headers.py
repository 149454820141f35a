"""What a service's headers say of when it may be asked again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from math import isfinite

LONGEST_S = 86_400.0
"""However much longer a service says: no budget of theirs is for more than a day, and a slip of theirs must not be kept for ever."""
EPOCH_FROM = 1e9
"""What is larger is a time, in seconds since the epoch; what is smaller is how many seconds are left."""


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """Retry-After, in seconds or as a date (RFC 9110 §10.2.3); None where it says nothing that can be read."""
    said = headers.get("retry-after", "").strip()
    if (seconds := _number(said)) is not None:
        return _bounded(seconds) if seconds >= 0 else None
    try:
        at = parsedate_to_datetime(said)
        return _bounded((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() - now)
    except (ValueError, OverflowError, IndexError):
        return None


def renewed_in_s(headers: Mapping[str, str], now: float) -> float | None:
    """When a budget that is used up is renewed; None where it is not used up, or where that is not told.

    `x-ratelimit-reset` is the time at GitHub ("Rate limits for the REST API"), the seconds left at OpenAlex ("Rate limits").
    """
    remaining, reset = (_number(headers.get(f"x-ratelimit-{name}", "")) for name in ("remaining", "reset"))
    if remaining is None or remaining > 0 or reset is None:
        return None
    return _bounded(reset - now if reset > EPOCH_FROM else reset)


def _bounded(seconds: float) -> float:
    return min(LONGEST_S, max(0.0, seconds))


def _number(said: str) -> float | None:
    try:
        number = float(said)
    except ValueError:
        return None
    return number if isfinite(number) else None

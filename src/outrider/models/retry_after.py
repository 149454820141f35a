"""The pause that a model's server asks for."""

from __future__ import annotations

import math
from collections.abc import Mapping

from outrider.text.http_date import parse_http_date


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """`Retry-After` in seconds or as a date (RFC 9110, 10.2.3), or OpenAI's `retry-after-ms`; None if neither can be read.

    A date counts from the server's own `Date`: its clock may differ from ours.
    """
    try:
        in_ms = headers.get("retry-after-ms")
        seconds = float(in_ms) / 1000 if in_ms else float(headers.get("retry-after", ""))
    except ValueError:
        until, sent = (parse_http_date(headers.get(name, "")) for name in ("retry-after", "date"))
        if until is None:
            return None
        seconds = until - (now if sent is None else sent)
    return max(0.0, seconds) if math.isfinite(seconds) else None

"""Whom a search asks, and how its rows say so."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from outrider.state.intent import SearchStrategy
from outrider.state.ports import Source


def named_by(strategy: SearchStrategy, sources: Sequence[Source]) -> Sequence[Source]:
    """Whom the strategy asks. Of one whose sources are none of these, all are: only the caller narrows a search, and was refused before."""
    return [source for source in sources if source.name in strategy.sources] or sources


def shown_time(at: float | None) -> str | None:
    """Seconds since the epoch as ISO 8601, UTC."""
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")

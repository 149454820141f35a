"""How a search's answer is made up of what a service gave: scores, what was left out, and how old it is."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Literal

from outrider.sources.calls.service import Reply
from outrider.state.hits import Scored
from outrider.state.ports import SourceAnswer
from outrider.state.records import Record

Status = Literal["", "partial", "cached", "stale"]
SPARE = 0.03
"""Part of a search's time that is kept for handing over what came: who asks stops listening when the time is up."""
UNITS = (("day", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def spared(within_s: float) -> float:
    """What of a search's time may be used for asking."""
    return within_s * (1 - SPARE)


def ends_at(within_s: float) -> float:
    """When asking must be over, by `time.monotonic`."""
    return time.monotonic() + spared(within_s)


def scored(found: Sequence[tuple[Record, float | None]]) -> tuple[Scored, ...]:
    """In the service's own order, with its own scores if it gave one to each, else 1/rank: the two do not mix. A record comes once."""
    kept: dict[str, tuple[Record, float | None]] = {}
    for record, score in found:
        kept.setdefault(record.doc_id, (record, score))
    once = list(kept.values())
    own = [score for _, score in once if score is not None]
    scores = own if len(own) == len(once) else [1 / rank for rank in range(1, len(once) + 1)]
    return tuple(Scored(record, score) for (record, _), score in zip(once, scores, strict=True))


def answered(
    results: tuple[Scored, ...],
    total: int | None,
    replies: Sequence[Reply],
    untitled: int = 0,
    notes: Sequence[str] = (),
    missing: str = "",
    retry_at: float | None = None,
) -> SourceAnswer:
    """`missing` says what was asked for and did not come, `untitled` counts what nobody could judge.

    An answer that is stale says why, and when a newer one may be had.
    """
    oldest = max(replies, key=lambda reply: reply.age_s)
    stale, cached = any(reply.stale for reply in replies), oldest.age_s > 0
    why = [reply.why for reply in replies if reply.why]
    known = [at for at in (retry_at, *(error.retry_at for error in why)) if at is not None]
    said = [
        missing,
        str(why[0]) if why else "",
        f"{oldest.url.split('/')[2]} could not be asked; this is its answer of {shown_age(oldest.age_s)} ago" if stale else "",
        f"from the cache, {shown_age(oldest.age_s)} old" if cached and not stale else "",
        f"{untitled} without a title" if untitled else "",
        *notes,
    ]
    status: Status = "partial" if missing else "stale" if stale else "cached" if cached else ""
    return SourceAnswer(results, total, "; ".join(filter(None, said)), status=status, retry_at=max(known, default=None))


def shown_age(seconds: float) -> str:
    unit, size = next(((unit, size) for unit, size in UNITS if seconds >= size), UNITS[-1])
    count = int(seconds // size)
    return f"{count} {unit}{'s' if unit == 'day' and count != 1 else ''}"
